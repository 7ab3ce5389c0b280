//! An axis of a chart: its ends, the position of a value between them, and the labels of its ticks.

use crate::judge::numbers;

/// Fewest ticks of a logarithmic axis. Ticks at its ends may lack room for their labels.
const TICKS_MIN: usize = 4;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Scale {
    /// Linear, from 0 unless the ends are given.
    #[default]
    Linear,
    /// Logarithmic, by powers of ten.
    Log,
    /// Scale of shares close to 1: 0, 90 %, 99 %, 99.9 %.
    Nines,
}

impl Scale {
    /// Maps a value to a coordinate in which the axis is linear.
    fn coordinate(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.log10(),
            Self::Nines => -(1.0 - value.min(0.999_999)).log10(),
        }
    }

    /// Whether the scale can show a value.
    pub fn holds(self, value: f64) -> bool {
        value.is_finite() && (self != Self::Log || value > 0.0)
    }
}

/// An axis of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    scale: Scale,
    first: f64,
    last: f64,
    /// Coordinates and labels of the ticks.
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Makes an axis for the values; `range` gives its ends as values instead.
    pub fn new(scale: Scale, values: impl Iterator<Item = f64>, range: Option<(f64, f64)>) -> Self {
        let (low, high) = values
            .map(|value| scale.coordinate(value))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
        let (first, last) = match (scale, range) {
            (Scale::Linear, Some(range)) => range,
            (scale, Some((first, last))) => (scale.coordinate(first), scale.coordinate(last)),
            (Scale::Log, None) => log_ends(low, high),
            (Scale::Nines, None) => (0.0, high.max(1.0)),
            (Scale::Linear, None) => (low.min(0.0), if high > 0.0 { high * 1.12 } else { 1.0 }),
        };
        let last = if last > first { last } else { first + 1.0 };
        let ticks = ticks(scale, (first, last)).into_iter().map(|tick| (tick, label(scale, tick))).collect();
        Self { scale, first, last, ticks }
    }

    /// Makes an axis whose ticks are the given levels, with room on both sides.
    pub fn of_levels(levels: &[(f64, String)]) -> Self {
        let values = || levels.iter().map(|level| level.0);
        let (low, high) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        let scale = if low > 0.0 && high > 8.0 * low { Scale::Log } else { Scale::Linear };
        let ticks = levels.iter().map(|(level, label)| (scale.coordinate(*level), label.clone())).collect();
        let (low, high) = (scale.coordinate(low), scale.coordinate(high));
        let room = if high > low { (high - low) * 0.06 } else { 0.5 };
        Self { scale, first: low - room, last: high + room, ticks }
    }

    /// Position of a value: 0 at the first end of the axis, 1 at the last.
    pub fn share(&self, value: f64) -> f64 {
        ((self.scale.coordinate(value) - self.first) / (self.last - self.first)).clamp(0.0, 1.0)
    }

    /// Ends and scale of the axis, with which the page's script computes the values under the pointer.
    pub fn described(&self) -> String {
        format!("{} {} {:?}", self.first, self.last, self.scale)
    }

    /// Position (as by [`Axis::share`]) and label of each tick.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, String)> + '_ {
        let place =
            |(tick, label): &(f64, String)| ((tick - self.first) / (self.last - self.first), label.clone());
        self.ticks.iter().map(place).filter(|(share, _)| (-1e-9..=1.0 + 1e-9).contains(share))
    }
}

fn label(scale: Scale, tick: f64) -> String {
    match scale {
        Scale::Linear if tick.abs() < 1e-9 => "0".to_owned(),
        Scale::Linear => trimmed(tick),
        Scale::Log => trimmed(10_f64.powf(tick)),
        Scale::Nines => format!("{} %", trimmed(100.0 * (1.0 - 10_f64.powf(-tick)))),
    }
}

/// The ends of a logarithmic axis: powers of ten, or closer ones when the values span less than one power.
fn log_ends(low: f64, high: f64) -> (f64, f64) {
    let steps = [0.0, 2.0_f64.log10(), 5.0_f64.log10(), 1.0];
    let below =
        |at: f64| at.floor() + steps.iter().rev().find(|step| **step <= at - at.floor()).unwrap_or(&0.0);
    let above = |at: f64| at.floor() + steps.iter().find(|step| **step >= at - at.floor()).unwrap_or(&1.0);
    (below(low - 0.02), above(high + 0.08))
}

/// Writes a number with as few digits as distinguish it from its neighbours on an axis.
fn trimmed(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        return numbers::count(value);
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn ticks(scale: Scale, (first, last): (f64, f64)) -> Vec<f64> {
    if scale != Scale::Linear {
        let (low, high) = (first.floor() as i32, last.ceil() as i32);
        let decades = (low..=high).map(f64::from);
        let is_inside = |tick: &f64| (first - 1e-9..=last + 1e-9).contains(tick);
        if scale == Scale::Nines || last - first > 3.0 {
            return decades.clone().filter(is_inside).collect();
        }
        let steps = |of: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|decade| of.iter().map(move |times| decade + times.log10()));
            all.filter(is_inside).collect()
        };
        let few = steps(&[1.0, 2.0, 5.0]);
        return if few.len() < TICKS_MIN { steps(&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]) } else { few };
    }
    let rough = (last - first) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let (low, high) = ((first / step).ceil() as i64, (last / step).floor() as i64);
    (low..=high).map(|tick| tick as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().map(|(_, label)| label).collect()
    }

    #[test]
    fn axes_are_labelled_in_their_own_words() {
        let linear = Axis::new(Scale::Linear, [0.0, 61_000.0].into_iter(), None);
        assert_eq!(labels(&linear), ["0", "20,000", "40,000", "60,000"]);
        let log = Axis::new(Scale::Log, [0.2, 120.0].into_iter(), None);
        assert_eq!(labels(&log).first().map(String::as_str), Some("0.1"));
        let nines = Axis::new(Scale::Nines, [0.0, 0.9999].into_iter(), None);
        assert_eq!(labels(&nines), ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn a_narrow_span_of_latency_fills_its_axis() {
        let log = Axis::new(Scale::Log, [1.1, 1.8].into_iter(), None);
        assert_eq!(labels(&log), ["1", "1.5", "2", "3", "5"]);
    }

    #[test]
    fn levels_are_their_own_ticks() {
        let levels = |levels: &[(f64, &str)]| {
            let levels: Vec<(f64, String)> =
                levels.iter().map(|(level, label)| (*level, (*label).to_owned())).collect();
            Axis::of_levels(&levels)
        };
        let wide = levels(&[(1_024.0, "1k"), (10_240.0, "10k"), (1_048_576.0, "1m")]);
        assert_eq!(labels(&wide), ["1k", "10k", "1m"]);
        assert!(wide.share(10_240.0) > 0.3, "small levels are told apart");
        let even = levels(&[(20.0, "20"), (40.0, "40"), (80.0, "80")]);
        assert!((even.share(40.0) - 0.353).abs() < 0.01, "{}", even.share(40.0));
    }
}
