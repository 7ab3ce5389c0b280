//! What is kept of the past: rates of each second for 10 minutes, of 10 s for 6 hours, of 5 minutes for 7 days.

use serde::Serialize;
use std::collections::VecDeque;

/// Length of a step in ms, and how many steps are kept.
const RINGS: [(i64, usize); 3] = [(1000, 600), (10_000, 2160), (300_000, 2016)];

/// Messages stored and delivered per second at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Point {
    /// Begin of the step, ms since the epoch.
    pub at_ms: i64,
    pub in_tps: f64,
    pub out_tps: f64,
}

/// The past in three resolutions.
#[derive(Debug, Default)]
pub(crate) struct History {
    rings: [Ring; 3],
}

#[derive(Debug, Default)]
struct Ring {
    points: VecDeque<Point>,
    /// The step that is not over: sums, and how many points they are of.
    open: Point,
    count: u32,
}

impl History {
    /// Adds what was seen at a time. Steps without anything seen have no point.
    pub fn add(&mut self, seen: Point) {
        for (ring, (step_ms, max)) in self.rings.iter_mut().zip(RINGS) {
            let begin = seen.at_ms - seen.at_ms.rem_euclid(step_ms);
            if ring.count > 0 && ring.open.at_ms != begin {
                ring.points.push_back(ring.mean());
                if ring.points.len() > max {
                    ring.points.pop_front();
                }
                (ring.open, ring.count) = (Point::default(), 0);
            }
            ring.open.at_ms = begin;
            ring.open.in_tps += seen.in_tps;
            ring.open.out_tps += seen.out_tps;
            ring.count += 1;
        }
    }

    /// The points of a resolution, the oldest first, at most those of its time: 0 for seconds, 1 for 10 s, 2 for 5 minutes.
    pub fn points(&self, ring: usize, now_ms: i64) -> Vec<Point> {
        let (step_ms, max) = RINGS[ring.min(2)];
        let ring = &self.rings[ring.min(2)];
        let since = now_ms - step_ms * max as i64;
        let open = (ring.count > 0).then(|| ring.mean());
        ring.points.iter().copied().chain(open).filter(|point| point.at_ms >= since).collect()
    }
}

impl Ring {
    fn mean(&self) -> Point {
        let count = f64::from(self.count.max(1));
        Point { at_ms: self.open.at_ms, in_tps: self.open.in_tps / count, out_tps: self.open.out_tps / count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_averaged_and_bounded() {
        let mut history = History::default();
        for second in 0..2000 {
            let rate = f64::from(second);
            history.add(Point { at_ms: i64::from(second) * 1000, in_tps: rate, out_tps: 2.0 * rate });
        }
        let now_ms = 1_999_000;
        let seconds = history.points(0, now_ms);
        assert_eq!((seconds.len(), seconds[0].at_ms), (601, 1_399_000));
        let tens = history.points(1, now_ms);
        assert_eq!(tens[0], Point { at_ms: 0, in_tps: 4.5, out_tps: 9.0 });
        assert_eq!((tens.len(), history.points(2, now_ms).len()), (200, 7));
        assert!(history.points(0, now_ms + 3_600_000).is_empty());
    }
}
