//! Single timer that a shell keeps for a machine. Times are milliseconds on a clock that never goes back.

/// State of the shell's timer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    armed_at_ms: Option<u64>,
}

impl Timer {
    /// Records that the shell's timer has fired and is disarmed.
    pub(crate) fn fired(&mut self) {
        self.armed_at_ms = None;
    }

    /// Returns the time for the shell's timer if the machine has work at `wanted_ms`. `None` if the timer fires
    /// before. An early timer costs an empty step, while moving it with each append would cost an action each.
    pub(crate) fn arm(&mut self, wanted_ms: Option<u64>) -> Option<u64> {
        let wanted_ms = wanted_ms?;
        if self.armed_at_ms.is_some_and(|armed| armed <= wanted_ms) {
            return None;
        }
        self.armed_at_ms = Some(wanted_ms);
        Some(wanted_ms)
    }
}
