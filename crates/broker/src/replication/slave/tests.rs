use replica::slave_log::SlaveConfig;
use store::FlushMode;

use super::*;
use crate::testing::{Fixture, OUTCOME_CAP};

/// The log of a master with these messages, and where each of them ends.
fn log_of(bodies: &[&[u8]]) -> (Vec<u8>, Vec<LogOffset>) {
    let master = Fixture::new();
    let store = &master.broker.store;
    let mut ends = Vec::new();
    for body in bodies {
        master.put("T", 0, body, b"");
        ends.push(store.appended());
    }
    let (mut log, end) = (Vec::new(), usize::try_from(store.appended().get()).unwrap());
    store.read_log_blocking(LogOffset::ZERO, end, &mut log).unwrap();
    (log, ends)
}

/// The thread's state on a broker that follows.
fn shell(fixture: &Fixture) -> Shell {
    fixture.broker.store.start_following().unwrap();
    let slave = Slave::classic(SlaveConfig::default(), LogOffset::ZERO, LogOffset::ZERO);
    Shell::new(fixture.broker.group_parts(), slave)
}

#[tokio::test]
async fn a_slave_waits_for_the_disk_again_after_a_cut_during_a_wait() {
    let (log, ends) = log_of(&[&[1; 500], &[2; 500]]);
    let slave = Fixture::without_store_threads(|config| config.store.flush = FlushMode::Sync);
    let store = &slave.broker.store;
    let mut shell = shell(&slave);
    store.follow(LogOffset::ZERO, &log, &mut |_| {}).unwrap();
    assert_eq!(shell.settle(), ends[1], "nothing is on disk yet, so the slave waits");
    assert!(matches!(shell.cut(ends[0]), SlaveEvent::Cut(to) if to == ends[0]));
    shell.flushed.notified().await;

    let at = usize::try_from(ends[0].get()).unwrap();
    assert!(
        matches!(shell.append(ends[0], &log[at..]).await[..], [SlaveEvent::Appended(end)] if end == ends[1])
    );
    store.run_due(Instant::now());
    assert_eq!(store.flushed(), ends[1]);
    let told = tokio::time::timeout(OUTCOME_CAP, shell.flushed.notified()).await;
    assert!(told.is_ok(), "the master is never told of what came to the disk after the cut");
}

/// Stores a message in a topic, deletes the topic, and stores another message in it. Returns the end of the log before the deletion.
fn make_topic_again(master: &Fixture) -> LogOffset {
    master.put("T", 0, b"before", b"");
    let middle = master.broker.store.appended();
    assert_eq!(master.ask(wire::codes::request::DELETE_TOPIC_IN_BROKER, &[("topic", "T")], b"").0, 0);
    master.put("T", 0, b"after", b"");
    middle
}

#[tokio::test]
async fn groups_begin_a_topic_again_that_the_master_deleted_and_made_again() {
    let master = Fixture::new();
    let middle = make_topic_again(&master);
    let (mut log, end) = (Vec::new(), usize::try_from(master.broker.store.appended().get()).unwrap());
    master.broker.store.read_log_blocking(LogOffset::ZERO, end, &mut log).unwrap();

    let slave = Fixture::new();
    let mut shell = shell(&slave);
    let at = usize::try_from(middle.get()).unwrap();
    shell.append(LogOffset::ZERO, &log[..at]).await;
    let offsets = &slave.broker.tables.offsets;
    offsets.commit("g", "T", 0, 1);
    shell.append(middle, &log[at..]).await;
    assert_eq!(offsets.committed("g", "T", 0), Some(0), "a new master would skip the message");
}

#[tokio::test]
async fn a_topic_made_again_counts_although_the_bytes_behind_its_first_record_are_damaged() {
    let master = Fixture::new();
    let middle = make_topic_again(&master);
    master.put("T", 1, b"fragile", b"");
    let (mut log, end) = (Vec::new(), usize::try_from(master.broker.store.appended().get()).unwrap());
    master.broker.store.read_log_blocking(LogOffset::ZERO, end, &mut log).unwrap();
    let mut damaged = log.clone();
    let body = log.windows(7).position(|bytes| bytes == b"fragile").unwrap();
    damaged[body] ^= 1;

    let slave = Fixture::new();
    let mut shell = shell(&slave);
    let at = usize::try_from(middle.get()).unwrap();
    shell.append(LogOffset::ZERO, &log[..at]).await;
    let (offsets, upstream) = (&slave.broker.tables.offsets, &slave.broker.replication.replicas.upstream);
    offsets.commit("g", "T", 0, 1);
    let events = shell.append(middle, &damaged[at..]).await;
    assert!(matches!(events[..], [SlaveEvent::Appended(to), SlaveEvent::LogFailed] if to == middle));
    let events = shell.append(middle, &log[at..]).await;
    assert!(matches!(events[..], [SlaveEvent::Appended(to)] if to == master.broker.store.appended()));
    assert_eq!(offsets.committed("g", "T", 0), Some(0), "a new master would skip the message");
    assert!(upstream.topics_restarted.load(Ordering::Acquire), "the master's offset is not requested");
}

#[tokio::test]
async fn a_slave_that_catches_up_waits_for_room_in_its_queues() {
    let (log, ends) = log_of(&[&[1; 500], &[2; 500]]);
    let slave = Fixture::without_store_threads(|config| config.store.unwritten_units_max = 0);
    let store = slave.broker.store.clone();
    let mut shell = shell(&slave);
    let at = usize::try_from(ends[0].get()).unwrap();
    shell.append(LogOffset::ZERO, &log[..at]).await;
    let writes = async {
        // Long enough for the first attempt.
        tokio::task::yield_now().await;
        assert_eq!(store.followed(), ends[0], "the unit of the first message waits for its file");
        let now = Instant::now();
        for minute in 1..5 {
            let _ = store.run_due(now + Duration::from_secs(60 * minute));
        }
    };
    let (told, ()) = tokio::join!(shell.append(ends[0], &log[at..]), writes);
    assert!(matches!(told[..], [SlaveEvent::Appended(end)] if end == ends[1]), "{told:?}");
}
