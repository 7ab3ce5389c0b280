//! `vostok lab consumer`: RocketMQ's consumer.sh.

mod figures;

use crate::Error;
use crate::arguments::ConsumerFlags;
use crate::load::Clock;
use crate::output::{is_closed, say};
use crate::report::line::zone_ms;
use crate::report::{Latency, Outcome, Snapshot};
use crate::session;
use client::{Client, Config, Expression, PushConfig, PushConsumer, Received, TRACE_TOPIC, Verdict};
use figures::{Figures, Window};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Consumes until the duration or a signal ends the run.
///
/// # Errors
/// [`Error::Flag`] for a filter that is not understood, [`Error::File`] when the file of the expression cannot be read,
/// [`Error::Cluster`] when the cluster cannot be reached at the start.
pub fn run(flags: &ConsumerFlags) -> Result<(), Error> {
    let expression = expression(flags)?;
    let group = group(flags, now_ms());
    say!("{}", opening(flags, &group, expression.as_ref()));
    session::block_on(consume(flags, group, expression))
}

/// The line that consumer.sh prints first.
fn opening(flags: &ConsumerFlags, group: &str, expression: Option<&Expression>) -> String {
    let ConsumerFlags { run, threads, suffix, filter_type, .. } = flags;
    format!(
        "topic: {}, threadCount {threads}, group: {group}, suffix: {suffix}, filterType: {}, expression: {}, \
         msgTraceEnable: {}, aclEnable: {}, reportInterval: {}",
        run.topic,
        filter_type.as_deref().unwrap_or("null"),
        expression.map_or("null", Expression::text),
        run.trace,
        run.acl,
        run.report_interval
    )
}

fn group(flags: &ConsumerFlags, now_ms: i64) -> String {
    if flags.suffix.0 { format!("{}_{}", flags.group, now_ms % 100) } else { flags.group.clone() }
}

/// The filter expression from the file; `None` without a filter.
fn expression(flags: &ConsumerFlags) -> Result<Option<Expression>, Error> {
    let refused = |flag, why| Error::Flag { flag, why };
    let kind = match (flags.filter_type.as_deref(), &flags.expression_file) {
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err(refused("-e", "needs -f TAG or -f SQL92 beside it".to_owned())),
        (Some("TAG"), _) => Expression::Tags,
        (Some("SQL92"), _) => Expression::Sql,
        (Some(other), _) => return Err(refused("-f", format!("expected TAG or SQL92, found {other:?}"))),
    };
    let Some(path) = &flags.expression_file else {
        let why = "needs -e with the path of a file that holds the expression";
        return Err(refused("-f", why.to_owned()));
    };
    let text = std::fs::read_to_string(path).map_err(|source| {
        refused("-e", format!("expected a file that holds the expression, found {path:?}: {source}"))
    })?;
    Ok(Some(kind(text.trim().to_owned())))
}

async fn consume(flags: &ConsumerFlags, group: String, expression: Option<Expression>) -> Result<(), Error> {
    let run = &flags.run;
    let client = Client::start(Config { credentials: run.credentials(), ..Config::new(&run.namesrv) })?;
    let figures = Arc::new(Figures::default());
    if let Some(expression) = &expression {
        say!("Expression: {}", expression.text());
    }
    let mut config = PushConfig::new(group, &run.topic, expression.unwrap_or_default());
    config.trace = run.trace.0.then(|| TRACE_TOPIC.to_owned());
    config.threads = flags.threads as usize;
    let (listened, fails) = (figures.clone(), Fails::new(flags.fail_rate));
    let listener = move |messages: &[Received]| listen(&listened, &fails, messages);
    let consumer = if flags.orderly {
        PushConsumer::start_orderly(&client, config, listener).await?
    } else {
        PushConsumer::start(&client, config, listener).await?
    };
    say!("Consumer Started.");
    let clock = Clock::start();
    let mut window = Window::default();
    let (first, last) = watch(flags, &figures, clock, &mut window).await;
    consumer.shutdown().await;
    client.shutdown();
    let elapsed = Duration::from_millis(last.at_ms.saturating_sub(first.at_ms));
    let latency = figures.latency();
    let outcome = Outcome { series: window.series, ..Outcome::new(&first, &last, elapsed, &latency) };
    say!("[Complete] Consume Total: {} | Consume TPS: {:.0}", outcome.messages, outcome.tps);
    say!("Born to consumer {}", outcome.latency_us);
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

/// Takes samples and prints lines until the end. Returns the counts at the end of the warm-up and at the end of the
/// run.
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
    let zone_ms = zone_ms();
    let wall_ms = || clock.epoch_ms(clock.now_ns()).saturating_add_signed(zone_ms);
    // Messages that are delivered while the consumer starts count as well.
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
            _ = &mut signalled => return (first, counts()),
            _ = samples.tick() => window.push(figures.sample(clock.now_ns() / 1_000_000)),
            _ = reports.tick() => {
                if let Some(line) = window.line((wall_ms(), run.format), figures) {
                    say!("{line}");
                }
                if is_closed() {
                    return (first, counts());
                }
            }
        }
    }
}

/// Decides which deliveries fail, evenly spread.
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

/// Records a latency given in milliseconds, in the microseconds of results.
fn record(latency: &mut Latency, ms: u64) {
    latency.record(ms.saturating_mul(1000).max(1));
}

#[cfg(test)]
mod tests;
