//! Health of a cluster in one word. Doctor and console show the same word for the same verdicts.

use serde::{Deserialize, Serialize};

use super::finding::{Severity, State, Verdict};

/// Health of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No check had data.
    #[default]
    Unknown,
    /// No check found a warning or worse. Advice does not count.
    Ok,
    /// Part of the cluster does not work as intended.
    Warning,
    /// Messages are refused, not consumed or may be lost.
    Critical,
}

impl Level {
    /// The level in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ok => "OK",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Health of a cluster with the number of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The level of the gravest finding.
    pub level: Level,
    /// Findings of severity critical.
    pub critical: usize,
    /// Findings of severity warning.
    pub warnings: usize,
    /// Time at which the data of the verdicts was gathered, ms since the epoch; 0 if the doctor has not run.
    pub taken_at_ms: i64,
}

impl Health {
    pub(super) fn of(verdicts: &[Verdict], taken_at_ms: i64) -> Self {
        let count = |severity| {
            let findings = verdicts.iter().flat_map(|verdict| &verdict.findings);
            findings.filter(|finding| finding.severity == severity).count()
        };
        let (critical, warnings) = (count(Severity::Critical), count(Severity::Warning));
        let level = match (critical, warnings) {
            (1.., _) => Level::Critical,
            (0, 1..) => Level::Warning,
            (0, 0) if verdicts.iter().any(|verdict| verdict.state != State::Skip) => Level::Ok,
            (0, 0) => Level::Unknown,
        };
        Self { level, critical, warnings, taken_at_ms }
    }
}

impl std::fmt::Display for Health {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.level.name())?;
        let counts = [
            (self.critical, "critical"),
            (self.warnings, if self.warnings == 1 { "warning" } else { "warnings" }),
        ];
        for (at, (count, name)) in counts.iter().filter(|(count, _)| *count > 0).enumerate() {
            write!(out, "{}{count} {name}", if at == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::{self, tests::healthy};
    use super::super::finding::judge;
    use super::*;
    use crate::doctor::bundle::Bundle;

    fn health(change: impl FnOnce(&mut Bundle)) -> String {
        let mut bundle = healthy();
        change(&mut bundle);
        Health::of(&judge(&bundle, checks::all()), 7).to_string()
    }

    #[test]
    fn the_gravest_finding_decides() {
        let lose = |bundle: &mut Bundle| bundle.replica_sets[0].members[1].is_alive = false;
        assert_eq!(health(|_| ()), "OK");
        assert_eq!(health(lose), "warning: 1 warning");
        let both = |bundle: &mut Bundle| {
            lose(bundle);
            bundle.controllers.iter_mut().for_each(|controller| controller.leader.clear());
        };
        assert_eq!(health(both), "critical: 1 critical, 1 warning");
        assert_eq!(health(|bundle| *bundle = Bundle::default()), "unknown");
        let error = crate::Error::NotFound("no answer".to_owned());
        let silent =
            |bundle: &mut Bundle| *bundle = Bundle::without_answer(&["n:9876".to_owned()], &error, 7);
        assert_eq!(health(silent), "critical: 1 critical");
    }
}
