//! Activity of a connection: whether it has calls, and the time since its last call.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The calls of one connection.
pub struct Activity(Mutex<State>);

struct State {
    calls: usize,
    /// When the last call ended, or the connection began.
    since: Instant,
}

/// A call until its response is written.
pub struct ActiveCall(Arc<Activity>);

impl Activity {
    pub fn new() -> Self {
        Self(Mutex::new(State { calls: 0, since: Instant::now() }))
    }

    /// Records a call.
    pub fn call(activity: &Arc<Self>) -> ActiveCall {
        activity.0.lock().calls += 1;
        ActiveCall(activity.clone())
    }

    /// Returns the time since the last call. Zero during a call.
    pub fn idle(&self) -> Duration {
        let state = self.0.lock();
        if state.calls > 0 { Duration::ZERO } else { state.since.elapsed() }
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.calls -= 1;
        state.since = Instant::now();
    }
}
