//! The engine of lite topics: full dispatches, clients that are silent or do not pop, and the search for expired lite
//! topics. A round works for a bounded number of lite queues, so that other clients need not wait.

use std::collections::HashMap;
use std::sync::Arc;

use super::{expiry, is_ready};
use crate::engine::{Engine, Every, Next};
use crate::names::lite_parts;
use crate::parts::LiteParts;
use crate::pop;
use crate::state::{Offered, PassKey};

/// Interval in milliseconds at which clients are checked.
const CHECK_MS: i64 = 1000;

/// Most lite queues that a round visits for its dispatches, and most that it visits for its search for expired lite topics.
const STEP: usize = if cfg!(test) { 4 } else { 4096 };

/// Names of lite queues.
type Names = std::iter::Peekable<Box<dyn Iterator<Item = Arc<str>> + Send>>;

/// The engine of lite topics.
pub(crate) struct LiteEngine {
    parts: Arc<LiteParts>,
    checked: Every,
    searched: Every,
    /// Whether the broker serves clients: as master, or for its master.
    is_serving: bool,
    /// Start of the broker, milliseconds since the epoch.
    began_ms: Option<i64>,
    /// Full dispatches that are not finished: the lite queues still to be looked at.
    passes: HashMap<PassKey, Names>,
    /// Search for expired lite topics that is not finished.
    search: Option<expiry::Search>,
    /// Lite queues without messages that the last search found.
    empty: expiry::Empty,
}

impl LiteEngine {
    /// An engine whose first check comes after an interval.
    pub(crate) fn new(parts: Arc<LiteParts>) -> Self {
        let (checked, searched) = (Every::default(), Every::default());
        let is_serving = is_serving(&parts);
        let (passes, search, empty) = (HashMap::new(), None, expiry::Empty::new());
        Self { parts, checked, searched, is_serving, began_ms: None, passes, search, empty }
    }

    /// Runs the queued full dispatches. Returns whether one stays that can go on at once.
    fn dispatch_all(&mut self) -> bool {
        let mut left = STEP;
        while let Some((key, parent, queues)) = self.begin() {
            let pass = self.passes.remove(&key);
            let mut names = pass.unwrap_or_else(|| {
                let names: Box<dyn Iterator<Item = Arc<str>> + Send> = match &key.1 {
                    Some(_) => Box::new(queues.into_iter()),
                    None => Box::new(of_parent(&self.parts.tables.store, &parent)),
                };
                names.peekable()
            });
            let outcome = self.run(&key, &mut names, &mut left);
            match outcome {
                Pass::Done => {
                    let mut tables = self.parts.tables.lite.tables();
                    tables.finished(&key);
                    if tables.overflows_with_room(&key) {
                        tables.go_on(key);
                    }
                }
                Pass::Full => {
                    self.passes.insert(key.clone(), names);
                    let mut tables = self.parts.tables.lite.tables();
                    tables.stopped(&key);
                    // A client may have popped since its set was full.
                    if tables.overflows_with_room(&key) {
                        tables.go_on(key);
                    }
                }
                Pass::Step => {
                    self.passes.insert(key.clone(), names);
                    self.parts.tables.lite.tables().go_on(key);
                    return true;
                }
            }
        }
        false
    }

    fn begin(&self) -> Option<(PassKey, Arc<str>, Vec<Arc<str>>)> {
        self.parts.tables.lite.tables().take_due(|key| self.passes.contains_key(key))
    }

    fn run(&self, key: &PassKey, names: &mut Names, left: &mut usize) -> Pass {
        while *left > 0 {
            let Some(name) = names.peek() else { return Pass::Done };
            *left -= 1;
            // A client may have given up a lite topic meanwhile.
            let is_wanted = |client: &Arc<str>| {
                let tables = self.parts.tables.lite.tables();
                tables.client(&key.0, client).is_some_and(|client| client.queues.contains(name))
            };
            if key.1.as_ref().is_none_or(is_wanted)
                && is_ready(&self.parts.delivery, &self.parts.runtime, &key.0, name)
            {
                let offered = self.parts.tables.lite.tables().offer_in_pass(&key.0, name);
                match offered {
                    Offered::To(waiters) => pop::wake(&self.parts.pops, &key.0, &waiters),
                    Offered::Nobody => {}
                    Offered::Full => return Pass::Full,
                }
            }
            names.next();
        }
        Pass::Step
    }

    /// Queues full dispatches of all clients when the broker begins to serve clients. The order state of earlier pops is
    /// gone, and replicated messages gave no client an event.
    fn note_role(&mut self) {
        let is_serving = is_serving(&self.parts);
        if is_serving && !self.is_serving {
            self.parts.tables.light.recount(&self.parts.tables.store);
            self.parts.tables.lite.tables().demand_all();
        }
        self.is_serving = is_serving;
    }

    /// Removes silent clients, and gives the events of clients that do not pop to others.
    fn check(&mut self, now_ms: i64) {
        let timeout_ms = self.parts.runtime.config.lite.client_timeout_ms;
        let (events, waiters) = self.parts.tables.lite.tables().check(now_ms, timeout_ms);
        let mut left = Vec::new();
        for (group, event) in events {
            if !is_ready(&self.parts.delivery, &self.parts.runtime, &group, &event) {
                continue;
            }
            let offered = self.parts.tables.lite.tables().offer_again(&group, &event);
            match offered {
                Offered::To(waiters) => pop::wake(&self.parts.pops, &group, &waiters),
                Offered::Nobody => {}
                Offered::Full => left.push((group, event)),
            }
        }
        self.parts.tables.lite.tables().wait_first(&left);
        waiters.iter().for_each(|waiters| pop::wake_all(&self.parts.pops, waiters));
        let tables = self.parts.tables.lite.tables();
        self.passes.retain(|key, _| tables.has(key));
    }
}

/// Whether the broker serves clients.
fn is_serving(parts: &LiteParts) -> bool {
    let replication = &parts.delivery.replication;
    !replication.role.is_slave() || replication.acting.is_acting()
}

/// End of a part of a full dispatch.
enum Pass {
    Done,
    /// No client has room for the next lite queue.
    Full,
    /// The round has done its share.
    Step,
}

/// Lite queues of a parent topic.
fn of_parent(store: &store::Store, parent: &Arc<str>) -> impl Iterator<Item = Arc<str>> + use<> {
    let parent = parent.clone();
    let queues = store.queues().into_iter();
    let queues = queues.filter(move |queue| lite_parts(queue.topic()).is_some_and(|(of, _)| *of == *parent));
    queues.map(|queue| queue.topic().into())
}

impl Engine for LiteEngine {
    fn round(&mut self, now_ms: i64) -> Next {
        let began_ms = *self.began_ms.get_or_insert(now_ms);
        let settings = &self.parts.runtime.config.lite;
        let (interval_ms, life_min_ms) = (settings.expiry_interval_ms, settings.life_min_ms);
        self.note_role();
        if self.checked.is_due(now_ms, CHECK_MS) {
            self.check(now_ms);
        }
        if self.searched.is_due(now_ms, interval_ms) && now_ms.saturating_sub(began_ms) >= life_min_ms {
            let Self { parts, empty, .. } = self;
            let begin = || expiry::Search::begin(&parts.tables, &parts.runtime, std::mem::take(empty));
            self.search.get_or_insert_with(begin);
        }
        let mut goes_on = self.dispatch_all();
        if let Some(search) = &mut self.search {
            match search.step(&self.parts, now_ms, STEP) {
                expiry::Step::GoesOn => goes_on = true,
                expiry::Step::Ended(empty) => (self.search, self.empty) = (None, empty),
            }
        }
        if goes_on {
            return Next::At(now_ms);
        }
        self.checked.next(CHECK_MS).or(self.searched.next(interval_ms))
    }

    /// Ends a removal of lite topics, so that the last save has the offsets of the lite topics that stay.
    fn stop(&mut self) {
        self.parts.tables.offsets.end_removal();
    }
}
