//! `vostok lab tproducer`: RocketMQ's tproducer.sh. It sends half messages, ends them, answers checks of the broker,
//! and verifies these checks.

mod half;
mod verdict;

use crate::Error;
use crate::arguments::{Bool, LineFormat, Sending, TransactionProducerFlags};
use crate::load::Clock;
use crate::load::{Ending, key_prefix};
use crate::output::say;
use crate::producer::{encoding, message, refuse_trace};
use crate::report::line::zone_ms;
use crate::report::{Rates, Tally};
use crate::session::{self, Plan};
use half::{Checks, Half};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use verdict::Meta;

/// Producer group of tproducer.sh.
const GROUP: &str = "benchmark_transaction_producer";

/// Sends half messages until the duration or a signal ends the run.
///
/// # Errors
/// [`Error::Flag`] for a flag that is not supported, [`Error::Cluster`] when the cluster cannot be reached at the
/// start.
pub fn run(flags: &TransactionProducerFlags) -> Result<(), Error> {
    refuse_trace(&flags.run)?;
    if flags.message_size < verdict::BYTES {
        let why = format!("messages of {} bytes, at least {} are needed", flags.message_size, verdict::BYTES);
        return Err(Error::Flag { flag: "-s", why });
    }
    session::block_on(send(flags))
}

fn sending(flags: &TransactionProducerFlags) -> Sending {
    Sending {
        threads: flags.threads,
        message_size: flags.message_size,
        repeat: None,
        keys: Bool(false),
        tags: 0,
        compress: Bool(false),
        compress_type: crate::arguments::Compression::Zlib,
        compress_level: 5,
        compress_over: usize::MAX,
        property_size: 0,
        connections: 1,
        cores: 1,
        json_headers: flags.json_headers,
        rate: send_rate(flags),
    }
}

/// The rate that follows from the pause of every thread: tproducer.sh pauses after each send of a thread. `None`
/// without a pause.
fn send_rate(flags: &TransactionProducerFlags) -> Option<f64> {
    (flags.interval_ms > 0).then(|| f64::from(flags.threads) * 1000.0 / flags.interval_ms as f64)
}

async fn send(flags: &TransactionProducerFlags) -> Result<(), Error> {
    let TransactionProducerFlags { run, .. } = flags;
    let (client, places) = session::find(run).await?;
    let (tally, clock) = (Arc::new(Tally::default()), Clock::start());
    let sending = sending(flags);
    let checks = Arc::new(Checks::new(zone_ms()));
    let mut half = message(GROUP, &run.topic, &sending)?;
    half.is_half = true;
    half.credentials = run.credentials();
    half.sys_flag |= wire::record::sys_flag::TRANSACTION_PREPARED;
    let meta = |connection| Meta {
        batch: flags.batch.unwrap_or_else(|| clock.epoch_ms(0)).cast_signed(),
        start: verdict::start(clock.epoch_ms(0), connection),
        send_shares: (flags.send_rollback, flags.send_unknown),
        check_shares: (flags.check_rollback, flags.check_unknown),
    };
    let plan = Plan { sending: &sending, in_flight: flags.threads, quantity: None, messages_each: 1 };
    let work = |targets: &[_], index| {
        let message =
            crate::load::Message { key_prefix: key_prefix(client.ip(), clock, index), ..half.clone() };
        let template = crate::load::Template::single(&message, targets, encoding(&sending));
        let ending = Ending::new(encoding(&sending), GROUP, client.id()).signed_by(run.credentials());
        Half::new(template, meta(index), ending, checks.clone())
    };
    let connections = plan.connections(&places, (&tally, clock), work);
    let workers = session::workers(sending.cores, usize::MAX)?;
    let window = CheckWindow::default();
    let periodic = |now, rates: &Rates| window.line((now, run.format), rates, (&checks, tally.take_max()));
    let finished = session::drive(run, &workers, connections, (&tally, clock), periodic).await?;
    if let Some(rates) = &finished.rates {
        say!("[Complete] {}", periodic(finished.ended_ms, rates));
    }
    session::tell(run, &finished)?;
    workers.shutdown();
    client.shutdown();
    Ok(())
}

/// Counts at the time of the last line, because tproducer.sh prints counts per line.
#[derive(Default)]
struct CheckWindow {
    failed: AtomicU64,
    checked: AtomicU64,
    unexpected: AtomicU64,
    duplicated: AtomicU64,
}

impl CheckWindow {
    fn line(
        &self,
        (now, format): (u64, LineFormat),
        rates: &Rates,
        (checks, max_micros): (&Checks, u64),
    ) -> String {
        let since = |before: &AtomicU64, total: u64| total - before.swap(total, Relaxed);
        let (now, tps, max, average) =
            (crate::report::line::clock(now), rates.tps, max_micros / 1000, rates.average_ms);
        let failed = since(&self.failed, rates.send_failed + rates.response_failed);
        let checked = since(&self.checked, checks.checked.load(Relaxed));
        let unexpected = since(&self.unexpected, checks.unexpected.load(Relaxed));
        let duplicated = since(&self.duplicated, checks.duplicated.load(Relaxed));
        match format {
            LineFormat::V5 => format!(
                "Current Time: {now} | Send TPS: {tps:5} | Max RT(ms): {max:5} | AVG RT(ms): {average:3.1} | \
                 Send Failed: {failed} | Check: {checked} | UnexpectedCheck: {unexpected} | \
                 DuplicatedCheck: {duplicated}"
            ),
            // The trailing blank is printed by the script as well.
            LineFormat::V4 => format!(
                "Current Time: {now} Send TPS:{tps:5} Max RT(ms):{max:5} AVG RT(ms):{average:3.1} \
                 Send Failed: {failed} check: {checked} unexpectedCheck: {unexpected} \
                 duplicatedCheck: {duplicated} "
            ),
        }
    }
}

#[cfg(test)]
mod tests;
