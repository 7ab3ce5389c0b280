//! Sentences of reports, English and Chinese side by side. The rules in [`crate::judge`] give values, and only this
//! module turns values into words.

mod backlog;
mod balance;
mod bottleneck;
mod ceiling;
mod comparison;
mod effects;
mod failover;
mod guards;
mod plan;
mod safety;
mod selftest;
mod soak;
mod stability;
mod validity;

pub use backlog::phase_name;
pub use comparison::{ratio_text, reservation, verdict};
pub use guards::unseen;
pub use selftest::self_tests_left_out;

use crate::judge::{RecordedVerdict, Text};

/// A verdict in words.
pub trait Sentence {
    /// The verdict in both languages.
    fn sentence(&self) -> Text;
}

impl<T: Sentence> Sentence for RecordedVerdict<T> {
    fn sentence(&self) -> Text {
        match self {
            Self::Verdict(verdict) => verdict.sentence(),
            Self::Read(text) => text.clone(),
        }
    }
}

impl<T: Sentence> serde::Serialize for RecordedVerdict<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.sentence().serialize(serializer)
    }
}

/// The sentences of several verdicts, joined with semicolons; `None` when there are none.
pub fn joined<T: Sentence>(verdicts: &[T]) -> Option<Text> {
    Text::joined(&verdicts.iter().map(Sentence::sentence).collect::<Vec<_>>())
}

/// Implements `Serialize` for verdicts: a file holds the sentence of the verdict.
macro_rules! serialized_as_sentence {
    ($($verdict:ty),+) => {
        $(impl serde::Serialize for $verdict {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::sentences::Sentence::sentence(self).serialize(serializer)
            }
        })+
    };
}
use serialized_as_sentence;

/// Implements `Serialize` for a verdict: a file holds the named values, mostly with the sentence as `says`.
macro_rules! serialized {
    ($verdict:ty, |$own:ident| $values:tt) => {
        impl serde::Serialize for $verdict {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $own = self;
                serde_json::json!($values).serialize(serializer)
            }
        }
    };
}
use serialized;
