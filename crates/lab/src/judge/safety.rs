//! R2 for whole cells: the highest safe rate, and the valid cells above it that kept every guard.

use super::conclusion::{Case, Safe};
use super::guards::{Guard, next_to_break};
use super::validity::Reason;
use crate::archive::Purpose;

/// A valid cell that kept every guard at a rate above the highest safe one.
#[derive(Clone, Debug, PartialEq)]
pub struct Above {
    /// Index in [`super::conclusion::Conclusion::cells`].
    pub cell: usize,
    /// Name of the cell.
    pub name: String,
    /// The rate in messages per second.
    pub tps: f64,
    /// Reason for which the rate is not called safe.
    pub why: NotSafe,
}

/// Reason for which the rate of a valid cell that kept every guard is not called safe.
#[derive(Clone, Debug, PartialEq)]
pub enum NotSafe {
    /// A message was lost, doubled, changed or out of order, or not every message was read.
    Messages,
    /// The cell was a step of the ladder of a search, which confirms a rate in longer repeats.
    Unconfirmed {
        /// Requests in flight.
        threads: u32,
        /// Seconds for which each repeat held the rate.
        seconds: f64,
        /// Reason for which a longer run with as many requests in flight did not confirm the rate; `None` without such a run.
        attempt: Option<Attempt>,
    },
    /// The rate was chosen to compare latency.
    EqualRate,
    /// The figures are those before a backlog.
    Backlog,
    /// The figures are those before a fault.
    Failover,
}

/// Reason for which a rate was not confirmed.
#[derive(Clone, Debug, PartialEq)]
pub enum Attempt {
    /// Guards broke.
    Broken(Vec<Guard>),
    /// The cell is invalid.
    Invalid(Vec<Reason>),
    /// A message did not arrive as it should.
    Messages,
}

impl Case<'_> {
    /// Whether the cell's rate counts as safe: the cell is valid, no guard broke and every message arrived. In a search
    /// only the cell that confirms counts. A backlog, a failover and the cells in which modes are compared at an equal rate
    /// do not.
    pub fn is_safe(&self) -> bool {
        self.keeps_guards() && self.not_safe(&[]).is_none()
    }

    /// Whether the cell is valid and no guard broke.
    pub fn keeps_guards(&self) -> bool {
        self.judged.figures().is_some() && !self.guards.iter().any(Guard::is_broken)
    }

    /// Returns the reason for which the rate is not called safe although the cell kept every guard; `None` when it is safe.
    fn not_safe(&self, cells: &[Case<'_>]) -> Option<NotSafe> {
        if self.soak.as_ref().is_some_and(|soak| !soak.broken.is_empty() || soak.undecided.is_some()) {
            return Some(NotSafe::Messages);
        }
        if self.failover.is_some() {
            return Some(NotSafe::Failover);
        }
        if self.backlog.is_some() {
            return Some(NotSafe::Backlog);
        }
        match self.factors().purpose()? {
            Purpose::Confirm => None,
            Purpose::EqualRate => Some(NotSafe::EqualRate),
            Purpose::Ceiling | Purpose::Probe => {
                let (threads, seconds) = (self.factors().threads, self.seconds());
                let is_try = |case: &&Case<'_>| {
                    let of = case.factors();
                    of.purpose() == Some(Purpose::Confirm) && of.rate.is_none() && of.threads == threads
                };
                let attempt = cells.iter().find(is_try).map(Case::attempt);
                Some(NotSafe::Unconfirmed { threads, seconds, attempt })
            }
        }
    }

    /// Returns the reason for which this cell did not confirm the rate that it was run for.
    fn attempt(&self) -> Attempt {
        let broken: Vec<Guard> = self.guards.iter().filter(|guard| guard.is_broken()).cloned().collect();
        match &self.judged.outcome {
            _ if !broken.is_empty() => Attempt::Broken(broken),
            Err(reasons) => Attempt::Invalid(reasons.clone()),
            Ok(_) => Attempt::Messages,
        }
    }
}

/// The highest safe rate; `None` without one.
pub fn safe(cells: &[Case<'_>]) -> Option<Safe> {
    let cell = super::conclusion::highest(cells, |case| case.is_safe())?;
    let case = &cells[cell];
    let tps = case.judged.figures()?.tps;
    Some(Safe { cell, tps, next: next_to_break(&case.guards).cloned(), seconds: case.seconds() })
}

/// The highest valid cell that kept every guard, when its rate is above the highest safe one.
pub fn above(cells: &[Case<'_>], safe: Option<&Safe>) -> Option<Above> {
    let cell = super::conclusion::highest(cells, |case| case.keeps_guards())?;
    let (case, least) = (&cells[cell], safe.map_or(0.0, |safe| safe.tps.mean));
    let tps = case.judged.figures()?.tps.mean;
    let why = case.not_safe(cells).filter(|_| tps > least)?;
    Some(Above { cell, name: case.judged.cell.cell.name.clone(), tps, why })
}

#[cfg(test)]
mod tests {
    use crate::archive::{Factors, Purpose, Record};
    use crate::judge::conclusion::Conclusion;
    use crate::judge::guards::Limits;
    use crate::judge::testing;
    use crate::sentences::Sentence;

    fn search() -> Record {
        let closed = |threads, purpose| testing::factors(threads).meant_for(purpose);
        let open = Factors { rate: Some(6_270.0), ..testing::factors(60) }.meant_for(Purpose::Confirm);
        testing::record(&[
            (closed(480, Purpose::Ceiling), 11_180.0),
            (closed(960, Purpose::Ceiling), 11_990.0),
            (open, 6_270.0),
        ])
    }

    fn said(record: &Record) -> String {
        let found = Conclusion::new(record, &Limits::default());
        assert_eq!(found.safe.as_ref().map(|safe| safe.cell), Some(2));
        found.above.map(|above| above.sentence().en).unwrap_or_default()
    }

    #[test]
    fn a_step_above_the_safe_rate_that_kept_every_guard_is_named_with_the_reason() {
        let mut record = search();
        let told = said(&record);
        assert!(told.starts_with("cell 002-w960-s1024-q8 carried 12,0"), "{told}");
        assert!(
            told.ends_with("for 60 s in a closed loop with 960 in flight; that was not confirmed"),
            "{told}"
        );
        // A step whose guards break is no rate to hold against the safe one.
        for cell in &mut record.cells[..2] {
            let seconds = cell.repeats.iter_mut().filter_map(|repeat| repeat.hosts.get_mut("b1"));
            seconds.flatten().for_each(|second| second.cpu_user = 0.8);
        }
        assert_eq!(said(&record), "");
    }

    #[test]
    fn a_longer_run_that_broke_a_guard_is_the_reason() {
        let mut record = search();
        let again = testing::record(&[(testing::factors(960).meant_for(Purpose::Confirm), 11_990.0)]);
        record.file.cells.extend(again.file.cells);
        record.cells.extend(again.cells);
        let hosts = record.cells[3].repeats.iter_mut().filter_map(|repeat| repeat.hosts.get_mut("b1"));
        hosts.flatten().for_each(|second| second.cpu_user = 0.8);
        let told = said(&record);
        assert!(told.ends_with("a longer run did not confirm it: CPU busy 90.0 %, limit 75.0 %"), "{told}");
    }

    #[test]
    fn a_closed_loop_that_was_confirmed_is_the_safe_rate() {
        let cells = [(Purpose::Ceiling, 11_990.0), (Purpose::Confirm, 11_980.0)];
        let record =
            testing::record(&cells.map(|(purpose, tps)| (testing::factors(960).meant_for(purpose), tps)));
        let found = Conclusion::new(&record, &Limits::default());
        assert_eq!(found.safe.map(|safe| safe.cell), Some(1));
    }
}
