//! The threads that call the listener.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

/// Something to do on one of the threads.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// The listener's threads. Jobs are bounded by the windows of the queues.
pub(super) struct Crew {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Crew {
    pub fn start(count: usize) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for index in 0..count.max(1) {
            let receiver = receiver.clone();
            let thread = std::thread::Builder::new().name(format!("consume-{index}"));
            threads.push(thread.spawn(move || {
                loop {
                    // One thread waits inside the lock, the others for the lock: either way one takes the next job.
                    let next = receiver.lock().expect("receiving does not panic").recv();
                    let Ok(job) = next else { return };
                    job();
                }
            })?);
        }
        Ok(Self { jobs: Mutex::new(Some(sender)), threads: Mutex::new(threads) })
    }

    /// Hands a job over; after the end it is dropped: its messages will be pulled again by whoever has the queue then.
    pub fn submit(&self, job: Job) {
        if let Some(sender) = &*self.jobs.lock().expect("short section") {
            let _ = sender.send(job);
        }
    }

    /// Lets what was handed over be finished and ends the threads.
    pub fn finish(&self) {
        self.jobs.lock().expect("short section").take();
        let threads = std::mem::take(&mut *self.threads.lock().expect("short section"));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a listener panicked outside of a call");
            }
        }
    }
}
