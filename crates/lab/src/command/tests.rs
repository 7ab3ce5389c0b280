//! Tests that the command lines of RocketMQ's scripts are understood.

use super::values::Bool;
use super::*;
use crate::generator::Compression;
use crate::script::LineFormat;

fn producer(line: &str) -> ProducerFlags {
    let arguments = format!("producer {line}");
    match Lab::new(arguments.split_whitespace().map(str::to_owned)).parsed().map(|parsed| parsed.tool) {
        Ok(Tool::Producer(flags)) => flags,
        other => panic!("expected the producer, found {other:?}"),
    }
}

#[test]
fn defaults_are_those_of_the_script() {
    let flags = producer("");
    assert_eq!(flags.run.topic, "BenchmarkTest");
    assert_eq!((flags.sending.threads, flags.sending.message_size), (64, 128));
    assert_eq!((flags.quantity, flags.delay_level, flags.run.report_interval), (0, 1, 10_000));
    assert_eq!((flags.sending.compress_type, flags.sending.compress_level), (Compression::Zlib, 5));
    assert_eq!(flags.sending.compress_over, 4096);
    assert_eq!(
        (flags.run.access.access_key.as_str(), flags.run.access.secret_key.as_str()),
        ("rocketmq2", "12345678")
    );
}

#[test]
fn every_flag_of_the_script() {
    let flags = producer(
        "-n h:1;i:2 -t T -w 60 -s 1024 -k true -l 3 -m false -a false -ak A -sk S -q 100 -d true -e 4 -y TRUE \
         -c true -ct LZ4 -cl 3 -ch 100 -ri 500",
    );
    assert_eq!((flags.run.namesrv.as_str(), flags.run.topic.as_str()), ("h:1;i:2", "T"));
    assert_eq!((flags.sending.keys, flags.sending.tags, flags.delay), (Bool(true), 3, Bool(true)));
    assert_eq!((flags.quantity, flags.delay_level, flags.asynchronous), (100, 4, Bool(true)));
    assert_eq!(flags.sending.compress_type, Compression::Lz4);
    assert_eq!((flags.sending.compress_level, flags.sending.compress_over), (3, 100));
    assert_eq!((flags.run.access.access_key.as_str(), flags.run.report_interval), ("A", 500));
}

/// Command line as a tool understands it, as text to compare.
fn understood(line: &str) -> String {
    let tool = Lab::new(line.split_whitespace().map(str::to_owned)).parsed().map(|parsed| parsed.tool);
    format!("{:?}", tool.unwrap_or_else(|error| panic!("{line}: {error}")))
}

/// Checks that a line with letters and a line with long names mean the same.
fn same(letters: &str, names: &str) {
    assert_eq!(understood(letters), understood(names));
    assert_ne!(understood(letters), understood(letters.split(' ').next().unwrap()), "it says nothing");
}

#[test]
fn long_names_of_producer_sh() {
    same(
        "producer -n h:1 -t T -w 60 -s 1024 -k true -l 3 -m true -a true -ak A -sk S -q 100 -d true -e 4 -y true \
         -c true -ct LZ4 -cl 3 -ch 100 -ri 500 -p 9",
        "producer --namesrvAddr h:1 --topic T --threadCount 60 --messageSize 1024 --keyEnable true --tagCount 3 \
         --msgTraceEnable true --aclEnable true --accessKey A --secretKey S --messageQuantity 100 --delayEnable true \
         --delayLevel 4 --asyncEnable true --compressEnable true --compressType LZ4 --compressLevel 3 \
         --compressOverHowMuch 100 --reportInterval=500 --propertySize 9",
    );
}

#[test]
fn long_names_of_consumer_sh() {
    same(
        "consumer -n h:1 -t T -w 6 -g G -f TAG -e file -m true -a true -ak A -sk S -ri 500",
        "consumer --namesrvAddr h:1 --topic T --threadCount 6 --group G --filterType TAG --expression file \
         --msgTraceEnable true --aclEnable true --accessKey A --secretKey S --reportInterval 500",
    );
}

#[test]
fn long_names_of_batchproducer_sh() {
    same(
        "batchproducer -n h:1 -t T -w 60 -s 1024 -b 8 -k true -p 9 -l 3 -m true -a true -c true -ct ZSTD -ri 500",
        "batchproducer --namesrv h:1 --topic T --threadCount 60 --messageSize 1024 --batchSize 8 --keyEnable true \
         --propertySize 9 --tagCount 3 --msgTraceEnable true --aclEnable true --compressEnable true \
         --compressType ZSTD --reportInterval 500",
    );
}

#[test]
fn long_names_of_tproducer_sh() {
    same(
        "tproducer -n h:1 -t T -w 60 -s 1024 -m true -a true -ak A -sk S -ri 500",
        "tproducer --namesrvAddr h:1 --topic T --threadCount 60 --messageSize 1024 --msgTraceEnable true \
         --aclEnable true --accessKey A --secretKey S --reportInterval 500",
    );
}

#[test]
fn runs_as_people_write_them() {
    assert!(understood("backlog --fill 18h --then drain --keep-producing").contains("Seconds(64800)"));
    // Tests run in the directory of the crate.
    let golden = "tests/golden/matrix";
    for (by_file, by_directory) in [
        (format!("compare {golden}/run.json {golden}/run.json"), format!("compare {golden} {golden}")),
        (format!("report {golden}/run.json"), format!("report {golden}")),
    ] {
        assert_eq!(understood(&by_file), understood(&by_directory));
    }
}

#[test]
fn our_own_flags() {
    let flags = producer(
        "--queues 8 --duration 2.5 --warmup 1 --rate 1000 --connections 2 --format 4x --json r.json",
    );
    assert_eq!(flags.script_run().limit, Some(std::time::Duration::from_millis(3500)));
    assert_eq!((flags.run.queues, flags.sending.connections), (Some(8), 2));
    assert_eq!((flags.sending.rate, flags.run.format), (Some(1000.0), LineFormat::V4));
}

#[test]
fn mistakes_are_named() {
    for (line, says) in [
        ("producer -w 0", "expected a number of 1 to 65536"),
        ("producer -w abc", "expected a number of 1 to 65536"),
        ("producer -n host:port", "expected HOST:PORT"),
        ("matrix -n h:1;host:", "expected HOST:PORT"),
        ("producer -n ;", "expected HOST:PORT"),
        ("agent --listen foo", "expected HOST:PORT"),
        ("matrix --agents h:1,h", "expected HOST:PORT"),
        ("consumer -c false", "shared out by the clients, not by the broker"),
        ("matrix --consumers 0", "expected a number of 1 to 1024"),
        ("backlog --fill long", "expected a size like 200g or a time like 18h"),
        ("backlog --then wait", "drain"),
    ] {
        let text = Lab::new(line.split(' ').map(str::to_owned))
            .parsed()
            .map(|parsed| parsed.tool)
            .unwrap_err()
            .to_string();
        assert!(text.contains(says), "{line}: {text}");
    }
    for line in ["producer --rate 0", "producer --rate=-1", "matrix --rate nan", "matrix --rate 9 --ramp 0"] {
        let text = Lab::new(line.split(' ').map(str::to_owned))
            .parsed()
            .map(|parsed| parsed.tool)
            .unwrap_err()
            .to_string();
        assert!(text.contains("expected a number above 0"), "{line}: {text}");
    }
    let lab = Lab::new(["soak", "--duration", "60"].map(str::to_owned));
    assert!(run(lab).unwrap_err().to_string().contains("--hours"));
    let lab = Lab::new(["soak", "--repeats", "3"].map(str::to_owned));
    assert!(run(lab).unwrap_err().to_string().contains("run once"));
    for (line, says) in [
        ("safe-tps --rate 5", "--rate: the rate is what is searched"),
        ("safe-tps --send oneway", "--send: nobody answers"),
        ("backlog --fill 18h --fill-seconds 9", "--fill-seconds: --fill is a time already"),
    ] {
        let error = run(Lab::new(line.split(' ').map(str::to_owned))).unwrap_err().to_string();
        assert!(error.starts_with(says), "{line}: {error}");
    }
    let lab = Lab::new(["nothing"].map(str::to_owned));
    assert!(matches!(run(lab), Err(Error::Usage(_))));
}

#[test]
fn sizes_are_read_alike_by_every_tool() {
    let flags = producer("-s 1k -c true -ch 4k --repeat 2k -p 1k");
    let sending = &flags.sending;
    assert_eq!((sending.message_size, sending.compress_over, sending.property_size), (1024, 4096, 1024));
    assert_eq!(sending.repeat, Some(2048));
    same("batchproducer -s 1k", "batchproducer -s 1024");
    same("tproducer -s 3k", "tproducer -s 3072");
    same("matrix --property-size 1k", "matrix --property-size 1024");
    let refused =
        |line: &str| Lab::new(line.split(' ').map(str::to_owned)).parsed().map(|parsed| parsed.tool).is_err();
    assert!(refused("producer -s one") && refused("producer --repeat 0") && refused("backlog --fill 10"));
}
