//! Coordinated omission: a closed loop sends nothing while a server pauses, so the requests that would have waited are
//! missing from its percentiles. An open loop counts from the intended time and has none missing.

use super::figures::histogram;
use super::stats::mean;
use super::validity::in_flight;
use crate::archive::{Window, corrected};
use hdrhistogram::Histogram;

/// The send latencies, microseconds, had a closed loop gone on sending while it waited; `None` in an open loop, and where
/// nobody answers.
#[must_use]
pub fn without_omission(windows: &[Window<'_>]) -> Option<Histogram<u64>> {
    if windows.first()?.factors?.rate.is_some() {
        return None;
    }
    let seen = histogram(windows)?;
    let count = mean(&windows.iter().filter_map(in_flight).collect::<Vec<_>>());
    let seconds: usize = windows.iter().map(|window| window.load.len()).sum();
    // Requests, not messages: a batch has one latency.
    let per_second = seen.len() as f64 / seconds.max(1) as f64;
    Some(corrected(&seen, count.round() as u32, per_second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Factors;
    use crate::judge::fixture;

    #[test]
    fn a_pause_is_seen_through_a_closed_loop_alone() {
        let p99 = |factors: Factors| {
            let mut record = fixture::record(&[(factors, 1_000.0)]);
            // One of ten requests in flight, and all others, stop for two of sixty seconds once.
            for (_, second) in
                record.cells[0].repeats.iter_mut().filter_map(|repeat| repeat.latency.get_mut(30))
            {
                second.record_n(2_000_000, 10);
            }
            let windows = record.windows(&record.cells[0], "steady");
            let seen = histogram(&windows).expect("it has latencies").value_at_quantile(0.99);
            (seen, without_omission(&windows).map(|all| all.value_at_quantile(0.99)))
        };
        let (seen, shown) = p99(fixture::factors(10));
        assert!(seen < 100_000 && shown.unwrap() > 1_000_000, "{seen} {shown:?}");
        assert_eq!(p99(Factors { rate: Some(1_000.0), ..fixture::factors(10) }).1, None);
    }
}
