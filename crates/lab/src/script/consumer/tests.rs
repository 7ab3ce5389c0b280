//! Tests of the lines of the consumer.

use super::*;
use crate::script::LineFormat;

#[test]
fn failures_are_spread_evenly() {
    let count = |rate: f64| {
        let fails = Fails::new(rate);
        (0..100).filter(|_| fails.next()).count()
    };
    assert_eq!((count(0.0), count(0.1), count(1.0), count(7.0)), (0, 10, 100, 100));
}

#[test]
fn the_periodic_line_is_that_of_the_script() {
    let figures = Deliveries::default();
    let mut window = Window::default();
    for second in 0..10 {
        window.push(figures.sample(second * 1000));
        figures.received(4, 2);
        figures.received(6, 1);
    }
    figures.failed();
    assert_eq!(
        window.line((0, LineFormat::V5), &figures).unwrap(),
        "Current Time: 1970-01-01 00:00:00,000 | Consume TPS: 2 | AVG(B2C) RT(ms):   5.000 | \
         AVG(S2C) RT(ms):   1.500 | MAX(B2C) RT(ms): 6 | MAX(S2C) RT(ms): 2 | Consume Fail: 0"
    );
    assert_eq!(
        window.line((0, LineFormat::V4), &figures).unwrap(),
        "Current Time: 1970-01-01 00:00:00,000 TPS: 2 FAIL: 0 AVG(B2C) RT(ms):   5.000 \
         AVG(S2C) RT(ms):   1.500 MAX(B2C) RT(ms): 0 MAX(S2C) RT(ms): 0",
        "maxima are per line"
    );
}
