use super::*;

fn factors(threads: u32) -> Factors {
    Factors { threads, size: 1024, queues: 8, ..Factors::default() }
}

#[test]
fn a_run_is_read_as_it_was_written() {
    let place = tempfile::tempdir().unwrap();
    let run = RunFile { id: "r".to_owned(), cells: vec![factors(1), factors(10)], ..RunFile::default() };
    let archive = Archive::create(place.path(), &run).unwrap();
    assert!(Archive::create(place.path(), &run).is_err(), "a run is not written over");
    assert_eq!(Archive::open(place.path()).unwrap().run().unwrap(), run);
    assert!(archive.cells().unwrap().is_empty());
    let second = archive.cell(2, &run.cells[1]);
    assert_eq!(second.name(), "002-w10-s1024-q8");
    let cell = Cell { number: 2, factors: factors(10), ..Cell::default() };
    second.save_partial(&cell).unwrap();
    assert!(!second.is_finished());
    second.finish(&cell).unwrap();
    assert_eq!(archive.cells().unwrap()[0].0, cell);
}

#[test]
fn a_run_is_found_by_its_directory_and_by_a_file_in_it() {
    let place = tempfile::tempdir().unwrap();
    let error = Archive::open(place.path()).unwrap_err().to_string();
    assert!(error.contains("expected the directory of a run (what --out named)"), "{error}");
    Archive::create(place.path(), &RunFile::default()).unwrap();
    let file = place.path().join("run.json");
    for named in [place.path(), &file] {
        assert_eq!(run_directory(named.to_str().unwrap()).unwrap(), place.path());
    }
    // The tests run in the directory of the crate.
    assert_eq!(run_directory("Cargo.toml").unwrap().to_str(), Some("."));
    assert_eq!(run_directory("nowhere/run.json").unwrap().to_str(), Some("nowhere/run.json"));
}

#[test]
fn a_row_cut_by_a_kill_is_left_out() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rows.csv");
    let mut rows = Rows::create(&path, |row: &LoadSecond| row.at_ms).unwrap();
    let row = |sent| LoadSecond { at_ms: 1000 * sent, sent, mean_us: 1.5, ..LoadSecond::default() };
    rows.append(&row(1)).unwrap();
    rows.append(&row(2)).unwrap();
    assert_eq!(read_rows::<LoadSecond>(&path).unwrap(), [row(1), row(2)]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    assert_eq!(read_rows::<LoadSecond>(&path).unwrap(), [row(1)]);
    assert!(read_rows::<LoadSecond>(&place.path().join("absent")).unwrap().is_empty());
}

#[test]
fn a_row_tells_its_moment_and_its_length() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("load.csv");
    let row = LoadSecond { at_ms: 1_709_251_199_042, lasted_ms: 1_500, sent: 30, ..LoadSecond::default() };
    Rows::create(&path, |row: &LoadSecond| row.at_ms).unwrap().append(&row).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("at,at_ms,lasted_ms,sent,"), "{text}");
    assert!(text.contains("\n2024-02-29T23:59:59.042Z,1709251199042,1500,30,"), "{text}");
    assert_eq!(row.sent_rate(), 20.0);
    let events = place.path().join("events.csv");
    let event = Event { at_ms: 1_709_251_199_042, kind: "roll".to_owned(), ..Event::default() };
    Rows::create(&events, |row: &Event| row.at_ms).unwrap().append(&event).unwrap();
    assert_eq!(read_rows::<Event>(&events).unwrap(), [event]);
}

#[test]
fn what_is_a_rate_is_called_so() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("host.csv");
    let row = HostSecond { at_ms: 1, lasted_ms: 1_001, disk_read: 7, net_out: 9, ..HostSecond::default() };
    Rows::create(&path, |row: &HostSecond| row.at_ms).unwrap().append(&row).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("disk_read_bytes_per_s") && text.contains("net_out_bytes_per_s"), "{text}");
    assert_eq!(read_rows::<HostSecond>(&path).unwrap(), [row]);
}

#[test]
fn rows_of_older_labs_are_read() {
    let place = tempfile::tempdir().unwrap();
    let read = |header: &str, row: &str| {
        let path = place.path().join("rows.csv");
        std::fs::write(&path, format!("{header}\n{row}\n")).unwrap();
        path
    };
    let load = read_rows::<LoadSecond>(&read("at_ms,sent,mean_us", "1000,5480,182.5")).unwrap();
    assert_eq!((load[0].lasted_ms, load[0].sent_rate()), (0, 5_480.0), "their counts are rates");
    let host = read_rows::<HostSecond>(&read("at_ms,disk_read,net_in", "1000,7,9")).unwrap();
    assert_eq!((host[0].disk_read, host[0].net_in), (7, 9));
}

#[test]
fn histograms_keep_times_and_counts() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("latency.hlog");
    let mut log = Histograms::create(&path).unwrap();
    for second in 1..=3_u64 {
        let mut histogram = empty_histogram();
        (1..=second).for_each(|value| histogram.saturating_record(value * 1000));
        log.append(1_700_000_000_123 + second * 1000, 1000, &histogram).unwrap();
    }
    let read = read_histograms(&path).unwrap();
    let times: Vec<_> = read.iter().map(|interval| interval.at_ms).collect();
    assert_eq!(times, [1_700_000_001_123, 1_700_000_002_123, 1_700_000_003_123]);
    let mut third = hdrhistogram::Histogram::new(3).unwrap();
    read[2].latencies.add_to(&mut third);
    assert_eq!(third.len(), 3);
    assert!(third.max().abs_diff(3000) <= 3);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    assert_eq!(read_histograms(&path).unwrap().len(), 2);
}

#[test]
fn a_second_is_kept_without_its_empty_places() {
    let mut whole = empty_histogram();
    [(150, 9_000), (151, 900), (2_345, 99), (59_999_999, 1)]
        .iter()
        .for_each(|(micros, count)| whole.saturating_record_n(*micros, *count));
    let mut again = hdrhistogram::Histogram::new(3).unwrap();
    Sparse::from(&whole).add_to(&mut again);
    assert_eq!((again.len(), again.min(), again.max()), (whole.len(), whole.min(), whole.max()));
    assert!((again.mean() - whole.mean()).abs() < 1e-9);
    for share in [0.5, 0.9, 0.99, 0.9999, 1.0] {
        assert_eq!(again.value_at_quantile(share), whole.value_at_quantile(share), "{share}");
    }
    // A report on eight hours holds a sparse histogram in memory for every second.
    let sparse = Sparse::from(&whole);
    assert_eq!(format!("{sparse:?}").matches("), (").count() + 1, 4, "four places: {sparse:?}");
    assert_eq!((sparse.len(), sparse.is_empty(), Sparse::default().is_empty()), (10_000, false, true));
}

#[test]
fn correction_shows_the_pause_a_closed_loop_hides() {
    let mut seen = empty_histogram();
    // One sender at 1,000 messages per second for 20 s, stopped once for 500 ms.
    seen.saturating_record_n(1000, 19_500);
    seen.saturating_record(500_000);
    assert!(seen.value_at_quantile(0.999) < 1100);
    let shown = corrected(&seen, 1, 1000.0);
    assert!(shown.value_at_quantile(0.999).abs_diff(480_000) < 5000, "{}", shown.value_at_quantile(0.999));
}

#[test]
fn a_whole_run_is_read_with_its_series() {
    let place = tempfile::tempdir().unwrap();
    let run = RunFile { cells: vec![factors(1), factors(2)], repeats: 2, ..RunFile::default() };
    let archive = Archive::create(place.path(), &run).unwrap();
    let directory = archive.cell(1, &run.cells[0]);
    for number in 1..=2 {
        let repeat = directory.repeat(number);
        repeat.begin().unwrap();
        repeat
            .write_load()
            .unwrap()
            .append(&LoadSecond { sent: number.into(), ..LoadSecond::default() })
            .unwrap();
        repeat.write_host("a/b").unwrap().append(&HostSecond::default()).unwrap();
        repeat.write_histograms(SEND_LATENCY).unwrap().append(5000, 1000, &empty_histogram()).unwrap();
    }
    directory.finish(&Cell { number: 1, factors: factors(1), repeats: 2, ..Cell::default() }).unwrap();
    let second = archive.cell(2, &run.cells[1]);
    second.save_partial(&Cell { number: 2, factors: factors(2), ..Cell::default() }).unwrap();
    let record = archive.record().unwrap();
    assert_eq!((record.cells.len(), record.cells[0].repeats.len()), (1, 2), "cells that hold anything");
    let second = &record.cells[0].repeats[1];
    assert_eq!((second.load[0].sent, second.hosts["a_b"].len(), second.latency[0].0), (2, 1, 5000));
    assert!(second.events.is_empty() && second.brokers.is_empty());
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_one_before_it_whole() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("report.html");
    write_whole(&path, "before").unwrap();
    // Simulates a full disk: the temporary file is a link to /dev/full.
    std::os::unix::fs::symlink("/dev/full", place.path().join("report.html.new")).unwrap();
    let error = write_whole(&path, "after").unwrap_err().to_string();
    assert!(error.contains("report.html: No space left"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
    write_whole(&path, "after").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "after");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left beside it");
    write_whole(std::path::Path::new("/dev/null"), "what is no file").unwrap();
}

#[test]
fn a_cell_that_an_older_lab_named_is_found() {
    let place = tempfile::tempdir().unwrap();
    let packed = Factors { compression: "zlib".to_owned(), payload: "repeat:128".to_owned(), ..factors(8) };
    let run = RunFile { cells: vec![packed.clone()], ..RunFile::default() };
    let archive = Archive::create(place.path(), &run).unwrap();
    assert_eq!(archive.cell(1, &packed).name(), "001-w8-s1024-q8-zlib-repeat128");
    std::fs::create_dir(place.path().join("cells/001-w8-s1024-q8")).unwrap();
    assert_eq!(archive.cell(1, &packed).name(), "001-w8-s1024-q8");
}

#[test]
fn one_word_is_used_for_one_way_to_flush_and_to_replicate() {
    let broker = |role: &str, id| BrokerFile {
        id,
        settings: [(FLUSH.to_owned(), "ASYNC_FLUSH".to_owned()), ("brokerRole".to_owned(), role.to_owned())]
            .into(),
        ..BrokerFile::default()
    };
    let target = Target { brokers: vec![broker("SYNC_MASTER", 0), broker("SLAVE", 1)], ..Target::default() };
    let run = RunFile { target, ..RunFile::default() };
    let told = factors(1);
    assert_eq!((run.flush(&told), run.replication(&told)), ("async", "sync"));
    let cell = Factors { flush: "sync".to_owned(), replication: "none".to_owned(), ..factors(1) };
    assert_eq!((run.flush(&cell), run.replication(&cell)), ("sync", "none"));
    assert_eq!((RunFile::default().flush(&told), RunFile::default().replication(&told)), ("", ""));
}
