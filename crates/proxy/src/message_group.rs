//! Which queue the messages of a message group go to: Java's string hash, then the jump consistent hash of Guava.

use wire::hash::java_hash;

/// Increment of the linear congruential generator of the jump hash (Lamping and Veach).
const MULTIPLIER: u64 = 2_862_933_555_777_941_757;

/// The bucket of a message group among `count` queues; 0 when there are none.
pub fn bucket(group: &str, count: i32) -> i32 {
    let mut state = i64::from(java_hash(group)) as u64;
    let mut candidate = 0;
    loop {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(1);
        let next_double = ((state >> 33) + 1) as f64 / f64::from(1u32 << 31);
        // A quotient that does not fit saturates, and ends the loop.
        let next = (f64::from(candidate + 1) / next_double) as i32;
        if next < 0 || next >= count {
            return candidate;
        }
        candidate = next;
    }
}

#[cfg(test)]
mod tests;
