//! Tests of the decisions that are encoded in bodies.

use super::*;
use crate::generator::transactions::unexpected;

fn meta(send: (f64, f64), check: (f64, f64)) -> Meta {
    Meta { batch: 77, start: 5 << 32, send_shares: send, check_shares: check }
}

fn body(meta: &Meta, number: u32) -> Vec<u8> {
    let mut body = vec![9; BYTES + 3];
    meta.write(&mut body, number);
    body
}

#[test]
fn the_layout_is_that_of_the_script() {
    let body = body(&meta((0.0, 1.0), (1.0, 0.0)), 3);
    assert_eq!(body[..8], 77_i64.to_be_bytes());
    assert_eq!(body[8..16], (5_u64 << 32 | 3).to_be_bytes());
    assert_eq!((body[16], &body[17..37], &body[37..]), (2, &[1; 20][..], &[9; 3][..]));
}

#[test]
fn messages_of_several_connections_differ() {
    let id = |connection| {
        let meta = Meta { start: start(1_700_000_000_000, connection), ..meta((0.0, 0.0), (0.0, 0.0)) };
        body(&meta, 1_000_000_001)[8..16].to_vec()
    };
    assert_ne!(id(0), id(1), "check-backs of equal numbers are no duplicates");
}

#[test]
fn shares_are_kept() {
    let meta = meta((0.25, 0.25), (0.0, 0.0));
    let count = |wanted| (0..4000).filter(|number| meta.sent(*number) == wanted).count();
    assert!((900..1100).contains(&count(Decision::Rollback)), "{}", count(Decision::Rollback));
    assert!((900..1100).contains(&count(Decision::Unknown)), "{}", count(Decision::Unknown));
}

#[test]
fn check_backs_are_judged() {
    let unknown_then_commit = meta((0.0, 1.0), (0.0, 0.0));
    let sent = body(&unknown_then_commit, 1);
    assert_eq!(unknown_then_commit.check(&sent, 1), Some((Decision::Commit, None)));
    assert_eq!(
        unknown_then_commit.check(&sent, 2),
        Some((Decision::Commit, Some(Earlier::Checked(Decision::Commit)))),
        "the first answer was final"
    );
    let committed = meta((0.0, 0.0), (0.0, 0.0));
    assert_eq!(
        committed.check(&body(&committed, 1), 1),
        Some((Decision::Commit, Some(Earlier::Sent(Decision::Commit)))),
        "sending was final"
    );
    let never = meta((0.0, 1.0), (0.0, 1.0));
    assert_eq!(never.check(&body(&never, 1), 500), Some((Decision::Unknown, None)));
    let other = Meta { batch: 78, ..never };
    assert_eq!(other.check(&body(&never, 1), 1), None);
    assert_eq!(never.check(b"short", 1), None);
}

#[test]
fn what_should_not_have_come_is_told_as_by_the_script() {
    let told = |earlier| unexpected("2024-01-01 12:34:56,789", ("7F00", "AB01"), 2, earlier);
    assert_eq!(
        told(Earlier::Sent(Decision::Rollback)),
        "12:34:56,789 unexpected check: msgId=7F00,txId=AB01,checkTimes=2,sendResult=ROLLBACK_MESSAGE"
    );
    assert_eq!(
        told(Earlier::Checked(Decision::Commit)),
        "12:34:56,789 unexpected check: msgId=7F00,txId=AB01,checkTimes=2,sendResult,lastCheckResult=COMMIT_MESSAGE"
    );
}
