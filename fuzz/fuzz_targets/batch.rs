//! Batch bodies: any bytes are entries and at most one error, and entries written are entries read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::batch::{append, entries};

fuzz_target!(|data: &[u8]| {
    let all: Vec<_> = entries(data).collect();
    assert!(all.iter().rev().skip(1).all(Result::is_ok), "an error is the last");
    let mut out = Vec::new();
    for entry in all.iter().flatten() {
        append(&mut out, entry).expect("what was read fits its fields");
    }
    let again: Vec<_> = entries(&out).map(|entry| entry.expect("our own entries")).collect();
    assert!(again.iter().eq(all.iter().flatten()));
});
