//! `vostok lab producer`: RocketMQ's producer.sh, with one thread per core instead of one per request in flight.

mod traced;

use crate::Error;
use crate::arguments::{Compression, ProducerFlags, Run, Sending};
use crate::load::{ASYNCHRONOUS_IN_FLIGHT, Clock, Message, ONE_WAY_BYTES_MAX, Template, body, key_prefix};
use crate::output::say;
use crate::report::{Tally, line};
use crate::session::{self, Plan};
use client::{TRACE_TOPIC, Tracer};
use std::sync::Arc;
use traced::Traced;
use wire::frame::Encoding;
use wire::record::sys_flag;

/// Producer group of producer.sh.
const GROUP: &str = "benchmark_producer";

/// Most encoded headers that are kept, one per queue and tag.
const FRONTS_MAX: usize = 1 << 18;

/// Sends until the quantity, the duration or a signal ends the run.
///
/// # Errors
/// [`Error::Flag`] for a flag that is not supported, [`Error::Cluster`] when the cluster cannot be reached at the
/// start.
pub fn run(flags: &ProducerFlags) -> Result<(), Error> {
    say!("{}", opening(flags));
    session::block_on(send(flags))
}

/// The lines that producer.sh prints first.
fn opening(flags: &ProducerFlags) -> String {
    let ProducerFlags { run, sending, quantity, delay, delay_level, asynchronous, .. } = flags;
    let threads = if asynchronous.0 { 1 } else { sending.threads };
    let first = format!(
        "topic: {}, threadCount: {threads}, messageSize: {}, keyEnable: {}, propertySize: {}, tagCount: {}, \
         traceEnable: {}, aclEnable: {}, messageQuantity: {quantity}, delayEnable: {delay}, \
         delayLevel: {delay_level}, asyncEnable: {asynchronous}",
        run.topic,
        sending.message_size,
        sending.keys,
        sending.property_size,
        sending.tags,
        run.trace,
        run.acl
    );
    first + "\n" + &opening_compression(sending, run.report_interval)
}

/// The line about compression, which producer.sh and batchproducer.sh print alike.
pub(crate) fn opening_compression(sending: &Sending, report_interval: u64) -> String {
    let line = format!(" compressEnable: {}, reportInterval: {report_interval}", sending.compress);
    if !sending.compress.0 {
        return line;
    }
    let kind = format!("{:?}", sending.compress_type).to_uppercase();
    format!("{line}\ncompressType: {kind} compressLevel: {}", sending.compress_level)
}

/// Refuses `-m true` for tools that write no traces, because the result would not be what was asked for.
pub(crate) fn refuse_trace(run: &Run) -> Result<(), Error> {
    if !run.trace.0 {
        return Ok(());
    }
    let why = "message traces are written by lab producer and lab consumer alone".to_owned();
    Err(Error::Flag { flag: "-m true", why })
}

async fn send(flags: &ProducerFlags) -> Result<(), Error> {
    let ProducerFlags { run, sending, .. } = flags;
    let (client, places) = session::find(run).await?;
    let queues: usize = places.iter().map(|place| place.targets.len()).sum();
    check_fronts(sending, queues)?;
    let (tally, clock) = (Arc::new(Tally::default()), Clock::start());
    let mut message = message(GROUP, &run.topic, sending)?;
    message.delay_level = if flags.delay.0 { flags.delay_level } else { 0 };
    message.is_one_way = flags.oneway;
    message.credentials = run.credentials();
    let plan = Plan {
        sending,
        in_flight: if flags.asynchronous.0 { ASYNCHRONOUS_IN_FLIGHT } else { sending.threads },
        quantity: (flags.quantity > 0).then_some(flags.quantity),
        messages_each: 1,
    };
    let encoding = encoding(sending);
    let tracer = if run.trace.0 { Tracer::start(&client, GROUP, TRACE_TOPIC) } else { None };
    let work = |targets: &[_], index| {
        let message = Message { key_prefix: key_prefix(client.ip(), clock, index), ..message.clone() };
        let template = Template::single(&message, targets, encoding);
        Traced { template, tracer: tracer.clone(), message, clock }
    };
    let connections = plan.connections(&places, (&tally, clock), work);
    let workers = session::workers(sending.cores, if flags.oneway { ONE_WAY_BYTES_MAX } else { usize::MAX })?;
    let periodic = |now, rates: &_| line::producer(now, rates, run.format);
    let finished = session::drive(run, &workers, connections, (&tally, clock), periodic).await?;
    say!("{}", line::producer_complete(&finished.total, finished.rates.as_ref(), run.format));
    session::tell(run, &finished)?;
    workers.shutdown();
    if let Some(tracer) = &tracer {
        tracer.finish().await;
    }
    client.shutdown();
    Ok(())
}

pub(crate) fn encoding(sending: &Sending) -> Encoding {
    if sending.json_headers { Encoding::Json } else { Encoding::Binary }
}

/// Refuses combinations of queues and tags whose encoded headers would need too much memory.
pub(crate) fn check_fronts(sending: &Sending, queues: usize) -> Result<(), Error> {
    let fronts = queues * sending.tags.max(1) as usize;
    if fronts <= FRONTS_MAX {
        return Ok(());
    }
    let why = format!("{} tags times {queues} queues is more than {FRONTS_MAX}", sending.tags);
    Err(Error::Flag { flag: "-l", why })
}

/// The message that all requests send, compressed once.
pub(crate) fn message(group: &str, topic: &str, sending: &Sending) -> Result<Message, Error> {
    let period = sending.repeat.map_or(sending.message_size, |bytes| bytes as usize);
    let plain = body(period, 0x5bd1_e995_9e37_79b9).into_iter().cycle().take(sending.message_size).collect();
    let (body, sys_flag) = compressed(sending, plain)?;
    Ok(Message {
        group: group.to_owned(),
        topic: topic.to_owned(),
        body,
        sys_flag,
        keys: sending.keys.0,
        tags: sending.tags,
        property_size: sending.property_size,
        delay_level: 0,
        key_prefix: [0; 10],
        batch: 0,
        is_half: false,
        is_one_way: false,
        credentials: None,
    })
}

fn compressed(sending: &Sending, plain: Vec<u8>) -> Result<(Vec<u8>, i32), Error> {
    if !sending.compress.0 || plain.len() < sending.compress_over {
        return Ok((plain, 0));
    }
    let kind = match sending.compress_type {
        Compression::Zlib => sys_flag::Compression::Zlib,
        Compression::Lz4 => sys_flag::Compression::Lz4,
        Compression::Zstd => sys_flag::Compression::Zstd,
    };
    let failed = Error::system("compress the body");
    let body = client::compress(kind, sending.compress_level, &plain).map_err(failed)?;
    Ok((body, sys_flag::compressed_with(kind)))
}

#[cfg(test)]
mod tests;
