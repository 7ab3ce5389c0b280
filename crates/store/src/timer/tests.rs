//! Tests the formats against RocketMQ's bytes, and whole life cycles of the files against a model.

use super::*;
use crate::disk::{Disk, FakeDisk, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use wire::units::LogOffset;

mod lost;

const WHEEL: &[u8] = include_bytes!("golden/timerwheel-10slots.bin");
const CHECK: &[u8] = include_bytes!("golden/timercheck.bin");
const LOG: [&[u8]; 2] =
    [include_bytes!("golden/timerlog-172-0.bin"), include_bytes!("golden/timerlog-172-172.bin")];
/// Slot time in the files that the Java program wrote.
const TIME_MS: i64 = 1_700_000_000_000;

fn config(root: &str) -> TimerConfig {
    TimerConfig { slots: 10, log_file_bytes: 172, roll_window_slots: 8, ..TimerConfig::new(root) }
}

fn open(config: TimerConfig, disk: &FakeDisk) -> TimerFiles {
    TimerFiles::open(config, Arc::new(disk.clone())).unwrap()
}

fn content(disk: &dyn Disk, path: &str, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    disk.open(Path::new(path)).unwrap().read_at(&mut bytes, 0).unwrap();
    bytes
}

fn unit(magic: i32, time_ms: i64, log_offset: u64, size: u32) -> TimerUnit {
    TimerUnit {
        previous: None,
        magic,
        written_ms: time_ms - 1000,
        delay_ms: 1000,
        log_offset: LogOffset::new(log_offset),
        size,
        topic_hash: 0x95a7_c512_u32.cast_signed(),
    }
}

#[test]
fn units_are_java_s_bytes_and_roll_over_files_as_java_s_do() {
    let disk = FakeDisk::new(512);
    let mut files = open(config("/s"), &disk);
    files.recover(LogOffset::new(1 << 20), 0).unwrap();
    // The Java program set the previous positions by hand; here they follow from the slots.
    let expected: Vec<TimerUnit> =
        [0, 52, 104].iter().map(|at| TimerUnit::from_bytes(&LOG[0][*at..]).unwrap()).collect();
    for (index, java) in expected.iter().enumerate() {
        let mut bytes = java.to_bytes();
        assert_eq!(bytes, LOG[0][index * 52..index * 52 + 52]);
        bytes[0] = 1;
        assert_eq!(TimerUnit::from_bytes(&bytes), None, "another size is no unit");
    }
    let rolled = TimerUnit::from_bytes(LOG[1]).unwrap();
    assert!(rolled.rolls() && rolled.size == 0xcb);
    for (index, slot) in [5, 5, 7].into_iter().enumerate() {
        files.add(unit(1, TIME_MS + slot * 1000, 0xc8 + index as u64, 0xc8)).unwrap();
    }
    assert_eq!(files.add(unit(3, TIME_MS + 9000, 0x3000, 0xcb)).unwrap(), 172);
    files.write().unwrap();
    assert_eq!(content(&disk, "/s/timerlog/00000000000000000000", 172)[156..], LOG[0][156..]);
}

#[test]
fn slots_are_java_s_bytes() {
    let disk = FakeDisk::new(512);
    let file = disk.create(Path::new("/s/timerwheel"), 640, Space::Sparse).unwrap();
    file.write_at(WHEEL, 0).unwrap();
    let mut files = open(config("/s"), &disk);
    // Slots 1 and 3 of 20 have units.
    let first = files.slot(TIME_MS + 1000).unwrap().unwrap();
    assert_eq!((first.first, first.last, first.count), (Some(0), Some(52), 2));
    let second = files.slot(TIME_MS + 3000).unwrap().unwrap();
    assert_eq!((second.first, second.last, second.count), (Some(104), Some(104), 1));
    assert_eq!(files.slot(TIME_MS).unwrap(), None);
    assert_eq!(files.slot(TIME_MS + 21_000).unwrap(), None, "the same place, another time");
    assert!(files.is_taken(TIME_MS + 21_000, TIME_MS).unwrap());
    assert!(!files.is_taken(TIME_MS + 21_000, TIME_MS + 2000).unwrap(), "what is over is free");
    assert_eq!(second.to_bytes(1000), WHEEL[96..128]);
}

#[test]
fn the_check_is_java_s_page() {
    let check = TimerCheck::from_bytes(CHECK);
    let expected = TimerCheck {
        read_ms: TIME_MS + 1000,
        log_position: 104,
        queue_offset: 7,
        master_queue_offset: 8,
        version: [3, 1_700_000_002_222, 42],
    };
    assert_eq!(check, expected);
    assert_eq!(check.to_bytes(), CHECK[..56]);
}

#[test]
fn the_newest_snapshot_counts_once() {
    let disk = FakeDisk::new(512);
    for (name, slot) in [("timerwheel", 1), ("timerwheel.90", 2), ("timerwheel.104", 3)] {
        let file = disk.create(&Path::new("/s").join(name), 640, Space::Sparse).unwrap();
        file.write_at(&WHEEL[96..128], slot * 32).unwrap();
    }
    let mut files = open(TimerConfig { snapshots: true, ..config("/s") }, &disk);
    assert!(files.slot(TIME_MS + 3000).unwrap().is_some());
    let names: Vec<_> = disk.list(Path::new("/s")).unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(!names.iter().any(|name| name.starts_with("timerwheel.")), "{names:?}");
}

#[test]
fn files_nobody_refers_to_are_removed() {
    let disk = FakeDisk::new(512);
    let mut files = open(TimerConfig { slots: 1000, ..config("/s") }, &disk);
    files.recover(LogOffset::new(1 << 20), TIME_MS).unwrap();
    for number in 0..15 {
        files.add(unit(1, TIME_MS + number * 1000, 0, 100)).unwrap();
    }
    let mut retire = |read_ms, saves| {
        for _ in 0..saves {
            files
                .save(TimerProgress { read_ms, queue_offset: 15, delivered_before: 15, now_ms: 1 })
                .unwrap()
                .write()
                .unwrap();
        }
        let saved = files.end;
        while files.retire(read_ms, saved).unwrap() {}
        files.log().min()
    };
    assert_eq!(retire(TIME_MS + 2000, 2), 0, "the third unit of the first file is not over");
    assert_eq!(retire(TIME_MS + 4000, 1), 0, "after a crash it would not be over again");
    assert_eq!(retire(TIME_MS + 4000, 1), 172);
    let recovered = open(TimerConfig { slots: 1000, ..config("/s") }, &disk.killed())
        .recover(LogOffset::new(1 << 20), TIME_MS + 4000)
        .unwrap();
    assert_eq!((recovered.queue_offset(None), recovered.pending), (15, 11), "nothing is missed");
    assert_eq!(retire(TIME_MS + 1_000_000, 2), 516, "recovery reads the file before the save, and the last");
}

#[test]
fn the_files_java_left_are_continued() {
    // Files of a RocketMQ 5.5.0 broker that was killed: one message delivered, one that waits for five hours.
    let disk = FakeDisk::new(4096);
    let put = |name: &str, length: u64, parts: &[(u64, &[u8])]| {
        let file = disk.create(Path::new(name), length, Space::Sparse).unwrap();
        parts.iter().for_each(|(at, bytes)| file.write_at(bytes, *at).unwrap());
    };
    let numbers =
        |numbers: &[i64]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_be_bytes()).collect() };
    let read_ms = 1_795_173_052_000;
    let check = numbers(&[read_ms, 104, 2, 2, 0, 1_795_173_052_985, 52]);
    put("/s/config/timercheck", 4096, &[(0, &check)]);
    let waiting = TimerUnit {
        written_ms: 1_795_171_263_000,
        delay_ms: 18_000_000,
        topic_hash: 0x4394_bdb4,
        ..unit(1, 0, 0x8a4, 0x16a)
    };
    let done = TimerUnit { delay_ms: 4000, log_offset: LogOffset::new(0x73a), ..waiting };
    put("/s/timerlog/00000000000000000000", 1 << 20, &[(0, &done.to_bytes()), (52, &waiting.to_bytes())]);
    let slot = |time_ms, at| {
        let slot = Slot { time_ms, first: Some(at), last: Some(at), count: 1, magic: 0 };
        (u64::try_from(time_ms / 1000 % 1_209_600 * 32).unwrap(), slot.to_bytes(1000))
    };
    let (first, second) = (slot(1_795_171_267_000, 0), slot(1_795_189_263_000, 52));
    assert_eq!((first.0 / 32, second.0 / 32), (124_867, 142_863));
    put("/s/timerwheel", 38_707_200, &[(first.0, &first.1), (second.0, &second.1)]);
    let config = TimerConfig { log_file_bytes: 1 << 20, ..TimerConfig::new("/s") };
    let mut files = open(config, &disk);
    let recovered = files.recover(LogOffset::new(5858), read_ms + 500).unwrap();
    assert_eq!((recovered.read_ms, recovered.pending), (read_ms, 1));
    assert_eq!(recovered.newest, Some(LogOffset::new(0x8a4)));
    assert_eq!(recovered.queue_offset(Some(1)), 2);
    assert_eq!(files.add(unit(1, 1_795_189_263_500, 5858, 100)).unwrap(), 104);
    assert_eq!(files.slot(1_795_189_263_000).unwrap().unwrap().last, Some(104));
}

#[test]
fn a_check_that_never_got_its_content_is_none() {
    let now_ms = TIME_MS + 500;
    let disk = FakeDisk::new(4096);
    disk.create_dir_all(Path::new("/s/config")).unwrap();
    disk.create(Path::new("/s/config/timercheck"), 4096, Space::Sparse).unwrap();
    let config = || TimerConfig { log_file_bytes: 1 << 20, ..TimerConfig::new("/s") };
    let slot_ms = config().slot_of(now_ms);
    let mut files = open(config(), &disk);
    assert_eq!(files.recover(LogOffset::new(0), now_ms).unwrap().read_ms, slot_ms, "there is no unit either");
    files.add(unit(1, TIME_MS - 5000, 0, 100)).unwrap();
    files.write().unwrap();
    let recovered = open(config(), &disk).recover(LogOffset::new(1 << 20), now_ms).unwrap();
    assert_eq!((recovered.queue_offset(None), recovered.pending), (0, 1));
    let a_week_ms = 7 * 24 * 3_600_000;
    assert_eq!(recovered.read_ms, slot_ms - a_week_ms + 60_000, "a turn of the wheel back, not in 1970");
}

/// A timed message in the model.
#[derive(Clone, Debug)]
struct Timer {
    due_ms: i64,
    key: Option<u64>,
}

/// A timer without records: a list of timed messages stands for the commit log.
struct Life {
    disk: FakeDisk,
    files: TimerFiles,
    due_entries: DueEntries,
    next: usize,
    /// Messages before this number that are due before this time were delivered by an earlier run.
    delivered: (usize, i64),
    now_ms: i64,
    save: Option<TimerSave>,
}

impl Life {
    fn config() -> TimerConfig {
        TimerConfig {
            slots: 40,
            log_file_bytes: 52 * 7 + 30,
            roll_window_slots: 30,
            ..TimerConfig::new("/s")
        }
    }

    fn new(disk: FakeDisk, now_ms: i64, queue: &[Timer]) -> Self {
        let mut files = open(Self::config(), &disk);
        let recovered = files.recover(LogOffset::new(queue.len() as u64 * 100), now_ms).unwrap();
        let newest = recovered.newest.map(|newest| (newest.get() / 100).cast_signed());
        let next = usize::try_from(recovered.queue_offset(newest)).unwrap();
        let due_entries = DueEntries::new(1000, 3000, 8, recovered.read_ms);
        let before = usize::try_from(recovered.delivered_before).unwrap().min(queue.len());
        let delivered = (before, recovered.read_ms);
        let mut life = Self { disk, files, due_entries, next, delivered, now_ms, save: None };
        life.save();
        life.write_save();
        life
    }

    /// Does the owner's work of a round at `now_ms`. Adds the numbers of delivered messages to `delivered`.
    fn round(&mut self, now_ms: i64, queue: &[Timer], delivered: &mut Vec<(usize, i64)>) {
        self.now_ms = now_ms;
        while self.next < queue.len() {
            let timer = &queue[self.next];
            let own = wheel_time(timer.due_ms, 1000);
            if self.next < self.delivered.0 && own < self.delivered.1 {
                self.next += 1;
                continue;
            }
            let slot_ms = self.due_entries.slot_for(own);
            let time_ms = if slot_ms == own { timer.due_ms - 1 } else { slot_ms };
            let magic = if timer.key.is_some() { 5 } else { 1 };
            let unit = TimerUnit { magic, ..unit(1, time_ms, self.next as u64 * 100, 100) };
            let at = self.files.add(unit).unwrap();
            let key = timer.key.map(|key| key.to_be_bytes().to_vec().into_boxed_slice());
            self.due_entries.arrived(DueEntry::of(at, &unit, slot_ms), key);
            self.next += 1;
        }
        self.files.write().unwrap();
        loop {
            let files = &mut self.files;
            let wanted =
                self.due_entries.wanted(now_ms, |slot| files.slot(slot).map(|slot| slot?.last)).unwrap();
            for load in &wanted {
                let (loaded, refused) = walk(self.files.log(), load);
                assert!(refused.is_none(), "{refused:?}");
                let number = |entry: &DueEntry| usize::try_from(entry.log_offset.get() / 100).unwrap();
                let keys: Vec<_> =
                    loaded.deletes.iter().filter_map(|entry| queue[number(entry)].key).collect();
                let keys = keys.into_iter().map(|key| key.to_be_bytes().to_vec().into_boxed_slice());
                self.due_entries.loaded(loaded, keys);
            }
            let mut due = Vec::new();
            self.due_entries.due(now_ms, 5, &mut due);
            if due.is_empty() && wanted.is_empty() {
                break;
            }
            for entry in due {
                let number = usize::try_from(entry.log_offset.get() / 100).unwrap();
                if queue[number].due_ms > now_ms {
                    self.due_entries.later(entry, queue[number].due_ms);
                    continue;
                }
                if !self.due_entries.is_deleted(entry.slot_ms, &(number as u64).to_be_bytes()) {
                    delivered.push((number, now_ms));
                }
                self.due_entries.done(&entry);
            }
        }
        self.due_entries.finish(now_ms);
    }

    fn save(&mut self) {
        let is_behind = self.next < self.delivered.0;
        let progress = TimerProgress {
            read_ms: if is_behind { self.delivered.1 } else { self.due_entries.read_ms() },
            queue_offset: i64::try_from(self.next).unwrap(),
            delivered_before: i64::try_from(self.next.max(self.delivered.0)).unwrap(),
            now_ms: self.now_ms,
        };
        self.save = Some(self.files.save(progress).unwrap());
    }

    fn write_save(&mut self) {
        if let Some(save) = self.save.take() {
            save.write().unwrap();
        }
    }

    fn stop(mut self) -> FakeDisk {
        self.write_save();
        let open = self.due_entries.open_units();
        let newest = (LogOffset::new((self.next.max(1) as u64 - 1) * 100), 100);
        for slot_ms in self.due_entries.begun() {
            let Some(last) = self.files.slot(slot_ms).unwrap().and_then(|slot| slot.last) else { continue };
            let load = ChainRequest { slot_ms, precision_ms: 1000, last, from: None, limit: usize::MAX };
            let mut left = units(self.files.log(), &load).unwrap();
            left.retain(|(at, unit)| {
                let entry = DueEntry::of(*at, unit, slot_ms);
                unit.deletes() || open.contains(at) || self.due_entries.is_forgotten(&entry)
            });
            let left: Vec<TimerUnit> = left.into_iter().map(|(_, unit)| unit).collect();
            self.files.replace(slot_ms, &left, newest).unwrap();
        }
        if self.next > 0 {
            self.files.mark(self.due_entries.read_ms() - 1000, newest).unwrap();
        }
        self.save();
        self.write_save();
        self.disk
    }
}

/// Result of `TimerMessageStore.recover` on the files: the next message that it adds, and the messages that it will
/// deliver.
fn java_sees(disk: &FakeDisk) -> (usize, BTreeSet<usize>) {
    let number = |unit: &TimerUnit| usize::try_from(unit.log_offset.get() / 100).unwrap();
    let config = Life::config();
    let mut files = open(config.clone(), disk);
    let read_ms = files.check.read_ms;
    let mut units = BTreeMap::new();
    let mut heads = BTreeMap::new();
    let log = files.log().clone();
    let end = log.scan(log.min(), |at, unit| {
        units.insert(at, unit);
        heads.insert(config.slot_of(unit.time_ms()), at);
        true
    });
    assert_eq!(end.unwrap(), files.check.log_position.cast_unsigned());
    let mut waiting = BTreeSet::new();
    for (slot_ms, head) in heads.range(read_ms..) {
        assert_eq!(files.slot(*slot_ms).unwrap().and_then(|slot| slot.last), Some(*head));
        let mut next = Some(*head);
        while let Some(unit) = next.and_then(|at| units.get(&at)) {
            if unit.magic & magic::DELETE == 0 {
                assert!(waiting.insert(number(unit)), "{} waits twice", number(unit));
            }
            next = unit.previous;
        }
    }
    (number(units.values().next_back().unwrap()) + 1, waiting)
}

#[derive(Clone, Debug)]
enum Step {
    /// Adds a timer due after so many ms.
    Add(i64),
    /// Cancels the timer that was added so many timers before, in its slot.
    Cancel(usize),
    Pass(i64),
    Save,
    WriteSave,
    Stop,
    Kill,
    Cut(u64),
    /// A kill, after which the wheel or a file of the timer log is missing.
    Lose(usize),
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    use proptest::prelude::*;
    let step = prop_oneof![
        8 => (1..25_000_i64).prop_map(Step::Add),
        4 => (1..1500_i64).prop_map(Step::Add),
        2 => (0..6_usize).prop_map(Step::Cancel),
        6 => (0..1500_i64).prop_map(Step::Pass),
        1 => (0..20_000_i64).prop_map(Step::Pass),
        2 => Just(Step::Save),
        2 => Just(Step::WriteSave),
        1 => Just(Step::Stop),
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::Cut),
        1 => (0..20_usize).prop_map(Step::Lose),
    ];
    proptest::collection::vec(step, 1..80)
}

/// Runs the steps; every timer is delivered, none early, none twice without a crash, and none that was cancelled in time.
fn check_life(steps: &[Step]) {
    let mut now_ms = TIME_MS;
    let mut queue: Vec<Timer> = Vec::new();
    let mut cancelled = BTreeSet::new();
    let mut delivered = Vec::new();
    let mut crashed = false;
    let mut life = Life::new(FakeDisk::new(64), now_ms, &queue);
    for step in steps {
        match step {
            Step::Add(delay) => queue.push(Timer { due_ms: now_ms + delay, key: None }),
            Step::Cancel(back) => {
                let Some(number) = queue.len().checked_sub(1 + back) else { continue };
                let target = queue[number].clone();
                if target.key.is_none() && wheel_time(target.due_ms, 1000) + 1 > now_ms {
                    cancelled.insert(number);
                    let due_ms = wheel_time(target.due_ms, 1000) + 1;
                    queue.push(Timer { due_ms, key: Some(number as u64) });
                }
            }
            Step::Pass(ms) => now_ms += ms,
            Step::Save => {
                life.write_save();
                life.save();
            }
            Step::WriteSave => life.write_save(),
            Step::Stop => {
                let disk = life.stop();
                if !queue.is_empty() {
                    let (next, mut waiting) = java_sees(&disk);
                    assert_eq!(next, queue.len(), "Java adds nothing again and leaves nothing out");
                    waiting.retain(|number| !cancelled.contains(number));
                    let came: BTreeSet<usize> = delivered.iter().map(|(number, _)| *number).collect();
                    if crashed {
                        // What was delivered since the last save, or before a loss, may be delivered again.
                        waiting.retain(|number| !came.contains(number));
                    }
                    let is_left = |number: &usize| {
                        queue[*number].key.is_none() && !came.contains(number) && !cancelled.contains(number)
                    };
                    let left: BTreeSet<usize> = (0..queue.len()).filter(is_left).collect();
                    assert_eq!(waiting, left, "Java delivers what was not delivered");
                }
                life = Life::new(disk, now_ms, &queue);
            }
            Step::Kill => {
                crashed = true;
                life = Life::new(life.disk.killed(), now_ms, &queue);
            }
            Step::Cut(seed) => {
                crashed = true;
                life = Life::new(life.disk.power_cut(*seed), now_ms, &queue);
            }
            Step::Lose(which) => {
                crashed = true;
                let disk = life.disk.killed();
                lost::lose(&disk, *which);
                life = Life::new(disk, now_ms, &queue);
            }
        }
        life.round(now_ms, &queue, &mut delivered);
    }
    now_ms += 60_000;
    life.round(now_ms, &queue, &mut delivered);
    assert_eq!(life.due_entries.read_ms(), now_ms.div_euclid(1000) * 1000, "nothing is left behind");
    let mut count = BTreeMap::<usize, usize>::new();
    for (number, at_ms) in &delivered {
        assert!(queue[*number].due_ms <= *at_ms, "{number} came early");
        assert!(!cancelled.contains(number), "{number} was cancelled");
        *count.entry(*number).or_default() += 1;
    }
    for (number, timer) in queue.iter().enumerate().filter(|(_, timer)| timer.key.is_none()) {
        let times = count.get(&number).copied().unwrap_or(0);
        let expected = usize::from(!cancelled.contains(&number));
        assert!(times == expected || (crashed && times > expected), "{number} {timer:?} came {times} times");
    }
}

proptest::proptest! {
    #[test]
    fn timers_come_once_and_never_early_whatever_happens(steps in steps()) {
        check_life(&steps);
    }
}

#[test]
fn a_chain_a_stop_left_that_lost_its_end_is_not_taken_for_whole() {
    use Step::*;
    check_life(&[Add(1), Add(1001), Add(1057), Pass(1001), Add(1), Add(1), Add(1), Stop, Lose(1), Add(1)]);
}

#[test]
fn a_wheel_made_again_from_the_log_still_leads_to_the_chains_a_stop_replaced() {
    use Step::*;
    check_life(&[
        Pass(1295),
        Add(1),
        Add(1),
        Pass(736),
        Save,
        Add(970),
        Pass(244),
        Pass(229),
        Add(705),
        Add(1),
        Add(10497),
        Pass(704),
        Add(1),
        Add(1),
        Add(1),
        Add(1),
        Add(1),
        Add(1),
        Add(1),
        Add(1),
        Add(793),
        Add(793),
        Add(793),
        Stop,
        Add(1),
        Lose(4),
        Save,
        Save,
        Lose(8),
    ]);
}

#[test]
fn a_lost_log_is_made_again_from_the_queue() {
    let disk = FakeDisk::new(64);
    let mut queue =
        vec![Timer { due_ms: TIME_MS + 500, key: None }, Timer { due_ms: TIME_MS + 9500, key: None }];
    let mut life = Life::new(disk, TIME_MS, &queue);
    let mut delivered = Vec::new();
    life.round(TIME_MS + 2000, &queue, &mut delivered);
    let disk = life.stop();
    for entry in disk.list(Path::new("/s/timerlog")).unwrap() {
        disk.remove(&Path::new("/s/timerlog").join(entry.name)).unwrap();
    }
    queue.push(Timer { due_ms: TIME_MS + 7000, key: None });
    let mut files = open(Life::config(), &disk);
    let recovered = files.recover(LogOffset::new(300), TIME_MS + 3000).unwrap();
    assert_eq!(recovered.queue_offset(None), 0, "all are read again");
    assert_eq!(
        (recovered.delivered_before, recovered.read_ms),
        (2, TIME_MS + 2000),
        "and this tells which were delivered"
    );
}

#[test]
fn saving_needs_no_descriptor_once_it_has_begun() {
    let disk = FakeDisk::new(512);
    let mut files = open(config("/s"), &disk);
    files.recover(LogOffset::new(1 << 20), TIME_MS).unwrap();
    let progress = |queue_offset| TimerProgress {
        read_ms: TIME_MS,
        queue_offset,
        delivered_before: queue_offset,
        now_ms: 1,
    };
    files.save(progress(0)).unwrap().write().unwrap();
    disk.faults(|faults| faults.no_descriptors = true);
    files.save(progress(1)).unwrap().write().unwrap();
}

#[test]
fn a_save_that_was_lacking_something_is_covered_by_the_next() {
    let disk = FakeDisk::new(512);
    let mut files = open(config("/s"), &disk);
    files.recover(LogOffset::new(1 << 20), TIME_MS).unwrap();
    files.add(unit(1, TIME_MS + 1000, 0, 100)).unwrap();
    let progress = TimerProgress { read_ms: TIME_MS, queue_offset: 1, delivered_before: 1, now_ms: 1 };
    disk.faults(|faults| faults.no_descriptors = true);
    let save = files.save(progress).unwrap();
    assert!(matches!(save.write(), Err(SaveError::Lack(_))));
    files.undo_save(save);
    disk.faults(|faults| faults.no_descriptors = false);
    files.save(progress).unwrap().write().unwrap();
    let mut files = open(config("/s"), &disk.power_cut(1));
    let recovered = files.recover(LogOffset::new(1 << 20), TIME_MS).unwrap();
    assert_eq!((recovered.pending, recovered.queue_offset(None)), (1, 1));
    // Data that a failed sync may have dropped is not written again.
    let mut files = open(config("/s"), &disk);
    files.recover(LogOffset::new(1 << 20), TIME_MS).unwrap();
    files.add(unit(1, TIME_MS + 2000, 100, 100)).unwrap();
    let save = files.save(TimerProgress { queue_offset: 2, delivered_before: 2, ..progress }).unwrap();
    disk.faults(|faults| faults.syncs_left = Some(0));
    assert!(matches!(save.write(), Err(SaveError::Failed(_))));
}
