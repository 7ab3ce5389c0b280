//! The scripts' command lines are understood.

use super::*;

fn producer(line: &str) -> ProducerFlags {
    let arguments = format!("producer {line}");
    match Lab::new(arguments.split_whitespace().map(str::to_owned)).tool() {
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
    assert_eq!((flags.run.access_key.as_str(), flags.run.secret_key.as_str()), ("rocketmq2", "12345678"));
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
    assert_eq!((flags.run.access_key.as_str(), flags.run.report_interval), ("A", 500));
}

#[test]
fn our_own_flags() {
    let flags = producer(
        "--queues 8 --duration 2.5 --warmup 1 --rate 1000 --connections 2 --format 4x --json r.json",
    );
    assert_eq!(flags.run.limit(), Some(std::time::Duration::from_millis(3500)));
    assert_eq!((flags.run.queues, flags.sending.connections), (Some(8), 2));
    assert_eq!((flags.sending.rate, flags.run.format), (Some(1000.0), LineFormat::V4));
}

#[test]
fn mistakes_are_named() {
    let lab = Lab::new(["producer", "-w", "0"].map(str::to_owned));
    let text = lab.tool().unwrap_err().to_string();
    assert!(text.contains("1..=65536"), "{text}");
    for line in ["producer --rate 0", "producer --rate=-1", "matrix --rate nan", "matrix --rate 9 --ramp 0"] {
        let text = Lab::new(line.split(' ').map(str::to_owned)).tool().unwrap_err().to_string();
        assert!(text.contains("expected a number above 0"), "{line}: {text}");
    }
    let lab = Lab::new(["soak", "--duration", "60"].map(str::to_owned));
    assert!(run(lab).unwrap_err().to_string().contains("--hours"));
    let lab = Lab::new(["soak", "--repeats", "3"].map(str::to_owned));
    assert!(run(lab).unwrap_err().to_string().contains("run once"));
    let lab = Lab::new(["nothing"].map(str::to_owned));
    assert!(matches!(run(lab), Err(Error::Usage(_))));
}
