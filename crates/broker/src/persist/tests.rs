use std::collections::BTreeMap;

use std::fs;

use store::{FakeDisk, Faults, RealDisk};

use super::*;
use crate::testing::real_files;

type Table = BTreeMap<String, BTreeMap<i32, i64>>;

fn table(offset: i64) -> Table {
    BTreeMap::from([("T@g".to_owned(), BTreeMap::from([(0, offset)]))])
}

fn at(path: &Path) -> ConfigFile {
    ConfigFile { disk: Arc::new(RealDisk), path: path.to_owned() }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    at(path).read()
}

fn read_text(path: &Path) -> Result<String, Error> {
    at(path).read_text()
}

fn refuse_rocks(config: &Path) -> Result<(), Error> {
    real_files(config).refuse_rocks()
}

fn write(path: &Path, table: &Table) -> Result<(), Error> {
    at(path).write(&json::to_vec_as(table, json::Dialect::Standard))
}

/// Checks the result of reading a directory with the given files: the value, or the text of the error.
fn check(files: &[(&str, &str)], expected: Result<Option<Table>, &str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    match (read::<Table>(&folder.path().join("t.json")), expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected),
        (Err(found), Err(part)) => assert!(found.to_string().contains(part), "{found}"),
        (found, expected) => panic!("found {found:?}, expected {expected:?}"),
    }
    folder
}

#[test]
fn a_written_file_reads_back_and_the_previous_one_is_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config/t.json");
    for offset in 1..4 {
        write(&path, &table(offset)).unwrap();
        assert_eq!(read(&path).unwrap(), Some(table(offset)));
    }
    let copy = fs::read_to_string(folder.path().join("config/t.json.bak")).unwrap();
    assert_eq!(copy, r#"{"T@g":{"0":2}}"#);
    assert!(!folder.path().join("config/t.json.tmp").exists());
}

#[test]
fn a_crash_between_any_two_steps_leaves_the_old_or_the_new_content() {
    let (old, new) = (r#"{"T@g":{"0":1}}"#, r#"{"T@g":{"0":2}}"#);
    check(&[("t.json", old), ("t.json.bak", "{}"), ("t.json.tmp", &new[..5])], Ok(Some(table(1))));
    check(&[("t.json", old), ("t.json.tmp", new)], Ok(Some(table(1))));
    check(&[("t.json", old), ("t.json.bak", old), ("t.json.tmp", new)], Ok(Some(table(1))));
    check(&[("t.json.bak", old), ("t.json.tmp", new)], Ok(Some(table(1))));
    check(&[("t.json.bak", old), ("t.json", new)], Ok(Some(table(2))));
}

/// The file exists at any moment of a write, since settings are read without the copy.
#[test]
fn the_file_is_there_all_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broker.properties");
    let copy = folder.path().join("broker.properties.bak");
    at(&path).write(b"first").unwrap();
    at(&path).write(b"second").unwrap();
    at(&path).keep().unwrap();
    assert_eq!([read_text(&path).unwrap(), read_text(&copy).unwrap()], ["second", "second"]);
    at(&path).write(b"third").unwrap();
    assert_eq!([read_text(&path).unwrap(), read_text(&copy).unwrap()], ["third", "second"]);
}

#[test]
fn missing_and_empty_files_fall_back_to_the_copy() {
    check(&[], Ok(None));
    check(&[("t.json", " \n")], Ok(None));
    check(&[("t.json.bak", r#"{"T@g":{0:7}}"#)], Ok(Some(table(7))));
    check(&[("t.json", ""), ("t.json.bak", r#"{"T@g":{0:7}}"#)], Ok(Some(table(7))));
}

#[test]
fn an_empty_file_does_not_become_the_copy() {
    let copy = r#"{"T@g":{"0":7}}"#;
    let folder = check(&[("t.json", ""), ("t.json.bak", copy)], Ok(Some(table(7))));
    write(&folder.path().join("t.json"), &table(8)).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("t.json.bak")).unwrap(), copy);
    assert_eq!(read(&folder.path().join("t.json")).unwrap(), Some(table(8)));
}

#[test]
fn a_broken_file_is_kept_under_another_name() {
    let folder = check(&[("t.json", "{\"T@g"), ("t.json.bak", r#"{"T@g":{0:7}}"#)], Ok(Some(table(7))));
    assert_eq!(fs::read_to_string(folder.path().join("t.json.broken")).unwrap(), "{\"T@g");
    assert!(!folder.path().join("t.json").exists());
}

#[test]
fn a_broken_copy_stops_the_start_and_the_error_names_it() {
    check(&[("t.json", ""), ("t.json.bak", "{'a':1}")], Err("t.json.bak is not readable"));
    let folder = check(&[("t.json", "no")], Err("t.json is not readable"));
    assert_eq!(fs::read_to_string(folder.path().join("t.json")).unwrap(), "no");
}

#[test]
fn a_failed_write_names_the_file_and_leaves_the_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    write(&path, &table(1)).unwrap();
    fs::create_dir(folder.path().join("t.json.tmp")).unwrap();
    let error = write(&path, &table(2)).unwrap_err();
    assert!(error.to_string().contains("t.json.tmp"), "{error}");
    assert_eq!(read(&path).unwrap(), Some(table(1)));
}

#[test]
fn tables_in_rocksdb_without_a_file_stop_the_start_with_what_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path();
    refuse_rocks(config).unwrap();
    fs::create_dir(config.join("subscriptionGroups")).unwrap();
    let refusal = refuse_rocks(config).unwrap_err().to_string();
    assert!(refusal.contains("rocksDBConfigToJson -t subscriptionGroups -p "), "{refusal}");
    assert!(refusal.contains("subscriptionGroup.json"), "{refusal}");
    fs::write(config.join("subscriptionGroup.json.bak"), "{}").unwrap();
    refuse_rocks(config).unwrap();
    fs::create_dir(config.join("rdb")).unwrap();
    let refusal = refuse_rocks(config).unwrap_err().to_string();
    assert!(refusal.contains("-t topics -p "), "{refusal}");
}

/// Loads every file of a running 5.5.0 broker's `config` that is used here, changes each table, and loads the result
/// with a strict JSON parser.
#[test]
fn java_files_load_and_what_is_written_is_plain_json() {
    use crate::testing::Fixture;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    fs::create_dir(&config).unwrap();
    let java = [
        ("topics.json", include_str!("../golden/topics.json")),
        ("subscriptionGroup.json", include_str!("../golden/subscriptionGroup.json")),
        ("consumerOffset.json", include_str!("../golden/consumerOffset.json")),
        ("delayOffset.json", include_str!("../golden/delayOffset.json")),
    ];
    for (name, text) in java {
        fs::write(config.join(name), text).unwrap();
    }
    let untouched = ["topicQueueMapping.json", "messageRequestMode.json", "consumerFilter.json"];
    untouched.iter().for_each(|name| fs::write(config.join(name), format!("{{{name:?}:{{0:4}}}}")).unwrap());
    let fixture = Fixture::at(folder, |_| {});
    let broker = &fixture.broker;
    assert_eq!(broker.tables.topics.find("TopicFifo").unwrap().config.attributes["message.type"], "FIFO");
    assert_eq!(broker.tables.groups.find("GID_2").unwrap().retry_max_times, 3);
    broker.tables.topics.put(wire::body::TopicConfig::new("New", 4, 6), 1).unwrap();
    broker.tables.groups.make("new", 1).unwrap();
    broker.tables.offsets.commit("new", "New", 3, 17);
    let fixture = fixture.reopened();
    for (name, text) in &java[..3] {
        let written = fs::read(fixture.config_path(name)).unwrap();
        let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
        let java: serde_json::Value = json::from_slice(text.as_bytes()).unwrap();
        let members = |value: &serde_json::Value| {
            value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
        };
        assert!(members(&written).is_superset(&members(&java)), "{name}: {written}");
    }
    for name in untouched {
        assert_eq!(fs::read_to_string(fixture.config_path(name)).unwrap(), format!("{{{name:?}:{{0:4}}}}"));
    }
    assert_eq!(fixture.broker.tables.offsets.committed("new", "New", 3), Some(17));
    assert!(fixture.broker.tables.topics.find("TopicFifo").is_some());
}

#[test]
fn a_file_named_without_a_directory_lies_in_the_current_one() {
    assert_eq!(folder_of(Path::new("broker.conf")), Path::new("."));
    assert_eq!(folder_of(Path::new("conf/broker.conf")), Path::new("conf"));
}

const CRASH_ROOT: &str = "/s";

fn fake_files(disk: &FakeDisk) -> ConfigFiles {
    ConfigFiles::new(Arc::new(disk.clone()), Path::new(CRASH_ROOT).join("config"))
}

/// Returns the disk after every crash that can hit `change`: a kill before each change of the disk, and power cuts
/// then. The last disks are those after the whole change.
fn crashes(before: &FakeDisk, change: impl Fn(&FakeDisk)) -> Vec<FakeDisk> {
    let mut found = Vec::new();
    for steps in 0.. {
        let disk = before.killed();
        disk.faults(|faults| faults.killed_after = Some(steps));
        change(&disk);
        let mut left = None;
        disk.faults(|faults| left = faults.killed_after);
        found.push(disk.killed());
        found.extend((0..20).map(|seed| disk.power_cut(seed)));
        if left != Some(0) {
            break;
        }
    }
    found
}

#[test]
fn a_crash_while_topics_are_written_leaves_the_old_or_the_new_table() {
    use crate::topics::Topics;
    use wire::body::TopicConfig;
    let load = |disk: &FakeDisk| Topics::load(fake_files(disk).file("topics.json")).unwrap();
    let disk = FakeDisk::new(64);
    load(&disk).put(TopicConfig::new("First", 4, 6), 1).unwrap();
    load(&disk).put(TopicConfig::new("Old", 4, 6), 1).unwrap();
    // The second topic is refused when the process is killed before its table is in place.
    let change = |disk: &FakeDisk| drop(load(disk).put(TopicConfig::new("New", 8, 6), 2));
    let mut found = [0; 2];
    for disk in crashes(&disk, change) {
        let topics = load(&disk);
        let names = ["First", "Old"].map(|name| topics.find(name).map(|topic| topic.config.write_queue_nums));
        assert_eq!(names, [Some(4), Some(4)]);
        found[usize::from(topics.find("New").is_some())] += 1;
        topics.put(TopicConfig::new("Later", 1, 6), 3).unwrap();
        assert!(load(&disk).find("Later").is_some(), "what a crash leaves can be written again");
    }
    assert!(found.iter().all(|count| *count > 20), "old and new tables: {found:?}");
}

#[test]
fn a_crash_while_offsets_are_written_leaves_the_old_or_the_new_offsets() {
    use crate::offsets::Offsets;
    let load = |disk: &FakeDisk| Offsets::load(&fake_files(disk)).unwrap();
    let commit = |disk: &FakeDisk, offset| {
        let offsets = load(disk);
        offsets.commit("g", "T", 0, offset);
        offsets.save(1, || true)
    };
    let disk = FakeDisk::new(64);
    commit(&disk, 5).unwrap();
    commit(&disk, 7).unwrap();
    let mut found = [0; 2];
    for disk in crashes(&disk, |disk| drop(commit(disk, 9))) {
        match load(&disk).committed("g", "T", 0) {
            Some(7) => found[0] += 1,
            Some(9) => found[1] += 1,
            other => panic!("{other:?} is neither the old nor the new offset"),
        }
        commit(&disk, 11).unwrap();
        assert_eq!(load(&disk).committed("g", "T", 0), Some(11));
    }
    assert!(found.iter().all(|count| *count > 20), "old and new offsets: {found:?}");
}

/// Linux reports a failed write-back to the descriptors that were open at the time, and may not report it to later ones.
#[test]
fn the_new_file_is_flushed_by_the_handle_that_was_open_while_it_was_written() {
    let disk = FakeDisk::new(64);
    let file = fake_files(&disk).file("t.json");
    let written = file.write_pieces(
        |file| [b"one ", b"more"].iter().try_for_each(|piece| io::Write::write_all(file, *piece)),
        || {
            disk.faults(|faults| faults.no_descriptors = true);
            true
        },
    );
    assert!(written.unwrap());
    disk.faults(|faults| faults.no_descriptors = false);
    assert_eq!(fake_files(&disk.power_cut(1)).file("t.json").read_text().unwrap(), "one more");
}

#[test]
fn a_failed_write_or_flush_of_offsets_leaves_the_old_ones_and_is_tried_again() {
    use crate::offsets::Offsets;
    for fail in [
        |faults: &mut Faults| faults.writes_left = Some(0),
        |faults: &mut Faults| faults.syncs_left = Some(0),
    ] {
        let disk = FakeDisk::new(64);
        let offsets = Offsets::load(&fake_files(&disk)).unwrap();
        offsets.commit("g", "T", 0, 7);
        offsets.save(1, || true).unwrap();
        offsets.commit("g", "T", 0, 9);
        disk.faults(fail);
        offsets.save(2, || true).unwrap_err();
        let again = Offsets::load(&fake_files(&disk.power_cut(1))).unwrap();
        assert_eq!(again.committed("g", "T", 0), Some(7));
        disk.faults(|faults| (faults.writes_left, faults.syncs_left) = (None, None));
        offsets.save(3, || true).unwrap();
        let again = Offsets::load(&fake_files(&disk.power_cut(1))).unwrap();
        assert_eq!(again.committed("g", "T", 0), Some(9));
    }
}
