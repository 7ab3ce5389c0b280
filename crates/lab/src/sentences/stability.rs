//! R5: whether a rate fluctuates, and why.

use super::{Sentence, serialized};
use crate::judge::stability::Stability;
use crate::judge::{Text, both, numbers};

impl Sentence for Stability {
    fn sentence(&self) -> Text {
        let spread = numbers::percent(self.variation);
        match self.causes.first() {
            _ if !self.fluctuates => both!("stability.steady-rate-varies-spread", spread),
            None => both!("stability.rate-fluctuates-spread-nothing", spread),
            Some(cause) => {
                let (kind, zh) = (&cause.kind, name_zh(&cause.kind));
                let (times, share) = (numbers::count(cause.times as f64), numbers::percent(cause.in_low));
                let (why, why_zh) = self.refused_for().map_or_else(Default::default, |why| {
                    let (en, zh) = (&why.kind, name_zh(&why.kind));
                    (format!(", the broker's cause: {en}"), format!("，Broker 给出的原因：{zh}"))
                });
                both!("stability.rate-fluctuates-spread-because", spread, kind, times, share, why, zh, why_zh)
            }
        }
    }
}

serialized!(Stability, |stability| {
    "variation": stability.variation,
    "lowest": stability.lowest,
    "fluctuates": stability.fluctuates,
    "causes": stability.causes,
    "says": stability.sentence(),
});

/// The name of a cause in Chinese; a kind without a translation is returned unchanged.
pub fn name_zh(kind: &str) -> &str {
    Text::known(&format!("cause.{kind}")).map_or(kind, |[_, zh]| zh)
}
