//! Properties strings: what can be read is kept when a string is rewritten.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::properties::{append, get, pairs, rewrite};

fuzz_target!(|data: &[u8]| {
    let all: Vec<_> = pairs(data).collect();
    for (name, value) in &all {
        assert!(!name.is_empty() && !value.is_empty());
        if let Ok(name) = std::str::from_utf8(name) {
            assert!(get(data, name).is_some());
        }
    }
    let mut out = Vec::new();
    rewrite(&mut out, data, &[], &[]);
    assert_eq!(pairs(&out).collect::<Vec<_>>(), all);
    let mut out = Vec::new();
    rewrite(&mut out, data, &["DELAY"], &[("UNIQ_KEY", b"1")]);
    assert_eq!(get(&out, "DELAY"), None);
    assert_eq!(get(&out, "UNIQ_KEY"), Some(&b"1"[..]));
    let mut longer = data.to_vec();
    append(&mut longer, "LAST", b"value");
    assert_eq!(get(&longer, "LAST"), Some(&b"value"[..]));
});
