//! `vostok lab consumer`: consumer.sh.

mod figures;

use crate::Error;
use crate::command::ConsumerFlags;
use crate::load::Clock;
use crate::producer::refuse_unserved;
use crate::report::{Latency, Outcome, Snapshot};
use crate::session;
use client::{Client, Config, PushConfig, PushConsumer, Received, Verdict};
use figures::{Figures, Window};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Consumes until the duration or a signal is reached.
///
/// # Errors
/// A flag cannot be served, the expression's file cannot be read, or the cluster cannot be reached at the start.
pub fn run(flags: &ConsumerFlags) -> Result<(), Error> {
    refuse_unserved(flags.run.acl.0, flags.run.trace.0)?;
    let expression = expression(flags)?;
    let group = group(flags, now_ms());
    println!("{}", opening(flags, &group, expression.as_deref()));
    session::block_on(consume(flags, group, expression))
}

/// The first line of the script.
fn opening(flags: &ConsumerFlags, group: &str, expression: Option<&str>) -> String {
    let ConsumerFlags { run, threads, suffix, filter_type, .. } = flags;
    format!(
        "topic: {}, threadCount {threads}, group: {group}, suffix: {suffix}, filterType: {}, expression: {}, \
         msgTraceEnable: {}, aclEnable: {}, reportInterval: {}",
        run.topic,
        filter_type.as_deref().unwrap_or("null"),
        expression.unwrap_or("null"),
        run.trace,
        run.acl,
        run.report_interval
    )
}

fn group(flags: &ConsumerFlags, now_ms: i64) -> String {
    if flags.suffix.0 { format!("{}_{}", flags.group, now_ms % 100) } else { flags.group.clone() }
}

/// The tag expression of the file, if a filter is asked for.
fn expression(flags: &ConsumerFlags) -> Result<Option<String>, Error> {
    let refused = |flag, why: &str| Err(Error::Flag { flag, why: why.to_owned() });
    match (flags.filter_type.as_deref(), &flags.expression_file) {
        (None, _) => Ok(None),
        (Some("TAG"), Some(path)) => {
            let text = std::fs::read_to_string(path);
            let failed = |source| Error::File { path: path.clone(), source };
            text.map(|text| Some(text.trim().to_owned())).map_err(failed)
        }
        (Some("TAG"), None) => refused("-f", "needs -e with the path of a file that holds the expression"),
        (Some("SQL92"), _) => refused("-f", "SQL92 is not served by this version of the lab, TAG is"),
        (Some(_), _) => refused("-f", "expected TAG"),
    }
}

async fn consume(flags: &ConsumerFlags, group: String, expression: Option<String>) -> Result<(), Error> {
    let run = &flags.run;
    let client = Client::start(Config::new(&run.namesrv))?;
    let figures = Arc::new(Figures::default());
    if let Some(expression) = &expression {
        println!("Expression: {expression}");
    }
    let mut config = PushConfig::new(group, &run.topic, expression.unwrap_or_else(|| "*".to_owned()));
    config.threads = flags.threads as usize;
    let (listened, fails) = (figures.clone(), Fails::new(flags.fail_rate));
    let listener = move |messages: &[Received]| listen(&listened, &fails, messages);
    let consumer = PushConsumer::start(&client, config, listener).await?;
    println!("Consumer Started.");
    let clock = Clock::start();
    let mut window = Window::default();
    let (first, last) = watch(flags, &figures, clock, &mut window).await;
    consumer.shutdown().await;
    client.shutdown();
    let elapsed = Duration::from_millis(last.at_ms.saturating_sub(first.at_ms));
    let latency = figures.latency();
    let outcome = Outcome { series: window.series, ..Outcome::new(&first, &last, elapsed, &latency) };
    println!("[Complete] Consume Total: {} | Consume TPS: {:.0}", outcome.messages, outcome.tps);
    println!("Born to consumer {}", outcome.latency_us);
    run.json.as_deref().map_or(Ok(()), |path| outcome.write(path))
}

fn listen(figures: &Figures, fails: &Fails, messages: &[Received]) -> Verdict {
    let Some(first) = messages.first() else { return Verdict::Done };
    let now = now_ms();
    let since = |then: i64| now.saturating_sub(then).max(0).unsigned_abs();
    figures.received(since(first.born_timestamp), since(first.store_timestamp));
    if fails.next() {
        figures.failed();
        return Verdict::Later;
    }
    Verdict::Done
}

/// Samples and prints until the end; returns the counts at the end of the warm-up and at the end.
async fn watch(
    flags: &ConsumerFlags,
    figures: &Figures,
    clock: Clock,
    window: &mut Window,
) -> (Snapshot, Snapshot) {
    let run = &flags.run;
    let counts = || figures.snapshot(clock.now_ns() / 1_000_000);
    let mut samples = tokio::time::interval(Duration::from_secs(1));
    let interval = Duration::from_millis(run.report_interval);
    let mut reports = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
    let warm = tokio::time::sleep(run.warm());
    let limit = tokio::time::sleep(run.limit().unwrap_or(Duration::MAX / 4));
    let signalled = session::signalled();
    tokio::pin!(warm, limit, signalled);
    let mut warming = !run.warm().is_zero();
    // Messages delivered while the consumer started count too.
    let mut first = Snapshot { at_ms: clock.now_ns() / 1_000_000, ..Snapshot::default() };
    loop {
        tokio::select! {
            biased;
            () = &mut warm, if warming => {
                warming = false;
                first = counts();
                figures.forget_latency();
                window.series.clear();
            }
            () = &mut limit => return (first, counts()),
            () = &mut signalled => return (first, counts()),
            _ = samples.tick() => window.push(figures.sample(clock.now_ns() / 1_000_000)),
            _ = reports.tick() => {
                if let Some(line) = window.line(clock.epoch_ms(clock.now_ns()), figures) {
                    println!("{line}");
                }
            }
        }
    }
}

/// Decides which messages fail, evenly spread.
struct Fails {
    rate: f64,
    count: AtomicU64,
}

impl Fails {
    fn new(rate: f64) -> Self {
        Self { rate: rate.clamp(0.0, 1.0), count: AtomicU64::new(0) }
    }

    fn next(&self) -> bool {
        let number = self.count.fetch_add(1, Relaxed) as f64;
        ((number + 1.0) * self.rate).floor() > (number * self.rate).floor()
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A latency of whole milliseconds in the unit of results.
fn record(latency: &mut Latency, ms: u64) {
    latency.record(ms.saturating_mul(1000).max(1));
}

#[cfg(test)]
mod tests;
