//! The message store: append, flush, read, queue index, checkpoint and recovery, in RocketMQ's file formats.
//!
//! One commit log holds every message; per queue an index of 20-byte units says where its messages lie. One appender writes;
//! all others read the two watermarks `appended` and `flushed`. The store has its own named threads and no async code; it
//! accesses files only through [`Disk`].
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
//! let placed = batch.placed(index); // log offset, queue offset, size
//! store.when_flushed(batch.end(), Box::new(|outcome| drop(outcome)));
//!
//! let mut units = Vec::new();
//! queue.units(queue.min(), 32, &mut units)?;
//! let mut bytes = Vec::new();
//! store.read_units(&units, &mut bytes)?; // records one behind the other, as a pull answers them
//! store.close()?;
//! # Ok(()) }
//! ```

mod append;
mod batch;
mod checkpoint;
mod config;
mod digest;
mod disk;
mod error;
mod fence;
mod flush;
mod index;
pub mod inspect;
mod log;
mod multi;
mod planted;
mod preallocation;
mod prefetch;
mod queue;
mod read;
mod read_ahead;
mod recover;
mod retention;
mod store;
mod supervise;
pub mod timer;
mod wake;

pub use batch::{Batch, Message, Placed, delivery_delays};
pub use checkpoint::{Checkpoint, Mark};
pub use config::{Config, FlushMode};
pub use digest::{Damage, Numbered};
pub use disk::{
    Disk, DiskFile, Entry, FakeDisk, Faults, ReadOnlyDisk, RealDisk, Space, Syncer, Usage, local_hour,
    lock_holder,
};
pub use error::{AppendError, OpenError, PushError, ReadError};
pub use flush::{FlushOutcome, Flushes};
pub use index::{KeyKind, KeyMatch, KeyMatches, KeyQuery};
pub use log::GaveBack;
pub use prefetch::prefetch;
pub use queue::batched::batched_topics;
pub use queue::{Queue, Unit};
pub use read::{Boundary, Read};
pub use recover::{Gap, Progress, Recovered};
pub use retention::{
    Forecast, Level, LogFile, Reason, Retained, RetentionSettings, Round, Situation, SpaceView, Unconsumed,
    Verdict, Watermark, decide, percent,
};
pub use store::Store;
