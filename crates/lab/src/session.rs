//! A run of a tool: finds or creates the topic, makes connections and observes them, prints lines, and makes the
//! result.

mod plan;
mod topic;

pub(crate) use plan::Plan;
pub(crate) use topic::{Place, Wanted, existing, find, places};

use crate::Error;
use crate::arguments::Run;
use crate::load::{Clock, Connection, Work, keep};
use crate::output::{alert, is_closed, say};
use crate::report::line::zone_ms;
use crate::report::{Outcome, Rates, Snapshot, Tally, Window};
use net::{Limits, Workers};
use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Time between two samples of the counts, as in RocketMQ's scripts.
const SAMPLE: Duration = Duration::from_secs(1);

/// Longest wait for requests in flight at the end, longer than the time limit of a single request.
const DRAIN: Duration = Duration::from_millis(3500);

/// The totals of a finished run.
pub(crate) struct Finished {
    /// Counts at the end, the warm-up included.
    pub total: Snapshot,
    /// Rates over the last samples; `None` with fewer than two.
    pub rates: Option<Rates>,
    /// Result without the warm-up.
    pub outcome: Outcome,
    /// End of the run, in the local time of the printed lines, milliseconds.
    pub ended_ms: u64,
}

/// Runs a future on its own runtime. The connections run on the worker threads.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Error::system("start a runtime"))?.block_on(future)
}

/// Starts worker threads, each connection of which may queue `unsent_bytes_max` bytes that its socket does not take.
pub(crate) fn workers(count: u32, unsent_bytes_max: usize) -> Result<Workers, Error> {
    let limits = Limits { unsent_bytes_high: usize::MAX, unsent_bytes_max, ..Limits::default() };
    Workers::start("lab", count as usize, limits).map_err(Error::system("start threads"))
}

/// Drives the connections until the time limit, until their work is done, or until a signal; prints `line` at every interval.
pub(crate) async fn drive<W: Work>(
    run: &Run,
    workers: &Workers,
    connections: Vec<(SocketAddr, Arc<Connection<W>>)>,
    watch: (&Tally, Clock),
    line: impl Fn(u64, &Rates) -> String,
) -> Result<Finished, Error> {
    let (tally, clock) = watch;
    let mut keepers = tokio::task::JoinSet::new();
    for (index, (address, connection)) in connections.iter().cloned().enumerate() {
        let workers = workers.clone();
        keepers.spawn(async move { keep(&workers, index, address, connection).await });
    }
    let ended = async { while keepers.join_next().await.is_some() {} };
    let mut window = Window::default();
    let zone_ms = zone_ms();
    let wall_ms = || clock.epoch_ms(clock.now_ns()).saturating_add_signed(zone_ms);
    let line = |rates: &Rates| line(wall_ms(), rates);
    let told = Cell::new(None);
    tokio::select! {
        () = observe(run, (tally, clock), &mut window, &told, line) => {}
        () = ended => {}
        _ = signalled() => {}
    }
    let stopped_ns = clock.now_ns();
    connections.iter().for_each(|(_, connection)| connection.stop());
    let drained = async { while keepers.join_next().await.is_some() {} };
    let ended_ns = match tokio::time::timeout(DRAIN, drained).await {
        Ok(()) => clock.now_ns(),
        Err(_) => stopped_ns,
    };
    tell_refusal(tally, &told);
    let total = tally.snapshot(ended_ns / 1_000_000);
    let series = window.take_series();
    if window.last().is_none_or(|last| last.at_ms + 100 < total.at_ms) {
        window.push(total);
    }
    let first = tally.measured_from().unwrap_or_default();
    let elapsed = Duration::from_millis(total.at_ms.saturating_sub(first.at_ms));
    let outcome = Outcome { series, ..Outcome::new(&first, &total, elapsed, &tally.latency()) };
    Ok(Finished { total, rates: window.partial(), outcome, ended_ms: wall_ms() })
}

/// Takes samples and prints lines until the time limit, and ends the warm-up in between.
async fn observe(
    run: &Run,
    (tally, clock): (&Tally, Clock),
    window: &mut Window,
    told: &Cell<Option<i32>>,
    line: impl Fn(&Rates) -> String,
) {
    let snapshot = || tally.snapshot(clock.now_ns() / 1_000_000);
    let mut samples = tokio::time::interval(SAMPLE);
    let interval = Duration::from_millis(run.report_interval);
    let mut reports = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
    let warm = tokio::time::sleep(run.warm());
    let limit = tokio::time::sleep(run.limit().unwrap_or(Duration::MAX / 4));
    tokio::pin!(warm, limit);
    let mut warming = !run.warm().is_zero();
    loop {
        tokio::select! {
            biased;
            () = &mut warm, if warming => {
                warming = false;
                window.take_series();
                tally.measure_from(snapshot());
            }
            () = &mut limit => return,
            _ = samples.tick() => {
                window.push(snapshot());
                tell_refusal(tally, told);
            }
            _ = reports.tick() => {
                if let Some(rates) = window.full() {
                    say!("{}", line(&rates));
                }
                if is_closed() {
                    return;
                }
            }
        }
    }
}

/// Prints why requests are refused, whenever the response code differs from the last one printed.
fn tell_refusal(tally: &Tally, told: &Cell<Option<i32>>) {
    if let Some(refusal) = tally.take_refusal()
        && told.replace(Some(refusal.code)) != Some(refusal.code)
    {
        alert!("requests are refused with {refusal}");
    }
}

/// Waits for SIGINT or SIGTERM; returns the number of the signal.
pub(crate) async fn signalled() -> i32 {
    use tokio::signal::unix::{SignalKind, signal};
    let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
    let (Ok(mut interrupted), Ok(mut terminated)) = (signal(interrupt), signal(terminate)) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupted.recv() => interrupt.as_raw_value(),
        _ = terminated.recv() => terminate.as_raw_value(),
    }
}

/// Prints the latencies and writes the result file, if one was asked for.
///
/// # Errors
/// [`Error::File`] when the file cannot be written, [`Error::Broken`] when requests were sent but none was
/// acknowledged.
pub(crate) fn tell(run: &Run, finished: &Finished) -> Result<(), Error> {
    say!("{}", finished.outcome.latency_us);
    if let Some(path) = run.json.as_deref() {
        finished.outcome.write(path)?;
    }
    let Snapshot { messages, send_failed, response_failed, .. } = finished.total;
    if messages == 0 && send_failed + response_failed > 0 {
        return Err(Error::Broken(format!(
            "nothing was acknowledged: {response_failed} requests were refused, {send_failed} had no answer"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{EchoFlags, ProducerFlags};
    use crate::echo::Echo;
    use crate::load::{Target, Template};
    use crate::report::Latency;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ProducerFlags,
    }

    fn echo(broker: &str) -> Place {
        let flags = EchoFlags { port: 0, host: [127, 0, 0, 1].into(), log: None, queues: 1 };
        let echo = Echo::bind(&flags).unwrap();
        let address = echo.address().unwrap();
        std::thread::spawn(move || echo.serve());
        Place { address, targets: vec![Target { broker: broker.to_owned(), topic: None, queue_id: 0 }] }
    }

    #[test]
    fn one_request_in_flight_goes_round_all_brokers() {
        let ProducerFlags { run, sending, .. } = Line::parse_from(["x", "-w", "1"]).flags;
        let places = ["a", "b", "c"].map(echo);
        let finished = block_on(async {
            let (tally, clock) = (Arc::new(Tally::default()), Clock::start());
            let plan = Plan { sending: &sending, in_flight: 1, quantity: Some(1000), messages_each: 1 };
            let message = crate::producer::message("g", "t", &sending)?;
            let work =
                |targets: &[Target], _| Template::single(&message, targets, wire::frame::Encoding::Binary);
            let connections = plan.connections(&places, (&tally, clock), work);
            assert_eq!(connections.len(), 3, "a connection to every broker");
            let workers = workers(1, usize::MAX)?;
            let begun = std::time::Instant::now();
            let finished = drive(&run, &workers, connections, (&tally, clock), |_, _| String::new()).await?;
            // If a connection noticed only by its timer that it may send, this would take twenty seconds.
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
            Ok(finished)
        });
        assert_eq!(finished.unwrap().outcome.messages, 1000);
    }

    #[test]
    fn a_run_of_which_nothing_was_acknowledged_is_an_error() {
        let ProducerFlags { run, .. } = Line::parse_from(["x"]).flags;
        let ended = |total: Snapshot| {
            let outcome =
                Outcome::new(&Snapshot::default(), &total, Duration::from_secs(1), &Latency::default());
            tell(&run, &Finished { total, rates: None, outcome, ended_ms: 0 })
                .map_err(|error| error.to_string())
        };
        let refused = Snapshot { response_failed: 7, send_failed: 2, ..Snapshot::default() };
        let why = "nothing was acknowledged: 7 requests were refused, 2 had no answer";
        assert_eq!(ended(refused), Err(why.to_owned()));
        assert_eq!(ended(Snapshot { messages: 1, ..refused }), Ok(()), "failures are counted");
        assert_eq!(ended(Snapshot::default()), Ok(()), "nothing was sent");
    }
}
