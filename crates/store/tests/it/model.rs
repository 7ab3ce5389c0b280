//! Random operations with crashes against a plain list of the appended messages.
//!
//! The promise: a message whose flush was reported is never lost. Lost messages are a suffix of the log. Only
//! appended messages appear. Queue offsets are dense. A batch whose append failed may be partly present.

use crate::tool::{flush, message, small_config};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{AppendError, Config, Disk, FakeDisk, FlushMode, FlushOutcome, Message, Queue, Space, Store};
use wire::record::RecordView;
use wire::units::QueueOffset;

const QUEUES: [(&str, i32); 4] = [("A", 0), ("A", 1), ("SCHEDULE_TOPIC_XXXX", 0), ("%RETRY%g", 0)];

#[derive(Clone, Debug)]
enum Op {
    /// Messages for these queues with bodies of these lengths, the first number's bits saying which are half
    /// messages.
    Append(Vec<(usize, usize, bool)>),
    Group(usize, Vec<usize>),
    Flush,
    Checkpoint,
    Journal,
    Check,
    CloseAndOpen,
    Kill,
    PowerCut(u64),
    /// Damage to a derived file between two runs, of which the first ended cleanly or not.
    Harm(bool, Harm, usize),
    /// The next write, or sync, after so many fails; then the power goes.
    WriteError(u64, u64),
    SyncError(u64, u64),
}

/// Damage to derived files.
#[derive(Clone, Copy, Debug)]
enum Harm {
    DeleteQueueFile,
    TruncateQueueFile,
    ZeroQueueFile,
    ZeroUnit,
    DeleteTable,
    FlipTable,
    /// Another program wrote the six numbers.
    ForeignPage,
    DeletePage,
    DeleteJournal,
    FlipJournal,
}

const HARMS: [Harm; 10] = [
    Harm::DeleteQueueFile,
    Harm::TruncateQueueFile,
    Harm::ZeroQueueFile,
    Harm::ZeroUnit,
    Harm::DeleteTable,
    Harm::FlipTable,
    Harm::ForeignPage,
    Harm::DeletePage,
    Harm::DeleteJournal,
    Harm::FlipJournal,
];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let length = || prop_oneof![8 => 0usize..300, 1 => 300usize..3000];
    let one = prop_oneof![
        8 => prop::collection::vec((0usize..4, length(), prop::bool::weighted(0.1)), 1..6).prop_map(Op::Append),
        3 => (0usize..4, prop::collection::vec(0usize..400, 1..5)).prop_map(|(queue, list)| Op::Group(queue, list)),
        2 => Just(Op::Flush),
        2 => Just(Op::Checkpoint),
        3 => Just(Op::Journal),
        1 => Just(Op::Check),
        1 => Just(Op::CloseAndOpen),
        1 => Just(Op::Kill),
        2 => any::<u64>().prop_map(Op::PowerCut),
        2 => (any::<bool>(), prop::sample::select(&HARMS[..]), any::<usize>())
            .prop_map(|(closed, harm, which)| Op::Harm(closed, harm, which)),
        1 => (0u64..6, any::<u64>()).prop_map(|(after, seed)| Op::WriteError(after, seed)),
        1 => (0u64..6, any::<u64>()).prop_map(|(after, seed)| Op::SyncError(after, seed)),
    ];
    prop::collection::vec(one, 1..60)
}

/// Record of the log in the model.
#[derive(Clone, Debug)]
struct Kept {
    queue: usize,
    half: bool,
    body: Vec<u8>,
    /// End in the log; `None` when the append failed.
    end: Option<u64>,
}

struct Model {
    disk: FakeDisk,
    config: Config,
    store: Store,
    log: Vec<Kept>,
    /// Number of records of `log` that were reported durable.
    durable: usize,
    next_body: u64,
}

impl Model {
    fn new(flush: FlushMode) -> Self {
        let disk = FakeDisk::new(512);
        let config = Config { flush, ..small_config() };
        let store = Store::open(config.clone(), Arc::new(disk.clone())).unwrap();
        Self { disk, config, store, log: Vec::new(), durable: 0, next_body: 0 }
    }

    fn queue(&self, index: usize) -> Arc<Queue> {
        self.store.queue(QUEUES[index].0, QUEUES[index].1).unwrap()
    }

    fn body(&mut self, length: usize) -> Vec<u8> {
        self.next_body += 1;
        let mut body = self.next_body.to_be_bytes().to_vec();
        body.resize(8 + length, u8::try_from(self.next_body % 251).unwrap());
        body
    }

    fn append(&mut self, list: &[(usize, usize, bool)], group: bool) {
        let kept: Vec<Kept> = list
            .iter()
            .map(|(queue, length, half)| Kept {
                queue: *queue,
                half: *half,
                body: self.body(*length),
                end: None,
            })
            .collect();
        let mut batch = self.store.batch();
        let made = |kept: &Kept| Message {
            sys_flag: if kept.half { 4 } else { 0 },
            properties: b"DELAY\x012\x02TAGS\x01TagA\x02",
            body: &[],
            ..message(b"", b"")
        };
        if group {
            let queue = self.queue(kept[0].queue);
            batch
                .push_group(&queue, kept.iter().map(|kept| Message { body: &kept.body, ..made(kept) }))
                .unwrap();
        } else {
            for kept in &kept {
                batch.push(&self.queue(kept.queue), &Message { body: &kept.body, ..made(kept) }).unwrap();
            }
        }
        let done = self.store.append(&mut batch, 1_000);
        assert!(matches!(done, Ok(()) | Err(AppendError::Fenced(_))), "{done:?}");
        for (index, mut kept) in kept.into_iter().enumerate() {
            if done.is_ok() {
                let placed = batch.append_result(index);
                let before = self.log.iter().filter(|other| other.queue == kept.queue && !other.half).count();
                assert_eq!(placed.queue_offset.get(), if kept.half { 0 } else { before as u64 });
                kept.end = Some(placed.log_offset.get() + u64::from(placed.size));
            }
            self.log.push(kept);
        }
    }

    fn reopen(&mut self, disk: FakeDisk) {
        self.store = Store::open(self.config.clone(), Arc::new(disk.clone())).unwrap();
        self.disk = disk;
    }

    /// Adjusts the model to the state after a crash, within the allowed losses.
    fn accept_loss(&mut self) {
        let end = self.store.recovered().end;
        let sure = self.log.iter().take_while(|kept| kept.end.is_some_and(|kept| kept <= end)).count();
        assert!(
            sure >= self.durable,
            "{} durable records, {sure} left: {:?}",
            self.durable,
            self.store.recovered()
        );
        let mut left = sure;
        // Records of a failed append are taken as there as long as their queues say so.
        while let Some(kept) = self.log.get(left).filter(|kept| kept.end.is_none()) {
            let before =
                self.log[..left].iter().filter(|other| other.queue == kept.queue && !other.half).count();
            if !kept.half && self.queue(kept.queue).max().get() <= before as u64 {
                break;
            }
            left += 1;
        }
        // A half message at the end cannot be seen in a queue; later appends show that nothing overlaps.
        self.log.truncate(left);
        self.log.iter_mut().for_each(|kept| kept.end = kept.end.or(Some(end)));
        self.durable = self.log.len();
    }

    fn check(&self) {
        for (index, (topic, queue_id)) in QUEUES.iter().enumerate() {
            let expected: Vec<_> = self.log.iter().filter(|kept| kept.queue == index && !kept.half).collect();
            let queue = self.queue(index);
            assert_eq!(
                (queue.min().get(), queue.max().get()),
                (0, expected.len() as u64),
                "{topic}/{queue_id}"
            );
            let mut units = Vec::new();
            if queue.units_blocking(QueueOffset::ZERO, 10_000, &mut units).is_err() {
                // Somebody harmed its files, and reading them told.
                self.store.wait_healed();
                queue.units_blocking(QueueOffset::ZERO, 10_000, &mut units).unwrap();
            }
            assert_eq!(units.len(), expected.len());
            let mut bytes = Vec::new();
            self.store.read_units_blocking(&units, &mut bytes).unwrap();
            let mut rest = bytes.as_slice();
            for (offset, kept) in expected.iter().enumerate() {
                let view = RecordView::parse(rest).unwrap();
                view.check_crc().unwrap();
                assert_eq!(view.body(), kept.body);
                assert_eq!((view.topic_str(), view.queue_id()), (Some(*topic), *queue_id));
                assert_eq!(view.queue_offset().get(), offset as u64);
                assert_eq!(view.log_offset(), Some(units[offset].log_offset));
                let due = view.store_timestamp() + 5_000;
                let code = if index == 2 { due } else { 0x27_a807 };
                assert_eq!(units[offset].tags_code, code);
                rest = &rest[view.size()..];
            }
        }
    }

    fn flush(&mut self) {
        if flush(&self.store) == FlushOutcome::Flushed && self.store.fenced().is_none() {
            self.durable = self.log.len();
        }
    }

    fn harm(&mut self, closed: bool, harm: Harm, which: usize) {
        if closed {
            self.store.close().unwrap();
        } else {
            // Right after opening without a table there is none yet: the files are then the only word on the queues.
            self.store.checkpoint().unwrap();
            self.append(&[(which % 4, 20, false), (0, 300, false)], false);
            self.store.journal().unwrap();
            self.durable = self.log.len();
        }
        let disk = self.disk.killed();
        let list = |directory: &str| -> Vec<PathBuf> {
            let entries = disk.list(directory.as_ref()).unwrap();
            let files = entries.iter().filter(|entry| !entry.is_dir);
            files.map(|entry| Path::new(directory).join(&entry.name)).collect()
        };
        let named = |prefix: &str| -> Vec<PathBuf> {
            let is_one = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
            list("/store/vostok").into_iter().filter(is_one).collect()
        };
        let (topic, queue_id) = QUEUES[which % QUEUES.len()];
        let files = match harm {
            Harm::DeleteTable | Harm::FlipTable => named("queues."),
            Harm::DeleteJournal | Harm::FlipJournal => named("units."),
            Harm::ForeignPage | Harm::DeletePage => {
                list("/store").into_iter().filter(|path| path.ends_with("checkpoint")).collect()
            }
            _ => list(&format!("/store/consumequeue/{topic}/{queue_id}")),
        };
        if let Some(path) = files.get(which % files.len().max(1)) {
            let file = disk.open(path).unwrap();
            match harm {
                Harm::DeleteQueueFile | Harm::DeleteTable | Harm::DeletePage | Harm::DeleteJournal => {
                    disk.remove(path).unwrap()
                }
                Harm::TruncateQueueFile => {
                    drop(disk.create(path, (which % 160) as u64, Space::Sparse).unwrap())
                }
                Harm::ZeroQueueFile => file.zero(0, 160).unwrap(),
                Harm::ZeroUnit => file.zero((which % 8 * 20) as u64, 20).unwrap(),
                Harm::FlipTable | Harm::FlipJournal => {
                    let mut byte = [0];
                    let at = which as u64 % file.length().unwrap();
                    file.read_at(&mut byte, at).unwrap();
                    file.write_at(&[byte[0] ^ 4], at).unwrap();
                }
                Harm::ForeignPage => file.write_at(&[0, 0, 1], 5).unwrap(),
            }
        }
        self.reopen(disk);
        if closed {
            self.durable = self.log.len();
        } else {
            self.accept_loss();
        }
        self.store.wait_healed();
        self.check();
    }

    fn crash(&mut self, disk: FakeDisk) {
        self.reopen(disk);
        self.accept_loss();
        self.check();
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Append(list) => self.append(list, false),
            Op::Group(queue, list) => {
                let list: Vec<_> = list.iter().map(|length| (*queue, *length, false)).collect();
                self.append(&list, true);
            }
            Op::Flush => self.flush(),
            Op::Checkpoint => {
                if self.store.checkpoint().is_ok() {
                    self.durable = self.log.len();
                }
            }
            Op::Journal => drop(self.store.journal()),
            Op::Check => self.check(),
            Op::CloseAndOpen => {
                self.store.close().unwrap();
                self.reopen(self.disk.clone());
                // The table says it all: nothing is read again.
                assert_eq!((self.store.recovered().after_crash, self.store.recovered().records), (false, 0));
                self.durable = self.log.len();
                self.check();
            }
            Op::Kill => self.crash(self.disk.killed()),
            Op::PowerCut(seed) => self.crash(self.disk.power_cut(*seed)),
            Op::Harm(closed, harm, which) => self.harm(*closed, *harm, *which),
            Op::WriteError(after, seed) => {
                self.disk.faults(|faults| faults.writes_left = Some(*after));
                self.provoke(*seed);
            }
            Op::SyncError(after, seed) => {
                self.disk.faults(|faults| faults.syncs_left = Some(*after));
                self.provoke(*seed);
            }
        }
    }

    /// Works on until the injected error strikes, and a little further: a fenced store must refuse.
    fn provoke(&mut self, seed: u64) {
        for round in 0..4usize {
            let was_fenced = self.store.fenced().is_some();
            let known = self.log.len();
            self.append(&[(round % 4, 10, false), (0, 200, false)], false);
            if was_fenced {
                assert!(self.log[known].end.is_none(), "a fenced store refuses");
            }
            if self.store.fenced().is_some() {
                // Only the first failed append may have left bytes.
                self.log.truncate(known + if was_fenced { 0 } else { 2 });
            }
            self.flush();
            if self.store.checkpoint().is_ok() {
                self.durable = self.log.len();
            }
        }
        self.crash(self.disk.power_cut(seed));
    }
}

fn run(flush: FlushMode, list: &[Op]) {
    let mut model = Model::new(flush);
    for op in list {
        model.run(op);
    }
    model.check();
    model.crash(model.disk.power_cut(1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_durable_is_lost_with_asynchronous_flush(list in ops()) {
        run(FlushMode::Async, &list);
    }

    #[test]
    fn nothing_durable_is_lost_with_synchronous_flush(list in ops()) {
        run(FlushMode::Sync, &list);
    }
}
