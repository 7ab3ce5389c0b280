//! The statistics of the rules: means with bootstrap intervals, slopes, spread.
//!
//! Seconds of one run are not independent, and repeats differ more among themselves than seconds within one do. The
//! bootstrap therefore draws repeats first, and within a repeat runs of five seconds: intervals are as wide as the
//! measurement really is uncertain.

use super::numbers;
use serde::{Deserialize, Serialize};

/// Number of resampled means per bootstrap interval.
const DRAWS: usize = if cfg!(test) { 200 } else { 1_000 };

/// Number of consecutive seconds that the bootstrap draws together.
const BLOCK: usize = 5;

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

impl Estimate {
    /// A ratio and the two ends of its interval, each written as a change: `+12.3 %`.
    pub fn changes(&self) -> [String; 3] {
        [self.mean, self.low, self.high].map(|ratio| numbers::change(ratio - 1.0))
    }

    /// Half the width of the interval, as a share of the mean.
    pub fn spread(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.mean.abs() }
    }
}

/// The arithmetic mean of the values; 0 when there are none.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The value that `share` of all values do not exceed (nearest rank); 0 when there are none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

/// The median of the values; 0 when there are none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Standard deviation as a share of the mean; 0 for fewer than two values and for a mean of 0.
pub fn variation(values: &[f64]) -> f64 {
    let centre = mean(values);
    if values.len() < 2 || centre == 0.0 {
        return 0.0;
    }
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt() / centre.abs()
}

/// A straight line through equally spaced values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slope {
    /// Change from one value to the next.
    pub per_step: f64,
    /// Standard error of `per_step`, widened for the autocorrelation of neighbouring values.
    pub error: f64,
}

/// Fits a straight line by least squares. The autocorrelation of the residuals at lag 1 reduces how many values count
/// as independent and so widens the error. Fewer than three values have an infinite error.
pub fn slope(values: &[f64]) -> Slope {
    let n = values.len() as f64;
    if values.len() < 3 {
        return Slope { per_step: 0.0, error: f64::INFINITY };
    }
    let (x_mean, y_mean) = ((n - 1.0) / 2.0, mean(values));
    let steps = || values.iter().enumerate().map(|(index, value)| (index as f64 - x_mean, value - y_mean));
    let xx: f64 = steps().map(|(x, _)| x * x).sum();
    let per_step = steps().map(|(x, y)| x * y).sum::<f64>() / xx;
    let residuals: Vec<f64> = steps().map(|(x, y)| y - per_step * x).collect();
    let total: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let neighbours: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let likeness = if total == 0.0 { 0.0 } else { (neighbours / total).clamp(0.0, 0.95) };
    let widening = ((1.0 + likeness) / (1.0 - likeness)).sqrt();
    Slope { per_step, error: (total / (n - 2.0) / xx).sqrt() * widening }
}

/// The mean over several repeats with its bootstrap interval; `seed` makes the draws repeatable.
pub fn estimate(repeats: &[Vec<f64>], seed: u64) -> Estimate {
    let draws = draw_means(repeats, seed);
    let all: Vec<f64> = repeats.iter().map(|repeat| mean(repeat)).collect();
    Estimate { mean: mean(&all), low: quantile(&draws, 0.025), high: quantile(&draws, 0.975) }
}

/// The mean of `after` divided by the mean of `before`, with its bootstrap interval. The ratio of a series to itself is 1
/// without any doubt.
pub fn ratio(before: &[Vec<f64>], after: &[Vec<f64>], seed: u64) -> Estimate {
    let whole = |repeats: &[Vec<f64>]| mean(&repeats.iter().map(|repeat| mean(repeat)).collect::<Vec<_>>());
    if before == after && whole(before) != 0.0 {
        return Estimate { mean: 1.0, low: 1.0, high: 1.0 };
    }
    let divide = |above: f64, below: f64| if below == 0.0 { 0.0 } else { above / below };
    let pairs = draw_means(before, seed).into_iter().zip(draw_means(after, seed ^ 0x9E37_79B9));
    let draws: Vec<f64> = pairs.map(|(below, above)| divide(above, below)).collect();
    Estimate {
        mean: divide(whole(after), whole(before)),
        low: quantile(&draws, 0.025),
        high: quantile(&draws, 0.975),
    }
}

/// Means of resampled data: repeats are drawn with replacement, and within each repeat blocks of [`BLOCK`] seconds.
fn draw_means(repeats: &[Vec<f64>], seed: u64) -> Vec<f64> {
    let repeats: Vec<Sums> =
        repeats.iter().filter(|repeat| !repeat.is_empty()).map(|repeat| Sums::new(repeat)).collect();
    if repeats.is_empty() {
        return Vec::new();
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let draw = |_| {
        let chosen = (0..repeats.len()).map(|_| repeats[random.usize(..repeats.len())].draw(&mut random));
        chosen.sum::<f64>() / repeats.len() as f64
    };
    (0..DRAWS).map(draw).collect()
}

/// Running sums of the values of one repeat, so that the sum of a block is one subtraction.
struct Sums(Vec<f64>);

impl Sums {
    fn new(values: &[f64]) -> Self {
        let mut total = 0.0;
        let running = values.iter().map(|value| {
            total += value;
            total
        });
        Self(std::iter::once(0.0).chain(running).collect())
    }

    /// Draws as many blocks, with replacement, as cover the length of the repeat, and returns their mean.
    fn draw(&self, random: &mut fastrand::Rng) -> f64 {
        let count = self.0.len() - 1;
        // If the series were a single block, every draw would return the same mean and the interval would have no
        // width.
        let block = BLOCK.min(count / 3).max(1);
        let blocks = count.div_ceil(block);
        let sum: f64 = (0..blocks)
            .map(|_| {
                let first = random.usize(..=count - block);
                self.0[first + block] - self.0[first]
            })
            .sum();
        sum / (blocks * block) as f64
    }
}

#[cfg(test)]
mod tests;
