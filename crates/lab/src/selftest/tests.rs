use super::*;

/// Measures until the figures are as wanted: a thread that rests for the whole time of a part leaves that part without a figure.
fn measured(place: &Path, is_wanted: impl Fn(&Roofline) -> bool) -> Roofline {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let found = measure(place, 4 << 20, Duration::from_millis(100)).unwrap();
        if is_wanted(&found) {
            return found;
        }
        assert!(Instant::now() < end, "{found:?}");
    }
}

#[test]
fn every_limit_is_a_figure() {
    let place = tempfile::tempdir().unwrap();
    let found = measured(place.path(), |found| {
        let figures = [
            found.disk_write_bytes,
            found.disk_read_bytes,
            found.disk_flushes,
            found.disk_write_await_ms,
            found.net_bytes,
            found.net_round_trips,
            found.lab_messages,
            found.cpu_crc_bytes,
        ];
        figures.iter().all(|figure| figure.is_finite() && *figure > 0.0)
    });
    // A file system without direct I/O has no figure.
    assert!(found.disk_random_writes.is_finite() && found.disk_random_writes >= 0.0, "{found:?}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "the file is gone");
}

#[test]
fn a_machine_without_the_disk_that_matters_has_its_other_limits() {
    let found = measured(Path::new(""), |found| found.net_bytes > 0.0 && found.lab_messages > 0.0);
    let disk = [
        found.disk_write_bytes,
        found.disk_read_bytes,
        found.disk_flushes,
        found.disk_write_await_ms,
        found.disk_random_writes,
    ];
    assert_eq!(disk, [0.0; 5]);
}

#[test]
fn what_a_kill_leaves_behind_is_no_file_in_the_directory_of_a_log() {
    let place = tempfile::tempdir().unwrap();
    let (_file, _direct) = disk::nameless(&place.path().join("measured")).unwrap();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "while it is measured");
}
