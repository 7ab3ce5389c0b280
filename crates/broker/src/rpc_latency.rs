//! Latency of requests by request code, response code and result (`RemotingMetricsManager`). Counted only while
//! metrics are exported. Requests that the gate refused or that were forwarded to a master are not counted.

use std::collections::BTreeMap;
use std::time::Duration;

use net::ConnectionClosed;
use parking_lot::Mutex;
use wire::codes::{request, response};
use wire::frame::written_code;

use crate::clock::Clock;

/// Upper bounds in milliseconds of the ranges in which requests are counted. A last range has no bound. They contain
/// the bounds of `RemotingMetricsManager.getMetricsView` and those of creations in `BrokerMetricsManager`.
const BOUNDS_MS: [u64; 10] = [1, 3, 5, 7, 10, 100, 1000, 2000, 3000, 5000];

/// Tables that share the counting, so that threads seldom wait for each other.
const SHARDS: usize = 8;

/// Result of writing the response of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Written {
    Success,
    OneWay,
    /// The client had disconnected.
    Failed,
}

impl Written {
    /// Converts the result of pushing a response to its connection.
    pub(crate) fn of(pushed: &Result<(), ConnectionClosed>) -> Self {
        if pushed.is_ok() { Self::Success } else { Self::Failed }
    }

    /// The word in the label `result` (`RemotingMetricsConstant`).
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::OneWay => "oneway",
            Self::Failed => "write_channel_failed",
        }
    }
}

/// Labels of a request's latency. Codes without a name share a label, so that clients cannot make the table grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Answered {
    pub request: i32,
    pub response: i32,
    /// Whether the request waited for a message.
    pub is_long_polling: bool,
    pub written: Written,
}

/// Requests of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latencies {
    /// Requests by how long they took, in the ranges of [`BOUNDS_MS`].
    counts: [u64; BOUNDS_MS.len() + 1],
    /// Sum of the durations of all requests, in milliseconds.
    pub ms: u64,
}

impl Latencies {
    /// The counts in the ranges that end at `bounds`, which are some of [`BOUNDS_MS`], and in the range above them.
    pub(crate) fn within(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len() + 1];
        let ends = BOUNDS_MS.iter().chain([&u64::MAX]);
        for (end, count) in ends.zip(self.counts) {
            counts[bounds.partition_point(|bound| bound < end)] += count;
        }
        counts
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
        self.ms += other.ms;
    }
}

type Table = BTreeMap<Answered, Latencies>;

/// The latencies of all requests since the start.
#[derive(Default)]
pub(crate) struct RpcLatency {
    /// Clock for measurements. `None` while counting is off.
    clock: Option<Clock>,
    tables: [Mutex<Table>; SHARDS],
}

impl RpcLatency {
    pub(crate) fn new(clock: Option<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Start time of the requests of a read batch. Zero while counting is off.
    pub(crate) fn begin(&self) -> Duration {
        self.clock.as_ref().map(Clock::steady).unwrap_or_default()
    }

    /// Counts `count` requests that have been answered since `begin`.
    pub(crate) fn count(&self, mut answered: Answered, begin: Duration, count: u64) {
        let Some(clock) = self.clock.as_ref().filter(|_| count > 0) else { return };
        if request::name(answered.request).is_none() {
            answered.request = -1;
        }
        let ms = u64::try_from(clock.steady().saturating_sub(begin).as_millis()).unwrap_or(u64::MAX);
        let range = BOUNDS_MS.partition_point(|bound| *bound < ms);
        // Any table will do; those of two threads are seldom the same.
        let mut table = self.tables[begin.subsec_nanos() as usize / 64 % SHARDS].lock();
        let latencies = table.entry(answered).or_default();
        latencies.counts[range] += count;
        latencies.ms += ms.saturating_mul(count);
    }

    /// Counts a request whose response is this frame. Ignores an empty frame.
    pub(crate) fn count_frame(&self, call: &Measured, frame: &[u8], written: Written) {
        if let Some(response) = self.clock.as_ref().and_then(|_| written_code(frame)) {
            let Measured { request, begin, is_long_polling } = *call;
            self.count(Answered { request, response, is_long_polling, written }, begin, 1);
        }
    }

    /// All that was counted.
    pub(crate) fn table(&self) -> Table {
        let mut sums = Table::new();
        for table in &self.tables {
            for (answered, latencies) in table.lock().iter() {
                let sum: &mut Latencies = sums.entry(*answered).or_default();
                sum.add(latencies);
            }
        }
        sums
    }
}

/// A request that is measured until its answer leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub request: i32,
    /// Time at which the request's read batch began ([`RpcLatency::begin`]).
    pub begin: Duration,
    pub is_long_polling: bool,
}

/// Requests that are answered together.
#[derive(Default)]
pub(crate) struct Tally {
    begin: Duration,
    /// Number of requests of each code.
    requests: Vec<(i32, u64)>,
}

impl Tally {
    /// Adds a request. Does nothing while counting is off.
    pub(crate) fn add(&mut self, call: &Measured) {
        if call.begin.is_zero() {
            return;
        }
        self.begin = call.begin;
        match self.requests.iter_mut().find(|(request, _)| *request == call.request) {
            Some((_, count)) => *count += 1,
            None => self.requests.push((call.request, 1)),
        }
    }

    /// Counts the requests as answered with this code.
    pub(crate) fn answered(self, latency: &RpcLatency, response: i32, written: Written) {
        for (request, count) in self.requests {
            let answered = Answered { request, response, is_long_polling: false, written };
            latency.count(answered, self.begin, count);
        }
    }
}

/// The names that metrics have for the codes of a request and a response (`RemotingHelper.getRequestCodeDesc`).
pub(crate) fn code_names(answered: &Answered) -> (String, String) {
    let named =
        |name: Option<&str>, code: i32| name.map_or_else(|| code.to_string(), str::to_ascii_lowercase);
    let request = named(request::name(answered.request).or(Some("unknown")), answered.request);
    (request, named(response::name(answered.response), answered.response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_by_request_and_answer_and_unknown_requests_are_one() {
        let clock = Clock::standing(10_000);
        let latency = RpcLatency::new(Some(clock.clone()));
        let begin = latency.begin();
        let answered =
            |request| Answered { request, response: 0, is_long_polling: false, written: Written::Success };
        latency.count(answered(request::SEND_MESSAGE), begin, 2);
        clock.set(14_000);
        latency.count(answered(request::SEND_MESSAGE), begin, 1);
        [7001, 7002].into_iter().for_each(|code| latency.count(answered(code), begin, 1));
        let table = latency.table();
        let sends = table[&answered(request::SEND_MESSAGE)];
        assert_eq!((sends.ms, sends.within(&[1, 3000])), (4000, vec![2, 0, 1]));
        assert_eq!(sends.within(&[10, 5000]), [2, 1, 0]);
        let names: Vec<_> = table.keys().map(|answered| code_names(answered).0).collect();
        assert_eq!(names, ["unknown", "send_message"]);
    }

    #[test]
    fn nothing_is_counted_without_a_clock() {
        let latency = RpcLatency::default();
        let answered =
            Answered { request: 10, response: 0, is_long_polling: false, written: Written::Success };
        latency.count(answered, latency.begin(), 1);
        assert_eq!(latency.table(), Table::new());
    }
}
