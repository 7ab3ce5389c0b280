//! `vostok lab batchproducer`: RocketMQ's batchproducer.sh.

use crate::Error;
use crate::arguments::BatchProducerFlags;
use crate::load::{Clock, Message, Template};
use crate::output::say;
use crate::producer::{encoding, message, opening_compression, refuse_trace};
use crate::report::{Tally, line};
use crate::session::{self, Plan};
use std::sync::Arc;

/// Producer group of batchproducer.sh.
const GROUP: &str = "benchmark_batch_producer";

/// Largest batch body in bytes: what brokers accept by default (`maxMessageSize`).
const BODY_BYTES_MAX: usize = 4 << 20;

/// Sends batches until the duration or a signal ends the run.
///
/// # Errors
/// [`Error::Flag`] for a flag that is not supported, [`Error::Cluster`] when the cluster cannot be reached at the
/// start.
pub fn run(flags: &BatchProducerFlags) -> Result<(), Error> {
    refuse_trace(&flags.run)?;
    let message = batched(flags)?;
    say!("{}", opening(flags));
    session::block_on(send(flags, message))
}

/// The lines that batchproducer.sh prints first.
fn opening(flags: &BatchProducerFlags) -> String {
    let BatchProducerFlags { run, sending, batch } = flags;
    let first = format!(
        "topic: {}, threadCount: {}, messageSize: {}, batchSize: {batch}, keyEnable: {}, propertySize: {}, \
         tagCount: {}, traceEnable: {}, aclEnable: {}",
        run.topic,
        sending.threads,
        sending.message_size,
        sending.keys,
        sending.property_size,
        sending.tags,
        run.trace,
        run.acl
    );
    first + "\n" + &opening_compression(sending, run.report_interval)
}

/// The message of which batches are made. Batches are never compressed, as by RocketMQ's Java producer.
fn batched(flags: &BatchProducerFlags) -> Result<Message, Error> {
    let mut sending = flags.sending.clone();
    sending.compress = crate::arguments::Bool(false);
    let message = message(GROUP, &flags.run.topic, &sending)?;
    let message = Message { batch: flags.batch, credentials: flags.run.credentials(), ..message };
    let bytes = message.batch_bytes();
    if bytes <= BODY_BYTES_MAX {
        return Ok(message);
    }
    let why = format!("a batch of {} is {bytes} bytes long, the limit is {BODY_BYTES_MAX}", flags.batch);
    Err(Error::Flag { flag: "-b", why })
}

async fn send(flags: &BatchProducerFlags, message: Message) -> Result<(), Error> {
    let BatchProducerFlags { run, sending, batch } = flags;
    let (client, places) = session::find(run).await?;
    let (tally, clock) = (Arc::new(Tally::default()), Clock::start());
    let messages_each = u64::from(*batch);
    let plan = Plan { sending, in_flight: sending.threads, quantity: None, messages_each };
    let encoding = encoding(sending);
    let work = |targets: &[_], index| {
        let message =
            Message { key_prefix: crate::load::key_prefix(client.ip(), clock, index), ..message.clone() };
        Template::batch(&message, *batch, targets, encoding)
    };
    let connections = plan.connections(&places, (&tally, clock), work);
    let workers = session::workers(sending.cores, usize::MAX)?;
    let periodic = |now, rates: &_| line::batch_producer(now, rates, messages_each, run.format);
    let finished = session::drive(run, &workers, connections, (&tally, clock), periodic).await?;
    if let Some(rates) = &finished.rates {
        say!("[Complete] {}", periodic(finished.ended_ms, rates));
    }
    session::tell(run, &finished)?;
    workers.shutdown();
    client.shutdown();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: BatchProducerFlags,
    }

    fn flags(line: &str) -> BatchProducerFlags {
        Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags
    }

    #[test]
    fn the_first_lines_are_those_of_the_script() {
        assert_eq!(
            opening(&flags("-t T -b 4")),
            "topic: T, threadCount: 64, messageSize: 128, batchSize: 4, keyEnable: false, propertySize: 0, \
             tagCount: 0, traceEnable: false, aclEnable: false\n compressEnable: false, reportInterval: 10000"
        );
    }

    #[test]
    fn a_batch_no_broker_would_take_is_refused() {
        let text = batched(&flags("-s 1048576 -b 4")).unwrap_err().to_string();
        assert!(text.starts_with("-b: a batch of 4 is 41"), "{text}");
        assert_eq!(batched(&flags("-s 1000 -b 16 -c true --ch 1")).unwrap().sys_flag, 0);
    }
}
