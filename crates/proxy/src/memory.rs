//! Memory of requests and received messages, with one bound for all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grpc::messages::Code;

use crate::failure::{Failure, Result};

/// The budget of all connections.
pub struct Memory {
    used: AtomicUsize,
    max: usize,
}

/// A part of the budget; given back when dropped.
pub struct Charge {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Memory {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), max })
    }

    /// Charges bytes that are in memory already.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Charge { memory: self.clone(), bytes }
    }

    /// Checks that the budget is not used up.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS` when the budget is used up.
    pub fn check(&self) -> Result<()> {
        if self.used.load(Ordering::Relaxed) < self.max {
            return Ok(());
        }
        let text =
            format!("requests and received messages take {} bytes of memory, which is the most", self.max);
        Err(Failure::new(Code::TooManyRequests, text))
    }

    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Charge {
    /// Charges further bytes.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS` when the budget is used up; the bytes are then not charged.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.memory.check()?;
        self.memory.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_given_back_whole() {
        let memory = Memory::new(10);
        let mut charge = memory.charge(4);
        charge.grow(8).unwrap();
        assert_eq!(charge.grow(1).unwrap_err().code, Code::TooManyRequests);
        assert_eq!(memory.used(), 12);
        drop(charge);
        assert_eq!(memory.used(), 0);
        memory.check().unwrap();
    }
}
