//! A broker on a temporary directory and without connections, for tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::ConnectionHandle;
use parking_lot::Mutex;
use store::{Disk, Message, RealDisk, Store};
use tempfile::TempDir;
use wire::body::SubscriptionGroupConfig;
use wire::body::topic::TopicConfig;
use wire::record::RecordView;

use crate::broker::{Broker, Loaded};
use crate::caller::Caller;
use crate::change::GroupChange;
use crate::change::TopicChange;
use crate::change::{Later, Then};
use crate::clients::Member;
use crate::clock::Clock;
use crate::config::Config;
use crate::disk_pool::DiskPool;
use crate::groups::Groups;
use crate::persist::ConfigFiles;
use crate::remoting::Answer;
use crate::remoting::Port;
use crate::supervisor::SupervisedWork;
use crate::topics::{Queue, Topics};
use crate::{Refusal, Result};

/// Longest wait of a test for an outcome. An outcome that comes late is as good as an early one.
pub(crate) const OUTCOME_CAP: Duration = Duration::from_secs(300);

pub(crate) const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10911);

/// Caller of a broker without authentication.
pub(crate) const CALLER: Caller = Caller { remote: ADDRESS, version: 0, user: auth::Subject::Off };

pub(crate) struct Fixture {
    pub broker: Arc<Broker>,
    directory: Option<TempDir>,
    /// The threads of the disk pool.
    disk_pool: Mutex<Vec<JoinHandle<()>>>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// Opens a broker with settings changed by `change`.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::at(tempfile::tempdir().unwrap(), change)
    }

    /// Closes the broker and opens another on the same directory.
    pub(crate) fn reopened(mut self) -> Self {
        self.broker.store.close().unwrap();
        crate::save::save(&self.broker.delivery, &self.broker.runtime, &self.broker.pops);
        self.broker.delivery.schedule.save(0).unwrap();
        let directory = self.directory.take().unwrap();
        drop(self);
        Self::at(directory, |_| {})
    }

    /// Drops the broker without closing it, like a kill, and opens another on the same directory.
    pub(crate) fn killed(mut self) -> Self {
        let directory = self.directory.take().unwrap();
        drop(self);
        Self::at(directory, |_| {})
    }

    /// Drops the broker without closing it and returns its directory.
    pub(crate) fn left(mut self) -> TempDir {
        self.directory.take().unwrap()
    }

    /// Registers a connection as a producer of a group.
    pub(crate) fn meet_producer(&self, group: &str, peer: &Arc<ConnectionHandle>) {
        let member = Member {
            client_id: "p".to_owned(),
            language: None,
            version: 0,
            link: crate::remoting::link(peer),
            seen_ms: 0,
        };
        self.broker.sessions.clients.join_producer(group, member);
    }

    /// Opens a broker on a directory that may contain files already.
    pub(crate) fn at(directory: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        Self::on(Arc::new(RealDisk), directory, change)
    }

    /// Opens a broker in `directory` on `disk`.
    pub(crate) fn on(disk: Arc<dyn Disk>, directory: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        Self::timed(disk, Clock::default(), directory, change)
    }

    /// Opens a broker in `directory` on `disk` whose time is that of `clock`.
    pub(crate) fn timed(
        disk: Arc<dyn Disk>,
        clock: Clock,
        directory: TempDir,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let open = |config, disk| Store::open(config, disk).unwrap();
        Self::with_store(disk, clock, directory, change, open)
    }

    /// Opens a broker whose store has no threads. [`Store::run_due`] does their work, such as flushes.
    pub(crate) fn without_store_threads(change: impl FnOnce(&mut Config)) -> Self {
        let open = |config, disk| Store::open_without_threads(config, disk, Instant::now()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self::with_store(Arc::new(RealDisk), Clock::default(), directory, change, open)
    }

    fn with_store(
        disk: Arc<dyn Disk>,
        clock: Clock,
        directory: TempDir,
        change: impl FnOnce(&mut Config),
        open: impl FnOnce(store::Config, Arc<dyn Disk>) -> Store,
    ) -> Self {
        let (mut config, _) = Config::from_properties(b"").unwrap();
        config.set_store_root(directory.path());
        config.broker_ip1 = ADDRESS.ip().to_string();
        config.store.segment_bytes = 1 << 20;
        config.store.queue_file_bytes = 20 * 100;
        // The whole file of the key index is memory of a fake disk.
        (config.store.index_slots, config.store.index_items) = (1_000, 4_000);
        // Every waiting caller gets the outcome of a flush, however long the flush takes.
        config.store.flush_timeout = Duration::from_secs(3_600);
        // No file is deleted for lack of space, however full the machine's disk is.
        config.retention.clean_at = store::UsageLimit::Percent(100);
        change(&mut config);
        let files = ConfigFiles::new(disk.clone(), directory.path().join("config"));
        let topics = Topics::load(files.file("topics.json")).unwrap();
        config.store.batched_topics = crate::restore::batched(&topics, &config, &*disk).unwrap();
        let store = Arc::new(open(config.store.clone(), disk));
        let disk_pool = DiskPool::new(1);
        let loaded = Loaded::read(config, topics, store, files.clone(), disk_pool).unwrap();
        let broker = Broker::new(Loaded { clock, ..loaded }, ADDRESS.ip(), ADDRESS.port());
        crate::start::connect_arrivals(&broker);
        broker.delivery.pops.load(&files).unwrap();
        let spawn = |(name, run): (String, _)| {
            broker.runtime.supervisor.spawn(SupervisedWork::Disk, &name, run).unwrap()
        };
        let disk_pool = Mutex::new(broker.runtime.disk_pool.threads().into_iter().map(spawn).collect());
        Self { broker, directory: Some(directory), disk_pool }
    }

    /// Runs the queued jobs of the disk pool, and ends its threads.
    pub(crate) fn stop_disk_pool(&self) {
        self.broker.runtime.supervisor.stop();
        self.broker.runtime.disk_pool.close();
        self.disk_pool.lock().drain(..).for_each(|thread| thread.join().unwrap());
    }

    /// Path of a file in the directory `config`.
    pub(crate) fn config_path(&self, name: &str) -> std::path::PathBuf {
        self.directory.as_ref().unwrap().path().join("config").join(name)
    }

    /// Stores a message as a send does.
    pub(crate) fn put(&self, topic: &str, queue_id: i32, body: &[u8], properties: &[u8]) {
        self.broker.delivery.put(topic, queue_id, &message(body, properties)).unwrap();
    }

    /// Makes the first file of the commit log unreadable, which must be the only one. Messages stored from now on are in the next
    /// file.
    pub(crate) fn lose_log_file(&self) {
        for _ in 0..2 {
            self.put("Filler", 0, &[7; 600_000], b"");
        }
        let path = self.config_path("../commitlog/00000000000000000000");
        std::fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    }

    pub(crate) fn queue(&self, topic: &str, queue_id: i32) -> Arc<Queue> {
        self.broker.tables.topics.ensure(topic, queue_id + 1, 1).unwrap();
        self.broker.tables.log_queue(topic, queue_id).unwrap()
    }

    /// Bodies, properties and numbers of reconsume times of all messages of a queue.
    pub(crate) fn messages(&self, topic: &str, queue_id: i32) -> Vec<(Vec<u8>, Vec<u8>, i32)> {
        let Some(queue) = self.broker.tables.log_queue(topic, queue_id) else { return Vec::new() };
        let mut units = Vec::new();
        queue.index.units_blocking(queue.index.min(), 1000, &mut units).unwrap();
        let read = |unit: &store::Unit| {
            let mut bytes = Vec::new();
            self.broker.store.record_at(unit.log_offset, &mut bytes).unwrap();
            let record = RecordView::parse(&bytes).unwrap();
            (record.body().to_vec(), record.properties().to_vec(), record.reconsume_times())
        };
        units.iter().map(read).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop_disk_pool();
    }
}

pub(crate) fn message<'a>(body: &'a [u8], properties: &'a [u8]) -> Message<'a> {
    Message {
        body,
        properties,
        sys_flag: 0,
        flag: 0,
        born_timestamp: 1,
        born_host: ADDRESS,
        store_host: ADDRESS,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    }
}

/// The configuration files in a directory of the real disk.
pub(crate) fn real_files(directory: &std::path::Path) -> ConfigFiles {
    ConfigFiles::new(Arc::new(RealDisk), directory.to_owned())
}

impl Groups {
    /// Creates a group with the defaults.
    pub(crate) fn make(&self, name: &str, now_ms: i64) -> Result<()> {
        self.commit(vec![vec![GroupChange::Ensure(name.to_owned())]], now_ms).remove(0)
    }

    /// Creates or replaces a group.
    pub(crate) fn put(&self, config: SubscriptionGroupConfig, now_ms: i64) -> Result<()> {
        self.commit(vec![vec![GroupChange::Put(Box::new(config))]], now_ms).remove(0)
    }
}

impl Topics {
    /// Creates or changes a topic.
    pub(crate) fn put(&self, config: TopicConfig, now_ms: i64) -> Result<()> {
        self.commit(vec![vec![TopicChange::Put(config, Vec::new())]], now_ms).remove(0)
    }
}

/// Serves a request repeatedly until it no longer waits for the creation of a group.
pub(crate) fn settled(
    groups: &Groups,
    now_ms: i64,
    mut serve: impl FnMut() -> Result<Answer>,
) -> Result<Answer> {
    loop {
        let later = match serve() {
            Err(Refusal { later: Some(later), .. }) => later,
            done => return done,
        };
        let Later { change, then } = *later;
        groups.commit(vec![change.groups], now_ms).remove(0)?;
        if then == Then::Done {
            return Ok(Answer::success());
        }
    }
}

impl Fixture {
    /// Serves a request like one from a connection, including its waits. Returns code, remark and body of the
    /// response.
    pub(crate) fn ask(&self, code: i32, fields: &[(&str, &str)], body: &[u8]) -> (i32, String, Vec<u8>) {
        self.ask_at(Port::Own, code, fields, body)
    }

    /// Serves a request that came to the given port, like [`Self::ask`].
    pub(crate) fn ask_at(
        &self,
        port: Port,
        code: i32,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> (i32, String, Vec<u8>) {
        use wire::frame::{Command, Encoding, FrameWriter, Head};
        let mut bytes = Vec::new();
        let writer = FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, code, 1));
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(body);
        let frame = crate::remoting::RequestFrame::new(Command::decode(&mut bytes).unwrap());
        let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
        let dispatcher = crate::remoting::Dispatcher::new(self.broker.clone(), port);
        let mut out = Vec::new();
        let request = dispatcher.request(&peer, &frame, &CALLER);
        if let Err(refusal) = dispatcher.serve_alone(&frame, &request, &mut out)
            && let Err(refusal) = crate::remoting::postpone(&dispatcher, &frame, &request, refusal)
        {
            dispatcher.refuse(&frame, &refusal, &mut out);
        }
        self.broker.metadata_parts().settle();
        // The disk pool may have to write the answer.
        until("an answer", || {
            out.extend(peer.pushed());
            !out.is_empty()
        });
        let answer = Command::decode(&mut out).unwrap();
        (answer.code, answer.remark.unwrap_or_default().to_owned(), answer.body.to_vec())
    }
}

/// Response code and opaque of every answer in `bytes`.
pub(crate) fn answers(mut bytes: Vec<u8>) -> Vec<(i32, i32)> {
    use wire::frame::{Command, frame_length};
    let mut rest = bytes.as_mut_slice();
    let mut found = Vec::new();
    while let Some(length) = frame_length(rest).unwrap() {
        let (frame, next) = rest.split_at_mut(length);
        let command = Command::decode(frame).unwrap();
        found.push((command.code, command.opaque));
        rest = next;
    }
    found
}

/// Waits for an outcome of another thread. Panics after [`OUTCOME_CAP`].
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + OUTCOME_CAP;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {OUTCOME_CAP:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
