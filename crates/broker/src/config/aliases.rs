//! Older names of settings.

/// Names that Java prints but does not read, each with the name that Java reads. Java prints the names of fields, and
/// reads names from setters, which here lack the field's `is`.
const PRINTED: [(&str, &str); 2] =
    [("isInBrokerContainer", "inBrokerContainer"), ("isScanAvailableNameSrv", "scanAvailableNameSrv")];

/// Names of older releases that RocketMQ 5.5.0 ignores, each with the present name. Files that contain them
/// belong to stores that were made with the defaults, so the names have no effect here either.
const OUTDATED: [(&str, &str); 8] = [
    ("mapedFileSizeCommitLog", "mappedFileSizeCommitLog"),
    ("mapedFileSizeConsumeQueue", "mappedFileSizeConsumeQueue"),
    ("mapedFileSizeLogicsQueue", "mappedFileSizeConsumeQueue"),
    ("flushIntervalLogicsQueue", "flushIntervalConsumeQueue"),
    ("flushLogicsQueueLeastPages", "flushConsumeQueueLeastPages"),
    ("flushLogicsQueueThoroughInterval", "flushConsumeQueueThoroughInterval"),
    ("flushPhysicQueueLeastPages", "flushCommitLogLeastPages"),
    ("haSlaveFallbehindMax", "haMaxGapNotInSync"),
];

/// Names of `BrokerConfig` and `MessageStoreConfig` in older releases that RocketMQ 5.5.0 no longer has.
const DROPPED: [&str; 11] = [
    "batchWriteKvCqSize",
    "commercialBigCount",
    "commercialEnable",
    "commercialTimerCount",
    "commercialTransCount",
    "filterServerNums",
    "isEnableBatchPush",
    "maxDelayTime",
    "memTableFlushInterval",
    "serverLoadBalancerEnabled",
    "transferOffsetJsonToRocksdb",
];

fn of(names: &[(&'static str, &'static str)], key: &str) -> Option<&'static str> {
    names.iter().find(|(name, _)| *name == key).map(|(_, now)| *now)
}

/// Returns the name that Java reads for a setting that Java prints under another name.
pub(super) fn present_name(key: &str) -> Option<&'static str> {
    of(&PRINTED, key)
}

/// Returns the present name of a setting whose older name is ignored.
pub(super) fn successor(key: &str) -> Option<&'static str> {
    of(&OUTDATED, key)
}

/// Whether a name is one of an older release, and RocketMQ 5.5.0 has no such setting.
pub(super) fn is_dropped(key: &str) -> bool {
    // Settings of `TieredMessageStore`, of which each release has others.
    DROPPED.contains(&key) || key.starts_with("tieredStore")
}

/// Returns the reason why an older name has no effect.
pub(super) fn outdated(successor: &str) -> String {
    format!("RocketMQ 5.5.0 ignores this name, too; its present name is {successor}")
}
