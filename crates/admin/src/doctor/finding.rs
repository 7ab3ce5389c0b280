//! What a check is, what it says, and the verdict of all checks over a bundle.

use super::bundle::Bundle;
use crate::text::time;
use serde::Serialize;

/// How much a finding matters.
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
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A row of the table of checks.
pub(crate) struct Check {
    /// Its name in findings and documentation.
    pub code: &'static str,
    pub severity: Severity,
    /// What would be wrong, one sentence.
    pub about: &'static str,
    /// What it needs of the bundle.
    pub needs: &'static str,
    /// Looks at the bundle.
    pub look: fn(&Bundle) -> Look,
}

/// Rows of the table of checks: code, severity, function, what would be wrong, what it needs.
macro_rules! checks {
    ($($code:literal, $severity:ident, $look:expr, $about:literal, $needs:expr;)*) => {
        &[$($crate::doctor::finding::Check {
            code: $code,
            severity: $crate::doctor::finding::Severity::$severity,
            about: $about,
            needs: $needs,
            look: $look,
        }),*]
    };
}
pub(crate) use checks;

/// Something that a check found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The culprit: a broker, a group, a queue.
    pub subject: String,
    /// The figure that shows it.
    pub figure: String,
    /// Where the figure comes from.
    pub source: String,
    /// A command, or what else is to be done.
    pub fix: String,
}

impl Found {
    pub fn new(
        subject: impl Into<String>,
        figure: impl Into<String>,
        source: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { subject: subject.into(), figure: figure.into(), source: source.into(), fix: fix.into() }
    }

    /// The answer of a look at something for which there is data: this, if it is so.
    pub fn when(is_so: bool, found: impl FnOnce() -> Self) -> Option<Vec<Self>> {
        Some(is_so.then(found).into_iter().collect())
    }
}

/// What a check saw.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// How many things there was data for. Nothing was checked when it is 0.
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

/// A finding with all that is known of it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The culprit.
    pub subject: String,
    /// The figure that shows it.
    pub figure: String,
    /// When the figure was taken, in UTC.
    pub time: String,
    /// Where it comes from.
    pub source: String,
    /// A command, or what else is to be done.
    pub fix: String,
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// It looked and found nothing.
    Pass,
    /// It found something.
    Finding,
    /// The bundle has no data for it.
    Skip,
}

/// The verdict of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Name of the check.
    pub code: &'static str,
    /// What it came to.
    pub state: State,
    /// How many things it looked at.
    pub looked: usize,
    /// What it needs of the bundle.
    pub needs: &'static str,
    /// What it found.
    pub findings: Vec<Finding>,
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
    let finding = |found: Found| Finding {
        code: check.code,
        severity: check.severity,
        subject: found.subject,
        figure: found.figure,
        time: time(bundle.taken_at_ms),
        source: found.source,
        fix: found.fix,
    };
    let findings = if state == State::Skip { Vec::new() } else { found.into_iter().map(finding).collect() };
    Verdict { code: check.code, state, looked, needs: check.needs, findings }
}
