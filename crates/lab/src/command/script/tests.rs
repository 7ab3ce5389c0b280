//! Tests of the first lines, filters and messages of the scripts.

use super::*;
use crate::load::Message;
use clap::Parser;
use wire::record::sys_flag;

#[derive(Parser)]
struct Line<Flags: Args> {
    #[command(flatten)]
    flags: Flags,
}

fn flags<Flags: Args>(line: &str) -> Flags {
    Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags
}

/// The message that a command line of the producer leads to.
fn message(line: &str) -> Message {
    flags::<ProducerFlags>(line).script_run().load.messages().unwrap().remove(0)
}

#[test]
fn the_first_lines_are_those_of_producer_sh() {
    assert_eq!(
        flags::<ProducerFlags>("-t T").opening(),
        "topic: T, threadCount: 64, messageSize: 128, keyEnable: false, propertySize: 0, tagCount: 0, \
         traceEnable: false, aclEnable: false, messageQuantity: 0, delayEnable: false, delayLevel: 1, \
         asyncEnable: false\n compressEnable: false, reportInterval: 10000"
    );
    let text = flags::<ProducerFlags>("-y true -c true --ct LZ4").opening();
    assert!(text.contains("threadCount: 1,"), "{text}");
    assert!(
        text.ends_with("\n compressEnable: true, reportInterval: 10000\ncompressType: LZ4 compressLevel: 5")
    );
}

#[test]
fn the_first_lines_are_those_of_batchproducer_sh() {
    assert_eq!(
        flags::<BatchProducerFlags>("-t T -b 4").opening(),
        "topic: T, threadCount: 64, messageSize: 128, batchSize: 4, keyEnable: false, propertySize: 0, \
         tagCount: 0, traceEnable: false, aclEnable: false\n compressEnable: false, reportInterval: 10000"
    );
}

#[test]
fn a_batch_no_broker_would_take_is_refused() {
    let run = |line: &str| flags::<BatchProducerFlags>(line).script_run();
    let text = run("-s 1048576 -b 4").unwrap_err().to_string();
    assert!(text.starts_with("-b: a batch of 4 is 41"), "{text}");
    let load = run("-s 1000 -b 16 -c true --ch 1").unwrap().load;
    assert_eq!(load.messages().unwrap()[0].sys_flag, 0);
    let one = run("-b 1").unwrap().load;
    assert_eq!(one.messages().unwrap()[0].batch, 1, "a batch of one is a batch");
}

#[test]
fn bodies_are_compressed_from_the_limit_on() {
    assert_eq!((message("-s 5000").body.len(), message("-s 5000").sys_flag), (5000, 0));
    assert_eq!(message("-s 4095 -c true").sys_flag, 0);
    assert_eq!(message("-s 4096 -c true").sys_flag, 0x301);
    let zstd = message("-s 50000 -c true --ct ZSTD");
    assert_eq!(zstd.sys_flag, 0x201);
    let plain = client::decompress(sys_flag::Compression::Zstd, &zstd.body).unwrap();
    assert_eq!(plain, message("-s 50000").body);
}

#[test]
fn bodies_of_scripts_are_not_marked() {
    let load = flags::<ProducerFlags>("-s 1024").script_run().load;
    assert!(!load.is_marked() && Workload { marked: true, ..load }.is_marked());
}

#[test]
fn flags_that_are_not_served_are_refused() {
    let refused = |line: &str| flags::<TransactionProducerFlags>(line).script_run().map(drop);
    assert!(refused("-m true").unwrap_err().to_string().starts_with("-m true: "));
    assert!(refused("-s 36").unwrap_err().to_string().starts_with("-s: messages of 36 bytes, at least 37"));
    refused("-a true").unwrap();
}

#[test]
fn repeated_bodies_compress() {
    let stored = |line| {
        let message = message(line);
        assert_ne!(message.sys_flag, 0);
        message.body.len()
    };
    assert!(stored("-s 4096 -c true --repeat 128") < 256);
    assert!(stored("-s 4096 -c true") > 2048);
}

#[test]
fn the_first_line_is_that_of_consumer_sh() {
    let flags: ConsumerFlags = flags("-t T");
    assert_eq!(
        flags.opening(&flags.group(0), None),
        "topic: T, threadCount 20, group: benchmark_consumer, suffix: false, filterType: null, expression: null, \
         msgTraceEnable: false, aclEnable: false, reportInterval: 10000"
    );
}

#[test]
fn a_suffix_is_appended_to_the_group() {
    assert_eq!(flags::<ConsumerFlags>("-g g -p true").group(1_234_507), "g_7");
}

#[test]
fn filters_are_read_from_a_file() {
    let expression = |line: &str| flags::<ConsumerFlags>(line).expression();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tags");
    std::fs::write(&file, "a || b\n").unwrap();
    let line = format!("-f TAG -e {}", file.display());
    assert_eq!(expression(&line).unwrap(), Some(Expression::Tags("a || b".to_owned())));
    let sql = line.replace("TAG", "SQL92");
    assert_eq!(expression(&sql).unwrap(), Some(Expression::Sql("a || b".to_owned())));
    assert_eq!(expression("").unwrap(), None);
    for (line, says) in [
        ("-f TAG", "-f: needs -e"),
        ("-f SQL92", "-f: needs -e"),
        ("-f what", "-f: expected TAG or SQL92, found \"what\""),
        ("-e a>1", "-e: needs -f TAG or -f SQL92"),
        ("-f SQL92 -e a>1", "-e: expected a file that holds the expression, found \"a>1\""),
    ] {
        let error = expression(line).unwrap_err().to_string();
        assert!(error.starts_with(says), "{line}: {error}");
    }
}

#[test]
fn what_is_not_done_over_grpc_is_refused() {
    let refused = |load: Workload| match load.check() {
        Err(Error::Flag { flag: "--grpc", why }) => why,
        other => panic!("{other:?}"),
    };
    let produced = |line: &str| flags::<ProducerFlags>(&format!("--grpc h:8081 {line}")).script_run().load;
    for (line, what) in [
        ("-y true", "synchronous"),
        ("--oneway --rate 5", "synchronous"),
        ("-c true", "compression"),
        ("-d true", "delayed"),
        ("-m true", "traces"),
        ("--json-headers", "JSON"),
    ] {
        let why = refused(produced(line));
        assert!(why.contains(what), "{line}: {why}");
    }
    let batches = flags::<BatchProducerFlags>("--grpc h:8081 -b 4").script_run().unwrap().load;
    assert!(refused(batches).contains("--batch"));
    let transactions = flags::<TransactionProducerFlags>("--grpc h:8081").script_run().unwrap().load;
    assert!(refused(transactions).contains("synchronous"));
    let consumed = |line: &str| flags::<ConsumerFlags>(&format!("--grpc h:8081 {line}")).script_run();
    assert!(refused(consumed("--orderly").unwrap().load).contains("--orderly"));
    assert!(consumed("-r 0.1").unwrap_err().to_string().starts_with("-r: over gRPC"));
    produced("-w 60 --tls -k true -l 3 -p 9").check().unwrap();
    consumed("-w 60 --tls").unwrap().load.check().unwrap();
    assert!(Line::<ProducerFlags>::try_parse_from(["x", "--grpc", "8081"]).is_err(), "a host is missing");
}
