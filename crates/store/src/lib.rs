//! The message store: append, flush, read, queue index, checkpoint and recovery, in RocketMQ's file formats.
//!
//! A commit log holds every message. Each queue has an index of 20-byte units with the positions of its messages. A
//! single appender writes. All other threads read watermarks: `appended`, `flushed`, and with replicas `replicated`
//! and `confirmed`. The store has its own named threads, or none ([`Store::open_without_threads`]), and no async
//! code. It accesses files only through [`Disk`].
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use store::{Config, Message, RealDisk, Store};
//! # let message: Message<'_> = unreachable!();
//! # let now_ms = 0;
//! let store = Store::open(Config::new("/data/store"), Arc::new(RealDisk))?;
//! let queue = store.queue("TopicA", 3)?; // cheap, no file yet; keep the handle
//! let mut batch = store.batch(); // keep it: its buffer is reused
//! let index = batch.push(&queue, &message)?;
//! store.append(&mut batch, now_ms)?;
//! let result = batch.append_result(index); // log offset, queue offset, size
//! store.when_flushed(batch.end(), Box::new(|outcome| drop(outcome)));
//!
//! let mut units = Vec::new();
//! queue.units(queue.min(), 32, &mut units)?;
//! let mut bytes = Vec::new();
//! store.read_units(&units, &mut bytes)?; // records one behind the other, as a pull answers them
//! store.close()?;
//! # Ok(()) }
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod append;
mod batch;
mod checkpoint;
mod checkpoint_file;
mod config;
mod digest;
mod disk;
mod dispatch;
mod error;
mod fence;
mod file_sizes;
mod flusher;
mod follow;
mod heal_list;
mod index;
pub mod inspect;
mod keys;
mod log;
mod planted;
mod preallocation;
mod prefetch;
mod queue;
mod read;
mod read_ahead;
mod recover;
mod retention;
mod state;
mod store;
pub mod timer;
mod wake;
mod watermark;

pub use batch::{AppendResult, Batch, Message};
pub use checkpoint_file::{Checkpoint, Mark};
pub use config::{Config, FlushMode};
pub use disk::{
    DirEntry, Disk, DiskFile, FakeDisk, Faults, Latency, Operation, Read, ReadOnlyDisk, RealDisk, Space,
    Syncer, Usage, local_hour, lock_holder,
};
pub use dispatch::tags::delivery_delays;
pub use error::{AppendError, Damage, FollowError, OpenError, PushError, ReadError};
pub use fence::OperationsInFlight;
pub use file_sizes::SizeMismatch;
pub use flusher::{FlushOutcome, Flushes};
pub use heal_list::HealProgress;
pub use index::{KeyMatch, KeyMatches, KeyQuery};
pub use keys::KeyKind;
pub use log::FreedSpace;
pub use prefetch::prefetch;
pub use queue::batched::batched_topics;
pub use queue::{Queue, Unit};
pub use read::{Boundary, CqUnit};
pub use recover::{Gap, OpenReport};
pub use retention::{
    Deletion, Forecast, Level, LogFile, Reason, RetentionRound, RetentionSettings, RoundResult, Situation,
    SpaceView, UnconsumedPolicy, UsageLimit, decide, percent,
};
pub use store::Store;
pub use watermark::WaitOutcome;
