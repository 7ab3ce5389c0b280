//! Answers that leave later, because their address failed authentication often. Their number is bounded by the failures that
//! `auth::Failures` lets wait: a minute's worth for each address.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::Next;

/// Sends a response.
type Send = Box<dyn FnOnce() + std::marker::Send>;

#[derive(Default)]
struct Waiting {
    /// Responses by the time at which they leave and their order of arrival.
    answers: BTreeMap<(i64, u64), Send>,
    count: u64,
}

/// The answers that wait.
#[derive(Default)]
pub(crate) struct Delays {
    waiting: Mutex<Waiting>,
    /// Signalled when an answer was added.
    pub added: Notify,
}

impl Delays {
    /// Schedules a call of `send` at a time in milliseconds since 1970.
    pub fn add(&self, at_ms: i64, send: Send) {
        let mut waiting = self.waiting.lock();
        waiting.count += 1;
        let key = (at_ms, waiting.count);
        waiting.answers.insert(key, send);
        self.added.notify_one();
    }

    /// Sends the due responses, and returns the time of the next response.
    pub fn due(&self, now_ms: i64) -> Next {
        loop {
            let mut waiting = self.waiting.lock();
            match waiting.answers.first_entry() {
                None => return Next::Woken,
                Some(first) if first.key().0 > now_ms => return Next::At(first.key().0),
                Some(first) => {
                    let send = first.remove();
                    drop(waiting);
                    send();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn answers_leave_in_the_order_of_their_times() {
        let (delays, sent) = (Delays::default(), Arc::new(Mutex::new(Vec::new())));
        for (at_ms, name) in [(30, 'c'), (10, 'a'), (10, 'b')] {
            let sent = sent.clone();
            delays.add(at_ms, Box::new(move || sent.lock().push(name)));
        }
        let sent = || sent.lock().iter().collect::<String>();
        assert_eq!((delays.due(9), sent().as_str()), (Next::At(10), ""));
        assert_eq!((delays.due(10), sent().as_str()), (Next::At(30), "ab"));
        assert_eq!((delays.due(31), sent().as_str()), (Next::Woken, "abc"));
    }
}
