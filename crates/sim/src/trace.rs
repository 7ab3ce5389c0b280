//! Trace of a run as a number, for comparing two runs of a seed.

use std::fmt::Debug;

/// Collects everything that happens. FNV-1a, 64 bits.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    events: u64,
    is_printed: bool,
}

impl Trace {
    /// Makes an empty trace. If `is_printed`, it also writes the brokers' notes to standard error.
    pub fn new(is_printed: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, events: 0, is_printed }
    }

    /// Adds an event by the numbers that make it up.
    pub fn event(&mut self, now_ms: u64, numbers: &[u64]) {
        self.events += 1;
        self.add(&now_ms.to_le_bytes());
        numbers.iter().for_each(|number| self.add(&number.to_le_bytes()));
    }

    /// Adds an event with its debug text, which is printed if the trace was made with `is_printed`.
    pub fn note(&mut self, now_ms: u64, who: &str, what: &dyn Debug) {
        let line = format!("{now_ms:>7} {who} {what:?}");
        self.add(line.as_bytes());
        if self.is_printed {
            eprintln!("{line}");
        }
    }

    /// Adds bytes that were sent or stored.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Returns the hash of all events.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the number of events.
    pub fn events(&self) -> u64 {
        self.events
    }
}
