//! Coordinated omission: a closed loop sends nothing while a server pauses, so the requests that would have waited are
//! missing from its percentiles. An open loop measures latency from the intended send time and misses none of them.

use super::figures::histogram;
use super::stats::mean;
use super::validity::in_flight;
use crate::archive::{Window, corrected};
use hdrhistogram::Histogram;

/// Send latencies of a closed loop: as measured, and with the requests added that the loop did not send while it
/// waited.
#[derive(Clone, Debug)]
pub struct Corrected {
    seen: Histogram<u64>,
    all: Histogram<u64>,
}

impl Corrected {
    /// The latency in microseconds that this share of the requests did not exceed. The omitted requests can only have
    /// waited longer, so the measured value counts where adding them makes a pause a smaller share of all requests.
    pub fn value_at_quantile(&self, share: f64) -> u64 {
        self.seen.value_at_quantile(share).max(self.all.value_at_quantile(share))
    }
}

/// Corrects the send latencies of a closed loop for coordinated omission. `None` for an open loop, and when no request
/// was answered.
pub fn without_omission(windows: &[Window<'_>]) -> Option<Corrected> {
    if windows.first()?.factors?.rate.is_some() {
        return None;
    }
    let seen = histogram(windows)?;
    let count = mean(&windows.iter().filter_map(in_flight).collect::<Vec<_>>());
    let seconds: usize = windows.iter().map(|window| window.load.len()).sum();
    // This counts requests, not messages: a batch has one latency.
    let per_second = seen.len() as f64 / seconds.max(1) as f64;
    let all = corrected(&seen, count.round() as u32, per_second);
    Some(Corrected { seen, all })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Factors;
    use crate::judge::testing;

    #[test]
    fn a_pause_is_seen_through_a_closed_loop_alone() {
        let p99 = |factors: Factors| {
            let mut record = testing::record(&[(factors, 1_000.0)]);
            // Ten requests are in flight, and all of them stop once for two of sixty seconds.
            for (_, second) in
                record.cells[0].repeats.iter_mut().filter_map(|repeat| repeat.latency.get_mut(30))
            {
                second.record_n(2_000_000, 10);
            }
            let windows = record.windows(&record.cells[0], "steady");
            let seen = histogram(&windows).expect("it has latencies").value_at_quantile(0.99);
            (seen, without_omission(&windows).map(|all| all.value_at_quantile(0.99)))
        };
        let (seen, shown) = p99(testing::factors(10));
        assert!(seen < 100_000 && shown.unwrap() > 1_000_000, "{seen} {shown:?}");
        assert_eq!(p99(Factors { rate: Some(1_000.0), ..testing::factors(10) }).1, None);
    }

    #[test]
    fn what_is_corrected_is_never_below_what_was_seen() {
        let mut record = testing::record(&[(testing::factors(1), 1_000.0)]);
        // Two of a thousand requests take twenty times as long as the others.
        for (_, second) in record.cells[0].repeats.iter_mut().flat_map(|repeat| &mut repeat.latency) {
            second.record_n(20_000, 2);
        }
        let windows = record.windows(&record.cells[0], "steady");
        let seen = histogram(&windows).expect("it has latencies");
        let shown = without_omission(&windows).expect("a closed loop");
        for share in [0.5, 0.9, 0.99, 0.998, 0.999, 0.9999, 1.0] {
            assert!(shown.value_at_quantile(share) >= seen.value_at_quantile(share), "{share}");
        }
    }
}
