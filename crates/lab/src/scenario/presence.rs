//! Detects that a broker stopped answering or was restarted. The figures of such a repeat belong to two processes.

use crate::archive::{BROKER_AWAY, BROKER_BACK, BROKER_RESTARTED, BrokerSecond, Event};
use client::Error;

/// State of a broker since the repeat began.
#[derive(Debug)]
pub(super) struct Presence {
    name: String,
    /// Start time of the broker by its own clock, milliseconds since 1970; 0 until it is known.
    started_ms: u64,
    /// Time since which the broker does not answer; `None` while it answers.
    silent_from_ms: Option<u64>,
}

impl Presence {
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), started_ms: 0, silent_from_ms: None }
    }

    /// Takes the answer of a broker that was asked at `at_ms`; returns an event when its state changed.
    pub fn note(&mut self, at_ms: u64, said: &Result<BrokerSecond, Error>) -> Option<Event> {
        match said {
            Ok(second) => self.answered(at_ms, second.started_ms),
            // The broker answers, but without its figures.
            Err(Error::Refused { .. } | Error::Answer { .. }) => self.answered(at_ms, 0),
            Err(error) => {
                let is_known = self.silent_from_ms.replace(self.silent_from_ms.unwrap_or(at_ms)).is_some();
                (!is_known).then(|| self.event(at_ms, BROKER_AWAY, format!("it does not answer: {error}")))
            }
        }
    }

    fn answered(&mut self, at_ms: u64, started_ms: u64) -> Option<Event> {
        let before_ms = self.started_ms;
        let silent_from_ms = self.silent_from_ms.take();
        if started_ms > 0 {
            self.started_ms = started_ms;
        }
        if before_ms > 0 && self.started_ms != before_ms {
            return Some(self.event(at_ms, BROKER_RESTARTED, "it was started again".to_owned()));
        }
        silent_from_ms.map(|from_ms| {
            let seconds = at_ms.saturating_sub(from_ms).div_ceil(1_000);
            self.event(at_ms, BROKER_BACK, format!("it answers again after {seconds} s"))
        })
    }

    fn event(&self, at_ms: u64, kind: &str, detail: String) -> Event {
        Event { at_ms, node: self.name.clone(), kind: kind.to_owned(), detail, lasted_ms: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(started_ms: u64) -> Result<BrokerSecond, Error> {
        Ok(BrokerSecond { started_ms, ..BrokerSecond::default() })
    }

    fn unreachable() -> Result<BrokerSecond, Error> {
        let source = std::io::ErrorKind::ConnectionRefused.into();
        Err(Error::Connect { address: "b:1".to_owned(), source })
    }

    fn refused() -> Result<BrokerSecond, Error> {
        Err(Error::Refused { address: "b:1".to_owned(), code: 16, remark: String::new() })
    }

    fn check(said: &[Result<BrokerSecond, Error>], expected: &[(u64, &str)]) {
        let mut presence = Presence::of("a");
        let events: Vec<_> = (1_u64..).zip(said).filter_map(|(at, said)| presence.note(at, said)).collect();
        let found: Vec<_> = events.iter().map(|event| (event.at_ms, event.kind.as_str())).collect();
        assert_eq!(found, expected);
        assert!(events.iter().all(|event| event.node == "a"));
    }

    #[test]
    fn a_broker_that_is_away_or_another_process_is_noticed_once() {
        check(&[started(7), started(7)], &[]);
        check(&[started(7), started(9), started(9)], &[(2, BROKER_RESTARTED)]);
        check(
            &[started(7), unreachable(), unreachable(), started(9)],
            &[(2, BROKER_AWAY), (4, BROKER_RESTARTED)],
        );
        check(&[started(7), unreachable(), started(7)], &[(2, BROKER_AWAY), (3, BROKER_BACK)]);
        check(&[unreachable(), unreachable()], &[(1, BROKER_AWAY)]);
        // A broker that reports no figures counts as present.
        check(&[refused(), refused(), started(0)], &[]);
    }
}
