//! The requests in flight on one connection, found by the low bits of their id without a map.

/// Smallest request id. Every id is this plus less than 2^30, so that ids have ten digits in JSON headers.
const BASE: i32 = 1_000_000_000;

/// Number of bits of an id that distinguish requests.
const BITS: u32 = 30;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Id of the request in flight, or of the last one in this place.
    opaque: i32,
    /// Time from which latency is measured: in an open loop the intended send time.
    since_ns: u64,
    /// Time at which the request was sent, from which the time limit counts.
    sent_ns: u64,
    /// Number of the request on its connection.
    sequence: u64,
    busy: bool,
}

/// A request that left its place: it was answered or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Time from which its latency is measured, nanoseconds of the run.
    pub since_ns: u64,
    /// Number of the request on its connection.
    pub sequence: u64,
}

/// A fixed number of places for requests in flight. Times are nanoseconds since the run began.
#[derive(Clone, Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    /// Places that are free now.
    free: Vec<u32>,
    /// Places that rest after a refusal, in the order in which they become free: `(time, place)`.
    resting: std::collections::VecDeque<(u64, u32)>,
    mask: u32,
    busy: usize,
    /// Nanoseconds after which a request without an answer is given up.
    timeout_ns: u64,
}

impl Slots {
    /// Makes `count` places, all free, for requests that are given up `timeout_ns` after they were sent. Panics above
    /// 65,536.
    pub fn new(count: u32, timeout_ns: u64) -> Self {
        assert!((1..=65_536).contains(&count), "1 to 65536 requests in flight, not {count}");
        let mask = count.next_power_of_two() - 1;
        let slots = (0..count)
            .map(|place| Slot { opaque: id(place), since_ns: 0, sent_ns: 0, sequence: 0, busy: false })
            .collect();
        Self {
            slots,
            free: (0..count).rev().collect(),
            resting: std::collections::VecDeque::new(),
            mask,
            busy: 0,
            timeout_ns,
        }
    }

    /// Takes a free place for request number `sequence`, whose latency counts from `since_ns`; returns its fresh id.
    pub fn take(&mut self, since_ns: u64, sent_ns: u64, sequence: u64) -> Option<i32> {
        let place = self.free.pop()?;
        let step = self.mask + 1;
        let slot = &mut self.slots[place as usize];
        let count = (slot.opaque - BASE).cast_unsigned();
        let opaque = id(count.wrapping_add(step) & ((1 << BITS) - 1));
        *slot = Slot { opaque, since_ns, sent_ns, sequence, busy: true };
        self.busy += 1;
        Some(opaque)
    }

    /// Frees the place of an answered request; `None` for an id that is not in flight, e.g. an answer after the time
    /// limit.
    pub fn answer(&mut self, opaque: i32) -> Option<Flight> {
        let place = self.place(opaque)?;
        self.free.push(place);
        Some(self.leave(place))
    }

    /// Like [`Slots::answer`], for a refused request: the place rests until `until_ns`. Callers must pass increasing
    /// times.
    pub fn refuse(&mut self, opaque: i32, until_ns: u64) -> Option<Flight> {
        let place = self.place(opaque)?;
        self.resting.push_back((until_ns, place));
        Some(self.leave(place))
    }

    /// Frees the places whose rest is over at `now_ns`.
    pub fn wake(&mut self, now_ns: u64) {
        while let Some(&(until_ns, place)) = self.resting.front()
            && until_ns <= now_ns
        {
            self.resting.pop_front();
            self.free.push(place);
        }
    }

    /// Gives up every request whose time limit is over.
    pub fn expire(&mut self, now_ns: u64) -> Vec<Flight> {
        let timeout_ns = self.timeout_ns;
        self.give_up(|slot| now_ns.saturating_sub(slot.sent_ns) >= timeout_ns)
    }

    /// Gives up every request in flight, after the connection ended.
    pub fn abandon(&mut self) -> Vec<Flight> {
        self.give_up(|_| true)
    }

    /// Whether a place is free.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.busy
    }

    /// The smallest number among the requests in flight.
    pub fn oldest(&self) -> Option<u64> {
        self.slots.iter().filter(|slot| slot.busy).map(|slot| slot.sequence).min()
    }

    fn give_up(&mut self, is_lost: impl Fn(&Slot) -> bool) -> Vec<Flight> {
        let mut lost = Vec::new();
        for (place, slot) in (0_u32..).zip(&mut self.slots) {
            if slot.busy && is_lost(slot) {
                slot.busy = false;
                self.free.push(place);
                lost.push(Flight { since_ns: slot.since_ns, sequence: slot.sequence });
            }
        }
        self.busy -= lost.len();
        lost
    }

    fn place(&self, opaque: i32) -> Option<u32> {
        let place = opaque.checked_sub(BASE)?.cast_unsigned() & self.mask;
        let slot = self.slots.get(place as usize)?;
        (slot.busy && slot.opaque == opaque).then_some(place)
    }

    fn leave(&mut self, place: u32) -> Flight {
        let slot = &mut self.slots[place as usize];
        slot.busy = false;
        self.busy -= 1;
        Flight { since_ns: slot.since_ns, sequence: slot.sequence }
    }
}

fn id(count: u32) -> i32 {
    BASE + count.cast_signed()
}
