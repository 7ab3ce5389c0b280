//! The search of a pop through messages that do not match.

/// Most bytes of index units and records that a request reads without a match before its client is answered.
pub(super) const SEARCH_BYTES_MAX: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// The search of a request, over all its slices until the request is answered or suspended.
#[derive(Default)]
pub(super) struct Search {
    /// Bytes of index units and records that were read without a match.
    pub bytes: u64,
}
