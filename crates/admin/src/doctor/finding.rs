//! Checks, their findings, and the verdict of all checks over a bundle.

use super::bilingual::{Phrase, Text};
use super::bundle::{Broker, Bundle};
use super::remedy::{Fix, Remedy};
use crate::Lang;
use crate::text::time;
use serde::Serialize;
use serde_json::{Value, json};

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something works less well than it could.
    Advice,
    /// Something does not work as it was meant to, or soon will not.
    Warning,
    /// Messages are refused, not consumed or may be lost.
    Critical,
}

impl Severity {
    /// The severity as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// The severity in a language.
    pub fn word(self, lang: Lang) -> &'static str {
        match self {
            Self::Advice => lang.pick("advice", "建议"),
            Self::Warning => lang.pick("warning", "警告"),
            Self::Critical => lang.pick("critical", "严重"),
        }
    }
}

/// A row of the table of checks.
pub(crate) struct Check {
    /// Name in findings and documentation.
    pub code: &'static str,
    pub severity: Severity,
    /// The fault, in one sentence.
    pub about: Phrase,
    /// Parts of the bundle that the check reads.
    pub needs: Phrase,
    /// Looks at the bundle.
    pub look: fn(&Bundle) -> Look,
}

/// Rows of the table of checks: code, severity, function, the fault, parts of the bundle that the check needs.
macro_rules! checks {
    ($($code:literal, $severity:ident, $look:expr, $about:literal, $needs:expr;)*) => {
        &[$($crate::doctor::finding::Check {
            code: $code,
            severity: $crate::doctor::finding::Severity::$severity,
            about: $crate::doctor::bilingual::Phrase($about),
            needs: $needs,
            look: $look,
        }),*]
    };
}
pub(crate) use checks;

/// Names of the things that a finding is about, by which findings of one cause are put together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Things {
    /// Name of a broker set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// Address of a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Consumer group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// A fault that a check found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The culprit: a broker, a group, a queue.
    pub subject: Text,
    /// The figure that shows the fault.
    pub figure: Text,
    /// Source of the figure.
    pub source: Text,
    pub remedy: Remedy,
    pub things: Things,
    /// Severity and fault of a lesser finding, instead of those of the check.
    pub lesser: Option<(Severity, Phrase)>,
}

impl Found {
    pub fn new(
        subject: impl Into<Text>,
        figure: impl Into<Text>,
        source: impl Into<Text>,
        remedy: impl Into<Remedy>,
    ) -> Self {
        Self {
            subject: subject.into(),
            figure: figure.into(),
            source: source.into(),
            remedy: remedy.into(),
            things: Things::default(),
            lesser: None,
        }
    }

    /// Makes the finding lesser than the fault of the check.
    pub fn lesser(mut self, severity: Severity, about: Phrase) -> Self {
        self.lesser = Some((severity, about));
        self
    }

    /// Adds the operation that helps.
    pub fn fix(mut self, fix: impl Into<Option<Fix>>) -> Self {
        self.remedy.fix = fix.into();
        self
    }

    /// Names the broker of the fault.
    pub fn of_broker(mut self, broker: &Broker) -> Self {
        (self.things.broker, self.things.address) = (Some(broker.name.clone()), Some(broker.address.clone()));
        self
    }

    /// Names the broker set of the fault.
    pub fn of_set(mut self, name: &str) -> Self {
        self.things.broker = Some(name.to_owned());
        self
    }

    /// Names the address of the fault.
    pub fn at(mut self, address: &str) -> Self {
        self.things.address = Some(address.to_owned());
        self
    }

    /// Names the consumer group of the fault.
    pub fn of_group(mut self, name: &str) -> Self {
        self.things.group = Some(name.to_owned());
        self
    }

    /// The finding if `is_so`, otherwise an empty list. Both mean that there was data to look at; [`Look::each`] takes
    /// `None` for no data.
    pub fn when(is_so: bool, found: impl FnOnce() -> Self) -> Option<Vec<Self>> {
        Some(is_so.then(found).into_iter().collect())
    }
}

/// Result of a check, with the number of things it looked at.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Number of things with data. Nothing was checked when it is 0.
    pub looked: usize,
    pub found: Vec<Found>,
}

impl Look {
    /// Looks at each of several things; `None` where the bundle has no data for one.
    pub fn each<T>(items: impl IntoIterator<Item = T>, look: impl Fn(T) -> Option<Vec<Found>>) -> Self {
        let mut all = Self::default();
        for found in items.into_iter().filter_map(look) {
            all.looked += 1;
            all.found.extend(found);
        }
        all
    }
}

/// A fault of a cluster.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Name of the check.
    pub code: &'static str,
    /// Severity; of a cause the gravest severity of the cause and its consequences.
    pub severity: Severity,
    /// The fault in one sentence.
    pub title: Text,
    /// The culprit.
    pub subject: Text,
    /// The figure that shows the fault.
    pub figure: Text,
    /// Time of the figure, in UTC.
    pub time: String,
    /// Source of the figure.
    pub source: Text,
    /// Steps that no operation performs.
    pub advice: Text,
    /// Operation that helps.
    pub fix: Option<Fix>,
    /// Names of the things that the finding is about.
    pub things: Things,
    /// Place of the finding that causes this finding, in the list of all findings.
    pub cause: Option<usize>,
}

impl Finding {
    /// The finding as data, with texts in a language.
    pub fn value(&self, lang: Lang) -> Value {
        json!({
            "code": self.code,
            "severity": self.severity,
            "title": self.title.of(lang),
            "subject": self.subject.of(lang),
            "figure": self.figure.of(lang),
            "time": self.time,
            "source": self.source.of(lang),
            "advice": self.advice.of(lang),
            "fix": self.fix.as_ref().map(Fix::value),
            "about": self.things,
            "cause": self.cause,
        })
    }
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// The check found nothing.
    Pass,
    /// The check found something.
    Finding,
    /// The bundle has no data for it.
    Skip,
}

/// The verdict of one check.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Name of the check.
    pub code: &'static str,
    /// Outcome of the check.
    pub state: State,
    /// Number of things that the check looked at.
    pub looked: usize,
    /// Data that the check needs of the bundle.
    pub needs: Text,
    /// Findings of the check.
    pub(crate) findings: Vec<Finding>,
}

/// Judges a bundle by checks.
pub(crate) fn judge<'a>(bundle: &Bundle, checks: impl Iterator<Item = &'a Check>) -> Vec<Verdict> {
    checks.map(|check| verdict(bundle, check)).collect()
}

fn verdict(bundle: &Bundle, check: &Check) -> Verdict {
    let Look { looked, found } = (check.look)(bundle);
    let state = match (looked, found.is_empty()) {
        (0, _) => State::Skip,
        (_, true) => State::Pass,
        (_, false) => State::Finding,
    };
    let about = |found: &Found| found.lesser.unwrap_or((check.severity, check.about));
    let finding = |found: Found| Finding {
        code: check.code,
        severity: about(&found).0,
        title: about(&found).1.into(),
        subject: found.subject,
        figure: found.figure,
        time: time(bundle.taken_at_ms),
        source: found.source,
        advice: found.remedy.advice,
        fix: found.remedy.fix,
        things: found.things,
        cause: None,
    };
    let findings = if state == State::Skip { Vec::new() } else { found.into_iter().map(finding).collect() };
    Verdict { code: check.code, state, looked, needs: check.needs.into(), findings }
}
