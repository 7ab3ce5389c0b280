//! Histograms in HdrHistogram's interval log format, which HdrHistogram's own tools can read.

use crate::Error;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the histograms of send latencies.
pub const SEND_LATENCY: &str = "latency";

/// Name of the histograms of the time from send to consumption.
pub const END_TO_END: &str = "end-to-end";

/// Name of the histograms of how late the requests of an open loop were sent.
pub const LATE: &str = "late";

/// Smallest and largest latency that is told apart, in microseconds, and the number of significant digits.
pub const LATENCY: (u64, u64, u8) = (1, 60_000_000, 3);

/// An empty histogram of latencies in microseconds.
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY.0, LATENCY.1, LATENCY.2).expect("the bounds are constant and valid")
}

/// The latencies that a closed loop would have recorded if it had gone on sending while it waited (HdrHistogram's
/// correction for coordinated omission). With an expected interval of `expected_us` between the requests of one sender,
/// every latency above `expected_us` also counts as the shorter latencies that requests sent `expected_us`, 2 ×
/// `expected_us`, … later would have had. The expected interval is `in_flight / tps`, where `tps` is messages per
/// second.
pub fn corrected(histogram: &Histogram<u64>, in_flight: u32, tps: f64) -> Histogram<u64> {
    let expected_us = f64::from(in_flight) * 1e6 / tps;
    if expected_us.is_finite() && expected_us >= 1.0 {
        histogram.clone_correct(expected_us as u64)
    } else {
        histogram.clone()
    }
}

/// A histogram as runs keep one for every second: the values that occurred, with their counts. A full HdrHistogram
/// takes 139 kB of memory whatever it holds, and a run of eight hours has 28,800 of them.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    /// Values in microseconds with their counts.
    places: Vec<(u32, u32)>,
}

impl Sparse {
    /// Adds a value of `micros` microseconds `count` times.
    pub fn record_n(&mut self, micros: u64, count: u64) {
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        self.places.push((narrow(micros), narrow(count)));
    }

    /// Adds all values to a histogram, which grows as needed.
    pub fn add_to(&self, sum: &mut Histogram<u64>) {
        for (micros, count) in &self.places {
            sum.record_n((*micros).into(), (*count).into()).expect("it grows as needed");
        }
    }

    /// Number of recorded values.
    pub fn len(&self) -> u64 {
        self.places.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Whether no value was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<&Histogram<u64>> for Sparse {
    fn from(whole: &Histogram<u64>) -> Self {
        let mut sparse = Self::default();
        whole
            .iter_recorded()
            .for_each(|place| sparse.record_n(place.value_iterated_to(), place.count_at_value()));
        sparse.places.shrink_to_fit();
        sparse
    }
}

/// The histogram of one interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// End of the interval, milliseconds since 1970.
    pub at_ms: u64,
    /// Latencies of the interval in microseconds.
    pub latencies: Sparse,
}

/// An interval log file to which histograms are appended. A histogram is in the file when [`Histograms::append`]
/// returns.
#[derive(Debug)]
pub struct Histograms {
    file: File,
    path: PathBuf,
}

impl Histograms {
    /// Creates the file and replaces an existing one.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        let mut file = File::create(path).map_err(failed)?;
        let mut serializer = V2DeflateSerializer::new();
        let begun = IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("send latency in microseconds; times are seconds since 1970")
            .begin_log_with(&mut file, &mut serializer)
            .map(|_| ());
        begun.map_err(failed)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Appends the histogram of the interval of `lasted_ms` milliseconds that ends at `at_ms`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn append(&mut self, at_ms: u64, lasted_ms: u64, histogram: &Histogram<u64>) -> Result<(), Error> {
        let mut line = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        let start = Duration::from_millis(at_ms.saturating_sub(lasted_ms));
        let written = IntervalLogWriterBuilder::new()
            .begin_log_with(&mut line, &mut serializer)
            .map_err(io::Error::other)
            .and_then(|mut log| {
                let lasted = Duration::from_millis(lasted_ms);
                log.write_histogram(histogram, start, lasted, None)
                    .map_err(|error| io::Error::other(error.to_string()))
            })
            .and_then(|()| io::Write::write_all(&mut self.file, &line));
        written.map_err(|source| Error::File { path: self.path.clone(), source })
    }
}

/// Reads all histograms of a file; an absent file gives none. An incomplete last line, left by a kill, is ignored.
///
/// # Errors
/// [`Error::File`] when the file cannot be read, or is no interval log.
pub fn read_histograms(path: &Path) -> Result<Vec<Interval>, Error> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let failed = |source| Error::File { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(failed)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut deserializer = Deserializer::new();
    let mut intervals = Vec::new();
    for entry in IntervalLogIterator::new(&bytes[..whole]) {
        let entry = entry.map_err(|error| failed(io::Error::other(format!("no interval log: {error:?}"))))?;
        if let LogEntry::Interval(interval) = entry {
            let whole = decode(&mut deserializer, interval.encoded_histogram()).map_err(failed)?;
            let at = interval.start_timestamp() + interval.duration();
            let at_ms = u64::try_from(at.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            intervals.push(Interval { at_ms, latencies: Sparse::from(&whole) });
        }
    }
    Ok(intervals)
}

/// Encodes a histogram as the text that interval logs and the load generators of other machines use.
pub(crate) fn encode(histogram: &Histogram<u64>) -> io::Result<String> {
    use base64::Engine as _;
    use hdrhistogram::serialization::Serializer as _;
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    written.map_err(|error| io::Error::other(error.to_string()))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// Decodes a histogram from the text that interval logs and the load generators of other machines use.
pub(crate) fn decode(deserializer: &mut Deserializer, text: &str) -> io::Result<Histogram<u64>> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(io::Error::other)?;
    deserializer
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| io::Error::other(format!("a histogram cannot be read: {error:?}")))
}
