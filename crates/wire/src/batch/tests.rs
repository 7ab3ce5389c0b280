use super::*;
use crate::properties;
use proptest::prelude::*;

const GOLDEN: &[u8] = include_bytes!("../record/golden/batch-client-body.bin");

#[test]
fn a_java_batch_reads_and_writes_back() {
    let found: Vec<Entry<'_>> = entries(GOLDEN).map(|entry| entry.unwrap()).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].body, b"batch-1");
    assert_eq!(found[1].body, b"batch-2");
    assert_eq!(properties::get(found[1].properties, properties::key::KEYS), Some(&b"kb2"[..]));
    let mut out = Vec::new();
    for entry in &found {
        append(&mut out, entry).unwrap();
    }
    assert_eq!(out, GOLDEN);
}

#[test]
fn a_damaged_entry_ends_the_walk_with_its_place() {
    let mut body = GOLDEN.to_vec();
    body[58 + 16] = 0x80;
    let results: Vec<_> = entries(&body).collect();
    assert_eq!(results.len(), 2);
    assert_eq!(results[1].unwrap_err().at, 58);
    for cut in 1..GOLDEN.len() {
        if cut != 58 {
            assert!(entries(&GOLDEN[..cut]).any(|entry| entry.is_err()), "cut at {cut}");
        }
    }
}

proptest! {
    #[test]
    fn batches_round_trip(list in prop::collection::vec((any::<i32>(), any::<Vec<u8>>(), any::<Vec<u8>>()), 0..6)) {
        let mut out = Vec::new();
        for (flag, body, properties) in &list {
            append(&mut out, &Entry { flag: *flag, body, properties }).unwrap();
        }
        let back: Vec<_> = entries(&out)
            .map(|entry| entry.map(|e| (e.flag, e.body.to_vec(), e.properties.to_vec())))
            .collect::<Result<_, _>>()
            .unwrap();
        prop_assert_eq!(back, list);
    }

    #[test]
    fn any_bytes_are_survived(bytes in any::<Vec<u8>>()) {
        let _ = entries(&bytes).count();
    }
}
