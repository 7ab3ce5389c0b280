use super::*;
use proptest::prelude::*;

fn config() -> TransferConfig {
    TransferConfig { batch_bytes: 100, file_bytes: 250, ..TransferConfig::default() }
}

const fn at(offset: u64) -> LogOffset {
    LogOffset::new(offset)
}

#[test]
fn the_largest_configured_batch_fits_a_java_slave() {
    let config = TransferConfig { batch_bytes: 8 << 20, ..TransferConfig::default() };
    let piece = Transfer::new(0, at(0)).take(0, &config, at(64 << 20)).expect("bytes to send");
    assert_eq!(piece.bytes as usize + TRANSFER_HEADER_BYTES, FRAME_BYTES_MAX);
}

#[test]
fn one_frame_is_on_its_way_at_a_time() {
    let mut transfer = Transfer::new(0, at(0));
    assert_eq!(transfer.take(0, &config(), at(150)), Some(Piece { from: at(0), bytes: 100 }));
    assert_eq!(transfer.take(0, &config(), at(150)), None);
    assert_eq!(transfer.wake_at_ms(&config(), at(150)), None);
    transfer.written(3);
    assert_eq!(transfer.take(3, &config(), at(150)), Some(Piece { from: at(100), bytes: 50 }));
}

#[test]
fn a_second_carries_no_more_than_configured() {
    let config = TransferConfig { bytes_per_second: Some(130), ..config() };
    let mut transfer = Transfer::new(0, at(0));
    for (now_ms, bytes) in [(0, Some(100)), (10, Some(30)), (20, None), (999, None), (1_000, Some(100))] {
        assert_eq!(transfer.take(now_ms, &config, at(1_000)).map(|piece| piece.bytes), bytes, "at {now_ms}");
        transfer.written(now_ms);
    }
    assert_eq!(
        transfer.take(1_001, &config, at(1_000)).map(|piece| piece.bytes),
        Some(20),
        "the end of the file"
    );
    transfer.written(1_001);
    assert_eq!(transfer.wake_at_ms(&config, at(1_000)), Some(2_000));
}

proptest! {
    /// Pieces follow each other without a hole, stay in their file and below the batch, and end where the log ends.
    #[test]
    fn pieces_cover_the_log(start in 0..2_000_u64, growth in proptest::collection::vec(0..400_u64, 1..20)) {
        let config = config();
        let mut transfer = Transfer::new(0, at(start));
        let mut end = at(start);
        let mut sent = at(start);
        for bytes in growth {
            end = end + bytes;
            while let Some(piece) = transfer.take(0, &config, end) {
                prop_assert_eq!(piece.from, sent);
                prop_assert!(piece.bytes > 0 && piece.bytes <= config.batch_bytes);
                sent = sent + u64::from(piece.bytes);
                prop_assert_eq!(piece.from.get() / 250, (sent.get() - 1) / 250);
                transfer.written(0);
            }
            prop_assert_eq!(sent, end);
            prop_assert_eq!(transfer.next(), end);
        }
    }
}
