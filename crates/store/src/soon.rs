//! Telling the processor which memory is needed soon. With ten thousand queues nothing of a queue is in a cache when a
//! message for it comes; asked for while the message is still being read, it is there when it is stored.

/// Bytes of a line of the processor's caches.
const LINE: usize = 64;

/// Counters in front of a value in an [`std::sync::Arc`].
const COUNTERS: usize = 16;

/// Most bytes of a value that are asked for.
const MOST: usize = 4 * LINE;

/// Says that a value in an [`std::sync::Arc`] is needed soon: its counters and its first bytes.
pub fn soon<T>(value: &T) {
    let at = std::ptr::from_ref(value).addr().saturating_sub(COUNTERS);
    fetch(at, (COUNTERS + size_of::<T>()).min(MOST));
}

/// Says that the memory at an address, whatever is there, is needed soon.
#[allow(unsafe_code)]
pub(crate) fn fetch(address: usize, bytes: usize) {
    for line in (address & !(LINE - 1)..address + bytes).step_by(LINE) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint. It loads nothing a program could see, and no address makes it fail.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(line)) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}
