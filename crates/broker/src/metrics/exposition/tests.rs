use super::*;

const COUNTER: Metric =
    Metric { name: "c_total", kind: Kind::Counter, labels: &["topic", "a"], doc: "a \"line\"\nand \\" };
const HISTOGRAM: Metric = Metric { name: "h", kind: Kind::Histogram, labels: &["topic"], doc: "sizes" };
const PLAIN: Metric = Metric { name: "g", kind: Kind::Gauge, labels: &[], doc: "plain" };

fn exposition(common: &[(&str, &str)], series_max: usize) -> Exposition {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Exposition::new(common.iter().map(own).collect(), series_max, None)
}

#[test]
fn labels_are_sorted_and_escaped() {
    let mut text = exposition(&[("node_id", "n"), ("b", "1"), ("topic", "of the settings")], 10);
    text.family(&COUNTER).value(&["T\"\\\n", "x"], 5.0);
    assert_eq!(
        text.finish(),
        "# HELP c_total a \"line\"\\nand \\\\\n# TYPE c_total counter\n\
         c_total{a=\"x\",b=\"1\",node_id=\"n\",topic=\"T\\\"\\\\\\n\"} 5.0\n"
    );
}

#[test]
fn histograms_are_cumulative() {
    let mut text = exposition(&[], 10);
    text.family(&HISTOGRAM).histogram(&["T"], &[10, 20], &[1, 2, 3], 100.0);
    assert_eq!(
        text.finish(),
        "# HELP h sizes\n# TYPE h histogram\n\
         h_bucket{le=\"10.0\",topic=\"T\"} 1\nh_bucket{le=\"20.0\",topic=\"T\"} 3\n\
         h_bucket{le=\"+Inf\",topic=\"T\"} 6\nh_count{topic=\"T\"} 6\nh_sum{topic=\"T\"} 100.0\n"
    );
}

#[test]
fn a_long_text_is_handed_on_in_parts() {
    let write = |text: &mut Exposition| {
        let mut family = text.family(&COUNTER);
        (0..100).for_each(|topic| family.value(&[&topic.to_string(), "x"], 10.0));
        family.end();
        (0..50).for_each(|_| text.family(&HISTOGRAM).histogram(&["T"], &[10], &[1, 2], 30.0));
    };
    let mut whole = exposition(&[], 100);
    write(&mut whole);
    let (sender, mut parts) = tokio::sync::mpsc::unbounded_channel();
    let mut text = Exposition::new(Vec::new(), 100, Some(sender));
    write(&mut text);
    let mut found = Vec::new();
    while let Ok(part) = parts.try_recv() {
        found.push(part);
    }
    assert!(found.len() > 5 && found.iter().all(|part| part.len() >= PART_BYTES), "{}", found.len());
    assert!(found.iter().all(|part| part.ends_with('\n')));
    assert_eq!(found.concat() + &text.finish(), whole.finish());
}

#[test]
fn numbers_have_a_decimal_point() {
    let check = |value: f64, expected: &str| assert_eq!(number(value), expected);
    check(0.0, "0.0");
    check(3.0, "3.0");
    check(-3.0, "-3.0");
    check(0.25, "0.25");
    check(999_999_999_999_999.0, "999999999999999.0");
    check(1e15, "1000000000000000.0");
    check(1e16, "1e16");
    check(f64::INFINITY, "+Inf");
    check(f64::NAN, "NaN");
}

#[test]
fn what_has_no_labels_has_no_braces() {
    let mut text = exposition(&[], 10);
    text.single(&PLAIN, 0.5);
    assert!(text.finish().ends_with("\ng 0.5\n"));
}

#[test]
fn a_metric_without_series_is_not_named() {
    let mut text = exposition(&[], 10);
    text.family(&COUNTER).end();
    assert_eq!(text.finish(), "");
}

#[test]
fn series_beyond_the_limit_are_summed_up() {
    let mut text = exposition(&[], 2);
    let mut family = text.family(&COUNTER);
    (0..5).for_each(|topic| family.value(&[&topic.to_string(), "x"], 10.0));
    family.end();
    let mut family = text.family(&HISTOGRAM);
    (0..4).for_each(|topic| family.histogram(&[&topic.to_string()], &[10], &[1, 2], 30.0));
    family.end_histogram(&[10]);
    let text = text.finish();
    let of = |name: &str| text.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
    assert_eq!(
        of("c_total"),
        [
            "c_total{a=\"x\",topic=\"0\"} 10.0",
            "c_total{a=\"x\",topic=\"1\"} 10.0",
            "c_total{otel_metric_overflow=\"true\"} 30.0"
        ]
    );
    assert_eq!(of("h_count").last(), Some(&"h_count{otel_metric_overflow=\"true\"} 6"));
    assert_eq!(of("h_sum").last(), Some(&"h_sum{otel_metric_overflow=\"true\"} 60.0"));
}
