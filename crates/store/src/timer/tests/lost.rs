//! Tests of the timer's files when a file, or a part of it, is missing or unreadable.

use super::*;

/// Removes the wheel or a file of the timer log.
pub(super) fn lose(disk: &FakeDisk, which: usize) {
    let log = Path::new("/s/timerlog");
    let mut paths: Vec<_> = disk.list(log).unwrap().into_iter().map(|entry| log.join(entry.name)).collect();
    paths.push("/s/timerwheel".into());
    disk.remove(&paths[which % paths.len()]).unwrap();
}

/// Twenty timers in five slots, whose units alternate in three files of the timer log.
fn twenty() -> Vec<Timer> {
    (0..20).map(|number| Timer { due_ms: TIME_MS + number % 5 * 3000 + 400 + number, key: None }).collect()
}

/// The disk after two of the five slots were delivered, and the delivered messages.
fn begun(queue: &[Timer], clean: bool) -> (FakeDisk, Vec<(usize, i64)>) {
    let mut delivered = Vec::new();
    let mut life = Life::new(FakeDisk::new(64), TIME_MS, queue);
    life.round(TIME_MS + 3500, queue, &mut delivered);
    life.save();
    life.write_save();
    assert_eq!(delivered.len(), 8);
    let disk = if clean { life.stop() } else { life.disk.killed() };
    (disk, delivered)
}

/// Returns the number of deliveries of each timer in the end.
fn counts(disk: FakeDisk, queue: &[Timer], mut delivered: Vec<(usize, i64)>) -> Vec<usize> {
    let mut life = Life::new(disk, TIME_MS + 3600, queue);
    life.round(TIME_MS + 60_000, queue, &mut delivered);
    (0..queue.len()).map(|number| delivered.iter().filter(|(came, _)| *came == number).count()).collect()
}

fn recovered(disk: &FakeDisk) -> (i64, i64) {
    let mut files = open(Life::config(), disk);
    let recovered = files.recover(LogOffset::new(2000), TIME_MS + 3600).unwrap();
    (recovered.queue_offset(None), recovered.pending)
}

#[test]
fn a_lost_wheel_is_made_again_from_the_whole_log() {
    let queue = twenty();
    for clean in [false, true] {
        let (disk, delivered) = begun(&queue, clean);
        let expected = recovered(&disk.killed());
        assert_eq!(expected.0, 20);
        disk.remove(Path::new("/s/timerwheel")).unwrap();
        assert_eq!(recovered(&disk.killed()), expected, "the place in the queue is kept");
        // Killed before the wheel has its slots, and before they are saved.
        drop(open(Life::config(), &disk));
        let disk = disk.killed();
        assert_eq!(recovered(&disk), expected);
        let disk = disk.killed();
        assert_eq!(recovered(&disk), expected);
        let counts = counts(disk, &queue, delivered);
        assert!(counts.iter().all(|count| *count == 1 || !clean && *count == 2), "{counts:?}");
    }
}

#[test]
fn a_wheel_of_another_length_is_a_lost_wheel() {
    let queue = twenty();
    let path = Path::new("/s/timerwheel");
    for clean in [false, true] {
        let (disk, delivered) = begun(&queue, clean);
        let whole = disk.open(path).unwrap().length().unwrap();
        let expected = recovered(&disk.killed());
        for length in [0, 1, 32, whole / 2, whole - 1, whole + 32] {
            let disk = disk.killed();
            disk.remove(path).unwrap();
            disk.create(path, length, Space::Sparse).unwrap();
            assert_eq!(recovered(&disk.killed()), expected, "{length} bytes");
            let counts = counts(disk, &queue, delivered.clone());
            assert!(counts.iter().all(|count| *count == 1 || !clean && *count == 2), "{length}: {counts:?}");
        }
    }
}

#[test]
fn a_file_of_the_log_that_was_cut_off_is_a_lost_file() {
    let queue = twenty();
    for index in 0..3 {
        for left in [1, 52, 196] {
            let (disk, delivered) = begun(&queue, false);
            let log = Path::new("/s/timerlog");
            let name = disk.list(log).unwrap()[index].name.clone();
            disk.open(&log.join(name)).unwrap().truncate(left).unwrap();
            let counts = counts(disk, &queue, delivered);
            assert!(counts.iter().all(|count| *count > 0), "{left} bytes of file {index}: {counts:?}");
        }
    }
}

#[test]
fn a_clock_that_was_set_forward_by_more_than_a_year_is_followed_in_a_few_steps() {
    let year_ms = 400 * 86_400_000;
    let mut due_entries = DueEntries::new(1000, 4000, 100, TIME_MS);
    let now_ms = TIME_MS + year_ms;
    let used = [TIME_MS + 5000, TIME_MS + 200_000_000, now_ms + 2000];
    let mut looked_up = 0;
    let mut found = Vec::new();
    for _ in 0..10 {
        let last = |slot_ms| {
            looked_up += 1;
            Ok::<_, ()>(used.contains(&slot_ms).then_some(0))
        };
        for load in due_entries.wanted(now_ms, last).unwrap() {
            found.push(load.slot_ms);
            due_entries.loaded(nothing(&load), []);
        }
        if let Some(next_ms) = due_entries.search_start(now_ms) {
            due_entries.skip_to(used.into_iter().find(|slot_ms| *slot_ms >= next_ms), now_ms);
        }
        due_entries.finish(now_ms);
    }
    assert_eq!(found, used);
    assert_eq!(due_entries.read_ms(), now_ms);
    assert!(due_entries.is_caught_up(now_ms) && looked_up < 100_000, "{looked_up} slots were looked up");
}

#[test]
fn the_first_slot_in_use_is_found_saved_or_not() {
    let disk = FakeDisk::new(512);
    let mut files = open(config("/s"), &disk);
    files.recover(LogOffset::new(1 << 20), TIME_MS).unwrap();
    assert_eq!(files.first_slot_from(0).unwrap(), None);
    files.add(unit(1, TIME_MS + 7000, 0, 100)).unwrap();
    assert_eq!(files.first_slot_from(TIME_MS).unwrap(), Some(TIME_MS + 7000));
    let progress = TimerProgress { read_ms: TIME_MS, queue_offset: 1, delivered_before: 1, now_ms: TIME_MS };
    files.save(progress).unwrap().write().unwrap();
    files.add(unit(1, TIME_MS + 3000, 100, 100)).unwrap();
    assert_eq!(files.first_slot_from(TIME_MS).unwrap(), Some(TIME_MS + 3000));
    assert_eq!(files.first_slot_from(TIME_MS + 4000).unwrap(), Some(TIME_MS + 7000));
    assert_eq!(files.first_slot_from(TIME_MS + 8000).unwrap(), None);
}

#[test]
fn without_wheel_and_whole_log_the_queue_is_read_again() {
    let queue = twenty();
    let (disk, delivered) = begun(&queue, false);
    disk.remove(Path::new("/s/timerwheel")).unwrap();
    let file = disk.open(Path::new("/s/timerlog/00000000000000000394")).unwrap();
    file.zero(52, 52).unwrap();
    assert_eq!(recovered(&disk.killed()), (0, 0));
    // A kill before the next save finds the same files.
    recovered(&disk);
    assert_eq!(recovered(&disk.killed()), (0, 0));
    let counts = counts(disk, &queue, delivered);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_lost_file_of_the_log_loses_no_timer_and_is_missed_once() {
    let queue = twenty();
    for (file, expected) in [(0, (0, 0)), (1, (0, 0)), (2, (0, 11))] {
        let (disk, delivered) = begun(&queue, false);
        lose(&disk, file);
        assert_eq!(recovered(&disk.killed()), expected, "file {file}");
        let mut life = Life::new(disk.killed(), TIME_MS + 3600, &queue);
        life.round(TIME_MS + 3600, &queue, &mut Vec::new());
        life.save();
        life.write_save();
        assert_eq!(recovered(&life.disk.killed()).0, 20, "file {file}");
        let counts = counts(disk, &queue, delivered);
        assert!(counts.iter().all(|count| *count > 0), "file {file}: {counts:?}");
    }
}

/// A store as RocketMQ leaves it: numbers of `timercheck`, units by position, slots.
fn of_java(check: [i64; 3], log_base: u64, units: &[(u64, TimerUnit)], slots: &[Slot]) -> FakeDisk {
    let disk = FakeDisk::new(4096);
    let [read_ms, log_position, queue_offset] = check;
    let check = TimerCheck { read_ms, log_position, queue_offset, ..TimerCheck::default() };
    let put = |name: &str, length: u64, parts: &[(u64, Vec<u8>)]| {
        let file = disk.create(Path::new(name), length, Space::Sparse).unwrap();
        parts.iter().for_each(|(at, bytes)| file.write_at(bytes, *at).unwrap());
    };
    put("/s/config/timercheck", 4096, &[(0, check.to_bytes().to_vec())]);
    let units: Vec<_> = units.iter().map(|(at, unit)| (at - log_base, unit.to_bytes().to_vec())).collect();
    put(&format!("/s/timerlog/{log_base:020}"), 4096, &units);
    let place = |slot: &Slot| u64::try_from(slot.time_ms / 1000 % 20 * 32).unwrap();
    let slots: Vec<_> = slots.iter().map(|slot| (place(slot), slot.to_bytes(1000).to_vec())).collect();
    put("/s/timerwheel", 640, &slots);
    disk
}

fn java_config() -> TimerConfig {
    TimerConfig { log_file_bytes: 4096, ..config("/s") }
}

#[test]
fn slots_ahead_of_a_log_that_lost_its_end_go_back_to_what_is_left() {
    let time_ms = TIME_MS + 5000;
    let units =
        [(0, unit(1, time_ms, 0, 100)), (52, TimerUnit { previous: Some(0), ..unit(1, time_ms, 100, 100) })];
    let slot = Slot { time_ms, first: Some(0), last: Some(104), count: 3, magic: 0 };
    let disk = of_java([TIME_MS, 156, 3], 0, &units, &[slot]);
    let mut files = open(java_config(), &disk);
    let recovered = files.recover(LogOffset::new(300), TIME_MS).unwrap();
    assert_eq!(files.slot(time_ms).unwrap(), Some(Slot { last: Some(52), count: 2, ..slot }));
    assert_eq!((recovered.pending, recovered.queue_offset(Some(1))), (2, 2));
    assert_eq!(recovered.queue_offset(None), 0, "all that is kept is newer than a record that is gone");
}

#[test]
fn units_java_removed_with_their_records_are_not_missed() {
    let (gone_ms, left_ms) = (TIME_MS + 4000, TIME_MS + 5000);
    let units = [(4096, TimerUnit { previous: Some(0), ..unit(1, left_ms, 200, 100) })];
    let gone = Slot { time_ms: gone_ms, first: Some(52), last: Some(52), count: 1, magic: 0 };
    let left = Slot { time_ms: left_ms, first: Some(0), last: Some(4096), count: 2, magic: 0 };
    let disk = of_java([TIME_MS, 4148, 3], 4096, &units, &[gone, left]);
    let mut files = open(java_config(), &disk);
    let recovered = files.recover(LogOffset::new(300), TIME_MS).unwrap();
    assert_eq!((recovered.pending, recovered.queue_offset(Some(2))), (2, 3));
    assert_eq!(files.slot(gone_ms).unwrap(), None);
    assert_eq!(files.slot(left_ms).unwrap().unwrap().last, Some(4096));
    let progress = TimerProgress { read_ms: TIME_MS, queue_offset: 3, delivered_before: 3, now_ms: 1 };
    files.save(progress).unwrap().write().unwrap();
    let recovered = open(java_config(), &disk).recover(LogOffset::new(300), TIME_MS).unwrap();
    assert_eq!(recovered.queue_offset(None), 3, "nor later");
}

#[test]
fn a_sector_that_cannot_be_read_harms_only_its_own_units() {
    let disk = FakeDisk::new(512);
    let mut files = open(TimerConfig { log_file_bytes: 1 << 20, ..config("/s") }, &disk);
    files.recover(LogOffset::new(1 << 20), TIME_MS).unwrap();
    for number in 0..60 {
        files.add(unit(1, TIME_MS + number % 2 * 1000, number.cast_unsigned() * 100, 100)).unwrap();
    }
    files.write().unwrap();
    let bad = 52 * 31..52 * 31 + 52;
    disk.set_unreadable(Path::new("/s/timerlog/00000000000000000000"), bad);
    let mut loaded = |slot_ms| {
        let last = files.slot(slot_ms).unwrap().unwrap().last.unwrap();
        let load = ChainRequest { slot_ms, precision_ms: 1000, last, from: None, limit: usize::MAX };
        let (loaded, refused) = walk(files.log(), &load);
        (loaded.entries.len(), refused.map(|refused| refused.at))
    };
    assert_eq!(loaded(TIME_MS), (30, None));
    // The units behind the bad one are found.
    assert_eq!(loaded(TIME_MS + 1000), (14, Some(52 * 31)));
}

/// Returns the newest unit of a slot, and an error for the slot `bad`.
fn newest(bad: i64) -> impl FnMut(i64) -> Result<Option<u64>, ()> {
    move |slot_ms| if slot_ms == bad { Err(()) } else { Ok(u64::try_from(slot_ms / 1000).ok()) }
}

fn nothing(load: &ChainRequest) -> ChainResult {
    ChainResult { slot_ms: load.slot_ms, entries: Vec::new(), deletes: Vec::new(), cut: None }
}

#[test]
fn chains_that_began_before_a_slot_that_cannot_be_read_are_walked() {
    let mut due_entries = DueEntries::new(1000, 3000, 100, 0);
    let slots = |loads: &[ChainRequest]| -> Vec<i64> { loads.iter().map(|load| load.slot_ms).collect() };
    let loads = due_entries.wanted(0, newest(2000)).unwrap();
    assert_eq!(slots(&loads), [0, 1000]);
    loads.iter().for_each(|load| due_entries.loaded(nothing(load), []));
    assert_eq!(due_entries.wanted(0, newest(2000)), Err(()));
    assert!(!due_entries.is_loading());
    assert_eq!(slots(&due_entries.wanted(0, newest(-1)).unwrap()), [2000, 3000]);
}

#[test]
fn chains_walked_again_begin_together_or_not_at_all() {
    let mut due_entries = DueEntries::new(1000, 3000, 2, 0);
    let none = |_: i64| -> Result<Option<u64>, ()> { Ok(None) };
    assert_eq!(due_entries.wanted(0, none), Ok(Vec::new()));
    for (at, slot_ms) in [(0, 0), (52, 0), (104, 1000), (156, 2000)] {
        due_entries.arrived(DueEntry::of(at, &unit(1, slot_ms, at, 100), slot_ms), None);
    }
    let mut due = Vec::new();
    due_entries.due(500, 10, &mut due);
    assert_eq!(due.len(), 2, "the others are behind the frontier");
    assert_eq!(due_entries.wanted(0, newest(2000)), Err(()));
    assert!(!due_entries.is_loading());
    assert_eq!(due_entries.wanted(0, newest(-1)).unwrap().len(), 2);
}

#[test]
fn nothing_is_due_behind_a_slot_that_is_being_walked() {
    let mut due_entries = DueEntries::new(1000, 4000, 100, 0);
    let loads = due_entries.wanted(3000, |slot_ms| Ok::<_, ()>(u64::try_from(slot_ms).ok())).unwrap();
    assert!(loads.iter().take(2).map(|load| load.slot_ms).eq([0, 1000]), "{loads:?}");
    let entry = |slot_ms| DueEntry::of(52, &unit(1, slot_ms + 500, 100, 100), slot_ms);
    let loaded = |slot_ms| ChainResult { entries: vec![entry(slot_ms)], ..nothing(&loads[0]) };
    let mut due = Vec::new();
    due_entries.loaded(ChainResult { slot_ms: 1000, ..loaded(1000) }, []);
    due_entries.due(9000, 10, &mut due);
    assert!(due.is_empty(), "the slot before it may hold what cancels it");
    due_entries.loaded(loaded(0), []);
    due_entries.due(9000, 10, &mut due);
    assert_eq!(due, [entry(0), entry(1000)]);
}

/// The disk of a broker that was master once, with units of messages that were cut off its log since.
fn deposed() -> FakeDisk {
    let cut: Vec<_> = (0..9).map(|number| Timer { due_ms: TIME_MS + 9000 + number, key: None }).collect();
    let mut life = Life::new(FakeDisk::new(64), TIME_MS, &cut);
    life.round(TIME_MS, &cut, &mut Vec::new());
    life.save();
    life.write_save();
    life.disk
}

#[test]
fn what_the_master_delivered_its_slave_does_not_deliver_again() {
    let queue = twenty();
    let master = TimerCheck {
        read_ms: TIME_MS + 3000,
        log_position: 777,
        queue_offset: 20,
        master_queue_offset: 20,
        version: [0; 3],
    };
    for disk in [FakeDisk::new(64), deposed()] {
        let (_, delivered) = begun(&queue, false);
        Life::config().note_master(&disk, &master).unwrap();
        assert_eq!(recovered(&disk.killed()), (0, 0), "the queue is read again");
        // Killed before that: the next run knows as much.
        let life = Life::new(disk, TIME_MS + 3600, &queue);
        let counts = counts(life.disk.killed(), &queue, delivered);
        // One second had begun.
        let expected: Vec<usize> = (0..20).map(|number| if number % 5 == 1 { 2 } else { 1 }).collect();
        assert_eq!(counts, expected);
    }
}
