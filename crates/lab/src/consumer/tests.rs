//! Tests of the lines and flags of the consumer.

use super::*;
use crate::arguments::LineFormat;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: ConsumerFlags,
}

fn flags(line: &str) -> ConsumerFlags {
    Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags
}

#[test]
fn the_first_line_is_that_of_the_script() {
    let flags = flags("-t T");
    assert_eq!(
        opening(&flags, &group(&flags, 0), None),
        "topic: T, threadCount 20, group: benchmark_consumer, suffix: false, filterType: null, expression: null, \
         msgTraceEnable: false, aclEnable: false, reportInterval: 10000"
    );
}

#[test]
fn a_suffix_is_appended_to_the_group() {
    assert_eq!(group(&flags("-g g -p true"), 1_234_507), "g_7");
}

#[test]
fn filters_are_read_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tags");
    std::fs::write(&file, "a || b\n").unwrap();
    let line = format!("-f TAG -e {}", file.display());
    assert_eq!(expression(&flags(&line)).unwrap(), Some(Expression::Tags("a || b".to_owned())));
    let sql = line.replace("TAG", "SQL92");
    assert_eq!(expression(&flags(&sql)).unwrap(), Some(Expression::Sql("a || b".to_owned())));
    assert_eq!(expression(&flags("")).unwrap(), None);
    for (line, says) in [
        ("-f TAG", "-f: needs -e"),
        ("-f SQL92", "-f: needs -e"),
        ("-f what", "-f: expected TAG or SQL92, found \"what\""),
        ("-e a>1", "-e: needs -f TAG or -f SQL92"),
        ("-f SQL92 -e a>1", "-e: expected a file that holds the expression, found \"a>1\""),
    ] {
        let error = expression(&flags(line)).unwrap_err().to_string();
        assert!(error.starts_with(says), "{line}: {error}");
    }
}

#[test]
fn failures_are_spread_evenly() {
    let count = |rate: f64| {
        let fails = Fails::new(rate);
        (0..100).filter(|_| fails.next()).count()
    };
    assert_eq!((count(0.0), count(0.1), count(1.0), count(7.0)), (0, 10, 100, 100));
}

#[test]
fn the_periodic_line_is_that_of_the_script() {
    let figures = Figures::default();
    let mut window = Window::default();
    for second in 0..10 {
        window.push(figures.sample(second * 1000));
        figures.received(4, 2);
        figures.received(6, 1);
    }
    figures.failed();
    assert_eq!(
        window.line((0, LineFormat::V5), &figures).unwrap(),
        "Current Time: 1970-01-01 00:00:00,000 | Consume TPS: 2 | AVG(B2C) RT(ms):   5.000 | \
         AVG(S2C) RT(ms):   1.500 | MAX(B2C) RT(ms): 6 | MAX(S2C) RT(ms): 2 | Consume Fail: 0"
    );
    assert_eq!(
        window.line((0, LineFormat::V4), &figures).unwrap(),
        "Current Time: 1970-01-01 00:00:00,000 TPS: 2 FAIL: 0 AVG(B2C) RT(ms):   5.000 \
         AVG(S2C) RT(ms):   1.500 MAX(B2C) RT(ms): 0 MAX(S2C) RT(ms): 0",
        "maxima are per line"
    );
}
