use super::*;
use crate::disk::{Disk, Space};
use std::path::Path;

#[test]
fn the_page_matches_java() {
    let golden = include_bytes!("golden.bin");
    let expected = Checkpoint {
        physic_msg_timestamp: 1_700_000_001_000,
        logics_msg_timestamp: 1_700_000_002_000,
        index_msg_timestamp: 1_700_000_003_000,
        master_flushed_offset: 123_456_789,
        confirm_phy_offset: 987_654_321,
        logics_physical_offset: 555_555_555,
        mark: None,
        newest: None,
    };
    assert_eq!(Checkpoint::from_bytes(golden), expected);
    let ours = expected.to_bytes();
    assert_eq!((&ours[..48], &ours[56..], ours.len()), (&golden[..48], &golden[56..], golden.len()));
    assert!(
        Checkpoint::is_sealed(&ours) && !Checkpoint::is_sealed(golden) && !Checkpoint::is_sealed(&ours[..48])
    );
    for at in 0..56 {
        let mut flipped = ours.clone();
        flipped[at] ^= 1;
        assert!(!Checkpoint::is_sealed(&flipped), "byte {at}");
    }
    assert_eq!(Checkpoint::from_bytes(&golden[..40]).logics_physical_offset, 0);
}

#[test]
fn a_mark_counts_only_with_the_numbers_it_was_written_with() {
    let mark = Mark { generation: 3, committed: 4711, openings: 12, running: true };
    let page = Checkpoint { logics_physical_offset: 99, mark: Some(mark), ..Checkpoint::default() };
    let bytes = page.to_bytes();
    assert_eq!((Checkpoint::from_bytes(&bytes), bytes.len()), (page, 4096));
    for index in 0..96 {
        let mut bytes = bytes.clone();
        bytes[index] ^= 1;
        assert_eq!(Checkpoint::from_bytes(&bytes).mark, None, "byte {index}");
    }
    assert_eq!(Checkpoint::from_bytes(&bytes[..48]), Checkpoint { mark: None, ..page });
}

#[test]
fn what_is_left_of_a_page_becomes_a_whole_one() {
    let (disk, path) = (crate::FakeDisk::new(512), Path::new("/checkpoint"));
    let page = Checkpoint { logics_physical_offset: 99, ..Checkpoint::default() };
    for length in [0, 20, 96, 4095, 4096, 5000] {
        disk.create(path, length, Space::Sparse).unwrap();
        page.save(&disk, path).unwrap();
        assert_eq!(Checkpoint::load(&disk, path).unwrap(), page, "{length} bytes");
        assert_eq!(disk.open(path).unwrap().length().unwrap(), length.max(4096));
    }
}

#[test]
fn in_controller_mode_the_page_holds_confirm_offset_and_newest_record() {
    let page = Checkpoint {
        confirm_phy_offset: 300,
        logics_physical_offset: 500,
        newest: Some(400),
        ..Checkpoint::default()
    };
    let bytes = page.to_bytes();
    assert_eq!(bytes[32..40], 300i64.to_be_bytes());
    assert_eq!(Checkpoint::from_bytes(&bytes), page);
    assert_eq!((page.newest_record(), Checkpoint { newest: None, ..page }.newest_record()), (400, 300));
    for at in 0..104 {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        assert_eq!(Checkpoint::from_bytes(&flipped).newest, None, "byte {at}");
    }
    assert_eq!(Checkpoint::from_bytes(&[0; 4096]), Checkpoint::default());
}
