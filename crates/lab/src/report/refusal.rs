//! Why a broker refuses a request, in its own words.

use serde::{Deserialize, Serialize};

/// Letters of a remark that are kept; Java puts whole stack traces there.
const REMARK_MAX: usize = 200;

/// What a broker answered to a request that it refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Response code.
    pub code: i32,
    /// The first line of what it remarked.
    pub remark: String,
}

impl Refusal {
    /// From an answer.
    #[must_use]
    pub fn new(code: i32, remark: Option<&str>) -> Self {
        let line = remark.unwrap_or_default().trim().lines().next().unwrap_or_default();
        Self { code, remark: line.chars().take(REMARK_MAX).collect() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, remark } = self;
        if remark.is_empty() { write!(f, "code {code}") } else { write!(f, "code {code}: {remark}") }
    }
}
