//! R13: the arithmetic of a plan.

use super::{Sentence, guards::not_looked_at, serialized_as_sentence};
use crate::judge::numbers::{self, bytes, count, percent};
use crate::judge::planned::{FILLED, NETWORK, PLANNED, Reservation, Source, Step};
use crate::judge::{Text, both};

impl Sentence for Source {
    fn sentence(&self) -> Text {
        match self {
            Self::Named { tps, size } => {
                both!("plan.safe-rate-one-master", rate = numbers::rate(*tps), size = count(*size))
            }
            Self::Measured { run, cell, tps, measured, planned, size } => {
                let [rate, planned] = [*tps, *planned].map(numbers::rate);
                let [from, size] = [*measured, *size].map(count);
                both!("plan.safe-rate-one-master-rate", rate, from, run, cell, size, planned)
            }
        }
    }
}

impl Sentence for Reservation {
    fn sentence(&self) -> Text {
        match self {
            Self::HeldBriefly { seconds, needed } => {
                both!("plan.careful-rate-held-seconds", seconds = count(*seconds), needed = count(*needed))
            }
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
                let [peak, safe, masters] = [peak, safe, masters].map(count);
                let [growth, planned] = [growth, PLANNED].map(percent);
                both!("plan.rate-peak-1-growth", peak, growth, safe, planned, masters)
            }
            Self::ByNetwork { peak, each, slaves, groups, nic, most, masters, sends } => both!(
                "plan.network-peak-msg-s",
                peak = count(peak),
                each = count(each),
                slaves,
                groups,
                copies = slaves + groups,
                nic = count(nic),
                share = percent(NETWORK),
                most = bytes(most),
                masters = count(masters),
                sends = bytes(sends)
            ),
            Self::Masters { carrying, survive, masters, slaves } => {
                let carrying = count(carrying);
                both!("plan.masters-carrying-survive-survive", carrying, survive, masters, slaves)
            }
            Self::Disk { rate, stored, hours, masters, each, total } => {
                let [rate, stored, hours, masters] = [rate, stored, hours, masters].map(count);
                let ([each, all], share) = ([each, total].map(bytes), percent(FILLED));
                both!("plan.disk-each-broker-rate", rate, stored, hours, masters, share, each, all)
            }
            Self::NameServers { survive, name_servers, controllers } => {
                both!("plan.name-servers-survive-1", survive, name_servers, controllers)
            }
        }
    }
}

serialized_as_sentence!(Step);
