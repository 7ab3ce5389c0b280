//! Older names of settings.

/// Names of RocketMQ 3.x, and names that Java prints but does not read, each with the present name.
const ALIASES: [(&str, &str); 10] = [
    ("mapedFileSizeCommitLog", "mappedFileSizeCommitLog"),
    ("mapedFileSizeConsumeQueue", "mappedFileSizeConsumeQueue"),
    ("mapedFileSizeLogicsQueue", "mappedFileSizeConsumeQueue"),
    ("flushIntervalLogicsQueue", "flushIntervalConsumeQueue"),
    ("flushLogicsQueueLeastPages", "flushConsumeQueueLeastPages"),
    ("flushLogicsQueueThoroughInterval", "flushConsumeQueueThoroughInterval"),
    ("flushPhysicQueueLeastPages", "flushCommitLogLeastPages"),
    ("isInBrokerContainer", "inBrokerContainer"),
    ("haSlaveFallbehindMax", "haMaxGapNotInSync"),
    ("isScanAvailableNameSrv", "scanAvailableNameSrv"),
];

/// The present name of a setting that is given by an older one.
pub(super) fn present_name(key: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(alias, _)| *alias == key).map(|(_, now)| *now)
}
