//! Timed messages under load: how late they come, and what those that wait cost in memory.
//!
//! `cargo run --release --example timers -- [--binary PATH] [--messages 100000] [--span 60]` sends
//! messages due within `span` seconds, spread evenly, while some are due already, and prints how late each was stored in
//! its topic (store time less asked time). `--pending N` first stores N messages due in a day and prints the server's
//! memory before and after.

#[path = "../../common/mod.rs"]
mod common;

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::PATIENCE;
use common::random::Random;
use common::server::{Server, Setup};
use common::wire_client::{Connection, pull_header, send_header};
use wire::codes::request;
use wire::header::SendHeader;
use wire::record::RecordView;

/// Sends that wait for their answers at once.
const WINDOW: u64 = 1000;
/// Time between the first send and the first message due, and more of it for each message.
const LEAD_MS: i64 = 2000;
const LEAD_PER_MESSAGE_US: i64 = 200;
const QUEUES: i32 = 4;
const BODY: [u8; 256] = [b'b'; 256];

struct Arguments {
    binary: PathBuf,
    messages: u64,
    span_s: u64,
    pending: u64,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut found =
        Arguments { binary: common::server::built_binary(), messages: 100_000, span_s: 60, pending: 0 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--binary" => found.binary = value.into(),
            "--messages" => found.messages = value.parse()?,
            "--span" => found.span_s = value.parse()?,
            "--pending" => found.pending = value.parse()?,
            _ => return Err(format!("{word} is none of --binary, --messages, --span, --pending").into()),
        }
    }
    Ok(found)
}

fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// Sends `count` messages due at `due_ms(number)`, and waits until all are stored.
fn send_all(
    connection: &mut Connection,
    count: u64,
    due_ms: impl Fn(u64) -> i64,
) -> std::io::Result<Duration> {
    let began = Instant::now();
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        while sent < count && sent - answered < WINDOW {
            let properties = format!("TIMER_DELIVER_MS\x01{}\x02", due_ms(sent));
            let queue_id = (sent % QUEUES as u64) as i32;
            let header = SendHeader { properties: properties.as_bytes(), ..send_header("Timed", queue_id) };
            connection.ask(request::SEND_MESSAGE_V2, |writer| header.write(writer), &BODY)?;
            sent += 1;
        }
        connection.read_available(|answer| {
            assert_eq!(answer.code, 0, "{:?}", answer.remark);
            answered += 1;
        })?;
    }
    Ok(began.elapsed())
}

/// How late every message of the topic was stored, in milliseconds.
fn lateness(connection: &mut Connection, offsets: &mut [i64], late: &mut Vec<i64>) -> bool {
    let before = late.len();
    for (queue_id, offset) in (0..QUEUES).zip(offsets) {
        let answer = connection.pull(&pull_header("CG", "Timed", queue_id, *offset));
        let mut rest = answer.body.as_slice();
        while !rest.is_empty() {
            let record = RecordView::parse(rest).expect("pull answers hold whole records");
            let due = wire::properties::get_str(record.properties(), "TIMER_DELIVER_MS");
            let due_ms: i64 = due.and_then(|due| due.parse().ok()).expect("every message has a time");
            late.push(record.store_timestamp() - due_ms);
            *offset += 1;
            rest = &rest[record.size()..];
        }
    }
    late.len() > before
}

fn pending(server: &Server, connection: &mut Connection, count: u64) -> std::io::Result<()> {
    println!("resident before: {} MB", server.resident_kb() / 1024);
    let mut random = Random::new(1);
    let day: Vec<i64> = (0..4096).map(|_| random.within(3_600_000, 86_400_000).cast_signed()).collect();
    let start = now_ms();
    let took =
        send_all(connection, count, |number| start + day[(number % 4096) as usize] + (number / 4096) as i64)?;
    println!("{count} messages wait, sent at {:.0}/s", count as f64 / took.as_secs_f64());
    println!("resident with them: {} MB", server.resident_kb() / 1024);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let home = tempfile::tempdir()?;
    let setup = Setup::new(&arguments.binary, home.path().join("data"), home.path());
    let server = setup.start()?;
    let mut connection = Connection::open(setup.broker())?;
    if arguments.pending > 0 {
        pending(&server, &mut connection, arguments.pending)?;
    }
    let lead_ms = LEAD_MS + arguments.messages.cast_signed() * LEAD_PER_MESSAGE_US / 1000;
    let (start, span_ms) = (now_ms() + lead_ms, 1000 * arguments.span_s.cast_signed());
    let count = arguments.messages;
    let spread = move |number: u64| {
        // Not in the order they are sent.
        let place = (number * 7919) % count;
        start + i64::try_from(u128::from(place) * span_ms as u128 / u128::from(count)).unwrap_or(0)
    };
    let took = send_all(&mut connection, count, spread)?;
    println!(
        "{count} messages for {} s, sent at {:.0}/s",
        arguments.span_s,
        count as f64 / took.as_secs_f64()
    );
    let (mut offsets, mut late) = (vec![0; QUEUES as usize], Vec::new());
    let deadline = Instant::now() + Duration::from_secs(arguments.span_s) + PATIENCE;
    while (late.len() as u64) < count && Instant::now() < deadline {
        if !lateness(&mut connection, &mut offsets, &mut late) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // A server that stores less than 5,000 messages in a second cannot be in time.
    late.sort_unstable();
    let at = |share: f64| late.get((share * (late.len() as f64 - 1.0)) as usize).copied().unwrap_or(-1);
    println!("delivered {}, early {}", late.len(), late.iter().filter(|late| **late < 0).count());
    println!(
        "late in ms: p50 {} p90 {} p99 {} p99.9 {} max {}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    println!("resident: {} MB", server.resident_kb() / 1024);
    if (late.len() as u64) < count {
        return Err(
            format!("{} messages are missing:\n{}", count - late.len() as u64, setup.log_tail()).into()
        );
    }
    Ok(())
}
