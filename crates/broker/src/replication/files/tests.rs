use std::fs;

use replica::epochs::EpochList;
use wire::ha::{BrokerId, Epoch, EpochStart};
use wire::units::LogOffset;

use super::*;
use crate::config::Config;
use crate::testing::Fixture;

fn list(entries: &[(u32, u64)]) -> EpochList {
    let entry =
        |(epoch, start): &(u32, u64)| EpochStart { epoch: Epoch::new(*epoch), start: LogOffset::new(*start) };
    EpochList::new(entries.iter().map(entry).collect()).unwrap()
}

fn loaded(fixture: &Fixture) -> Result<EpochList, FilesError> {
    load_epochs(&fixture.broker.runtime.config, &fixture.broker.tables.files)
}

#[test]
fn epochs_are_kept_and_a_broken_file_is_read_from_its_copy() {
    let fixture = Fixture::new();
    assert_eq!(loaded(&fixture).unwrap(), EpochList::default());
    save_epochs(
        &fixture.broker.tables,
        &fixture.broker.replication,
        &fixture.broker.runtime,
        list(&[(1, 0)]),
    )
    .unwrap();
    save_epochs(
        &fixture.broker.tables,
        &fixture.broker.replication,
        &fixture.broker.runtime,
        list(&[(1, 0), (3, 124)]),
    )
    .unwrap();
    assert_eq!(loaded(&fixture).unwrap(), list(&[(1, 0), (3, 124)]));
    assert_eq!(fixture.broker.replication.replicas.elected().epochs, list(&[(1, 0), (3, 124)]));

    let file = path(&fixture.broker.runtime.config, "epochFileCheckpoint");
    fs::write(&file, "2\n17\n1-0\n3-124\n").unwrap();
    assert_eq!(loaded(&fixture).unwrap(), list(&[(1, 0)]));
    fs::write(file.with_extension("bak"), "x").unwrap();
    let error = loaded(&fixture).unwrap_err().to_string();
    assert!(error.contains("epochFileCheckpoint: ") && error.contains("checksum"), "{error}");
}

#[test]
fn no_epochs_leave_no_file_that_could_come_back() {
    let fixture = Fixture::new();
    save_epochs(
        &fixture.broker.tables,
        &fixture.broker.replication,
        &fixture.broker.runtime,
        list(&[(1, 0)]),
    )
    .unwrap();
    save_epochs(
        &fixture.broker.tables,
        &fixture.broker.replication,
        &fixture.broker.runtime,
        list(&[(1, 0), (2, 9)]),
    )
    .unwrap();
    save_epochs(
        &fixture.broker.tables,
        &fixture.broker.replication,
        &fixture.broker.runtime,
        EpochList::default(),
    )
    .unwrap();
    assert_eq!(loaded(&fixture).unwrap(), EpochList::default());
    assert!(!path(&fixture.broker.runtime.config, "epochFileCheckpoint.bak").exists());
}

#[test]
fn epochs_that_cannot_be_written_are_told_and_written_later() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    save_epochs(&broker.tables, &broker.replication, &broker.runtime, list(&[(1, 0)])).unwrap();
    let in_the_way = path(&broker.runtime.config, "epochFileCheckpoint.tmp");
    fs::create_dir(&in_the_way).unwrap();
    assert!(
        save_epochs(&broker.tables, &broker.replication, &broker.runtime, list(&[(1, 0), (2, 9)])).is_err()
    );
    assert_eq!(broker.replication.replicas.elected().epochs, list(&[(1, 0)]));

    let mut file = EpochFile::default();
    assert!(file.retry(&broker.tables, &broker.runtime), "nothing waits to be written");
    file.save(&broker.tables, &broker.replication, &broker.runtime, list(&[(1, 0), (3, 5)]));
    assert!(!file.retry(&broker.tables, &broker.runtime));
    assert_eq!(loaded(&fixture).unwrap(), list(&[(1, 0)]));
    fs::remove_dir(&in_the_way).unwrap();
    assert!(file.retry(&broker.tables, &broker.runtime));
    assert_eq!(loaded(&fixture).unwrap(), list(&[(1, 0), (3, 5)]));
}

#[test]
fn an_id_is_kept_and_that_of_another_broker_refused() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    let load = || load_identity(&broker.runtime.config, &broker.tables.files);
    assert_eq!(load().unwrap(), None);
    let (cluster, name) =
        (broker.runtime.config.broker_cluster_name.clone(), broker.runtime.config.broker_name.clone());
    let unconfirmed =
        BrokerIdentity { cluster, name, broker: BrokerId::new(2), check_code: Some("h:1;5".to_owned()) };
    save_identity(&broker.tables, &broker.runtime, &unconfirmed).unwrap();
    assert_eq!(load().unwrap(), Some(unconfirmed.clone()));
    let confirmed = BrokerIdentity { check_code: None, ..unconfirmed };
    save_identity(&broker.tables, &broker.runtime, &confirmed).unwrap();
    assert_eq!(load().unwrap(), Some(confirmed));
    assert!(!path(&broker.runtime.config, "brokerIdentity-temp").exists());

    fs::write(path(&broker.runtime.config, "brokerIdentity"), "Other#broker-x#2").unwrap();
    let error = load().unwrap_err().to_string();
    assert!(error.contains("the store belongs to broker `Other#broker-x`"), "{error}");
}

#[test]
fn an_identity_with_one_changed_byte_is_never_that_of_another_broker() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    let load = || load_identity(&broker.runtime.config, &broker.tables.files);
    let (cluster, name) =
        (broker.runtime.config.broker_cluster_name.clone(), broker.runtime.config.broker_name.clone());
    let identity = BrokerIdentity { cluster, name, broker: BrokerId::new(12), check_code: None };
    save_identity(&broker.tables, &broker.runtime, &identity).unwrap();
    let whole = fs::read(path(&broker.runtime.config, IDENTITY)).unwrap();
    let noted = fs::read(path(&broker.runtime.config, IDENTITY_NOTE)).unwrap();
    for (name, whole) in [(IDENTITY, &whole), (IDENTITY_NOTE, &noted)] {
        for at in 0..whole.len() {
            for left in [Some(1), None] {
                let mut bytes = whole.clone();
                match left {
                    Some(mask) => bytes[at] ^= mask,
                    None => bytes.truncate(at),
                }
                fs::write(path(&broker.runtime.config, name), &bytes).unwrap();
                let found = load();
                let is_new = name == IDENTITY && bytes.is_empty();
                assert!(found.is_err() || is_new || found.unwrap() == Some(identity.clone()), "{name} {at}");
                fs::write(path(&broker.runtime.config, name), whole).unwrap();
            }
        }
    }
    fs::remove_file(path(&broker.runtime.config, IDENTITY_NOTE)).unwrap();
    assert_eq!(load().unwrap(), Some(identity));
    fs::remove_file(path(&broker.runtime.config, IDENTITY)).unwrap();
    assert_eq!(load().unwrap(), None, "a copy of a store without the file gets an id of its own");
}

#[test]
fn what_is_left_of_a_note_of_a_loss_counts() {
    let fixture = Fixture::with(with_flush(store::FlushMode::Sync));
    let broker = &fixture.broker;
    note(&broker.tables, &broker.runtime, MAY_HAVE_LOST).unwrap();
    for left in [&b"yes\n"[..], b"yE\xff", b""] {
        fs::write(path(&broker.runtime.config, MAY_HAVE_LOST), left).unwrap();
        assert!(load_may_have_lost(&broker.tables, &broker.runtime).unwrap(), "{left:?}");
    }
}

fn with_flush(flush: store::FlushMode) -> impl FnOnce(&mut Config) {
    move |config| config.store.flush = flush
}

#[test]
fn a_crash_counts_by_the_flush_mode_before_it_until_the_broker_has_a_role() {
    use store::FlushMode::{Async, Sync};
    let lost =
        |fixture: &Fixture| load_may_have_lost(&fixture.broker.tables, &fixture.broker.runtime).unwrap();
    let sync = Fixture::with(with_flush(Sync));
    assert!(!lost(&sync), "a first start");
    let sync = Fixture::at(sync.left(), with_flush(Sync));
    assert!(!lost(&sync), "everything was on disk");
    note_flushed_later(&sync.broker.tables, &sync.broker.runtime).unwrap();
    let sync = Fixture::at(sync.left(), with_flush(Sync));
    assert!(lost(&sync), "the mode was another one when the broker was killed");
    sync.broker.store.close().unwrap();
    let clean = Fixture::at(sync.left(), with_flush(Sync));
    assert!(lost(&clean), "nobody was told yet");
    clean.broker.replication.replicas.elected().may_have_lost = true;
    forget_loss(&clean.broker.tables, &clean.broker.replication, &clean.broker.runtime).unwrap();
    assert!(!lost(&clean));
    let later = Fixture::at(clean.left(), with_flush(Async));
    assert!(lost(&later), "killed, and flushed later from now on");
}

#[test]
fn a_broker_whose_log_files_are_gone_has_lost_something_although_it_stopped_cleanly() {
    let controlled = |config: &mut Config| {
        config.store.flush = store::FlushMode::Sync;
        config.store.controller_mode = true;
        config.store.segment_bytes = 1 << 14;
    };
    let lost =
        |fixture: &Fixture| load_may_have_lost(&fixture.broker.tables, &fixture.broker.runtime).unwrap();
    for kept_files in [0, 1] {
        let fixture = Fixture::with(controlled);
        for _ in 0..8 {
            fixture.put("T", 0, &[7; 4000], b"");
        }
        // As a slave leaves it: a master's store without any log would not even be opened.
        fixture.broker.store.start_following().unwrap();
        fixture.broker.store.close().unwrap();
        let whole = Fixture::at(fixture.left(), controlled);
        assert!(!lost(&whole));
        whole.broker.store.start_following().unwrap();
        whole.broker.store.close().unwrap();
        let directory = whole.left();
        let mut files: Vec<_> = fs::read_dir(directory.path().join("commitlog"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        files.iter().skip(kept_files).for_each(|file| fs::remove_file(file).unwrap());
        let emptied = Fixture::at(directory, controlled);
        assert!(lost(&emptied), "{kept_files} files are kept");
    }
}
