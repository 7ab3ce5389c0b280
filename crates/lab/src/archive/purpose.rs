//! Purpose of a cell in a run, when the cell is not simply a cell of the run's own.

use super::Factors;

/// Name of the factor that holds a purpose.
const PURPOSE: &str = "purpose";

/// Why a search or a comparison of modes runs a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A step of the ladder with which `vostok lab safe-tps` finds the ceiling.
    Ceiling,
    /// `vostok lab safe-tps` runs the cell once, to decide which rate to try next.
    Probe,
    /// `vostok lab safe-tps` confirms the rate that it found.
    Confirm,
    /// `vostok lab modes` compares latency, at a share of the slowest mode's rate.
    EqualRate,
}

impl Purpose {
    /// The name of the purpose in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ceiling => "ceiling",
            Self::Probe => "search",
            Self::Confirm => "confirm",
            Self::EqualRate => "equal-rate",
        }
    }
}

impl Factors {
    /// Purpose of the cell; `None` for a cell of the run's own.
    pub fn purpose(&self) -> Option<Purpose> {
        let name = self.more.get(PURPOSE)?;
        let all = [Purpose::Ceiling, Purpose::Probe, Purpose::Confirm, Purpose::EqualRate];
        all.into_iter().find(|purpose| purpose.name() == name)
    }

    /// The factors of a cell with this purpose.
    pub fn meant_for(mut self, purpose: Purpose) -> Self {
        self.more.insert(PURPOSE.to_owned(), purpose.name().to_owned());
        self
    }

    /// Whether the cell is a soak, which is run once and for long.
    pub fn is_soak(&self) -> bool {
        self.more.contains_key("soak")
    }

    /// Whether masters fail in the cell.
    pub fn is_failover(&self) -> bool {
        self.more.contains_key("fault")
    }

    /// Seconds that a soak was meant to take; `None` for other cells.
    pub fn soak_seconds(&self) -> Option<u64> {
        self.more.get("soak")?.parse().ok()
    }

    /// Whether the cell builds up a backlog.
    pub fn is_backlog(&self) -> bool {
        self.more.contains_key("fill")
    }

    /// Whether messages are delayed before they can be consumed.
    pub fn is_delayed(&self) -> bool {
        self.more.contains_key("delay")
    }

    /// Whether messages are sent one way, so that no server answers them.
    pub fn is_one_way(&self) -> bool {
        self.more.get("send").is_some_and(|send| send == "oneway")
    }
}
