//! R10: whether a system lasts.

use super::{Sentence, serialized_as_sentence};
use crate::judge::soak::{Drift, Fault, FaultKind, Soak, Unread};
use crate::judge::{Text, both, numbers};

serialized_as_sentence!(Fault, Drift, Unread);

impl Sentence for Fault {
    fn sentence(&self) -> Text {
        let count = self.count;
        match self.kind {
            FaultKind::Missing => both!("soak.count-messages-missing", count),
            FaultKind::Doubled => both!("soak.count-messages-came-twice", count),
            FaultKind::Changed => both!("soak.count-messages-came-changed", count),
            FaultKind::OutOfOrder => both!("soak.count-messages-came-out", count),
        }
    }
}

impl Sentence for Unread {
    fn sentence(&self) -> Text {
        let count = self.count;
        match self.seconds {
            None => both!("soak.count-messages-not-read", count),
            Some(seconds) => both!("soak.count-messages-not-read-yet", count, seconds),
        }
    }
}

impl Sentence for Drift {
    fn sentence(&self) -> Text {
        let name = Text::named("drift", self.figure);
        both!("soak.drifts-value-per-hour", name, per_hour = self.per_hour)
    }
}

/// Joins the sentences about an interrupted soak. The first sentence leads to the list of the other
/// sentences, which are separated by semicolons.
fn together(parts: &[Text]) -> Text {
    let [first, rest @ ..] = parts else { return Text::default() };
    both!("soak.begin", first, text = Text::joined(rest).unwrap_or_default())
}

impl Sentence for Soak {
    fn sentence(&self) -> Text {
        let sentences = self.broken.iter().map(Sentence::sentence);
        let sentences = sentences.chain(self.undecided.iter().map(Sentence::sentence));
        let mut parts: Vec<Text> = sentences.chain(self.drifts.iter().map(Sentence::sentence)).collect();
        if parts.is_empty() || (self.checked && self.broken.is_empty() && self.undecided.is_none()) {
            let whole = match self.checked {
                true => both!("soak.nothing-lost-doubled-changed"),
                false => both!("soak.nothing-drifts"),
            };
            parts.insert(0, whole);
        }
        let done = numbers::span(self.hours * 3_600.0);
        let planned = self.planned_hours.map(|hours| numbers::span(hours * 3_600.0));
        let planned = planned.map(|planned| both!("soak.planned", planned)).unwrap_or_default();
        if self.interrupted {
            parts.insert(0, both!("soak.interrupted-after-planned-until", done, planned));
            return together(&parts);
        }
        parts.push(both!("soak.watched-planned", done, planned));
        Text::joined(&parts).unwrap_or_default()
    }
}
