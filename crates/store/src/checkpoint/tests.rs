use super::*;

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
