//! R0: why figures may not be shown.

use super::{Sentence, phase_name, serialized_as_sentence};
use crate::judge::validity::{GENERATOR_CPU_MAX, LAG_US_MAX, LITTLE, REPEATS_MIN, Reason, SLOPE_MAX};
use crate::judge::versus::Side;
use crate::judge::{Text, both, numbers};

serialized_as_sentence!(Reason);

impl Sentence for Reason {
    fn sentence(&self) -> Text {
        match self {
            Self::Probe => both!("validity.probe-one-repeat-tells"),
            Self::TooFew { count, is_backlog: true } => {
                both!("validity.count-repeats-phases-backlog", count, REPEATS_MIN)
            }
            Self::TooFew { count, is_backlog: false } => {
                both!("validity.count-repeats-least-repeats-min", count, REPEATS_MIN)
            }
            Self::EndedEarly => both!("validity.ended-before-anything-counted"),
            Self::Silence { answer: None } => both!("validity.no-message-acknowledged"),
            Self::Silence { answer: Some(why) } => both!("validity.no-message-acknowledged-why", why),
            Self::SilentRepeats(count) => both!("validity.repeats-without-acknowledged-message", count),
            Self::InPhase(phase, reason) => {
                both!("validity.phase", name = phase_name(phase), text = reason.sentence())
            }
            Self::InRun(side, reason) => {
                let text = reason.sentence();
                match side {
                    Side::First => both!("validity.invalid-first", text),
                    Side::Second => both!("validity.invalid-second", text),
                }
            }
            Self::Read(text) => text.clone(),
            Self::BrokerRestarted { .. }
            | Self::BrokerAway { .. }
            | Self::MissingSeconds(_)
            | Self::Unobserved { .. }
            | Self::OtherPrograms { .. } => machines(self),
            Self::Little(_) | Self::Unsteady(_) | Self::GeneratorBusy(_) | Self::GeneratorLate(_) => {
                load(self)
            }
        }
    }
}

/// The reasons that lie with machines and brokers.
fn machines(reason: &Reason) -> Text {
    match reason {
        Reason::BrokerRestarted { broker, repeat } => {
            both!("validity.broker-broker-started-again", broker, repeat)
        }
        Reason::BrokerAway { broker, repeat } => both!("validity.broker-broker-did-not", broker, repeat),
        Reason::Unobserved { machine, seconds } => {
            both!("validity.seconds-seconds-machine-machine", seconds, machine)
        }
        Reason::OtherPrograms { machine, share, limit, repeat } => {
            let (value, most) = (numbers::percent(*share), numbers::percent(*limit));
            match repeat {
                Some(repeat) => both!("validity.other-programs-used-value", value, machine, repeat, most),
                None => both!("validity.other-programs-use-value", value, machine, most),
            }
        }
        Reason::MissingSeconds(missing) => both!("validity.missing-seconds-series-missing", missing),
        _ => Text::default(),
    }
}

/// The reasons that lie with the load and its generator.
fn load(reason: &Reason) -> Text {
    match reason {
        Reason::Little(share) => {
            let (value, least, most) = (numbers::short(*share), LITTLE.start(), LITTLE.end());
            both!("validity.rate-latency-value-times", value, least, most)
        }
        Reason::Unsteady(per_minute) => {
            let (value, most) = (numbers::change(*per_minute), numbers::percent(SLOPE_MAX));
            both!("validity.not-steady-rate-changes", value, most)
        }
        Reason::GeneratorBusy(share) => {
            let (value, most) = (numbers::percent(*share), numbers::percent(GENERATOR_CPU_MAX));
            both!("validity.load-generator-used-value", value, most)
        }
        Reason::GeneratorLate(lag_us) => {
            let (value, most) = (numbers::micros(*lag_us), numbers::micros(LAG_US_MAX));
            both!("validity.load-generator-sent-up", value, most)
        }
        _ => Text::default(),
    }
}
