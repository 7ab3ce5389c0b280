use super::{TailUnits, Unit};
use wire::units::LogOffset;

fn unit(log_offset: u64, size: u32, tags_code: i64) -> Unit {
    Unit { log_offset: LogOffset::new(log_offset), size, tags_code }
}

/// Units that are pushed come back, all at once and in parts, whatever is dropped meanwhile.
fn check(units: &[Unit], is_short: bool) {
    for dropped in 0..=units.len() {
        let mut held = TailUnits::new();
        units.iter().for_each(|unit| held.push(*unit));
        assert_eq!(matches!(held, TailUnits::Short(..)), is_short, "{units:?}");
        held.drop_front(dropped);
        let left = &units[dropped..];
        assert_eq!(held.next_place() == 0, left.is_empty(), "unknown only where nothing is");
        assert_eq!((held.len(), held.is_empty()), (left.len(), left.is_empty()));
        for from in 0..=left.len() {
            assert_eq!(held.range(from, left.len()).collect::<Vec<_>>(), left[from..]);
            assert_eq!(
                held.range(0, from).rev().collect::<Vec<_>>(),
                left[..from].iter().rev().copied().collect::<Vec<_>>()
            );
        }
        units.iter().for_each(|unit| held.push(*unit));
        assert_eq!(held.range(left.len(), left.len() + units.len()).collect::<Vec<_>>(), units);
    }
}

#[test]
fn short_units_come_back() {
    let far = (1 << 40) - 1;
    check(&[], true);
    check(&[unit(7, 100, 0)], true);
    check(
        &[
            unit(7, 100, -5),
            unit(107, (1 << 24) - 1, i64::from(i32::MAX)),
            unit(7 + far, 1, i64::from(i32::MIN)),
        ],
        true,
    );
    check(&[unit(1 << 50, 1, 1), Unit::PRE_BLANK, unit((1 << 50) + 200, 90, 2)], true);
}

#[test]
fn units_that_do_not_fit_come_back() {
    check(&[unit(7, 100, 0), unit(7 + (1 << 40), 100, 0), unit(8 + (1 << 40), 9, 1)], false);
    check(&[unit(7, 1 << 24, 0), Unit::PRE_BLANK], false);
    check(&[unit(7, 100, 1_700_000_000_000)], false);
    check(&[Unit::PRE_BLANK, unit(7, 100, i64::MIN)], false);
    // Out of order, as after damage of the log.
    check(&[unit(700, 100, 0), unit(7, 100, 0)], false);
}

#[test]
fn a_short_unit_takes_twelve_bytes() {
    assert_eq!(size_of::<super::ShortUnit>(), 12);
}
