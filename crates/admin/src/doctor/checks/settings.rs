//! Settings of brokers, and their clocks.

use crate::doctor::bilingual::{Phrase, text};
use crate::doctor::bundle::{Broker, Bundle, ip};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::Fix;
use crate::doctor::secrets::EXAMPLE;
use std::collections::BTreeMap;

/// Difference of clocks from which on it is a finding. Brokers report their running time in whole seconds.
const SKEW_MS: i64 = 5000;
const SETTINGS: &str = "GET_BROKER_CONFIG (26)";

/// Settings that the brokers of a cluster have to have alike, because clients and operators see the cluster as one.
const ALIKE: [&str; 22] = [
    "aclEnable",
    "allAckInSyncStateSet",
    "authenticationEnabled",
    "authorizationEnabled",
    "autoCreateSubscriptionGroup",
    "autoCreateTopicEnable",
    "defaultTopicQueueNums",
    "deleteWhen",
    "diskMaxUsedSpaceRatio",
    "enablePropertyFilter",
    "fileReservedTime",
    "flushDiskType",
    "inSyncReplicas",
    "maxMessageSize",
    "messageDelayLevel",
    "minInSyncReplicas",
    "timerMaxDelaySec",
    "timerWheelEnable",
    "traceTopicEnable",
    "transactionCheckInterval",
    "transactionCheckMax",
    "transactionTimeOut",
];

const NEEDS: Phrase = Phrase("settings of brokers");

pub(super) const CHECKS: &[Check] = checks! {
    "open-to-everybody", Warning, open,
        "A broker serves an address of the network and asks nobody who they are", NEEDS;
    "keys-of-the-examples", Critical, example_keys,
        "A broker uses the secret key of RocketMQ's example files, which everybody knows", NEEDS;
    "settings-differ", Warning, differ,
        "Masters of one cluster have different settings where clients expect the same",
        Phrase("settings of two masters of a cluster");
    "clocks-differ", Warning, clocks_differ,
        "The clock of a broker differs from that of the machine with vostok doctor by more than five seconds",
        Phrase("runtime figures of a broker");
    "settings-without-effect", Advice, without_effect,
        "A broker of Vostok was given settings that nobody knows, or that do something in RocketMQ only",
        Phrase("runtime figures of a Vostok broker");
    "master-flushes-alone", Advice, flushes_alone,
        "A synchronous master without a slave and without synchronous flush keeps no promise to its senders",
        Phrase("settings of synchronous masters");
};

fn without_effect(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let names = broker.text("settingsWithoutEffect")?;
        Found::when(!names.is_empty(), || {
            let advice =
                text!("ask what each means here: vostok config explain KEY; vostok config lint FILE for all");
            Found::new(broker.title(), names, "GET_BROKER_RUNTIME_INFO (28)", advice).of_broker(broker)
        })
    })
}

/// The operation that shows the settings of a broker.
fn config_fix(broker: &Broker) -> Fix {
    Fix::new("broker", "config", &[("broker", &broker.address)])
}

fn is_on(broker: &Broker, name: &str) -> bool {
    broker.setting(name) == Some("true")
}

fn open(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        broker.settings.as_ref()?;
        let is_local = broker.text("servesThisMachineOnly") == Some("true");
        let is_reachable = !is_local && ip(&broker.address).is_none_or(|ip| !ip.is_loopback());
        let is_open = !is_on(broker, "authenticationEnabled") && !is_on(broker, "aclEnable");
        Found::when(is_reachable && is_open, || {
            let advice = text!(
                "set authenticationEnabled=true and authorizationEnabled=true in broker.conf with users and acls; or close the port to strangers"
            );
            Found::new(broker.title(), "authenticationEnabled=false, aclEnable=false", SETTINGS, advice)
                .of_broker(broker)
        })
    })
}

fn example_keys(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let used: Vec<_> = broker.settings.as_ref()?.iter().filter(|(_, value)| *value == EXAMPLE).collect();
        Found::when(!used.is_empty(), || {
            let names: Vec<_> = used.iter().map(|(name, _)| name.as_str()).collect();
            let advice = text!("give the user another password: with --password-file FILE of user update");
            Found::new(broker.title(), text!("in {list}", list = names.join(", ")), SETTINGS, advice)
                .fix(Fix::new("user", "list", &[("broker", &broker.address)]))
                .of_broker(broker)
        })
    })
}

fn differ(bundle: &Bundle) -> Look {
    let mut clusters: BTreeMap<&str, Vec<&Broker>> = BTreeMap::new();
    for broker in bundle.brokers.iter().filter(|broker| broker.id == 0 && broker.settings.is_some()) {
        clusters.entry(&broker.cluster).or_default().push(broker);
    }
    let clusters = clusters.into_iter().filter(|(_, masters)| masters.len() > 1);
    Look::each(clusters, |(cluster, masters)| {
        let found = ALIKE.into_iter().filter_map(|name| {
            let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for master in &masters {
                // A broker of another version may not know the setting.
                values.entry(master.setting(name)?).or_default().push(&master.name);
            }
            (values.len() > 1).then(|| {
                let figure: Vec<_> =
                    values.iter().map(|(value, names)| format!("{value}: {}", names.join(", "))).collect();
                let advice = text!("give all masters the same value of {name}", name);
                let subject = text!("{name} in {cluster}", name, cluster);
                Found::new(subject, figure.join("; "), SETTINGS, advice).fix(Fix::new(
                    "broker",
                    "config",
                    &[("cluster", cluster)],
                ))
            })
        });
        Some(found.collect())
    })
}

/// Seconds in a running time such as `[ 0 days, 1 hours, 2 minutes, 3 seconds ]`.
fn running_seconds(text: &str) -> Option<i64> {
    let numbers: Option<Vec<i64>> = text
        .trim_matches(['[', ']', ' '])
        .split(',')
        .map(|part| part.split_whitespace().next()?.parse().ok())
        .collect();
    let [days, hours, minutes, seconds] = numbers?[..] else { return None };
    Some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

fn clocks_differ(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let started_ms: i64 = broker.text("bootTimestamp")?.parse().ok()?;
        let now_ms = started_ms + running_seconds(broker.text("runtime")?)? * 1000;
        // The broker told its time between request and answer, of which a busy broker may make seconds.
        let from_ms = if broker.asked_from_ms > 0 { broker.asked_from_ms } else { broker.asked_at_ms };
        let skew_ms = now_ms - now_ms.clamp(from_ms, broker.asked_at_ms.max(from_ms));
        Found::when(skew_ms.abs() > SKEW_MS, || {
            let figure = format!("{:+.1} s", skew_ms as f64 / 1000.0);
            let advice = text!("start a time service (chrony, systemd-timesyncd) on both machines");
            Found::new(broker.title(), figure, "bootTimestamp, runtime (28)", advice).of_broker(broker)
        })
    })
}

fn flushes_alone(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        if broker.setting("brokerRole")? != "SYNC_MASTER" {
            return None;
        }
        let is_alone = bundle.brokers.iter().filter(|other| other.name == broker.name).count() == 1;
        let is_async = broker.setting("flushDiskType")? == "ASYNC_FLUSH";
        Found::when(is_alone && is_async, || {
            let advice = text!("add a slave, or set flushDiskType=SYNC_FLUSH");
            let figure = text!("SYNC_MASTER, ASYNC_FLUSH, no slave registered");
            Found::new(broker.title(), figure, SETTINGS, advice).fix(config_fix(broker)).of_broker(broker)
        })
    })
}
