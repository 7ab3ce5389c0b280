//! Requests of 5.x clients: any bytes are one or an error, and no message that passes the checks breaks the properties stored with it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| proxy::fuzz::messages(data));
