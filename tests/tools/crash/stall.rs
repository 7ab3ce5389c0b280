//! How long the machine kept everybody waiting: what a flush may take longer for, and no fault of the store.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Pause between two probes.
const PAUSE: Duration = Duration::from_millis(20);

/// A thread that sleeps, writes a page and flushes it, and notes how much longer than its sleep that took at most.
pub struct Stall {
    longest_us: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stall {
    /// Probes a file in `home`, which lies where the images of the disks lie.
    pub fn watch(home: &Path) -> io::Result<Self> {
        let (longest_us, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (longest, stopped) = (longest_us.clone(), stop.clone());
        let file = File::create(home.join("probe"))?;
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let began = Instant::now();
                sleep(PAUSE);
                // An error of the probe says nothing about the store.
                let _ = file.write_all_at(&[1; 4096], 0).and_then(|()| file.sync_data());
                let late = began.elapsed().saturating_sub(PAUSE);
                longest.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
            }
        });
        Ok(Self { longest_us, stop, thread: Some(thread) })
    }

    /// The longest stall since the last call.
    pub fn take(&self) -> Duration {
        Duration::from_micros(self.longest_us.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Whether other work keeps the processors busy, so that a flush may wait for them: by the share of the last ten seconds in which
/// threads waited for a processor, or by the mean load of the last minute.
pub fn is_overloaded() -> bool {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').next().and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0);
    let pressure = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let waited = pressure.split("avg10=").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    waited.is_some_and(|percent| percent > 20.0)
        || load > 2.0 * std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}
