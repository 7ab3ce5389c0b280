//! Families of series: as Prometheus' text format, version 0.0.4, with sorted labels; or as data points to be exported.

use std::fmt::Write;

use super::catalogue::{Kind, Metric};
use super::otlp::{self, Points};

/// Content type of the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Label of the one series that stands for those beyond the limit, as OpenTelemetry names it.
const OVERFLOW: &str = "otel_metric_overflow";

/// Whether figures become lines for Prometheus, or points for an export.
enum Form {
    Text,
    Points(Points),
}

/// A text, or data points, that are being written.
pub(super) struct Exposition {
    text: String,
    form: Form,
    /// Labels of every series.
    common: Vec<(String, String)>,
    /// Most series of one metric.
    series_max: usize,
}

/// One metric of a text. What exceeds the limit of series is written by [`Family::end`].
pub(super) struct Family<'e> {
    exposition: &'e mut Exposition,
    metric: &'static Metric,
    /// The labels of each series in the order of their names.
    order: Vec<Label>,
    /// Of a histogram the ends of its ranges, as they are written.
    ends: Vec<String>,
    series: usize,
    overflow: Option<Overflow>,
}

/// A label of a series, by its place.
#[derive(Clone, Copy)]
enum Label {
    /// One that every series has.
    Common(usize),
    /// One of the metric's own.
    Own(usize),
}

/// The sum of the series beyond the limit.
#[derive(Default)]
struct Overflow {
    value: f64,
    counts: Vec<u64>,
}

impl Exposition {
    pub(super) fn new(common: Vec<(String, String)>, series_max: usize) -> Self {
        Self { text: String::with_capacity(16 << 10), form: Form::Text, common, series_max }
    }

    /// Data points instead of a text.
    pub(super) fn points(common: Vec<(String, String)>, series_max: usize, points: Points) -> Self {
        Self { text: String::new(), form: Form::Points(points), common, series_max }
    }

    /// Begins a metric. Its two lines of comment are written with its first series.
    pub(super) fn family(&mut self, metric: &'static Metric) -> Family<'_> {
        let order = sorted(&self.common, metric.labels);
        Family { exposition: self, metric, order, ends: Vec::new(), series: 0, overflow: None }
    }

    /// Writes a metric of one series without labels of its own.
    pub(super) fn single(&mut self, metric: &'static Metric, value: f64) {
        self.family(metric).value(&[], value);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// The metrics, when data points were asked for.
    pub(super) fn into_metrics(self) -> Vec<otlp::Metric> {
        match self.form {
            Form::Points(points) => points.metrics,
            Form::Text => Vec::new(),
        }
    }
}

/// Labels of a series, in the order of their names. A label of the metric's own wins over one of the settings with the same name.
fn sorted(common: &[(String, String)], own: &[&str]) -> Vec<Label> {
    let kept = (0..common.len()).filter(|index| !own.contains(&common[*index].0.as_str()));
    let mut order: Vec<_> = (0..own.len()).map(Label::Own).chain(kept.map(Label::Common)).collect();
    order.sort_by_key(|label| match label {
        Label::Common(index) => common[*index].0.as_str(),
        Label::Own(index) => own[*index],
    });
    order
}

/// The labels of one series: names and values.
#[derive(Clone, Copy)]
struct Labels<'a> {
    common: &'a [(String, String)],
    own: &'a [&'a str],
    values: &'a [&'a str],
    order: &'a [Label],
}

impl<'a> Labels<'a> {
    fn pairs(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.order.iter().map(move |label| match label {
            Label::Common(index) => (self.common[*index].0.as_str(), self.common[*index].1.as_str()),
            Label::Own(index) => (self.own[*index], self.values[*index]),
        })
    }
}

/// Appends labels with commas between them.
fn write_labels<'a>(text: &mut String, labels: impl Iterator<Item = (&'a str, &'a str)>) {
    for (index, (name, value)) in labels.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        escape(text, value, true);
        text.push('"');
    }
}

impl Family<'_> {
    /// Writes a series of a counter or gauge, with the values of the metric's labels.
    pub(super) fn value(&mut self, values: &[&str], value: f64) {
        assert_ne!(self.metric.kind, Kind::Histogram, "{} is a histogram", self.metric.name);
        match self.admit(values) {
            true => self.number(self.metric.labels, values, value),
            false => self.overflow.get_or_insert_default().value += value,
        }
    }

    /// Writes a series of a histogram: the counts of the ranges that end at `bounds`, and of the range above them; and the sum of
    /// what was counted.
    pub(super) fn histogram(&mut self, values: &[&str], bounds: &[u64], counts: &[u64], sum: f64) {
        assert_eq!(self.metric.kind, Kind::Histogram, "{} is no histogram", self.metric.name);
        assert_eq!(counts.len(), bounds.len() + 1, "a range for each bound, and one above");
        if self.admit(values) {
            return self.buckets(self.metric.labels, values, bounds, counts, sum);
        }
        let overflow = self.overflow.get_or_insert_default();
        overflow.counts.resize(counts.len(), 0);
        overflow.counts.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        overflow.value += sum;
    }

    /// Writes the one series that stands for those of a counter or gauge beyond the limit.
    pub(super) fn end(mut self) {
        if let Some(overflow) = self.overflow.take() {
            self.order = sorted(&self.exposition.common, &[OVERFLOW]);
            self.number(&[OVERFLOW], &["true"], overflow.value);
        }
    }

    /// As [`Family::end`], for a histogram with these bounds.
    pub(super) fn end_histogram(mut self, bounds: &[u64]) {
        if let Some(Overflow { value, counts }) = self.overflow.take() {
            self.order = sorted(&self.exposition.common, &[OVERFLOW]);
            self.buckets(&[OVERFLOW], &["true"], bounds, &counts, value);
        }
    }

    /// Counts a series; false when it is beyond the limit.
    fn admit(&mut self, values: &[&str]) -> bool {
        assert_eq!(values.len(), self.metric.labels.len(), "a value for each label of {}", self.metric.name);
        if self.series >= self.exposition.series_max {
            return false;
        }
        if self.series == 0
            && let Form::Points(points) = &mut self.exposition.form
        {
            points.begin(self.metric);
        } else if self.series == 0 {
            let text = &mut self.exposition.text;
            let _ = write!(text, "# HELP {} ", self.metric.name);
            escape(text, self.metric.doc, false);
            let _ = write!(text, "\n# TYPE {} {}\n", self.metric.name, self.metric.kind.word());
        }
        self.series += 1;
        true
    }

    fn number(&mut self, own: &[&str], values: &[&str], value: f64) {
        let Exposition { text, form, common, .. } = &mut *self.exposition;
        let labels = Labels { common, own, values, order: &self.order };
        if let Form::Points(points) = form {
            return points.number(&labels.pairs().collect::<Vec<_>>(), value);
        }
        text.push_str(self.metric.name);
        if !self.order.is_empty() {
            text.push('{');
            write_labels(text, labels.pairs());
            text.push('}');
        }
        text.push(' ');
        write_number(text, value);
        text.push('\n');
    }

    fn buckets(&mut self, own: &[&str], values: &[&str], bounds: &[u64], counts: &[u64], sum: f64) {
        let Exposition { text, form, common, .. } = &mut *self.exposition;
        let labels = Labels { common, own, values, order: &self.order };
        if let Form::Points(points) = form {
            return points.histogram(&labels.pairs().collect::<Vec<_>>(), bounds, counts, sum);
        }
        if self.ends.is_empty() {
            let ends = bounds.iter().map(|bound| number(*bound as f64)).chain(["+Inf".to_owned()]);
            self.ends = ends.map(|end| format!("le=\"{end}\"")).collect();
        }
        let name = self.metric.name;
        let split = labels.pairs().take_while(|(name, _)| *name < "le").count();
        let (mut before, mut after) = (String::new(), String::new());
        write_labels(&mut before, labels.pairs().take(split));
        write_labels(&mut after, labels.pairs().skip(split));
        let mut line = |suffix: &str, end: &str, value: std::fmt::Arguments<'_>| {
            text.push_str(name);
            text.push_str(suffix);
            let mut separator = '{';
            for labels in [&before, end, &after].into_iter().filter(|labels| !labels.is_empty()) {
                text.push(separator);
                text.push_str(labels);
                separator = ',';
            }
            text.push_str(if separator == ',' { "} " } else { " " });
            let _ = text.write_fmt(value);
            text.push('\n');
        };
        let mut below = 0;
        for (end, count) in self.ends.iter().zip(counts) {
            below += count;
            line("_bucket", end, format_args!("{below}"));
        }
        line("_count", "", format_args!("{below}"));
        line("_sum", "", format_args!("{}", number(sum)));
    }
}

/// A number as Java's exporter writes it: always with a decimal point.
pub(super) fn number(value: f64) -> String {
    let mut text = String::new();
    write_number(&mut text, value);
    text
}

/// Whole numbers below this size are written as such, which is quicker than to look for the shortest fraction.
const WHOLE_MAX: f64 = 1e15;

fn write_number(text: &mut String, value: f64) {
    let _ = match value {
        value if value.is_nan() => text.write_str("NaN"),
        value if value.is_infinite() => text.write_str(if value > 0.0 { "+Inf" } else { "-Inf" }),
        value if value.fract() == 0.0 && value > 0.0 && value < WHOLE_MAX => {
            write!(text, "{}.0", value as u64)
        }
        value => write!(text, "{value:?}"),
    };
}

/// Appends a text with what the format gives a meaning escaped: backslashes and ends of lines, and quotation marks in values of
/// labels.
fn escape(text: &mut String, value: &str, is_label: bool) {
    // By bytes, which is several times as quick as by letters.
    if !value.bytes().any(|byte| matches!(byte, b'\\' | b'\n' | b'"')) {
        return text.push_str(value);
    }
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if is_label => text.push_str("\\\""),
            letter => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: Metric =
        Metric { name: "c_total", kind: Kind::Counter, labels: &["topic", "a"], doc: "a \"line\"\nand \\" };
    const HISTOGRAM: Metric = Metric { name: "h", kind: Kind::Histogram, labels: &["topic"], doc: "sizes" };
    const PLAIN: Metric = Metric { name: "g", kind: Kind::Gauge, labels: &[], doc: "plain" };

    fn exposition(common: &[(&str, &str)], series_max: usize) -> Exposition {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Exposition::new(common.iter().map(own).collect(), series_max)
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
}
