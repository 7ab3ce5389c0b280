use super::*;

#[test]
fn every_limit_is_a_figure() {
    let place = tempfile::tempdir().unwrap();
    let found = measure(place.path(), 4 << 20, Duration::from_millis(100)).unwrap();
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
    assert!(figures.iter().all(|figure| figure.is_finite() && *figure > 0.0), "{found:?}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "the file is gone");
}
