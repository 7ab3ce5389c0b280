//! Offsets of a group in the queues of a topic, by queue id. A lite topic has one queue. A broker has hundreds of
//! thousands of lite topics, so that a queue with a committed offset alone takes no allocation of its own.

use super::{Generation, Position};

/// An offset or none, in the space of an offset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct MaybeOffset(i64);

impl Default for MaybeOffset {
    fn default() -> Self {
        Self(i64::MIN)
    }
}

impl MaybeOffset {
    pub(super) fn get(self) -> Option<i64> {
        (self.0 != i64::MIN).then_some(self.0)
    }

    /// Sets an offset, and returns the offset before it.
    pub(super) fn replace(&mut self, offset: i64) -> Option<i64> {
        std::mem::replace(self, Self(offset)).get()
    }

    pub(super) fn take(&mut self) -> Option<i64> {
        std::mem::take(self).get()
    }
}

impl Position {
    fn of(committed: MaybeOffset, generation: Generation) -> Self {
        Self { committed, generation, ..Self::default() }
    }
}

/// Positions by queue id.
#[derive(Default)]
pub(super) enum Positions {
    #[default]
    None,
    /// A queue with a committed offset and nothing else, in 24 bytes.
    One { queue_id: i32, committed: MaybeOffset, generation: Generation },
    /// Queue ids and positions, sorted by queue id, and the highest generation of the positions.
    Many(Box<(Vec<(i32, Position)>, Generation)>),
}

impl Positions {
    /// Queue ids and positions in the order of queue ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i32, Position)> + '_ {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One { queue_id, committed, generation } => {
                (Some((*queue_id, Position::of(*committed, *generation))), None)
            }
            Self::Many(many) => (None, Some(&many.0)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }

    /// The highest generation of all positions, 0 without a position.
    pub(super) fn newest(&self) -> Generation {
        match self {
            Self::None => 0,
            Self::One { generation, .. } => *generation,
            Self::Many(many) => many.1,
        }
    }

    pub(super) fn get(&self, queue_id: i32) -> Option<Position> {
        match self {
            Self::Many(many) => Some(many.0[find(&many.0, queue_id).ok()?].1),
            few => few.iter().find(|(id, _)| *id == queue_id).map(|(_, position)| position),
        }
    }

    /// Changes the position of a queue, which is made on first use.
    pub(super) fn change<R>(&mut self, queue_id: i32, apply: impl FnOnce(&mut Position) -> R) -> R {
        let is_few = match self {
            Self::None => true,
            Self::One { queue_id: own, .. } => *own == queue_id,
            Self::Many(_) => false,
        };
        if is_few {
            let mut position = self.get(queue_id).unwrap_or_default();
            let result = apply(&mut position);
            let Position { committed, generation, .. } = position;
            *self = match position == Position::of(committed, generation) {
                true => Self::One { queue_id, committed, generation },
                false => Self::Many(Box::new((vec![(queue_id, position)], generation))),
            };
            return result;
        }
        if !matches!(self, Self::Many(_)) {
            *self = Self::Many(Box::new((self.iter().collect(), self.newest())));
        }
        let Self::Many(many) = self else { unreachable!("set above") };
        let (list, newest) = &mut **many;
        let at = find(list, queue_id).unwrap_or_else(|at| {
            list.insert(at, (queue_id, Position::default()));
            at
        });
        let result = apply(&mut list[at].1);
        *newest = list[at].1.generation.max(*newest);
        result
    }
}

fn find(list: &[(i32, Position)], queue_id: i32) -> Result<usize, usize> {
    list.binary_search_by_key(&queue_id, |(id, _)| *id)
}
