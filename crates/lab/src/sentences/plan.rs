//! R13: the arithmetic of a plan.

use super::{Sentence, guards::not_looked_at, serialized_as_sentence};
use crate::judge::planned::{FILLED, NETWORK, PLANNED, Reservation, Source, Step};
use crate::judge::{Text, both};

impl Sentence for Source {
    fn sentence(&self) -> Text {
        match self {
            Self::Named { tps, size } => both!("plan.safe-rate-one-master", tps, size),
            Self::Measured { run, cell, tps, measured, planned, size } => {
                both!("plan.safe-rate-one-master-rate", tps, measured, run, cell, size, planned)
            }
        }
    }
}

impl Sentence for Reservation {
    fn sentence(&self) -> Text {
        match self {
            Self::HeldBriefly { seconds, needed } => both!("plan.careful-rate-held-seconds", seconds, needed),
            Self::BrokersUnseen => both!("plan.careful-cpu-memory-disk"),
            Self::NotLookedAt(guards) => {
                let guards = Text::joined(&not_looked_at(guards.iter())).unwrap_or_default();
                both!("plan.careful-not-looked-while", guards)
            }
            Self::FewerReaders { measured: (groups, slaves), wanted: (wanted, copies) } => {
                both!("plan.careful-rate-measured-groups", groups, slaves, wanted, copies)
            }
        }
    }
}

impl Sentence for Step {
    fn sentence(&self) -> Text {
        match *self {
            Self::SafeRate(ref source) => source.sentence(),
            Self::Careful(ref reservation) => reservation.sentence(),
            Self::ByRate { peak, growth, safe, masters } => {
                both!("plan.rate-peak-1-growth", peak, growth, safe, planned = PLANNED, masters)
            }
            Self::ByNetwork { peak, each, slaves, groups, nic, most, masters, sends } => {
                let (copies, share) = (slaves + groups, NETWORK);
                let text = both!("plan.network-peak-msg-s", peak, each, slaves, groups, copies);
                both!("plan.network-masters", text, nic, share, most, masters, sends)
            }
            Self::Masters { carrying, survive, masters, slaves } => {
                both!("plan.masters-carrying-survive-survive", carrying, survive, masters, slaves)
            }
            Self::Disk { rate, stored, hours, masters, each, total } => {
                let share = FILLED;
                both!("plan.disk-each-broker-rate", rate, stored, hours, masters, share, each, total)
            }
            Self::NameServers { survive, name_servers, controllers } => {
                both!("plan.name-servers-survive-1", survive, name_servers, controllers)
            }
        }
    }
}

serialized_as_sentence!(Step);
