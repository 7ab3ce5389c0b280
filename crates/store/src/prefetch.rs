//! Prefetch into the CPU caches. With ten thousand queues, no cache holds a queue's data when a message for the queue
//! arrives. The prefetch starts while the message is being decoded, so the data is there when the message is stored.

use std::ops::Range;
use std::sync::Arc;

/// Size of a CPU cache line in bytes.
const LINE_BYTES: usize = 64;

/// Bytes of the reference counters in front of the value in an [`Arc`].
const COUNTERS_BYTES: usize = 16;

/// Most bytes prefetched per call.
const BYTES_MAX: usize = 4 * LINE_BYTES;

/// Prefetches the reference counters and the first bytes of a value.
pub fn prefetch<T>(value: &Arc<T>) {
    fetch(Arc::as_ptr(value).addr().saturating_sub(COUNTERS_BYTES), COUNTERS_BYTES + size_of::<T>());
}

/// Prefetches the memory at an address, which may be any number.
///
/// `unsafe` outside of the disk module: the standard library offers no safe prefetch.
#[allow(unsafe_code)]
pub(crate) fn fetch(address: usize, bytes: usize) {
    for line in lines(address, bytes).step_by(LINE_BYTES) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: prefetching is a hint. It loads nothing a program could see, and no address makes it fail.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(line)) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// Addresses from the start of the first cache line to the end of the bytes.
fn lines(address: usize, bytes: usize) -> Range<usize> {
    address & !(LINE_BYTES - 1)..address.saturating_add(bytes.min(BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_first_bytes_is_asked_for_and_no_address_harms() {
        assert_eq!(lines(128, 64), 128..192);
        assert_eq!(lines(120, 16), 64..136, "two lines");
        assert_eq!(lines(64, 100_000), 64..64 + BYTES_MAX);
        for (address, bytes) in [(0, 0), (0, 24), (1, 1 << 40), (usize::MAX, 24)] {
            fetch(address, bytes);
        }
        prefetch(&Arc::new([0_u8; 1000]));
    }
}
