//! Due entries: the timed messages that are due soon, by the millisecond. Pure: time and the wheel's slots are
//! arguments.
//!
//! Slots are requested some seconds before their time ([`DueEntries::wanted`]). Their units arrive
//! ([`DueEntries::loaded`]) and leave when they are due ([`DueEntries::due`]). The *read time* is the first
//! unfinished slot. A slot is finished when its time is over and all its messages are delivered. New messages of
//! requested slots are added too ([`DueEntries::arrived`]).
//!
//! Memory is bounded. Beyond the limit the latest entries are dropped, and the *frontier* holds the first dropped
//! key. When there is room, the dropped entries' chains are walked again. This works because a unit's key is a pure
//! function of the unit. The key may be too early, because RocketMQ's units hold only the second. The record tells
//! the exact time, and [`DueEntries::later`] takes the entry back.

use super::rounding::slot_start;
use super::unit::{TimerUnit, magic};
use std::collections::{BTreeMap, HashSet};
use wire::units::LogOffset;

/// Sort key of entries: due time in ms, then position of the unit in the timer log.
pub type DueKey = (i64, u64);

/// A timed message that is due soon, or is being delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueEntry {
    /// Earliest due time in ms since the epoch.
    pub due_ms: i64,
    /// Position of the unit in the timer log.
    pub at: u64,
    /// Slot in which the unit waits: its start in ms since the epoch.
    pub slot_ms: i64,
    /// Log position of the message's record.
    pub log_offset: LogOffset,
    /// Size of the message's record in bytes.
    pub size: u32,
    /// When the unit was added, ms since the epoch.
    pub written_ms: i64,
    /// Whether the message is put into the timer queue again instead of being delivered.
    pub rolls: bool,
    /// Whether the message cancels another message, or will when it no longer rolls. Among due entries only rolling
    /// entries can have this set.
    pub cancels: bool,
}

impl DueEntry {
    /// The entry of a unit at position `at` in a slot.
    pub fn of(at: u64, unit: &TimerUnit, slot_ms: i64) -> Self {
        Self {
            due_ms: unit.time_ms().saturating_add(1),
            at,
            slot_ms,
            log_offset: unit.log_offset,
            size: unit.size,
            written_ms: unit.written_ms,
            rolls: unit.rolls(),
            cancels: unit.magic & magic::DELETE != 0,
        }
    }

    /// The entry's sort key.
    pub fn key(&self) -> DueKey {
        (self.due_ms, self.at)
    }
}

/// Request to walk the chain of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainRequest {
    /// Start of the slot, ms since the epoch.
    pub slot_ms: i64,
    /// Length of a slot in ms.
    pub precision_ms: i64,
    /// Position of the slot's newest unit.
    pub last: u64,
    /// Entries before this key are not needed.
    pub from: Option<DueKey>,
    /// Most needed entries: the first entries in order.
    pub limit: usize,
}

/// Result of walking a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainResult {
    /// Start of the slot, ms since the epoch.
    pub slot_ms: i64,
    /// The slot's entries, in order.
    pub entries: Vec<DueEntry>,
    /// Units that cancel other messages of the slot.
    pub deletes: Vec<DueEntry>,
    /// Key of the first entry that the limit left out.
    pub cut: Option<DueKey>,
}

#[derive(Debug, Default)]
struct SlotState {
    /// Number of entries of the slot that are held or being delivered.
    open: usize,
    loading: bool,
    /// Whether a message of the slot was delivered.
    begun: bool,
    /// Unique keys of the slot's cancelled messages.
    deleted: HashSet<Box<[u8]>>,
}

/// The due entries, bounded in number.
pub struct DueEntries {
    precision_ms: i64,
    lead_ms: i64,
    limit: usize,
    /// Entries by the key of their unit. Invariant: every undelivered unit of a loaded slot with a key before
    /// `frontier` is here, in `exact`, or being delivered.
    near: BTreeMap<DueKey, DueEntry>,
    /// Entries by the exact due time from their record; never dropped.
    exact: BTreeMap<DueKey, DueEntry>,
    frontier: Option<DueKey>,
    /// Slots with units between `read_ms` and `next_ms`.
    slots: BTreeMap<i64, SlotState>,
    loading: usize,
    read_ms: i64,
    next_ms: i64,
    /// Number of consecutive slots without units directly before `next_ms`.
    empty: usize,
}

/// Most slots looked up by a call of [`DueEntries::wanted`].
const LOOKED_UP_MAX: usize = 20_000;
/// Most chains walked at the same time.
const LOADING_MAX: usize = 4;

impl DueEntries {
    /// Creates an empty set of due entries; slots before `read_ms` are finished. Chains are loaded `lead_ms` before their
    /// time, and about `limit` entries are held.
    pub fn new(precision_ms: i64, lead_ms: i64, limit: usize, read_ms: i64) -> Self {
        Self {
            precision_ms,
            lead_ms,
            limit: limit.max(2),
            near: BTreeMap::new(),
            exact: BTreeMap::new(),
            frontier: None,
            slots: BTreeMap::new(),
            loading: 0,
            read_ms,
            next_ms: read_ms,
            empty: 0,
        }
    }

    /// Start of the first slot that is not finished, ms since the epoch.
    pub fn read_ms(&self) -> i64 {
        self.read_ms
    }

    /// Number of entries held.
    pub fn len(&self) -> usize {
        self.near.len() + self.exact.len()
    }

    /// Whether no entry is held.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty() && self.exact.is_empty()
    }

    /// Whether all slots before `now_ms` are requested and loaded.
    pub fn is_caught_up(&self, now_ms: i64) -> bool {
        self.next_ms > now_ms && self.loading == 0
    }

    /// Whether a chain is being walked.
    pub fn is_loading(&self) -> bool {
        self.loading > 0
    }

    fn slot_of(&self, time_ms: i64) -> i64 {
        slot_start(time_ms, self.precision_ms)
    }

    fn is_behind_frontier(&self, key: DueKey) -> bool {
        self.frontier.is_some_and(|frontier| key >= frontier)
    }

    /// The chains to walk now. `last` returns the position of a slot's newest unit.
    ///
    /// # Errors
    /// The error that `last` returned; this call has then begun no chain.
    pub fn wanted<E>(
        &mut self,
        now_ms: i64,
        mut last: impl FnMut(i64) -> Result<Option<u64>, E>,
    ) -> Result<Vec<ChainRequest>, E> {
        let room = |due_entries: &Self| due_entries.len() < due_entries.limit / 2;
        if let Some(from) = self.frontier.filter(|_| room(self) && self.loading == 0) {
            // Look up all slots before the first chain begins: an error then leaves everything unchanged.
            let mut again = Vec::new();
            for slot_ms in self.slots.range(self.slot_of(from.0 - 1)..).map(|(slot, _)| *slot) {
                again.extend(last(slot_ms)?.map(|last| (slot_ms, last)));
            }
            self.frontier = None;
            return Ok(again
                .into_iter()
                .map(|(slot_ms, last)| self.load(slot_ms, last, Some(from)))
                .collect());
        }
        let mut loads = Vec::new();
        let mut looked_up = 0;
        while self.next_ms <= now_ms + self.lead_ms
            && self.frontier.is_none()
            && self.loading < LOADING_MAX
            && room(self)
            && looked_up < LOOKED_UP_MAX
        {
            looked_up += 1;
            match last(self.next_ms) {
                Ok(Some(last)) => {
                    self.empty = 0;
                    let load = self.load(self.next_ms, last, None);
                    loads.push(load);
                }
                Ok(None) => self.empty += 1,
                Err(error) if loads.is_empty() => return Err(error),
                // The chains before this slot have begun and must be walked; a later call begins with this slot.
                Err(_) => break,
            }
            self.next_ms += self.precision_ms;
        }
        Ok(loads)
    }

    /// Returns the next slot to request if many slots before it were empty and it is far in the past. The caller then
    /// searches for the first slot with units. This happens after a long stop, or when the clock was set forward.
    pub fn search_start(&self, now_ms: i64) -> Option<i64> {
        let left = now_ms.saturating_sub(self.next_ms) / self.precision_ms;
        (self.empty >= LOOKED_UP_MAX && left > LOOKED_UP_MAX as i64).then_some(self.next_ms)
    }

    /// Continues with the slot `first`, before which no slot has units, or at the latest with the current slot.
    pub fn skip_to(&mut self, first: Option<i64>, now_ms: i64) {
        let now_slot = self.slot_of(now_ms);
        self.next_ms = self.next_ms.max(first.map_or(now_slot, |first| first.min(now_slot)));
        self.empty = 0;
    }

    fn load(&mut self, slot_ms: i64, last: u64, from: Option<DueKey>) -> ChainRequest {
        self.slots.entry(slot_ms).or_default().loading = true;
        self.loading += 1;
        ChainRequest { slot_ms, precision_ms: self.precision_ms, last, from, limit: self.limit / 2 }
    }

    /// Adds the result of a walk, and the unique keys that its cancelling messages name.
    pub fn loaded(&mut self, loaded: ChainResult, deleted: impl IntoIterator<Item = Box<[u8]>>) {
        self.loading -= 1;
        let near = self.slots.entry(loaded.slot_ms).or_default();
        near.loading = false;
        near.deleted.extend(deleted);
        if let Some(cut) = loaded.cut {
            self.frontier = Some(self.frontier.map_or(cut, |frontier| frontier.min(cut)));
        }
        for entry in loaded.entries {
            self.insert(entry);
        }
        self.shrink();
    }

    fn insert(&mut self, entry: DueEntry) {
        if !self.is_behind_frontier(entry.key()) && self.near.insert(entry.key(), entry).is_none() {
            self.slots.entry(entry.slot_ms).or_default().open += 1;
        }
    }

    /// Drops the entries behind the frontier, and the latest entries above the limit.
    fn shrink(&mut self) {
        while let Some((&key, _)) = self.near.last_key_value() {
            if self.near.len() > self.limit {
                self.frontier = Some(key);
            } else if !self.is_behind_frontier(key) {
                return;
            }
            if let Some((_, entry)) = self.near.pop_last() {
                self.close(entry.slot_ms);
            }
        }
    }

    fn close(&mut self, slot_ms: i64) {
        if let Some(near) = self.slots.get_mut(&slot_ms) {
            near.open -= 1;
        }
    }

    /// Returns the slot for a new message that belongs to `slot_ms`: that slot, or the first unfinished slot if that
    /// slot is over.
    pub fn slot_for(&self, slot_ms: i64) -> i64 {
        slot_ms.max(self.read_ms)
    }

    /// Adds a unit that was just added to its slot. `deleted` is the unique key that the message cancels, if it does.
    pub fn arrived(&mut self, entry: DueEntry, deleted: Option<Box<[u8]>>) {
        if entry.slot_ms >= self.next_ms {
            return;
        }
        match deleted {
            Some(key) => drop(self.slots.entry(entry.slot_ms).or_default().deleted.insert(key)),
            None => {
                self.slots.entry(entry.slot_ms).or_default();
                self.insert(entry);
                self.shrink();
            }
        }
    }

    /// Moves due entries, in order, to `out` until `out` holds `count` entries. Each must be
    /// returned with [`Self::done`] or [`Self::later`].
    pub fn due(&mut self, now_ms: i64, count: usize, out: &mut Vec<DueEntry>) {
        while out.len() < count {
            let near = self.near.first_key_value().map(|(key, _)| *key);
            let exact = self.exact.first_key_value().map(|(key, _)| *key);
            let from_exact = exact.is_some_and(|exact| near.is_none_or(|near| exact < near));
            // Entries in `exact` stay in memory; when there are too many, no more records are read.
            let full = !from_exact && self.exact.len() >= self.limit;
            let Some(first) = (if from_exact { exact } else { near }).filter(|key| key.0 <= now_ms && !full)
            else {
                return;
            };
            let entry = if from_exact { self.exact[&first] } else { self.near[&first] };
            if self.is_walking_before(&entry) {
                return;
            }
            if from_exact {
                self.exact.remove(&first)
            } else {
                self.near.remove(&first)
            };
            out.push(entry);
        }
    }

    /// Whether the chain of the entry's own slot, or of an earlier slot, is being walked. A unit of the chain may
    /// cancel this message.
    fn is_walking_before(&self, entry: &DueEntry) -> bool {
        let until_ms = entry.due_ms.max(entry.slot_ms + 1);
        self.loading > 0 && self.slots.range(..until_ms).any(|(_, near)| near.loading)
    }

    /// Whether a message of this slot was cancelled.
    pub fn has_deleted(&self, slot_ms: i64) -> bool {
        self.slots.get(&slot_ms).is_some_and(|near| !near.deleted.is_empty())
    }

    /// Whether the message with this unique key was cancelled in this slot.
    pub fn is_deleted(&self, slot_ms: i64, key: &[u8]) -> bool {
        self.slots.get(&slot_ms).is_some_and(|near| near.deleted.contains(key))
    }

    /// Reports an entry as delivered, cancelled or given up.
    pub fn done(&mut self, entry: &DueEntry) {
        if let Some(near) = self.slots.get_mut(&entry.slot_ms) {
            near.open -= 1;
            near.begun = true;
        }
    }

    /// Takes an entry back that is due later than its unit, or could not be delivered yet.
    pub fn later(&mut self, entry: DueEntry, due_ms: i64) {
        let entry = DueEntry { due_ms, ..entry };
        self.exact.insert(entry.key(), entry);
    }

    /// Advances the read time over finished slots.
    pub fn finish(&mut self, now_ms: i64) {
        let over_ms = self.slot_of(now_ms).min(self.next_ms);
        let forgotten_ms = self.frontier.map_or(i64::MAX, |frontier| self.slot_of(frontier.0 - 1));
        let is_open =
            |(slot_ms, near): (&i64, &SlotState)| (near.open > 0 || near.loading).then_some(*slot_ms);
        let open_ms = self.slots.range(self.read_ms..).find_map(is_open).unwrap_or(i64::MAX);
        let read_ms = over_ms.min(forgotten_ms).min(open_ms);
        if read_ms > self.read_ms {
            self.slots = self.slots.split_off(&read_ms);
            self.read_ms = read_ms;
        }
    }

    /// Moves the read time back: the clock was set back, and the slots from there on are empty.
    pub fn go_back(&mut self, read_ms: i64) {
        self.read_ms = self.read_ms.min(read_ms);
    }

    /// Time of the next work in ms since the epoch, if no message arrives before.
    pub fn wake_ms(&self) -> i64 {
        let first = |entries: &BTreeMap<DueKey, DueEntry>| {
            entries.first_key_value().map_or(i64::MAX, |(key, _)| key.0)
        };
        first(&self.near).min(first(&self.exact)).min(self.next_ms - self.lead_ms)
    }

    /// Slots with delivered messages that are not finished: their chains hold messages that must not be delivered again.
    pub fn begun(&self) -> Vec<i64> {
        self.slots.iter().filter(|(_, near)| near.begun).map(|(slot, _)| *slot).collect()
    }

    /// Positions of all units that are held.
    pub fn open_units(&self) -> HashSet<u64> {
        self.near.values().chain(self.exact.values()).map(|entry| entry.at).collect()
    }

    /// Whether an entry lies behind the frontier and is not held.
    pub fn is_forgotten(&self, entry: &DueEntry) -> bool {
        self.is_behind_frontier(entry.key())
    }
}
