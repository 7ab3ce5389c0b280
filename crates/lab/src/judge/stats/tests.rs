use super::*;

/// `count` values around `centre`, uniformly within `share` of it.
fn noisy(centre: f64, share: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| centre * (1.0 + share * (random.f64() * 2.0 - 1.0))).collect()
}

fn repeats(centre: f64, share: f64, seed: u64) -> Vec<Vec<f64>> {
    (0..3).map(|repeat| noisy(centre, share, 60, seed * 10 + repeat)).collect()
}

#[test]
fn the_same_seed_gives_the_same_interval() {
    let series = repeats(100.0, 0.1, 1);
    assert_eq!(estimate(&series, 7), estimate(&series, 7));
    assert_ne!(estimate(&series, 7), estimate(&series, 8));
}

#[test]
fn an_interval_holds_the_mean_most_of_the_time() {
    let holds = (0..200).filter(|seed| {
        let interval = estimate(&repeats(100.0, 0.2, *seed), *seed);
        interval.low <= 100.0 && 100.0 <= interval.high
    });
    // Three repeats make the resampled means a little too similar: about 88 of 100 intervals hold the true mean.
    assert!(holds.count() >= 160);
}

#[test]
fn repeats_that_disagree_widen_the_interval() {
    let alike = [noisy(100.0, 0.01, 60, 1), noisy(100.0, 0.01, 60, 2), noisy(100.0, 0.01, 60, 3)];
    let apart = [noisy(80.0, 0.01, 60, 1), noisy(100.0, 0.01, 60, 2), noisy(120.0, 0.01, 60, 3)];
    assert!(estimate(&alike, 1).spread() < 0.01);
    assert!(estimate(&apart, 1).spread() > 0.08);
}

#[test]
fn a_ratio_tells_a_change_from_noise() {
    let base = repeats(100.0, 0.1, 1);
    let changed = ratio(&base, &repeats(110.0, 0.1, 2), 3);
    assert!(changed.low > 1.05 && changed.high < 1.15, "{changed:?}");
    let same = ratio(&base, &repeats(100.0, 0.1, 4), 3);
    assert!(same.low < 1.0 && same.high > 1.0, "{same:?}");
}

#[test]
fn a_slope_and_its_error() {
    let line: Vec<f64> = (0..60).map(f64::from).collect();
    assert_eq!(slope(&line).per_step, 1.0);
    let flat = slope(&noisy(100.0, 0.1, 60, 5));
    assert!(flat.per_step.abs() < 3.0 * flat.error);
    assert_eq!(slope(&[1.0, 2.0]).error, f64::INFINITY);
}

#[test]
fn nothing_measured_is_nothing() {
    assert_eq!(estimate(&[], 1), Estimate::default());
    assert_eq!(estimate(&[vec![]], 1), Estimate::default());
    assert_eq!((mean(&[]), median(&[]), variation(&[1.0])), (0.0, 0.0, 0.0));
    assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.99), 3.0);
}
