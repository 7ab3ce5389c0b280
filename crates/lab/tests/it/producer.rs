//! `vostok lab producer`.

use crate::{echo, result_without_failures};
use lab::echo::{Echo, EchoOptions};

#[test]
fn a_quantity_is_sent_exactly() {
    let address = echo();
    for flags in
        ["-w 1", "-w 60 -s 1024 -k true -l 3", "-w 60 --json-headers -c true -s 5000", "-y true -w 7"]
    {
        let outcome = result_without_failures(&format!("producer -n {address} -t T -q 20011 {flags}"));
        assert_eq!(outcome["messages"], 20_011, "{flags}");
        assert!(outcome["latency_us"]["max"].as_u64().unwrap() > 0);
    }
}

#[test]
fn sends_over_grpc_are_answered_too() {
    let echo = Echo::bind(&EchoOptions { grpc_port: Some(0), ..EchoOptions::local(4) }).unwrap();
    let (address, grpc) = (echo.address().unwrap(), echo.grpc_address().unwrap().unwrap());
    std::thread::spawn(move || echo.serve());
    let line = format!("producer -n {address} --grpc {grpc} -w 60 -s 1024 -q 20011 --queues 4");
    assert_eq!(result_without_failures(&line)["messages"], 20_011);
}

#[test]
fn several_connections_share_the_work() {
    let address = echo();
    let outcome = result_without_failures(&format!(
        "producer -n {address} -q 1001 -w 10 --connections 3 --cores 2 --queues 4"
    ));
    assert_eq!(outcome["messages"], 1001);
}

#[test]
fn an_open_loop_sends_what_was_asked_for() {
    let address = echo();
    let outcome = result_without_failures(&format!("producer -n {address} -w 60 --rate 20000 -q 4000"));
    assert_eq!(outcome["messages"], 4000);
    assert!(outcome["seconds"].as_f64().unwrap() >= 0.19, "no faster than the schedule: {outcome}");
}

#[test]
fn what_nobody_answers_is_counted_and_has_no_latency() {
    let address = echo();
    let line = format!("producer -n {address} -w 60 --rate 20000 -q 4000 --oneway");
    let outcome = result_without_failures(&line);
    assert_eq!(outcome["messages"], 4000);
    assert_eq!(outcome["latency_us"]["max"], 0, "{outcome}");
}

#[test]
fn a_cluster_that_is_not_there_is_an_error() {
    // Nobody listens there.
    let line = "producer -n 127.0.0.1:1 -q 1";
    let error = lab::run(lab::command::Lab::new(line.split_whitespace().map(str::to_owned))).unwrap_err();
    assert!(error.to_string().contains("cannot connect to 127.0.0.1:1"), "{error}");
}
