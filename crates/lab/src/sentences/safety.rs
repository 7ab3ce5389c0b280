//! R2: why a cell above the highest safe rate does not count.

use super::{Sentence, joined};
use crate::judge::safety::{Above, Attempt, NotSafe};
use crate::judge::{Text, both};

impl Sentence for Above {
    fn sentence(&self) -> Text {
        let (cell, rate) = (&self.name, self.tps);
        both!("safety.cell-cell-carried-rate", cell, rate, why = self.why.sentence())
    }
}

impl Sentence for NotSafe {
    fn sentence(&self) -> Text {
        match self {
            Self::Messages => both!("safety.but-not-every-message"),
            Self::Unconfirmed { threads, seconds, attempt } => {
                let attempt = attempt.as_ref().map_or_else(
                    || both!("safety.not-confirmed"),
                    |attempt| both!("safety.longer-run-did-not", text = attempt.sentence()),
                );
                both!("safety.seconds-s-closed-loop", seconds, threads, attempt)
            }
            Self::EqualRate => both!("safety.rate-chosen-compare-latency"),
            Self::Backlog => both!("safety.before-its-backlog-only"),
            Self::Failover => both!("safety.before-its-fault-only"),
        }
    }
}

impl Sentence for Attempt {
    fn sentence(&self) -> Text {
        match self {
            Self::Broken(guards) => joined(guards).unwrap_or_default(),
            Self::Invalid(reasons) => joined(reasons).unwrap_or_default(),
            Self::Messages => both!("safety.not-every-message-arrived"),
        }
    }
}
