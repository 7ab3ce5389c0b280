//! Parts of an open store. Each part has its own state and references to the parts that it uses.

use crate::append::{Appender, AppenderParts, DiskFull};
use crate::checkpoint::{Checkpointer, Checkpoints};
use crate::config::Config;
use crate::disk::{Disk, Syncer};
use crate::flusher::{Flush, Flusher};
use crate::follow::Follower;
use crate::heal_list::LostQueues;
use crate::index::{Geometry, Indexer, KeyIndex};
use crate::preallocation::Preallocator;
use crate::queue::files::OpenFiles;
use crate::queue::registry::Queues;
use crate::read::{DamagedRecords, Reader};
use crate::read_ahead::ReadAhead;
use crate::recover::{Healer, Recovery};
use crate::retention::{DiskSpace, Retention};
use crate::state::State;
use crate::wake::Clock;
use std::sync::{Arc, Mutex};

/// All parts of an open store. Only this module knows all of them. A part gets references to the parts that it uses.
pub(crate) struct Parts {
    pub(crate) state: State,
    pub(crate) appender: Mutex<Appender>,
    pub(crate) disk_full: DiskFull,
    pub(crate) flush: Flush,
    pub(crate) read_ahead: ReadAhead,
    pub(crate) damaged: DamagedRecords,
    pub(crate) lost: LostQueues,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) index: KeyIndex,
    pub(crate) space: DiskSpace,
    /// Names of threads that ended after a panic.
    pub(crate) stopped: Mutex<Vec<&'static str>>,
}

impl Parts {
    pub(crate) fn new(config: Config, disk: Arc<dyn Disk>, sync_all: Syncer, clock: Clock) -> Self {
        let clock = Arc::new(clock);
        let lost = LostQueues::default();
        let open = Arc::new(OpenFiles::new(disk.clone(), config.open_queue_files, lost.wake.clone()));
        let queues = Arc::new(Queues::new(&config.root, config.queue_file_bytes, open));
        let geometry = Geometry { slots: config.index_slots, items: config.index_items };
        let index = config.root.join("index");
        let index = KeyIndex::new(config.key_index, geometry, index, disk.clone(), clock.clone());
        Self {
            appender: Mutex::default(),
            disk_full: DiskFull::default(),
            flush: Flush::default(),
            read_ahead: ReadAhead::default(),
            damaged: DamagedRecords::default(),
            lost,
            checkpoints: Checkpoints::new(sync_all, clock.now()),
            index,
            space: DiskSpace::default(),
            stopped: Mutex::default(),
            state: State::new(config, disk, queues, clock),
        }
    }

    pub(crate) fn appending(&self) -> AppenderParts<'_> {
        AppenderParts {
            state: &self.state,
            appender: &self.appender,
            disk_full: &self.disk_full,
            index: &self.index,
        }
    }

    pub(crate) fn flusher(&self) -> Flusher<'_> {
        Flusher { state: &self.state, flush: &self.flush }
    }

    pub(crate) fn preallocator(&self) -> Preallocator<'_> {
        Preallocator { state: &self.state }
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { state: &self.state, ahead: &self.read_ahead, damaged: &self.damaged, lost: &self.lost }
    }

    pub(crate) fn indexer(&self) -> Indexer<'_> {
        Indexer { state: &self.state, index: &self.index, flusher: self.flusher(), reader: self.reader() }
    }

    pub(crate) fn checkpointer(&self) -> Checkpointer<'_> {
        Checkpointer {
            state: &self.state,
            checkpoints: &self.checkpoints,
            appender: &self.appender,
            flusher: self.flusher(),
            reader: self.reader(),
            indexer: self.indexer(),
        }
    }

    pub(crate) fn follower(&self) -> Follower<'_> {
        Follower {
            state: &self.state,
            appending: self.appending(),
            checkpointer: self.checkpointer(),
            flusher: self.flusher(),
        }
    }

    pub(crate) fn healer(&self) -> Healer<'_> {
        Healer {
            state: &self.state,
            lost: &self.lost,
            checkpointer: self.checkpointer(),
            reader: self.reader(),
        }
    }

    pub(crate) fn recovery(&self) -> Recovery<'_> {
        Recovery {
            state: &self.state,
            lost: &self.lost,
            checkpointer: self.checkpointer(),
            reader: self.reader(),
        }
    }

    pub(crate) fn retention(&self) -> Retention<'_> {
        Retention {
            state: &self.state,
            space: &self.space,
            disk_full: &self.disk_full,
            lost: &self.lost,
            checkpointer: self.checkpointer(),
            indexer: self.indexer(),
            reader: self.reader(),
        }
    }
}
