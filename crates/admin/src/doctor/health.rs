//! Health of a cluster in one word. Doctor and console show the same word for the same verdicts.

use serde::{Deserialize, Serialize};

use super::bilingual::text;
use super::finding::{Finding, Severity, State, Verdict};
use crate::Lang;

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
    pub fn name(self, lang: Lang) -> &'static str {
        match self {
            Self::Unknown => lang.pick("unknown", "未知"),
            Self::Ok => lang.pick("OK", "正常"),
            Self::Warning => lang.pick("warning", "警告"),
            Self::Critical => lang.pick("critical", "严重"),
        }
    }
}

/// Health of a cluster with the number of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The level of the gravest finding.
    pub level: Level,
    /// Causes of severity critical. Findings of one cause count once.
    pub critical: usize,
    /// Causes of severity warning.
    pub warnings: usize,
    /// Time at which the data of the verdicts was gathered, ms since the epoch; 0 if the doctor has not run.
    pub taken_at_ms: i64,
}

impl Health {
    /// Health by findings that are arranged by cause.
    pub(super) fn of(findings: &[Finding], verdicts: &[Verdict], taken_at_ms: i64) -> Self {
        let count = |severity| {
            let causes = findings.iter().filter(|finding| finding.cause.is_none());
            causes.filter(|finding| finding.severity == severity).count()
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

    /// The level and the numbers of causes in words.
    pub fn words(&self, lang: Lang) -> String {
        let plural = if self.warnings == 1 { "" } else { "s" };
        let (critical, warnings) = (self.critical, self.warnings);
        let counts = [
            (critical, text!("{critical} critical", critical)),
            (warnings, text!("{warnings} warning{plural}", warnings, plural)),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(_, words)| words.of(lang));
        let counts: Vec<_> = counts.collect();
        match counts.is_empty() {
            true => self.level.name(lang).to_owned(),
            false => {
                let (colon, comma) = lang.pick((": ", ", "), ("：", "，"));
                format!("{}{colon}{}", self.level.name(lang), counts.join(comma))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::{self, tests::healthy};
    use super::super::finding::judge;
    use super::super::report::Diagnosis;
    use super::*;
    use crate::doctor::bundle::Bundle;

    fn health(change: impl FnOnce(&mut Bundle)) -> String {
        let mut bundle = healthy();
        change(&mut bundle);
        Diagnosis::of(&bundle, judge(&bundle, checks::all())).health.words(Lang::En)
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
        let health = Health { level: Level::Critical, critical: 2, warnings: 1, taken_at_ms: 0 };
        assert_eq!(health.words(Lang::Zh), "严重：2 项严重，1 项警告");
    }
}
