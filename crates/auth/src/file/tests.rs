use super::*;

/// Reads a file without a bound.
fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    super::read(path, u64::MAX)
}

#[test]
fn a_write_replaces_the_file_and_keeps_the_content_before() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config").join("users.json");
    assert_eq!(read(&path).unwrap(), None);
    write(&path, b"one").unwrap();
    assert!(!copy_of(&path).exists());
    write(&path, b"two").unwrap();
    write(&path, b"three").unwrap();
    assert_eq!(read(&path).unwrap().as_deref(), Some(&b"three"[..]));
    assert_eq!(read(&copy_of(&path)).unwrap().as_deref(), Some(&b"two"[..]));
}

#[test]
fn what_a_crash_left_does_not_matter() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("users.json");
    write(&path, b"one").unwrap();
    fs::write(beside(&path, ".tmp"), b"hal").unwrap();
    assert_eq!(read(&path).unwrap().as_deref(), Some(&b"one"[..]));
    write(&path, b"two").unwrap();
    assert_eq!(read(&path).unwrap().as_deref(), Some(&b"two"[..]));
}

#[test]
fn a_failed_write_names_the_file_and_leaves_the_content() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("users.json");
    write(&path, b"one").unwrap();
    fs::create_dir(beside(&path, ".tmp")).unwrap();
    let error = write(&path, b"two").unwrap_err().to_string();
    assert!(error.contains("users.json.tmp"), "{error}");
    assert_eq!(read(&path).unwrap().as_deref(), Some(&b"one"[..]));
}
