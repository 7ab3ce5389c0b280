//! Times without an acknowledgement: of each producing connection, and of all of them together.

use crate::archive::Silence;
use crate::load::Clock;
use std::sync::{Mutex, MutexGuard};

/// Shortest time of all connections together that is kept, nanoseconds.
const ALL_MIN_NS: u64 = 10_000_000;

/// Shortest time of a single connection that is kept, nanoseconds. A slow connection is silent between any two requests.
const ONE_MIN_NS: u64 = 50_000_000;

/// Most times that are kept. Beyond it the shortest times to keep double, and shorter ones are dropped.
const KEPT_MAX: usize = 1 << 16;

/// Follows the acknowledgements of all connections.
#[derive(Debug)]
pub(super) struct Silences {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Last acknowledgement of each connection, nanoseconds of the run.
    last_ns: Vec<u64>,
    /// Last acknowledgement of any connection.
    any_ns: u64,
    found: Vec<Silence>,
    /// Factor by which [`ALL_MIN_NS`] and [`ONE_MIN_NS`] are longer by now.
    factor: u64,
    is_over: bool,
}

impl State {
    /// Keeps a silence, and drops shorter ones when there are too many.
    fn keep(&mut self, silence: Silence, kept_max: usize) {
        self.found.push(silence);
        while self.found.len() > kept_max {
            self.factor *= 2;
            let factor = self.factor;
            self.found.retain(|silence| {
                let min_ns = if silence.connection.is_some() { ONE_MIN_NS } else { ALL_MIN_NS };
                silence.to_us.is_none_or(|to_us| (to_us - silence.from_us) * 1000 >= min_ns * factor)
            });
        }
    }
}

impl Silences {
    /// Follows `connections` connections that begin to send now.
    pub fn new(clock: Clock, connections: usize) -> Self {
        let now_ns = clock.now_ns();
        let last_ns = vec![now_ns; connections];
        let state = State { last_ns, any_ns: now_ns, found: Vec::new(), factor: 1, is_over: false };
        Self { clock, state: Mutex::new(state) }
    }

    /// Records that a connection got an acknowledgement.
    pub fn acknowledged(&self, connection: u32, now_ns: u64) {
        let mut state = self.state();
        if state.is_over {
            return;
        }
        let any_ns = std::mem::replace(&mut state.any_ns, now_ns);
        let last_ns = std::mem::replace(&mut state.last_ns[connection as usize], now_ns);
        if now_ns.saturating_sub(any_ns) >= ALL_MIN_NS * state.factor {
            state.keep(self.silence(None, any_ns, Some(now_ns)), KEPT_MAX);
        }
        if now_ns.saturating_sub(last_ns) >= ONE_MIN_NS * state.factor {
            state.keep(self.silence(Some(connection), last_ns, Some(now_ns)), KEPT_MAX);
        }
    }

    /// Ends the observation, because producers stop. A producer without a recent acknowledgement is silent to the end.
    pub fn end(&self) {
        self.end_at(self.clock.now_ns());
    }

    fn end_at(&self, now_ns: u64) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_over, true) {
            return;
        }
        let State { last_ns, any_ns, found, .. } = &mut *state;
        let each = (0_u32..).zip(last_ns.iter()).map(|(connection, last_ns)| (Some(connection), *last_ns));
        for (connection, last_ns) in each.chain([(None, *any_ns)]) {
            if now_ns.saturating_sub(last_ns) >= 10 * ONE_MIN_NS {
                found.push(self.silence(connection, last_ns, None));
            }
        }
    }

    /// All times that were found.
    pub fn found(&self) -> Vec<Silence> {
        self.state().found.clone()
    }

    fn silence(&self, connection: Option<u32>, from_ns: u64, to_ns: Option<u64>) -> Silence {
        let us = |ns| self.clock.epoch_us(ns);
        Silence { connection, from_us: us(from_ns), to_us: to_ns.map(us) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it is held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn check(acknowledged: &[(u32, u64)], expected: &[(Option<u32>, u64)]) {
        let clock = Clock::start();
        let silences = Silences::new(clock, 2);
        let begin_ns = silences.state().any_ns;
        for (connection, at_ms) in acknowledged {
            silences.acknowledged(*connection, begin_ns + at_ms * MS);
        }
        let found = silences.found();
        let found: Vec<_> = found
            .iter()
            .filter_map(|silence| Some((silence.connection, (silence.to_us? - silence.from_us) / 1000)))
            .collect();
        assert_eq!(found, expected, "{acknowledged:?}");
    }

    #[test]
    fn short_times_are_left_out_and_connections_are_told_apart() {
        check(&[(0, 4), (1, 8), (0, 12)], &[]);
        check(&[(0, 4), (0, 24)], &[(None, 20)]);
        check(&[(0, 4), (1, 9), (0, 13), (1, 70)], &[(None, 57), (Some(1), 61)]);
        check(&[(0, 4), (1, 70)], &[(None, 66), (Some(1), 70)]);
    }

    #[test]
    fn what_never_comes_back_is_silent_without_an_end() {
        let silences = Silences::new(Clock::start(), 2);
        let begin_ns = silences.state().any_ns;
        silences.acknowledged(1, begin_ns + 5 * MS);
        silences.acknowledged(0, begin_ns + 700 * MS);
        silences.end_at(begin_ns + 900 * MS);
        silences.acknowledged(1, begin_ns + 950 * MS);
        let found = silences.found();
        let open: Vec<_> = found.iter().filter(|one| one.to_us.is_none()).map(|one| one.connection).collect();
        assert_eq!(
            open,
            [Some(1)],
            "the others were heard lately, and what comes after the end does not count"
        );
    }

    #[test]
    fn of_too_many_the_longest_are_kept() {
        let mut state =
            State { last_ns: Vec::new(), any_ns: 0, found: Vec::new(), factor: 1, is_over: false };
        for ms in [20, 30, 5_000, 10, 15, 40, 25, 3_000] {
            state.keep(Silence { connection: None, from_us: 0, to_us: Some(ms * 1000) }, 3);
        }
        let kept: Vec<_> = state.found.iter().filter_map(|silence| silence.to_us).collect();
        assert_eq!(kept, [5_000_000, 3_000_000]);
    }
}
