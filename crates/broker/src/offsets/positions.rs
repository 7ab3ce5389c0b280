//! Offsets of a group in the queues of a topic, by queue id. Lite topics have one queue, and there may be hundreds of
//! thousands of them, so that a single queue takes no allocation of its own.

use super::Position;

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

/// Queue ids and positions, sorted by queue id.
pub(super) enum Positions {
    One([(i32, Position); 1]),
    Many(Vec<(i32, Position)>),
}

impl Default for Positions {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Positions {
    /// Queue ids and positions in the order of queue ids.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, (i32, Position)> {
        self.all().iter()
    }

    pub(super) fn get(&self, queue_id: i32) -> Option<Position> {
        let at = self.find(queue_id).ok()?;
        Some(self.all()[at].1)
    }

    pub(super) fn get_mut(&mut self, queue_id: i32) -> Option<&mut Position> {
        let at = self.find(queue_id).ok()?;
        Some(self.at(at))
    }

    /// The position of a queue, made on first use.
    pub(super) fn entry(&mut self, queue_id: i32) -> &mut Position {
        let at = self.find(queue_id).unwrap_or_else(|at| {
            let entry = (queue_id, Position::default());
            match self {
                Self::Many(list) if list.is_empty() => *self = Self::One([entry]),
                Self::Many(list) => list.insert(at, entry),
                Self::One([first]) => {
                    let mut list = vec![*first];
                    list.insert(at, entry);
                    *self = Self::Many(list);
                }
            }
            at
        });
        self.at(at)
    }

    fn all(&self) -> &[(i32, Position)] {
        match self {
            Self::One(one) => one,
            Self::Many(list) => list,
        }
    }

    fn at(&mut self, at: usize) -> &mut Position {
        match self {
            Self::One(one) => &mut one[at].1,
            Self::Many(list) => &mut list[at].1,
        }
    }

    fn find(&self, queue_id: i32) -> Result<usize, usize> {
        self.all().binary_search_by_key(&queue_id, |(id, _)| *id)
    }
}
