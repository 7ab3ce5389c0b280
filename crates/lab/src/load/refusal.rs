//! Why a broker refused a request, in the broker's words.

use serde::{Deserialize, Serialize};

/// Number of characters of a remark that are kept; a Java broker may send a whole stack trace.
const REMARK_MAX: usize = 200;

/// The answer of a broker that refused a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Response code.
    pub code: i32,
    /// The first line of the broker's remark.
    pub remark: String,
}

impl Refusal {
    /// Takes the code and the remark of an answer.
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
