//! Search for settings by what an operator calls their subject.

use broker::{Setting, Treatment};

/// Words for a subject, and settings about the subject whose names and meanings have other words.
const SUBJECTS: &[(&[&str], &[&str])] = &[
    (
        &["retention", "retain", "expire", "expiry", "expiration", "ttl", "cleanup", "保留", "过期", "清理"],
        &[
            "fileReservedTime",
            "deleteWhen",
            "commitLogRetentionBytes",
            "cleanFileForciblyEnable",
            "cleanResourceInterval",
            "deleteFileBatchMax",
            "deleteCommitLogFilesInterval",
            "diskMaxUsedSpaceRatio",
            "diskSpaceCleanForciblyRatio",
            "unconsumedDataPolicy",
        ],
    ),
    (
        &["disk space", "full", "storage", "磁盘"],
        &[
            "diskMaxUsedSpaceRatio",
            "diskSpaceCleanForciblyRatio",
            "diskSpaceWarningLevelRatio",
            "storePathRootDir",
        ],
    ),
    (
        &["durability", "durable", "fsync", "sync", "刷盘", "持久"],
        &[
            "flushDiskType",
            "flushIntervalCommitLog",
            "syncFlushTimeout",
            "inSyncReplicas",
            "minInSyncReplicas",
        ],
    ),
    (
        &["replication", "replica", "slave", "standby", "failover", "复制", "主从", "副本", "切换"],
        &[
            "brokerRole",
            "inSyncReplicas",
            "minInSyncReplicas",
            "allAckInSyncStateSet",
            "enableControllerMode",
            "controllerAddr",
            "enableSlaveActingMaster",
            "haListenPort",
            "haMasterAddress",
        ],
    ),
    (
        &["retry", "redelivery", "dlq", "dead letter", "重试", "死信"],
        &["messageDelayLevel", "enableRetryTopicV2", "autoCreateSubscriptionGroup"],
    ),
    (
        &["delay", "scheduled", "timer", "延迟", "延时", "定时"],
        &["messageDelayLevel", "timerMaxDelaySec", "timerPrecisionMs", "timerWheelEnable"],
    ),
    (&["message size", "payload", "消息大小"], &["maxMessageSize"]),
    (&["port", "listen", "端口"], &["listenPort", "haListenPort", "metricsPromExporterPort", "bindAddress"]),
    (&["address", "ip", "advertise", "地址"], &["brokerIP1", "brokerIP2", "bindAddress", "namesrvAddr"]),
    (
        &["security", "acl", "auth", "password", "user", "permission", "安全", "权限", "认证", "鉴权"],
        &["authenticationEnabled", "authorizationEnabled", "aclEnable", "initAuthenticationUser"],
    ),
    (&["queue", "partition", "队列", "分区"], &["defaultTopicQueueNums"]),
    (&["auto create", "autocreate", "自动创建"], &["autoCreateTopicEnable", "autoCreateSubscriptionGroup"]),
    (
        &["monitoring", "prometheus", "metrics", "监控", "指标"],
        &["metricsExporterType", "metricsPromExporterPort"],
    ),
    (
        &["transaction", "half", "事务"],
        &["transactionCheckInterval", "transactionCheckMax", "transactionTimeOut"],
    ),
];

/// The settings with a word in their names or meanings, or about the subject of that word; settings with an effect first.
pub fn search(word: &str) -> Vec<Setting> {
    let word = word.trim().to_lowercase();
    let about = SUBJECTS.iter().filter(|(words, _)| words.contains(&word.as_str()));
    let about: Vec<&str> = about.flat_map(|(_, keys)| *keys).copied().collect();
    let is_meant = |it: &Setting| {
        let has_word = it.name.to_lowercase().contains(&word) || it.text.to_lowercase().contains(&word);
        has_word || about.contains(&it.name)
    };
    let mut found: Vec<Setting> = broker::settings().into_iter().filter(is_meant).collect();
    if !word.is_empty() {
        found.sort_by_key(|it| !matches!(it.treatment, Treatment::Served(_)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(word: &str) -> Vec<&'static str> {
        search(word).iter().map(|it| it.name).collect()
    }

    #[test]
    fn settings_of_the_subjects_exist() {
        for key in SUBJECTS.iter().flat_map(|(_, keys)| *keys) {
            assert!(broker::setting(key).is_ok_and(|it| it.name == *key), "{key}");
        }
    }

    #[test]
    fn a_subject_finds_settings_that_do_not_have_its_word() {
        for word in ["retention", "Retention", "expire", "保留"] {
            let found = names(word);
            let expected =
                ["fileReservedTime", "deleteWhen", "diskMaxUsedSpaceRatio", "commitLogRetentionBytes"];
            assert!(expected.iter().all(|key| found.contains(key)), "{word}: {found:?}");
        }
        let place = |key: &str| names("expire").iter().position(|name| *name == key).unwrap();
        assert!(
            place("fileReservedTime") < place("aclCacheExpiredSecond"),
            "settings without effect are last"
        );
        assert_eq!(names("").len(), broker::settings().len());
        assert!(names("no such word").is_empty());
    }
}
