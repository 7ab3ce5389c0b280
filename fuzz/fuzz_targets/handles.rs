//! Receipt handles and transaction ids, which clients carry: any text is one or an error, and what was read is written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| proxy::fuzz::handles(data));
