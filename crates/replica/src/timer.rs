//! The one timer that a shell keeps for a machine. Times are milliseconds on a clock that never goes back.

/// What the shell was told about its timer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    armed_at_ms: Option<u64>,
}

impl Timer {
    /// Notes that the shell's timer has fired and is not armed any more.
    pub(crate) fn fired(&mut self) {
        self.armed_at_ms = None;
    }

    /// The time to tell the shell when the machine has something to do at `wanted_ms`; `None` when its timer fires before. A
    /// timer that fires too early costs one empty step, while moving it with each append would cost one action for each.
    pub(crate) fn arm(&mut self, wanted_ms: Option<u64>) -> Option<u64> {
        let wanted_ms = wanted_ms?;
        if self.armed_at_ms.is_some_and(|armed| armed <= wanted_ms) {
            return None;
        }
        self.armed_at_ms = Some(wanted_ms);
        Some(wanted_ms)
    }
}
