//! A log that was damaged while the server was down.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use wire::codes::request;

use crate::common::wire_client::{Connection, pull_header, send_header};
use crate::stage::{Stage, eventually, records};

const TOPIC: &str = "Kept";
const MESSAGES: i64 = 2800;
/// The message whose body is changed.
const HIT: i64 = 400;
/// Requests in flight.
const STEP: usize = 400;

fn body(number: i64) -> Vec<u8> {
    format!("{number:0>500}").into_bytes()
}

fn send_all(connection: &mut Connection) {
    let header = send_header(TOPIC, 0);
    // The first one makes the topic; those that come meanwhile are stored in any order.
    assert_eq!(connection.stored(&header, &body(0)), (0, 0));
    let numbers: Vec<i64> = (1..MESSAGES).collect();
    for numbers in numbers.chunks(STEP) {
        let asked: Vec<_> = numbers
            .iter()
            .map(|number| {
                connection.ask(request::SEND_MESSAGE_V2, |writer| header.write(writer), &body(*number))
            })
            .collect();
        for opaque in asked {
            let answer = connection.answer(opaque.expect("the request can be written")).expect("an answer");
            assert_eq!(answer.code, 0, "{answer:?}");
        }
    }
}

/// Queue offsets and bodies of all messages, as a consumer gets them.
fn pull_all(connection: &mut Connection) -> Vec<(i64, Vec<u8>)> {
    let (mut found, mut offset) = (Vec::new(), 0);
    while offset < MESSAGES {
        let answer = eventually("the pull goes on", || {
            let answer = connection.pull(&pull_header("CG", TOPIC, 0, offset));
            (answer.number("nextBeginOffset") > offset).then_some(answer)
        });
        found.extend(records(&answer).into_iter().map(|(offset, body, ..)| (offset, body)));
        offset = answer.number("nextBeginOffset");
    }
    found
}

/// The checkpoint is as old as the start, so nothing but the log itself says what was acknowledged.
#[test]
fn one_flipped_bit_behind_the_checkpoint_and_a_kill_cost_the_message_it_hits() {
    let stage = Stage::start(&[
        "flushDiskType=SYNC_FLUSH",
        "mappedFileSizeCommitLog=1048576",
        "flushIntervalConsumeQueue=3600000",
    ]);
    send_all(&mut stage.connect());
    let data = stage.server.setup().data.clone();
    let stage = stage.restart(|server| {
        server.kill9();
        let path = data.join("commitlog/00000000000000000000");
        let bytes = std::fs::read(&path).expect("the first file");
        let hit = body(HIT);
        let place = bytes.windows(hit.len()).position(|bytes| bytes == hit).expect("the message is there");
        let place = place as u64 + 100;
        let mut claimed = [0; 8];
        if let Ok(file) = File::open(data.join("checkpoint")) {
            file.read_exact_at(&mut claimed, 40).expect("the position");
        }
        assert!(u64::from_be_bytes(claimed) < place, "the damage lies behind the checkpoint");
        let log = File::options().write(true).open(path).expect("the first file");
        log.write_all_at(&[hit[100] ^ 0x10], place).expect("another byte");
    });
    let mut connection = stage.connect();
    let found = pull_all(&mut connection);
    let expected: Vec<_> =
        (0..MESSAGES).filter(|number| *number != HIT).map(|number| (number, body(number))).collect();
    assert!(found == expected, "{} of {MESSAGES}: {}", found.len(), stage.server.setup().log_tail());
    assert_eq!(connection.stored(&send_header(TOPIC, 0), b"next"), (0, MESSAGES));
    let binary = stage.server.setup().binary.clone();
    let log = std::fs::read_to_string(stage.server.setup().log()).expect("what the server printed");
    assert!(log.contains("what lies behind it is kept"), "{log}");
    assert!(stage.server.terminate().success());
    let verified =
        Command::new(binary).args(["store", "verify", "--data"]).arg(&data).output().expect("it runs");
    let text = String::from_utf8_lossy(&verified.stdout);
    assert_eq!(verified.status.code(), Some(1), "{text}");
    assert!(text.contains("no whole record up to"), "{text}");
}
