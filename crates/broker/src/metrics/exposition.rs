//! Families of series: as Prometheus' text format, version 0.0.4, with sorted labels; or as data points to be exported.

use std::fmt::Write;

use tokio::sync::mpsc::UnboundedSender;

use super::catalogue::{Kind, Metric};
use super::otlp::{self, Points};

/// Content type of the text.
pub(super) const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Label of the series that sums up series beyond the limit, with OpenTelemetry's name.
const OVERFLOW: &str = "otel_metric_overflow";

/// Whether figures become lines for Prometheus, or points for an export.
enum Form {
    Text,
    Points(Points),
}

/// Bytes of text after which a finished part of it is sent.
const PART_BYTES: usize = if cfg!(test) { 1 << 10 } else { 64 << 10 };

/// A text, or data points, that are being written.
pub(super) struct Exposition {
    text: String,
    /// Receiver of finished parts of the text, so that they are sent while later parts are made.
    parts: Option<UnboundedSender<String>>,
    form: Form,
    /// Labels of every series.
    common: Vec<(String, String)>,
    /// Most series of a metric.
    series_max: usize,
}

/// Metric of a text. [`Family::end`] writes the sum of series beyond the limit.
pub(super) struct Family<'e> {
    exposition: &'e mut Exposition,
    metric: &'static Metric,
    labels: Labels,
    /// Upper bounds of a histogram's ranges, as text.
    ends: Vec<String>,
    series: usize,
    overflow: Option<Overflow>,
}

/// The sum of the series beyond the limit.
#[derive(Default)]
struct Overflow {
    value: f64,
    counts: Vec<u64>,
}

impl Exposition {
    /// A text; `parts` gets all of it but the last part.
    pub(super) fn new(
        common: Vec<(String, String)>,
        series_max: usize,
        parts: Option<UnboundedSender<String>>,
    ) -> Self {
        Self { text: String::new(), parts, form: Form::Text, common, series_max }
    }

    /// Data points instead of a text.
    pub(super) fn points(common: Vec<(String, String)>, series_max: usize, points: Points) -> Self {
        Self { text: String::new(), parts: None, form: Form::Points(points), common, series_max }
    }

    /// Begins a metric. Its two lines of comment are written with its first series.
    pub(super) fn family(&mut self, metric: &'static Metric) -> Family<'_> {
        let labels = Labels::new(&self.common, metric.labels);
        Family { exposition: self, metric, labels, ends: Vec::new(), series: 0, overflow: None }
    }

    /// Writes a metric with a single series and no labels of its own.
    pub(super) fn single(&mut self, metric: &'static Metric, value: f64) {
        self.family(metric).value(&[], value);
    }

    /// The text, or its last part.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Sends a part of the text if it is large enough.
    fn hand_on(&mut self) {
        if let Some(parts) = self.parts.as_ref().filter(|_| self.text.len() >= PART_BYTES) {
            let next = String::with_capacity(self.text.capacity());
            let _gone = parts.send(std::mem::replace(&mut self.text, next));
        }
    }

    /// Returns the metrics, if data points were requested.
    pub(super) fn into_metrics(self) -> Vec<otlp::Metric> {
        match self.form {
            Form::Points(points) => points.metrics,
            Form::Text => Vec::new(),
        }
    }
}

/// A label of a series.
#[derive(Clone, Copy)]
enum Label {
    /// A label that every series has, by its index.
    Common(usize),
    /// A label of this metric alone, by its index.
    Own(usize),
}

/// The labels of the series of a metric.
struct Labels {
    /// Names of the labels of this metric alone.
    own: &'static [&'static str],
    series: Template,
    /// Labels of a histogram's ranges. The last label is `le`.
    ranges: Template,
}

impl Labels {
    fn new(common: &[(String, String)], own: &'static [&'static str]) -> Self {
        let ranges = Template::new(common, &[own, &["le"]].concat());
        Self { own, series: Template::new(common, own), ranges }
    }

    /// Returns the names and values of a series.
    fn pairs<'a>(&'a self, common: &'a [(String, String)], values: &'a [&'a str]) -> Vec<(&'a str, &'a str)> {
        let pair = |label: &Label| match *label {
            Label::Common(index) => (common[index].0.as_str(), common[index].1.as_str()),
            Label::Own(index) => (self.own[index], values[index]),
        };
        self.series.order.iter().map(pair).collect()
    }
}

/// Labels in their text form, in the order of their names, with gaps for the values of a metric's own labels.
struct Template {
    order: Vec<Label>,
    /// Text before each gap, and the index of the gap's value.
    gaps: Vec<(String, usize)>,
    /// The text behind the last gap.
    end: String,
}

impl Template {
    /// Makes the template. A label of the metric itself replaces a label of the settings with that name.
    fn new(common: &[(String, String)], own: &[&str]) -> Self {
        let kept = (0..common.len()).filter(|index| !own.contains(&common[*index].0.as_str()));
        let mut order: Vec<_> = (0..own.len()).map(Label::Own).chain(kept.map(Label::Common)).collect();
        let name = |label: &Label| match *label {
            Label::Common(index) => common[index].0.as_str(),
            Label::Own(index) => own[index],
        };
        order.sort_by_key(name);
        let (mut gaps, mut end) = (Vec::new(), String::new());
        for (at, label) in order.iter().enumerate() {
            end.push(if at == 0 { '{' } else { ',' });
            end.push_str(name(label));
            end.push_str("=\"");
            match *label {
                Label::Common(index) => escape(&mut end, &common[index].1, true),
                Label::Own(index) => gaps.push((std::mem::take(&mut end), index)),
            }
            end.push('"');
        }
        if !order.is_empty() {
            end.push('}');
        }
        Self { order, gaps, end }
    }

    /// Appends the labels with these values. Returns the index in `text` of the gap without a value, which is the `le` of
    /// a histogram's range.
    fn write(&self, values: &[&str], text: &mut String) -> usize {
        let mut missing_at = text.len();
        for (before, index) in &self.gaps {
            text.push_str(before);
            match values.get(*index) {
                Some(value) => escape(text, value, true),
                None => missing_at = text.len(),
            }
        }
        text.push_str(&self.end);
        missing_at
    }
}

impl Family<'_> {
    /// Writes a series of a counter or gauge, with the values of the metric's labels.
    pub(super) fn value(&mut self, values: &[&str], value: f64) {
        assert_ne!(self.metric.kind, Kind::Histogram, "{} is a histogram", self.metric.name);
        match self.admit(values) {
            true => self.number(values, value),
            false => self.overflow.get_or_insert_default().value += value,
        }
    }

    /// Writes a series of a histogram: the counts of the ranges that end at `bounds`, the count of the range above
    /// them, and the sum of the counted values.
    pub(super) fn histogram(&mut self, values: &[&str], bounds: &[u64], counts: &[u64], sum: f64) {
        assert_eq!(self.metric.kind, Kind::Histogram, "{} is no histogram", self.metric.name);
        assert_eq!(counts.len(), bounds.len() + 1, "a range for each bound, and one above");
        if self.admit(values) {
            return self.buckets(values, bounds, counts, sum);
        }
        let overflow = self.overflow.get_or_insert_default();
        overflow.counts.resize(counts.len(), 0);
        overflow.counts.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        overflow.value += sum;
    }

    /// Writes the series that sums up the series of a counter or gauge beyond the limit.
    pub(super) fn end(mut self) {
        if let Some(overflow) = self.overflow.take() {
            self.labels = Labels::new(&self.exposition.common, &[OVERFLOW]);
            self.number(&["true"], overflow.value);
        }
    }

    /// Writes the sum of series beyond the limit for a histogram with these bounds, like [`Family::end`].
    pub(super) fn end_histogram(mut self, bounds: &[u64]) {
        if let Some(Overflow { value, counts }) = self.overflow.take() {
            self.labels = Labels::new(&self.exposition.common, &[OVERFLOW]);
            self.buckets(&["true"], bounds, &counts, value);
        }
    }

    /// Counts a series. Returns false if it is beyond the limit.
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

    fn number(&mut self, values: &[&str], value: f64) {
        let Exposition { text, form, common, .. } = &mut *self.exposition;
        if let Form::Points(points) = form {
            return points.number(&self.labels.pairs(common, values), value);
        }
        text.push_str(self.metric.name);
        self.labels.series.write(values, text);
        text.push(' ');
        write_number(text, value);
        text.push('\n');
        self.exposition.hand_on();
    }

    fn buckets(&mut self, values: &[&str], bounds: &[u64], counts: &[u64], sum: f64) {
        let Exposition { text, form, common, .. } = &mut *self.exposition;
        if let Form::Points(points) = form {
            return points.histogram(&self.labels.pairs(common, values), bounds, counts, sum);
        }
        if self.ends.is_empty() {
            let ends = bounds.iter().map(|bound| number(*bound as f64));
            self.ends = ends.chain(["+Inf".to_owned()]).collect();
        }
        // The series of a range up to where it ends, and the text from there to the count.
        let mut series = [self.metric.name, "_bucket"].concat();
        let end_at = self.labels.ranges.write(values, &mut series);
        series.push(' ');
        let (mut digits, mut below) = (itoa::Buffer::new(), 0);
        for (end, count) in self.ends.iter().zip(counts) {
            below += count;
            let parts = [&series[..end_at], end, &series[end_at..], digits.format(below), "\n"];
            parts.into_iter().for_each(|part| text.push_str(part));
        }
        let begin = |suffix: &str, text: &mut String| {
            text.push_str(self.metric.name);
            text.push_str(suffix);
            self.labels.series.write(values, text);
            text.push(' ');
        };
        begin("_count", text);
        text.push_str(digits.format(below));
        text.push('\n');
        begin("_sum", text);
        write_number(text, sum);
        text.push('\n');
        self.exposition.hand_on();
    }
}

/// A number as Java's exporter writes it: always with a decimal point.
pub(super) fn number(value: f64) -> String {
    let mut text = String::new();
    write_number(&mut text, value);
    text
}

/// Whole numbers below this size are written as such, because the search for the shortest fraction takes
/// longer.
const WHOLE_MAX: f64 = 1e15;

fn write_number(text: &mut String, value: f64) {
    if value.is_nan() {
        text.push_str("NaN");
    } else if value.is_infinite() {
        text.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else if value.fract() == 0.0 && value > 0.0 && value < WHOLE_MAX {
        text.push_str(itoa::Buffer::new().format(value as u64));
        text.push_str(".0");
    } else {
        let _ = write!(text, "{value:?}");
    }
}

/// Appends a text with escapes for backslashes and ends of lines, and for quotation marks in values of labels.
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
mod tests;
