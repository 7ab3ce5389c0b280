//! Disks and stores of brokers.

use crate::doctor::bundle::{Broker, Bundle, DelayLevel, Head};
use crate::doctor::finding::{Check, Found, Look, checks};

const RUNTIME: &str = "GET_BROKER_RUNTIME_INFO (28)";
const NEEDS_VOSTOK: &str = "runtime figures of a Vostok broker";
const NEEDS: &str = "runtime figures of a broker";
const NEEDS_JAVA: &str = "runtime figures of a RocketMQ broker";
/// A disk that is full sooner is a finding.
const FULL_S: f64 = 86_400.0;
/// Log that is not in the queues yet.
const DISPATCH_BYTES: f64 = 67_108_864.0;
/// Delay of messages with a delay level, beyond that of the level.
const LEVEL_MS: i64 = 60_000;
/// Age of a half message whose producer was asked and did not say what becomes of it.
const HALF_MS: i64 = 120_000;
/// Age of a record of a popped message that was not processed. Records wait as long as their messages are invisible.
const REVIVE_MS: i64 = 3_600_000;
/// Time that a disk may take for a write or flush of the log (`diskStallTimeoutMillis`).
const STALL_MS: f64 = 3_000.0;
/// Delay of timed messages.
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

pub(super) const CHECKS: &[Check] = checks! {
    "disk-refuses", Critical, |bundle| between(bundle, &REFUSED, None, "sends are refused"),
        "A disk is over diskSpaceWarningLevelRatio (at most 90), so that sends are refused", NEEDS;
    "disk-deletes-unexpired", Critical, |bundle| between(bundle, &FORCED, Some(&REFUSED), "messages are deleted before fileReservedTime"),
        "A disk is over diskSpaceCleanForciblyRatio (at most 85), so that messages go before their time", NEEDS;
    "disk-deletes-early", Warning, |bundle| between(bundle, &CLEAN, Some(&FORCED), "expired files are deleted at any hour"),
        "A disk is over diskMaxUsedSpaceRatio, so that expired files are deleted at any hour", NEEDS;
    "disk-full-soon", Critical, full_soon,
        "The disk will be full within a day if the log goes on growing as in the last hour", NEEDS_VOSTOK;
    "sends-refused-for-space", Critical, refused_for_space,
        "The broker refuses sends at this moment because of its disk", NEEDS_VOSTOK;
    "queues-lost", Critical, |bundle| above(bundle, "lostQueues", 0.0, "stop the broker and run: vostok store verify DIRECTORY"),
        "Queues could not be rebuilt from the log", NEEDS_VOSTOK;
    "messages-damaged", Critical, |bundle| above(bundle, "damagedMessages", 0.0, "check the disk; stop the broker and run: vostok store verify DIRECTORY"),
        "Stored messages are damaged and passed over", NEEDS_VOSTOK;
    "messages-undelivered", Critical, |bundle| above(bundle, "undeliveredMessages", 0.0, "read the log of the broker, which names each"),
        "Delayed, timed or popped messages were given up", NEEDS_VOSTOK;
    "threads-stopped", Critical, threads_stopped, "A thread of the broker ended before it was told to",
        NEEDS_VOSTOK;
    "disk-stalled", Critical, disk_stalled,
        "The disk of the log has not finished a write or flush for three seconds, and sends wait for the disk", NEEDS_VOSTOK;
    "unknown-to-controllers", Critical, unknown_to_controllers,
        "The controllers do not know this broker, so that no controller replaces the master of the set", NEEDS_VOSTOK;
    "broker-inactive", Warning, inactive,
        "A master does not deliver delayed messages and does not check transactions (brokerActive=false)",
        NEEDS_JAVA;
    "dispatch-behind", Warning, dispatch_behind,
        "Stored messages are not in their queues yet, so that nobody can consume them", NEEDS;
    "delay-level-behind", Warning, level_behind, "Delayed messages come more than a minute late",
        "runtime figures and settings of a master";
    "halves-given-up", Warning, halves_given_up,
        "Transactions were given up, because no producer said in time what becomes of them", "status of topics";
    "halves-undecided", Warning, halves_undecided,
        "A producer does not say what becomes of its transactions, though it is asked", "the half topic of masters";
    "pop-revive-behind", Warning, revive_behind,
        "Popped messages that nobody acknowledged come back more than an hour late, or are invisible for that long",
        "the revive topic of masters";
    "retention-held", Warning, retention_held,
        "Expired messages are kept because a group has not consumed them", NEEDS_VOSTOK;
    "timer-behind", Warning, |bundle| above(bundle, "timerReadBehind", TIMER_S, "look at the disk: vostok doctor host on its machine"),
        "Timed messages come more than a minute late", NEEDS;
};

/// Brokers whose fullest disk is over a level and not over the next one.
fn between(bundle: &Bundle, level: &Level, next: Option<&Level>, means: &str) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let disks = ["commitLogDiskRatio", "consumeQueueDiskRatio"];
        let used = disks.into_iter().filter_map(|name| Some((name, broker.figure(name)? * 100.0)));
        let (name, percent) = used.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let limit = level.of(broker);
        let is_next = next.is_some_and(|next| percent > next.of(broker));
        Found::when(percent > limit && !is_next, || {
            let figure = format!("{name} is {percent:.0} %, over {} {limit:.0}: {means}", level.setting);
            let fix = format!(
                "give the disk room, or keep less: vostok admin broker set fileReservedTime HOURS --broker {}",
                broker.address
            );
            Found::new(broker.title(), figure, RUNTIME, fix)
        })
    })
}

fn full_soon(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        // Without growth there is no forecast, which is good news from a broker that makes one.
        let forecast = broker.figure("commitLogDiskFullInSeconds");
        let left = forecast.or_else(|| broker.text("vostokVersion").map(|_| f64::INFINITY))?;
        Found::when(left < FULL_S, || {
            let fix = format!("vostok admin broker set fileReservedTime HOURS --broker {}", broker.address);
            Found::new(broker.title(), format!("full in {:.1} h", left / 3600.0), RUNTIME, fix)
        })
    })
}

fn refused_for_space(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let is_refusing = broker.text("sendsRefusedForSpace")? == "true";
        Found::when(is_refusing, || {
            let fix = format!("vostok admin broker clean-log --broker {}", broker.address);
            let room = broker.text("commitLogDirCapacity").unwrap_or_default();
            Found::new(broker.title(), format!("sendsRefusedForSpace=true; {room}"), RUNTIME, fix)
        })
    })
}

/// Brokers with a figure above a limit.
fn above(bundle: &Bundle, name: &str, limit: f64, fix: &str) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let value = broker.figure(name)?;
        Found::when(value > limit, || Found::new(broker.title(), format!("{name}={value}"), RUNTIME, fix))
    })
}

/// Java names what is behind the log; Vostok builds queues with the append, and names what is left of those it rebuilds after damage.
fn dispatch_behind(bundle: &Bundle) -> Look {
    let fix = "wait for the start to end; if it stays, look at the disk";
    Look::each(&bundle.brokers, |broker| {
        let figure = |name: &'static str| broker.figure(name).map(|value| (name, value));
        let (name, value) = figure("rebuildLeftBytes").or_else(|| figure("dispatchBehindBytes"))?;
        Found::when(value > DISPATCH_BYTES, || {
            Found::new(broker.title(), format!("{name}={value}"), RUNTIME, fix)
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
            let figure = format!("{} messages wait, the first is due for {late_s} s", level.waiting);
            let subject = format!("level {} of {}", level.level, broker.title());
            Found::new(
                subject,
                figure,
                "SCHEDULE_TOPIC_XXXX",
                "look at the log of the broker and at its disk",
            )
        });
        Some(found.collect())
    })
}

/// Where brokers put what they gave up (`TransactionalMessageCheckService`).
fn halves_given_up(bundle: &Bundle) -> Look {
    let topics = bundle.topics.iter().filter(|topic| topic.name == "TRANS_CHECK_MAX_TIME_TOPIC");
    Look::each(topics.flat_map(|topic| &topic.queues), |queue| {
        let count = queue.max - queue.min;
        Found::when(count > 0, || {
            let fix = format!(
                "let the producers answer checks; what was given up: vostok mqadmin printMsg -t TRANS_CHECK_MAX_TIME_TOPIC (broker {})",
                queue.broker
            );
            Found::new(&queue.broker, format!("{count} half messages"), "GET_TOPIC_STATS_INFO (202)", fix)
        })
    })
}

/// Undecided half messages are stored again each time their producer is asked, so their age is that of the producer's clock.
fn halves_undecided(bundle: &Bundle) -> Look {
    let all = bundle.brokers.iter().filter_map(|broker| Some((broker, broker.halves.as_ref()?)));
    Look::each(all, |(broker, heads)| {
        let age_ms = |head: &Head| broker.asked_at_ms - head.born_ms.unwrap_or(broker.asked_at_ms);
        let found = heads.iter().filter(|head| head.checks > 0 && age_ms(head) > HALF_MS).map(|head| {
            let Head { producer_group, waiting, checks, .. } = head;
            let figure = format!(
                "{waiting} half messages wait, the first since {} s; its producer was asked {checks} times",
                age_ms(head) / 1000
            );
            let fix = format!(
                "let producers of {producer_group} be online and answer checks; who is: vostok admin client list-producers --broker {}",
                broker.address
            );
            Found::new(format!("{producer_group} on {}", broker.title()), figure, "RMQ_SYS_TRANS_HALF_TOPIC", fix)
        });
        Some(found.collect())
    })
}

fn revive_behind(bundle: &Bundle) -> Look {
    let all = bundle.brokers.iter().filter_map(|broker| Some((broker, broker.revives.as_ref()?)));
    Look::each(all, |(broker, heads)| {
        let age_ms = |head: &Head| broker.asked_at_ms - head.stored_ms.unwrap_or(broker.asked_at_ms);
        let found = heads.iter().filter(|head| age_ms(head) > REVIVE_MS).map(|head| {
            let figure =
                format!("{} records wait, the first since {} s", head.waiting, age_ms(head) / 1000);
            let subject = format!("revive queue {} of {}", head.queue, broker.title());
            let fix = "look at the log of the broker and at its disk; messages that are invisible for hours are no fault";
            Found::new(subject, figure, "rmq_sys_REVIVE_LOG", fix)
        });
        Some(found.collect())
    })
}

fn retention_held(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let holder = broker.text("retentionHeldBy")?;
        Found::when(!holder.is_empty(), || {
            let group = holder.split(' ').next().unwrap_or_default();
            let fix = format!(
                "consume with {group}; if nobody needs it any more: vostok admin group delete {group} --cluster {}",
                broker.cluster
            );
            Found::new(holder, format!("on {}", broker.title()), RUNTIME, fix)
        })
    })
}

fn threads_stopped(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let names = broker.text("stoppedThreads")?;
        Found::when(!names.is_empty(), || {
            let fix = "keep its log, and restart the broker";
            Found::new(broker.title(), format!("stoppedThreads={names}"), RUNTIME, fix)
        })
    })
}

fn disk_stalled(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let pending_ms = broker.figure("diskPendingMillis")?;
        Found::when(pending_ms > STALL_MS, || {
            let disk = broker.setting("storePathCommitLog").unwrap_or("its commit log");
            let fix = "check that disk on the broker's machine: vostok doctor host; in controller mode another broker becomes master";
            Found::new(
                broker.title(),
                format!("diskPendingMillis={pending_ms}, disk of {disk}"),
                RUNTIME,
                fix,
            )
        })
    })
}

fn unknown_to_controllers(bundle: &Bundle) -> Look {
    Look::each(&bundle.brokers, |broker| {
        let is_unknown = broker.text("unknownToControllers")? == "true";
        Found::when(is_unknown, || {
            let fix = "if the controllers lost their disks: vostok controller rebuild; if the broker was forgotten on purpose, start it without its store";
            Found::new(broker.title(), "unknownToControllers=true", RUNTIME, fix)
        })
    })
}

fn inactive(bundle: &Bundle) -> Look {
    Look::each(bundle.brokers.iter().filter(|broker| broker.id == 0), |broker| {
        let is_active = broker.text("brokerActive")? == "true";
        Found::when(!is_active, || {
            Found::new(
                broker.title(),
                "brokerActive=false",
                RUNTIME,
                "restart it; in controller mode ask who is master: vostok mqadmin getSyncStateSet",
            )
        })
    })
}
