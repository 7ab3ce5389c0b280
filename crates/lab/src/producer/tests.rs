//! Tests of the first lines and of the messages of the producer.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: ProducerFlags,
}

fn flags(line: &str) -> ProducerFlags {
    Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags
}

/// The message that a command line leads to.
pub(super) fn message_of(line: &str) -> Message {
    message("g", "t", &flags(line).sending).unwrap()
}

#[test]
fn the_first_lines_are_those_of_the_script() {
    assert_eq!(
        opening(&flags("-t T")),
        "topic: T, threadCount: 64, messageSize: 128, keyEnable: false, propertySize: 0, tagCount: 0, \
         traceEnable: false, aclEnable: false, messageQuantity: 0, delayEnable: false, delayLevel: 1, \
         asyncEnable: false\n compressEnable: false, reportInterval: 10000"
    );
    let text = opening(&flags("-y true -c true --ct LZ4"));
    assert!(text.contains("threadCount: 1,"), "{text}");
    assert!(
        text.ends_with("\n compressEnable: true, reportInterval: 10000\ncompressType: LZ4 compressLevel: 5")
    );
}

#[test]
fn bodies_are_compressed_from_the_limit_on() {
    let made = |line: &str| message("g", "t", &flags(line).sending).unwrap();
    assert_eq!((made("-s 5000").body.len(), made("-s 5000").sys_flag), (5000, 0));
    assert_eq!(made("-s 4095 -c true").sys_flag, 0);
    assert_eq!(made("-s 4096 -c true").sys_flag, 0x301);
    let zstd = made("-s 50000 -c true --ct ZSTD");
    assert_eq!(zstd.sys_flag, 0x201);
    let plain = client::decompress(sys_flag::Compression::Zstd, &zstd.body).unwrap();
    assert_eq!(plain, made("-s 50000").body);
}

#[test]
fn flags_that_are_not_served_are_refused() {
    assert!(refuse_trace(&flags("-m true").run).unwrap_err().to_string().starts_with("-m true: "));
    refuse_trace(&flags("-a true").run).unwrap();
    assert!(check_fronts(&flags("-l 100000").sending, 8).is_err());
}

#[test]
fn repeated_bodies_compress() {
    let stored = |line| {
        let message = message("g", "t", &flags(line).sending).unwrap();
        assert_ne!(message.sys_flag, 0);
        message.body.len()
    };
    assert!(stored("-s 4096 -c true --repeat 128") < 256);
    assert!(stored("-s 4096 -c true") > 2048);
}
