//! The shell of `vostok top`: the terminal, its keys, and the thread that looks at the cluster.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::oneshot;

use super::draw::draw;
use super::look::{INTERVAL, Turns, health_of, look};
use super::sample::{History, Sample};
use super::view::View;
use crate::shell::{Access, Cluster, connect};
use crate::{Error, Health, Lang, Memory};

/// Longest wait for a key before the next look for a new sample.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// Least time between two verdicts of the doctor.
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);

/// A sample, or why there is none.
type SampleResult = Result<Sample, String>;

/// Shows figures until the user ends it.
///
/// # Errors
/// The cluster cannot be connected, or the terminal not be used.
pub(super) fn run(access: &Access, lang: Lang) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cluster = connect(access)?;
    let (samples, results) = channel();
    let (end, ended) = oneshot::channel::<()>();
    let looks = std::thread::Builder::new().name("top-looks".to_owned()).spawn(move || {
        runtime.block_on(async {
            let health = Cell::default();
            tokio::select! {
                () = keep_looking(&cluster, &samples, &health) => {}
                () = keep_diagnosing(&cluster, &health) => {}
                // Also when the screen has panicked.
                _ = ended => {}
            }
        });
        cluster.close();
    })?;
    let shown = ratatui::try_init().and_then(|mut terminal| show(&mut terminal, &results, lang));
    ratatui::restore();
    drop(end);
    // A panic of the thread was printed by itself.
    let _ = looks.join();
    Ok(shown?)
}

/// Looks at the cluster each second, or with as much rest between two looks as the first of them took.
async fn keep_looking(cluster: &Cluster, samples: &Sender<SampleResult>, health: &Cell<Health>) {
    let (mut turns, mut history) = (Turns::default(), History::default());
    loop {
        let begin = Instant::now();
        let result = look(&cluster.session(false), &mut turns).await;
        let result =
            result.map(|look| history.take(look).with(health.get())).map_err(|error| error.to_string());
        if samples.send(result).is_err() {
            return;
        }
        let took = begin.elapsed();
        tokio::time::sleep(took.max(INTERVAL.saturating_sub(took))).await;
    }
}

/// Asks for the doctor's verdict again and again, with at least five times as much rest as a verdict took.
async fn keep_diagnosing(cluster: &Cluster, health: &Cell<Health>) {
    let mut memory = Memory::default();
    loop {
        let begin = Instant::now();
        health.set(health_of(cluster, &mut memory).await);
        tokio::time::sleep(HEALTH_INTERVAL.max(begin.elapsed() * 5)).await;
    }
}

/// Draws samples as they come, and handles keys.
fn show(terminal: &mut DefaultTerminal, results: &Receiver<SampleResult>, lang: Lang) -> std::io::Result<()> {
    let (mut view, mut sample) = (View::new(lang), Sample::default());
    let mut is_changed = true;
    loop {
        for new in results.try_iter() {
            match new {
                Ok(_) if view.is_paused => {}
                Ok(new) => sample = new,
                Err(error) => sample.errors = vec![error],
            }
            is_changed = true;
        }
        if std::mem::take(&mut is_changed) {
            terminal.draw(|frame| draw(frame, &sample, &view))?;
        }
        if !event::poll(KEY_WAIT)? {
            continue;
        }
        is_changed = true;
        let Event::Key(key) = event::read()? else { continue };
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_interrupt || key.kind == KeyEventKind::Press && view.key(key.code, &sample) {
            return Ok(());
        }
    }
}
