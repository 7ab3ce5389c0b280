//! Which client of a group gets which queues (`AllocateMessageQueueAveragely`, `AllocateMessageQueueAveragelyByCircle`,
//! `QueryAssignmentProcessor.allocate4Pop`). Pure.

use wire::body::MessageQueue;

/// Strategy of queue assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Blocks of neighbouring queues; when they do not divide evenly, the first clients get one queue more (`AVG`).
    Average,
    /// Assigns queues to the clients in turn (`AVG_BY_CIRCLE`).
    Circle,
}

impl Strategy {
    /// The strategy of a name; `None` for the strategies that clients know and brokers do not.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "AVG" => Some(Self::Average),
            "AVG_BY_CIRCLE" => Some(Self::Circle),
            _ => None,
        }
    }
}

/// Request of a client for its share of a topic's queues.
pub(super) struct ShareRequest<'a> {
    pub strategy: Strategy,
    pub client: &'a str,
    /// All clients of the group, sorted.
    pub clients: &'a [String],
    pub queues: Vec<MessageQueue>,
}

impl ShareRequest<'_> {
    /// Returns the queues that the client pulls. `None` without clients or queues, and the client then keeps its
    /// queues.
    pub(super) fn pull(mut self) -> Option<Vec<MessageQueue>> {
        self.queues.sort_unstable();
        let is_known = !self.clients.is_empty() && !self.queues.is_empty() && !self.client.is_empty();
        is_known.then(|| self.place().map_or_else(Vec::new, |place| self.of(place)))
    }

    /// Returns the queues that the client pops: the client's own share, and the shares of the next
    /// `share` clients. If `share` is at most 0 or includes all other clients, every queue is
    /// returned with the id -1. This id stands for all queues of a broker. With fewer queues than
    /// clients, the client pops a single queue. `None` without clients, or without queues to
    /// divide.
    pub(super) fn pop(mut self, share: i32) -> Option<Vec<MessageQueue>> {
        let share = usize::try_from(share).unwrap_or(0);
        if share == 0 || share + 1 >= self.clients.len() {
            self.queues.iter_mut().for_each(|queue| queue.queue_id = -1);
            return (!self.clients.is_empty()).then_some(self.queues);
        }
        self.queues.sort_unstable();
        if self.queues.is_empty() || self.client.is_empty() {
            return None;
        }
        let Some(place) = self.place() else { return Some(Vec::new()) };
        if self.clients.len() > self.queues.len() {
            return Some(vec![self.queues[place % self.queues.len()].clone()]);
        }
        Some((0..=share).flat_map(|next| self.of((place + next) % self.clients.len())).collect())
    }

    fn place(&self) -> Option<usize> {
        self.clients.iter().position(|client| client == self.client)
    }

    fn of(&self, place: usize) -> Vec<MessageQueue> {
        let (queues, clients) = (&self.queues, self.clients.len());
        match self.strategy {
            Strategy::Circle => queues.iter().skip(place).step_by(clients).cloned().collect(),
            Strategy::Average => {
                let (least, more) = (queues.len() / clients, queues.len() % clients);
                let first = place * least + place.min(more);
                let count = least + usize::from(place < more);
                queues.iter().skip(first).take(count).cloned().collect()
            }
        }
    }
}
