//! Disks and stores of brokers.

use crate::doctor::bilingual::{Phrase, Text, text};
use crate::doctor::bundle::{Broker, Bundle, DelayLevel, Head};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::{Fix, Remedy};

const RUNTIME: &str = "GET_BROKER_RUNTIME_INFO (28)";
const NEEDS_VOSTOK: Phrase = Phrase("runtime figures of a Vostok broker");
const NEEDS: Phrase = Phrase("runtime figures of a broker");
const NEEDS_JAVA: Phrase = Phrase("runtime figures of a RocketMQ broker");
/// Seconds until a disk is full, below which the disk is a finding.
const FULL_S: f64 = 86_400.0;
/// Bytes of the log that are not in the queues, above which the queues are a finding.
const DISPATCH_BYTES: f64 = 67_108_864.0;
/// Time since the first message of a delay level was due, from which on the level is a finding.
const LEVEL_MS: i64 = 60_000;
/// Age of a half message from which on it is a finding, if its producer was asked and did not decide.
const HALF_MS: i64 = 120_000;
/// Age of an unprocessed record of a popped message from which on it is a finding. Timers deliver a record to the revive topic when its
/// messages are visible again (`PopMessageProcessor.buildCkMsg`).
const REVIVE_MS: i64 = 60_000;
/// Longest time of a write or flush of the log before the disk is a finding (`diskStallTimeoutMillis`).
const STALL_MS: f64 = 3_000.0;
/// Seconds by which timed messages are late, above which they are a finding.
const TIMER_S: f64 = 60.0;

/// A level of disk use: setting, default, and the range to which Java clamps it, in percent
/// (`MessageStoreConfig.getDiskMaxUsedSpaceRatio`, `DefaultMessageStore.CleanCommitLogService`).
struct Level {
    setting: &'static str,
    percent: f64,
    range: (f64, f64),
}

const CLEAN: Level = Level { setting: "diskMaxUsedSpaceRatio", percent: 75.0, range: (10.0, 95.0) };
const FORCED: Level = Level { setting: "diskSpaceCleanForciblyRatio", percent: 85.0, range: (30.0, 85.0) };
const REFUSED: Level = Level { setting: "diskSpaceWarningLevelRatio", percent: 90.0, range: (35.0, 90.0) };

impl Level {
    /// The level of a broker in percent; infinite when it is set in free bytes, such as `20g`, which percents never reach.
    fn of(&self, broker: &Broker) -> f64 {
        let Some(text) = broker.setting(self.setting) else { return self.percent };
        text.parse().map_or(f64::INFINITY, |percent: f64| percent.clamp(self.range.0, self.range.1))
    }
}

const REFUSES: Phrase = Phrase("sends are refused");
const DELETES: Phrase = Phrase("messages are deleted before fileReservedTime");
const DELETES_EARLY: Phrase = Phrase("expired files are deleted at any hour");
const VERIFY: Phrase = Phrase("check the disk; stop the broker and run: vostok store verify DIRECTORY");
const REBUILT: Phrase = Phrase(
    "wait for the rebuild, whose rest is rebuildLeftBytes; if it does not end, check the disk and the log of the broker",
);
const READ_LOG: Phrase = Phrase("read the log of the broker, which names each");
const LOOK_AT_DISK: Phrase = Phrase("look at the log of the broker and at its disk");

pub(super) const CHECKS: &[Check] = checks! {
    "disk-refuses", Critical, |bundle| between(bundle, &REFUSED, None, REFUSES),
        "A disk is over diskSpaceWarningLevelRatio (at most 90), so that sends are refused", NEEDS;
    "disk-deletes-unexpired", Critical, |bundle| between(bundle, &FORCED, Some(&REFUSED), DELETES),
        "A disk is over diskSpaceCleanForciblyRatio (at most 85), so that messages go before their time", NEEDS;
    "disk-deletes-early", Warning, |bundle| between(bundle, &CLEAN, Some(&FORCED), DELETES_EARLY),
        "A disk is over diskMaxUsedSpaceRatio, so that expired files are deleted at any hour", NEEDS;
    "disk-full-soon", Critical, full_soon,
        "The disk will be full within a day if the log goes on growing as in the last hour", NEEDS_VOSTOK;
    "sends-refused-for-space", Critical, refused_for_space,
        "The broker refuses sends at this moment because of its disk", NEEDS_VOSTOK;
    "queues-lost", Critical, |bundle| above(bundle, "lostQueues", 0.0, REBUILT),
        "Queues lack their files, and give no messages until they are rebuilt from the log", NEEDS_VOSTOK;
    "messages-damaged", Critical, |bundle| above(bundle, "damagedMessages", 0.0, VERIFY),
        "Stored messages are damaged and passed over", NEEDS_VOSTOK;
    "messages-undelivered", Critical, |bundle| above(bundle, "undeliveredMessages", 0.0, READ_LOG),
        "Delayed, timed or popped messages were given up", NEEDS_VOSTOK;
    "threads-stopped", Critical, threads_stopped,
        "A thread of the broker ended before it was told to", NEEDS_VOSTOK;
    "disk-stalled", Critical, disk_stalled,
        "The disk of the log has not finished a write or flush for three seconds, and sends wait for the disk",
        NEEDS_VOSTOK;
    "unknown-to-controllers", Critical, unknown_to_controllers,
        "The controllers do not know this broker, so that no controller replaces the master of the set", NEEDS_VOSTOK;
    "broker-inactive", Warning, inactive,
        "A master does not deliver delayed messages and does not check transactions (brokerActive=false)", NEEDS_JAVA;
    "dispatch-behind", Warning, dispatch_behind,
        "Stored messages are not in their queues yet, so that nobody can consume them", NEEDS;
    "delay-level-behind", Warning, level_behind,
        "Delayed messages come more than a minute late", Phrase("runtime figures and settings of a master");
    "halves-given-up", Warning, halves_given_up,
        "Transactions were given up, because no producer said in time what becomes of them", Phrase("status of topics");
    "halves-undecided", Warning, halves_undecided,
        "A producer does not say what becomes of its transactions, though it is asked",
        Phrase("the half topic of masters");
    "pop-revive-behind", Warning, revive_behind,
        "Popped messages that nobody acknowledged come back more than a minute late",
        Phrase("the revive topic of masters");
    "retention-held", Warning, retention_held,
        "Expired messages are kept because a group has not consumed them, or because they are not delivered yet",
        NEEDS_VOSTOK;
    "timer-behind", Warning, |bundle| above(bundle, "timerReadBehind", TIMER_S, LOOK_AT_DISK),
        "Timed messages come more than a minute late", NEEDS;
};

/// The consumer group or the kind of messages that keeps expired files, and the queue of the first message.
fn holder(broker: &Broker) -> Option<(&str, &str)> {
    broker.text("retentionHeldBy")?.rsplit_once(' ')
}

/// The holder of expired files, if the holder is a consumer group.
fn holding_group(broker: &Broker) -> Option<&str> {
    // Names of groups have no spaces; the broker's own holders have.
    holder(broker).map(|(holder, _)| holder).filter(|holder| !holder.contains(' '))
}

/// Steps that give a full disk room: consumption, if a group holds expired files; deletion of expired files otherwise.
pub(super) fn disk_remedy(broker: &Broker) -> Remedy {
    if let Some((holder, queue)) = holder(broker) {
        let advice = match holding_group(broker) {
            Some(group) => text!(
                "consume with {group} first: its messages in {queue} hold the files, so that neither clean-log nor a smaller fileReservedTime frees space; or give the disk room",
                group,
                queue
            ),
            None => text!(
                "give the disk room: {holder} in {queue} hold the files until they are delivered, so that neither clean-log nor a smaller fileReservedTime frees space",
                holder = holder_text(holder),
                queue
            ),
        };
        let fix = holding_group(broker).map(|group| Fix::new("group", "progress", &[("group", group)]));
        return Remedy { advice, fix };
    }
    let advice = text!(
        "give the disk room, or keep messages for less than {hours} h (fileReservedTime); files that have expired can be deleted now",
        hours = broker.setting("fileReservedTime").unwrap_or("72")
    );
    Remedy::from(advice).with(Fix::new("broker", "clean-log", &[("broker", &broker.address)]))
}

/// A kind of messages as brokers name it, or a group.
fn holder_text(holder: &str) -> Text {
    match holder {
        "delayed messages" => text!("delayed messages"),
        "timed messages" => text!("timed messages"),
        other => other.into(),
    }
}

/// Brokers whose fullest disk is above a level and not above the next level.
fn between(bundle: &Bundle, level: &Level, next: Option<&Level>, means: Phrase) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let disks = ["commitLogDiskRatio", "consumeQueueDiskRatio"];
        let used = disks.into_iter().filter_map(|name| Some((name, broker.figure(name)? * 100.0)));
        let (name, percent) = used.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let limit = level.of(broker);
        let is_next = next.is_some_and(|next| percent > next.of(broker));
        Found::when(percent > limit && !is_next, || {
            let figure = text!(
                "{name} is {percent} %, over {setting} {limit}: {means}",
                name,
                percent = format!("{percent:.0}"),
                setting = level.setting,
                limit = format!("{limit:.0}"),
                means
            );
            Found::new(broker.title(), figure, RUNTIME, disk_remedy(broker)).of_broker(broker)
        })
    })
}

fn full_soon(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        // Without growth there is no forecast, which is good news from a broker that makes one.
        let forecast = broker.figure("commitLogDiskFullInSeconds");
        let left = forecast.or_else(|| broker.text("vostokVersion").map(|_| f64::INFINITY))?;
        Found::when(left < FULL_S, || {
            let hours = left / 3600.0;
            let figure = text!("full in {hours} h", hours = format!("{hours:.1}"));
            Found::new(broker.title(), figure, RUNTIME, disk_remedy(broker)).of_broker(broker)
        })
    })
}

fn refused_for_space(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let is_refusing = broker.text("sendsRefusedForSpace")? == "true";
        Found::when(is_refusing, || {
            let room = broker.text("commitLogDirCapacity").unwrap_or_default();
            let figure = format!("sendsRefusedForSpace=true; {room}");
            Found::new(broker.title(), figure, RUNTIME, disk_remedy(broker)).of_broker(broker)
        })
    })
}

/// Brokers with a figure above a limit.
fn above(bundle: &Bundle, name: &str, limit: f64, advice: Phrase) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let value = broker.figure(name)?;
        Found::when(value > limit, || {
            Found::new(broker.title(), format!("{name}={value}"), RUNTIME, advice).of_broker(broker)
        })
    })
}

/// Brokers whose queues lack a part of the log. Java reports it as `dispatchBehindBytes`. Vostok writes queues with the
/// append; after damage it reports the rest of the rebuilding as `rebuildLeftBytes`.
fn dispatch_behind(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let figure = |name: &'static str| broker.figure(name).map(|value| (name, value));
        let (name, value) = figure("rebuildLeftBytes").or_else(|| figure("dispatchBehindBytes"))?;
        Found::when(value > DISPATCH_BYTES, || {
            let advice = text!("wait for the start to end; if it stays, look at the disk");
            Found::new(broker.title(), format!("{name}={value}"), RUNTIME, advice).of_broker(broker)
        })
    })
}

fn level_behind(bundle: &Bundle) -> Look {
    let all = bundle.brokers.iter().filter_map(|broker| Some((broker, broker.levels.as_ref()?)));
    Look::each(all, |(broker, levels)| {
        let late =
            |level: &DelayLevel| level.due_ms.is_some_and(|due_ms| broker.asked_at_ms - due_ms > LEVEL_MS);
        let found = levels.iter().filter(|level| late(level)).map(|level| {
            let late_s = (broker.asked_at_ms - level.due_ms.unwrap_or_default()) / 1000;
            let (DelayLevel { level, waiting, .. }, title) = (level, broker.title());
            let figure = text!("{waiting} messages wait, the first is due for {late_s} s", waiting, late_s);
            let subject = text!("level {level} of {title}", level, title);
            Found::new(subject, figure, "SCHEDULE_TOPIC_XXXX", LOOK_AT_DISK).of_broker(broker)
        });
        Some(found.collect())
    })
}

/// Broker sets with half messages that brokers gave up (`TransactionalMessageCheckService`). Such
/// messages are in `TRANS_CHECK_MAX_TIME_TOPIC`.
fn halves_given_up(bundle: &Bundle) -> Look {
    let topics = bundle.topics.iter().filter(|topic| topic.name == "TRANS_CHECK_MAX_TIME_TOPIC");
    Look::each(topics.flat_map(|topic| &topic.queues), |queue| {
        let count = queue.max - queue.min;
        Found::when(count > 0, || {
            let advice =
                text!("let the producers answer checks, and decide about the messages that were given up");
            let given = [("topic", "TRANS_CHECK_MAX_TIME_TOPIC"), ("limit", "10")];
            let figure = text!("{count} half messages", count);
            Found::new(&queue.broker, figure, "GET_TOPIC_STATS_INFO (202)", advice)
                .fix(Fix::new("message", "print-topic", &given))
                .of_set(&queue.broker)
        })
    })
}

/// Brokers with old undecided half messages. The age is that of the producer's clock, because a half message is stored
/// again each time its producer is asked.
fn halves_undecided(bundle: &Bundle) -> Look {
    let all = bundle.brokers.iter().filter_map(|broker| Some((broker, broker.halves.as_ref()?)));
    Look::each(all, |(broker, heads)| {
        let age_ms = |head: &Head| broker.asked_at_ms - head.born_ms.unwrap_or(broker.asked_at_ms);
        let found = heads.iter().filter(|head| head.checks > 0 && age_ms(head) > HALF_MS).map(|head| {
            let Head { producer_group, waiting, checks, .. } = head;
            let (seconds, title) = (age_ms(head) / 1000, broker.title());
            let figure = text!("{waiting} half messages wait, the first since {seconds} s; its producer was asked {checks} times", waiting, seconds, checks);
            let advice = text!("let producers of {producer_group} be online and answer checks", producer_group);
            let subject = text!("{producer_group} on {title}", producer_group, title);
            Found::new(subject, figure, "RMQ_SYS_TRANS_HALF_TOPIC", advice)
                .fix(Fix::new("client", "list-producers", &[("broker", &broker.address)]))
                .of_broker(broker)
        });
        Some(found.collect())
    })
}

fn revive_behind(bundle: &Bundle) -> Look {
    let all = bundle.brokers.iter().filter_map(|broker| Some((broker, broker.revives.as_ref()?)));
    Look::each(all, |(broker, heads)| {
        let age_ms = |head: &Head| broker.asked_at_ms - head.stored_ms.unwrap_or(broker.asked_at_ms);
        let found = heads.iter().filter(|head| age_ms(head) > REVIVE_MS).map(|head| {
            let (Head { waiting, queue, .. }, seconds, title) = (head, age_ms(head) / 1000, broker.title());
            let figure = text!("{waiting} records wait, the first since {seconds} s", waiting, seconds);
            let subject = text!("revive queue {queue} of {title}", queue, title);
            Found::new(subject, figure, "rmq_sys_REVIVE_LOG", LOOK_AT_DISK).of_broker(broker)
        });
        Some(found.collect())
    })
}

fn retention_held(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let held_by = broker.text("retentionHeldBy")?;
        Found::when(!held_by.is_empty(), || {
            let (title, group) = (broker.title(), holding_group(broker));
            let (holder, queue) = holder(broker).unwrap_or((held_by, ""));
            let holder = holder_text(holder);
            let advice = match group {
                Some(group) => text!("let {group} consume the messages", group),
                None => text!(
                    "nothing, if the disk has room: the files go when the {holder} are delivered; give the disk room otherwise",
                    holder
                ),
            };
            let found = Found::new(
                text!("{holder} in {queue}", holder, queue),
                text!("on {title}", title),
                RUNTIME,
                advice,
            );
            let fix = group.map(|group| Fix::new("group", "progress", &[("group", group)]));
            let found = found.fix(fix).of_broker(broker);
            match group {
                Some(group) => found.of_group(group),
                None => found,
            }
        })
    })
}

fn threads_stopped(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let names = broker.text("stoppedThreads")?;
        Found::when(!names.is_empty(), || {
            let advice = text!("keep its log, and restart the broker");
            Found::new(broker.title(), format!("stoppedThreads={names}"), RUNTIME, advice).of_broker(broker)
        })
    })
}

fn disk_stalled(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let pending_ms = broker.figure("diskPendingMillis")?;
        Found::when(pending_ms > STALL_MS, || {
            let disk = broker.setting("storePathCommitLog").unwrap_or("its commit log");
            let advice = text!(
                "check that disk on the broker's machine: vostok doctor host; in controller mode another broker becomes master"
            );
            let figure = text!("diskPendingMillis={pending_ms}, disk of {disk}", pending_ms, disk);
            Found::new(broker.title(), figure, RUNTIME, advice).of_broker(broker)
        })
    })
}

fn unknown_to_controllers(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let is_unknown = broker.text("unknownToControllers")? == "true";
        Found::when(is_unknown, || {
            let advice = text!(
                "if the controllers lost their disks: vostok controller rebuild; if the broker was forgotten on purpose, start it without its store"
            );
            Found::new(broker.title(), "unknownToControllers=true", RUNTIME, advice).of_broker(broker)
        })
    })
}

fn inactive(bundle: &Bundle) -> Look {
    Look::each(bundle.brokers.iter().filter(|broker| broker.id == 0), |broker| {
        let is_active = broker.text("brokerActive")? == "true";
        Found::when(!is_active, || {
            let advice = text!("restart it; in controller mode look which broker of the set is master");
            Found::new(broker.title(), "brokerActive=false", RUNTIME, advice)
                .fix(Fix::new("broker", "replication", &[("broker", &broker.address)]))
                .of_broker(broker)
        })
    })
}
