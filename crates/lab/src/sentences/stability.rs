//! R5: whether a rate fluctuates, and why.

use super::{Sentence, serialized};
use crate::judge::stability::Stability;
use crate::judge::{Text, both};

impl Sentence for Stability {
    fn sentence(&self) -> Text {
        let spread = self.variation;
        match self.causes.first() {
            _ if !self.fluctuates => both!("stability.steady-rate-varies-spread", spread),
            None => both!("stability.rate-fluctuates-spread-nothing", spread),
            Some(cause) => {
                let (kind, times, share) = (Text::named("cause", &cause.kind), cause.times, cause.in_low);
                let why = self.refused_for().map(|why| Text::named("cause", &why.kind));
                let why = why.map(|why| both!("stability.cause-of-broker", why)).unwrap_or_default();
                both!("stability.rate-fluctuates-spread-because", spread, kind, times, share, why)
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
