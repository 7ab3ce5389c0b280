//! Units in memory, mostly in a 12-byte form: with 50,000 queues they are most of the store's memory.

use super::Unit;
use std::collections::VecDeque;
use wire::units::LogOffset;

/// Bits of the distance between a unit's log position and the base, in the 12-byte form.
const DISTANCE_BITS: u32 = 40;
/// Bits of a record's size in the 12-byte form.
const SIZE_BITS: u32 = 24;

/// A unit in 12 bytes: distance from the base (40 bits), size (24 bits; zero in a blank unit), and a tags code of 32 bits.
#[derive(Clone, Copy)]
pub(super) struct ShortUnit {
    distance: u32,
    /// The upper 8 bits of the distance, then the size.
    rest: u32,
    tags_code: i32,
}

/// A sequence of units, the oldest first.
pub(super) enum TailUnits {
    /// All units fit the 12-byte form; the number is the log position that the distances count from.
    Short(u64, VecDeque<ShortUnit>),
    /// At least one unit did not fit the 12-byte form.
    Whole(VecDeque<Unit>),
}

impl TailUnits {
    pub(super) const fn new() -> Self {
        Self::Short(0, VecDeque::new())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Short(_, units) => units.len(),
            Self::Whole(units) => units.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn push(&mut self, unit: Unit) {
        if let Self::Short(base, units) = self {
            if units.is_empty() {
                *base = unit.log_offset.get();
            }
            if let Some(short) = ShortUnit::of(unit, *base) {
                grow(units);
                return units.push_back(short);
            }
            *self = Self::Whole(units.iter().map(|short| short.unit(*base)).collect());
        }
        if let Self::Whole(units) = self {
            grow(units);
            units.push_back(unit);
        }
    }

    /// Memory address where the next unit will be stored, unless the ring grows or wraps around.
    pub(super) fn next_place(&self) -> usize {
        fn behind<T>(last: Option<&T>) -> usize {
            last.map_or(0, |last| std::ptr::from_ref(last).addr() + size_of::<T>())
        }
        match self {
            Self::Short(_, units) => behind(units.back()),
            Self::Whole(units) => behind(units.back()),
        }
    }

    /// The units at the indexes `from..end`.
    pub(super) fn range(&self, from: usize, end: usize) -> impl DoubleEndedIterator<Item = Unit> + '_ {
        let (short, whole) = match self {
            Self::Short(base, units) => (Some(units.range(from..end).map(|short| short.unit(*base))), None),
            Self::Whole(units) => (None, Some(units.range(from..end).copied())),
        };
        short.into_iter().flatten().chain(whole.into_iter().flatten())
    }

    /// Drops all but the `count` oldest units.
    pub(super) fn truncate(&mut self, count: usize) {
        match self {
            _ if count == 0 => *self = Self::new(),
            Self::Short(_, units) => units.truncate(count),
            Self::Whole(units) => units.truncate(count),
        }
    }

    /// Drops the `count` oldest units.
    pub(super) fn drop_front(&mut self, count: usize) {
        if count >= self.len() {
            *self = Self::new();
            return;
        }
        match self {
            Self::Short(_, units) => drop_front(units, count),
            Self::Whole(units) => drop_front(units, count),
        }
    }
}

/// Drops units from the front and gives memory back that only a burst needed.
fn drop_front<T>(units: &mut VecDeque<T>, count: usize) {
    units.drain(..count);
    if units.capacity() > 64 && units.len() < units.capacity() / 4 {
        units.shrink_to(units.len() * 2);
    }
}

/// Makes room for another unit, growing by a quarter rather than doubling.
fn grow<T>(units: &mut VecDeque<T>) {
    if units.len() == units.capacity() {
        units.reserve_exact((units.len() / 4).max(2));
    }
}

impl ShortUnit {
    fn of(unit: Unit, base: u64) -> Option<Self> {
        if unit == Unit::PRE_BLANK {
            return Some(Self { distance: 0, rest: 0, tags_code: 0 });
        }
        let distance = unit.log_offset.get().checked_sub(base).filter(|far| far >> DISTANCE_BITS == 0)?;
        let size = Some(unit.size).filter(|size| *size > 0 && size >> SIZE_BITS == 0)?;
        let high = u32::try_from(distance >> 32).ok()?;
        Some(Self {
            distance: u32::try_from(distance & u64::from(u32::MAX)).ok()?,
            rest: high << SIZE_BITS | size,
            tags_code: i32::try_from(unit.tags_code).ok()?,
        })
    }

    fn unit(self, base: u64) -> Unit {
        let size = self.rest & ((1 << SIZE_BITS) - 1);
        if size == 0 {
            return Unit::PRE_BLANK;
        }
        let distance = u64::from(self.rest >> SIZE_BITS) << 32 | u64::from(self.distance);
        Unit { log_offset: LogOffset::new(base + distance), size, tags_code: self.tags_code.into() }
    }
}

#[cfg(test)]
mod tests;
