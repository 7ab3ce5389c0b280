//! The other senders.

use crate::{echo, result};

#[test]
fn batches_count_as_their_messages() {
    let address = echo();
    let outcome = result(&format!("batchproducer -n {address} -w 8 -b 16 --duration 2"));
    let messages = outcome["messages"].as_u64().unwrap();
    assert!(messages > 0 && messages.is_multiple_of(16), "{messages}");
    assert_eq!(outcome["failures"], 0);
}

#[test]
fn the_rate_of_batches_counts_their_messages() {
    let address = echo();
    let outcome = result(&format!("batchproducer -n {address} -w 8 -b 10 --rate 2000 --duration 3"));
    // It may go on for a moment where the machine is busy. Counted as one message each, batches would be 200 a second.
    let rate = outcome["messages"].as_f64().unwrap() / outcome["seconds"].as_f64().unwrap();
    assert!((400.0..=2200.0).contains(&rate), "{rate} a second: {outcome}");
}

#[test]
fn transactions_are_sent() {
    let address = echo();
    let outcome = result(&format!("tproducer -n {address} -w 8 -sr 0.2 -su 0.1 --duration 2"));
    assert!(outcome["messages"].as_u64().unwrap() > 0);
    assert_eq!(outcome["failures"], 0);
}
