use super::switch::{
    EPOCH_ENTRIES_MAX, Handshake, HandshakeResponse, SlaveFrame, TRANSFER_HEADER_BYTES, TransferHeader,
    decode_master,
};
use super::{
    BrokerId, Epoch, EpochStart, FRAME_BYTES_MAX, FrameError, FrameHead, MasterFrame, classic, switch,
};
use crate::units::LogOffset;
use proptest::prelude::*;

const fn at(offset: u64) -> LogOffset {
    LogOffset::new(offset)
}

fn transfer(header: TransferHeader) -> MasterFrame {
    MasterFrame::Transfer(FrameHead::Switch(header))
}

const fn epoch(epoch: u32, start: u64) -> EpochStart {
    EpochStart { epoch: Epoch::new(epoch), start: at(start) }
}

#[test]
fn classic_frames_are_those_of_java() {
    let first = include_bytes!("golden/master-first-frame-slave-offset-0.bin");
    let header = classic::Header { offset: at(0), body_bytes: 0xf8 };
    assert_eq!(classic::Header::decode(first), Ok(Some(header)));
    assert_eq!(header.encode(), first[..12]);
    assert_eq!(first.len(), 12 + 0xf8);

    let heartbeat = include_bytes!("golden/master-heartbeat-frames.bin");
    let header = classic::Header { offset: at(0xf8), body_bytes: 0 };
    assert_eq!(classic::Header::decode(heartbeat), Ok(Some(header)));
    assert_eq!(header.encode(), heartbeat[..]);

    let reports = include_bytes!("golden/slave-initial-report.bin");
    assert_eq!(classic::decode_reports(reports), Ok(Some((at(0), 16))));
    assert_eq!(classic::encode_report(at(0xf8)), [0, 0, 0, 0, 0, 0, 0, 0xf8]);
}

#[test]
fn the_newest_complete_report_counts() {
    let mut received = Vec::new();
    for offset in [5, 9] {
        received.extend(classic::encode_report(at(offset)));
    }
    received.extend([0, 0, 0]);
    assert_eq!(classic::decode_reports(&received), Ok(Some((at(9), 16))));
    assert_eq!(classic::decode_reports(&received[..15]), Ok(Some((at(5), 8))));
    assert_eq!(classic::decode_reports(&received[..7]), Ok(None));
    assert_eq!(
        classic::decode_reports(&[0xff; 8]),
        Err(FrameError::Negative { field: "reported offset", found: -1 })
    );
}

#[test]
fn a_classic_body_fits_the_receive_buffer_of_a_java_slave() {
    let mut header = classic::Header { offset: at(7), body_bytes: 4 * 1024 * 1024 - 12 };
    assert_eq!(classic::Header::decode(&header.encode()), Ok(Some(header)));
    header.body_bytes += 1;
    let error = classic::Header::decode(&header.encode()).expect_err("too large");
    assert_eq!(error, FrameError::TooLarge { max: FRAME_BYTES_MAX - 12, found: FRAME_BYTES_MAX - 11 });
    header.body_bytes = u32::MAX;
    let error = classic::Header::decode(&header.encode()).expect_err("negative");
    assert_eq!(error.to_string(), "body size is -1, expected zero or more");
}

#[test]
fn the_handshake_is_that_of_java() {
    let golden = include_bytes!("golden/switch-handshake.bin");
    let handshake = Handshake { broker_id: BrokerId::new(2), is_from_last_file: false, is_learner: false };
    assert_eq!(SlaveFrame::decode(golden), Ok(Some((SlaveFrame::Handshake(handshake), 16))));
    assert_eq!(handshake.encode(), golden[..]);
    for received in 0..16 {
        assert_eq!(SlaveFrame::decode(&golden[..received]), Ok(None), "a split handshake is waited for");
    }
    let flags = Handshake { is_from_last_file: true, is_learner: true, ..handshake };
    assert_eq!(flags.encode()[4..8], [0, 1, 0, 1]);
    assert_eq!(SlaveFrame::decode(&flags.encode()), Ok(Some((SlaveFrame::Handshake(flags), 16))));
}

#[test]
fn reports_are_those_of_java() {
    let golden = include_bytes!("golden/switch-reports.bin");
    assert_eq!(SlaveFrame::decode(golden), Ok(Some((SlaveFrame::Report(at(0x7c)), 12))));
    assert_eq!(SlaveFrame::decode(&golden[12..]), Ok(Some((SlaveFrame::Report(at(0xf8)), 12))));
    assert_eq!(switch::encode_report(at(0x7c)), golden[..12]);
    assert_eq!(SlaveFrame::decode(&golden[..11]), Ok(None));
}

#[test]
fn replies_are_those_of_java() {
    let golden = include_bytes!("golden/switch-handshake-reply-2epochs.bin");
    let reply = HandshakeResponse { end: at(0xf8), epochs: vec![epoch(1, 0), epoch(4, 0x7c)] };
    assert_eq!(decode_master(golden), Ok(Some((MasterFrame::Handshake(reply.clone()), 44))));
    let mut encoded = Vec::new();
    reply.encode(&mut encoded);
    assert_eq!(encoded, golden);
    assert_eq!(decode_master(&golden[..43]), Ok(None));

    let none = HandshakeResponse { end: at(9), epochs: Vec::new() };
    let mut encoded = Vec::new();
    none.encode(&mut encoded);
    assert_eq!(encoded[16..], [0xff; 4], "without an epoch the last one is -1");
    assert_eq!(decode_master(&encoded), Ok(Some((MasterFrame::Handshake(none), 20))));
}

#[test]
fn transfers_are_those_of_java() {
    let golden = include_bytes!("golden/switch-transfer-2epochs.bin");
    let first = TransferHeader { offset: at(0), body_bytes: 0x7c, epoch: epoch(4, 0x7c), confirm: at(0xf8) };
    assert_eq!(decode_master(golden), Ok(Some((transfer(first), 36))));
    assert_eq!(first.encode(), golden[..36]);
    let second = TransferHeader { offset: at(0x7c), ..first };
    assert_eq!(decode_master(&golden[36 + 0x7c..]), Ok(Some((transfer(second), 36))));

    let golden = include_bytes!("golden/switch-heartbeat-frame.bin");
    let heartbeat = TransferHeader { offset: at(0x7c), body_bytes: 0, epoch: epoch(1, 0), confirm: at(0x7c) };
    assert_eq!(decode_master(golden), Ok(Some((transfer(heartbeat), 36))));
    assert_eq!(heartbeat.encode(), golden[..]);
}

fn refused(frame: &[u8]) -> String {
    decode_master(frame).expect_err("not a frame").to_string()
}

#[test]
fn what_no_master_sends_is_refused() {
    let mut reply = Vec::new();
    HandshakeResponse { end: at(300), epochs: vec![epoch(1, 0), epoch(2, 100)] }.encode(&mut reply);
    let changed = |at: usize, bytes: &[u8]| {
        let mut frame = reply.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    assert_eq!(refused(&[0, 0, 0, 3]), "frame state is 3, expected 1 (handshake) or 2 (transfer)");
    assert_eq!(refused(&changed(4, &[0xff; 4])), "epoch list size is -1, expected zero or more");
    assert_eq!(
        refused(&changed(4, &25_u32.to_be_bytes())),
        "epoch list of 25 bytes, expected a multiple of 12 up to 12000"
    );
    let one_too_many = u32::try_from((EPOCH_ENTRIES_MAX + 1) * 12).expect("small");
    assert_eq!(
        refused(&changed(4, &one_too_many.to_be_bytes())),
        "epoch list of 12012 bytes, expected a multiple of 12 up to 12000"
    );
    assert_eq!(refused(&changed(8, &[0xff; 8])), "log end is -1, expected zero or more");
    assert_eq!(
        refused(&changed(32, &1_u32.to_be_bytes())),
        "epoch 1 from 100 does not lie behind the entry before it"
    );
    // The first epoch begins at 101, the second at 100.
    assert_eq!(
        refused(&changed(24, &101_u64.to_be_bytes())),
        "epoch 2 from 100 does not lie behind the entry before it"
    );

    let valid = TransferHeader { offset: at(0), body_bytes: 1, epoch: epoch(1, 0), confirm: at(0) }.encode();
    for (position, size, field) in
        [(4, 4, "body size"), (8, 8, "frame offset"), (16, 4, "epoch"), (20, 8, "start of an epoch")]
    {
        let mut frame = valid;
        frame[position..position + size].fill(0xff);
        assert_eq!(refused(&frame), format!("{field} is -1, expected zero or more"));
    }
    let mut frame = valid;
    frame[4..8].copy_from_slice(&(4_u32 * 1024 * 1024 - 35).to_be_bytes());
    assert_eq!(refused(&frame), "frame body of 4194269 bytes, expected at most 4194268");
}

#[test]
fn a_java_master_without_files_heartbeats_below_zero() {
    let nothing = TransferHeader { offset: at(0), body_bytes: 0, epoch: epoch(1, 0), confirm: at(0) };
    let mut frame = nothing.encode();
    frame[8..16].fill(0xff);
    frame[28..].fill(0xff);
    assert_eq!(decode_master(&frame), Ok(Some((transfer(nothing), 36))));
}

#[test]
fn what_no_slave_sends_is_refused() {
    let refused = |frame: &[u8]| SlaveFrame::decode(frame).expect_err("not a frame").to_string();
    assert_eq!(
        refused(b"GET / HTTP/1.1\r\n"),
        "frame state is 1195725856, expected 1 (handshake) or 2 (transfer)"
    );
    let mut handshake =
        Handshake { broker_id: BrokerId::FIRST, is_from_last_file: false, is_learner: false }.encode();
    handshake[8..].fill(0xff);
    assert_eq!(refused(&handshake), "broker id is -1, expected zero or more");
    let mut report = switch::encode_report(at(1));
    report[4] = 0x80;
    assert_eq!(refused(&report), "reported offset is -9223372036854775807, expected zero or more");
}

proptest! {
    #[test]
    fn decoding_never_panics(bytes in proptest::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..80)) {
        let _ = classic::decode_reports(&bytes);
        let _ = classic::Header::decode(&bytes);
        let _ = SlaveFrame::decode(&bytes);
        if let Ok(Some((_, used))) = decode_master(&bytes) {
            prop_assert!(used <= bytes.len());
        }
    }

    #[test]
    fn transfers_round_trip(offset in 0..i64::MAX.cast_unsigned(), start in 0..1_000_u64, number in 0..9_u32, body in 0..4_000_000_u32) {
        let header = TransferHeader { offset: at(offset), body_bytes: body, epoch: epoch(number, start), confirm: at(start) };
        let decoded = decode_master(&header.encode());
        prop_assert_eq!(decoded, Ok(Some((transfer(header), TRANSFER_HEADER_BYTES))));
    }
}
