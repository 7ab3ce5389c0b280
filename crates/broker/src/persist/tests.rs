use std::collections::BTreeMap;

use super::*;

type Table = BTreeMap<String, BTreeMap<i32, i64>>;

fn table(offset: i64) -> Table {
    BTreeMap::from([("T@g".to_owned(), BTreeMap::from([(0, offset)]))])
}

fn write(path: &Path, table: &Table) -> Result<(), Error> {
    super::write(path, &json::to_vec_as(table, json::Dialect::Standard))
}

/// What is read from a folder holding the given files; `Err` with the error's text.
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
    check(&[("t.json.bak", old), ("t.json.tmp", new)], Ok(Some(table(1))));
    check(&[("t.json.bak", old), ("t.json", new)], Ok(Some(table(2))));
}

#[test]
fn missing_and_empty_files_fall_back_to_the_copy() {
    check(&[], Ok(None));
    check(&[("t.json", " \n")], Ok(None));
    check(&[("t.json.bak", r#"{"T@g":{0:7}}"#)], Ok(Some(table(7))));
    check(&[("t.json", ""), ("t.json.bak", r#"{"T@g":{0:7}}"#)], Ok(Some(table(7))));
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
