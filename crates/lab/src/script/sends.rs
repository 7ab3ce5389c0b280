//! The scripts that send: producer.sh, batchproducer.sh and tproducer.sh.

use super::line::{self, CheckWindow};
use super::rates::{Rates, Window};
use super::{Counts, Outcome, Script, ScriptRun, observe};
use crate::Error;
use crate::generator::{Checks, Generator};
use crate::load::{Clock, Snapshot, Tally, zone_ms};
use crate::output::{alert, raw};
use crate::runtime;
use std::sync::Arc;
use std::time::Duration;

/// The counts of the requests of a run.
struct Sends<'a> {
    run: &'a ScriptRun,
    tally: Arc<Tally>,
    checks: Arc<Checks>,
    clock: Clock,
    zone_ms: i64,
    window: Window,
    check_window: CheckWindow,
    /// Response code of the refusal that was printed last.
    last_refusal_code: Option<i32>,
}

impl Counts for Sends<'_> {
    fn measure_from_now(&mut self) {
        self.window.take_series();
        self.tally.measure_from(self.snapshot());
    }

    fn sample(&mut self) {
        self.window.push(self.snapshot());
        print_refusal(&self.tally, &mut self.last_refusal_code);
    }

    fn line(&mut self) -> Option<String> {
        self.window.full().map(|rates| self.periodic(&rates))
    }
}

impl Sends<'_> {
    fn snapshot(&self) -> Snapshot {
        self.tally.snapshot(self.clock.now_ns() / 1_000_000)
    }

    /// The periodic line of the script.
    fn periodic(&self, rates: &Rates) -> String {
        let now = self.clock.epoch_ms(self.clock.now_ns()).saturating_add_signed(self.zone_ms);
        match &self.run.script {
            Script::BatchProducer => {
                line::batch_producer(now, rates, self.run.load.batch.into(), self.run.format)
            }
            Script::TransactionProducer => {
                let counts = (&*self.checks, self.tally.take_max());
                self.check_window.line((now, self.run.format), rates, counts)
            }
            Script::Producer | Script::Consumer(_) => line::producer(now, rates, self.run.format),
        }
    }

    /// The last line of the script; `None` for the scripts that print none after less than two samples.
    fn complete(&self, total: &Snapshot) -> Option<String> {
        let rates = self.window.partial();
        match self.run.script {
            Script::Producer => Some(line::producer_complete(total, rates.as_ref(), self.run.format)),
            _ => rates.map(|rates| format!("[Complete] {}", self.periodic(&rates))),
        }
    }

    /// Adds the counts at the end to the samples; returns the result without the warm-up.
    fn outcome(&mut self, total: &Snapshot) -> Outcome {
        let series = self.window.take_series();
        if self.window.last().is_none_or(|last| last.at_ms + 100 < total.at_ms) {
            self.window.push(*total);
        }
        let first = self.tally.measured_from().unwrap_or_default();
        let elapsed = Duration::from_millis(total.at_ms.saturating_sub(first.at_ms));
        Outcome { series, ..Outcome::new(&first, total, elapsed, &self.tally.latency()) }
    }
}

/// Prints why requests are refused, whenever the response code differs from the last one printed.
pub(super) fn print_refusal(tally: &Tally, last_refusal_code: &mut Option<i32>) {
    if let Some(refusal) = tally.take_refusal()
        && last_refusal_code.replace(refusal.code) != Some(refusal.code)
    {
        alert!("requests are refused with {refusal}");
    }
}

/// Sends until the quantity, the time limit or a signal ends the run.
pub(super) async fn send(run: &ScriptRun) -> Result<(), Error> {
    let mut generator = Generator::start(&run.load).await?;
    let clock = generator.clock();
    let mut sends = Sends {
        run,
        tally: generator.tally().clone(),
        checks: generator.checks().clone(),
        clock,
        zone_ms: zone_ms(),
        window: Window::default(),
        check_window: CheckWindow::default(),
        last_refusal_code: None,
    };
    tokio::select! {
        () = observe(run, &mut sends) => {}
        () = generator.ended() => {}
        _ = runtime::signalled() => {}
    }
    let stopped_ns = clock.now_ns();
    let ended_ns = if generator.drain().await { clock.now_ns() } else { stopped_ns };
    print_refusal(&sends.tally, &mut sends.last_refusal_code);
    let total = sends.tally.snapshot(ended_ns / 1_000_000);
    let outcome = sends.outcome(&total);
    if let Some(line) = sends.complete(&total) {
        raw(&line);
    }
    raw(&outcome.latency_us.to_string());
    run.json.as_deref().map_or(Ok(()), |path| outcome.write(path))?;
    acknowledged(&total)?;
    generator.close().await;
    Ok(())
}

/// Refuses the counts of a run in which requests were sent and none was acknowledged.
pub(super) fn acknowledged(total: &Snapshot) -> Result<(), Error> {
    let Snapshot { messages, send_failed, response_failed, .. } = total;
    if *messages == 0 && send_failed + response_failed > 0 {
        return Err(Error::Broken(format!(
            "nothing was acknowledged: {response_failed} requests were refused, {send_failed} had no answer"
        )));
    }
    Ok(())
}
