//! R0: why figures may not be shown.

use super::{Sentence, phase_name, serialized_as_sentence};
use crate::judge::validity::{GENERATOR_CPU_MAX, LAG_US_MAX, LITTLE, REPEATS_MIN, Reason, SLOPE_MAX};
use crate::judge::versus::Side;
use crate::judge::{Text, both};

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
        Reason::OtherPrograms { machine, share, limit, repeat } => match repeat {
            Some(repeat) => both!("validity.other-programs-used-value", share, machine, repeat, limit),
            None => both!("validity.other-programs-use-value", share, machine, limit),
        },
        Reason::MissingSeconds(missing) => both!("validity.missing-seconds-series-missing", missing),
        _ => Text::default(),
    }
}

/// The reasons that lie with the load and its generator.
fn load(reason: &Reason) -> Text {
    match reason {
        Reason::Little(share) => {
            both!("validity.rate-latency-value-times", share, least = LITTLE.start(), most = LITTLE.end())
        }
        Reason::Unsteady(per_minute) => {
            both!("validity.not-steady-rate-changes", per_minute, limit = SLOPE_MAX)
        }
        Reason::GeneratorBusy(share) => {
            both!("validity.load-generator-used-value", share, limit = GENERATOR_CPU_MAX)
        }
        Reason::GeneratorLate(lag_us) => {
            both!("validity.load-generator-sent-up", lag_us, limit = LAG_US_MAX)
        }
        _ => Text::default(),
    }
}
