//! A flipped byte or a broken sector anywhere in the log, and a kill. Only the damaged messages are lost, and no
//! queue offset is assigned twice.

use crate::elsewhere::from_elsewhere;
use crate::flips::{Messages, served};
use crate::tool::{append, message, small_config};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use store::{Config, Disk, FakeDisk, FlushMode, Space, Store};
use wire::record::RecordView;

const QUEUES: [(&str, i32); 4] = [("A", 0), ("A", 1), ("Orders", 0), ("%RETRY%g", 0)];

/// Damage to the log.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// A byte is changed with this mask.
    Flip(u8),
    /// A sector holds other bytes.
    Garbage,
    /// A sector holds zeros.
    Zeros,
}

/// Damage to the `checkpoint` file.
#[derive(Clone, Copy, Debug)]
enum Page {
    Kept,
    Missing,
    Zeroed,
    Short,
    /// Killed as a Java broker is that writes no position: its crash mark, and nothing of ours.
    Javas,
}

#[derive(Clone, Debug)]
struct Case {
    flush: FlushMode,
    segment_bytes: u64,
    /// Batches of messages: the queue and the length of the body of each.
    batches: Vec<Vec<(usize, usize)>>,
    /// Number of the batch after which the store is checkpointed, and its journal written.
    checkpoint: Option<usize>,
    journal: Option<usize>,
    page: Page,
    harm: Harm,
    /// Position of the damage, in 1 / 65,536 of the log.
    place: u64,
    closed_before_the_second_restart: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let length = prop_oneof![4 => 0usize..120, 2 => 120usize..500, 1 => Just(900usize)];
    let batches = prop::collection::vec(prop::collection::vec((0usize..4, length), 1..5), 3..40);
    let harm = prop_oneof![
        4 => (1u8..=255).prop_map(Harm::Flip),
        1 => Just(Harm::Garbage),
        2 => Just(Harm::Zeros),
    ];
    let page = prop_oneof![
        4 => Just(Page::Kept),
        1 => Just(Page::Missing),
        1 => Just(Page::Zeroed),
        1 => Just(Page::Short),
        2 => Just(Page::Javas),
    ];
    let flush = prop_oneof![Just(FlushMode::Async), Just(FlushMode::Sync)];
    let files = prop::sample::select(&[4096u64, 8192, 32_768][..]);
    let at = || prop::option::of(0usize..40);
    (flush, files, batches, at(), at(), page, harm, 0u64..65_536, any::<bool>()).prop_map(
        |(flush, segment_bytes, batches, checkpoint, journal, page, harm, place, closed)| Case {
            flush,
            segment_bytes,
            batches,
            checkpoint,
            journal,
            page,
            harm,
            place,
            closed_before_the_second_restart: closed,
        },
    )
}

/// A record as it was stored.
struct Stored {
    key: (String, i32, u64),
    bytes: Vec<u8>,
    range: Range<u64>,
}

impl Case {
    fn open(&self, disk: &FakeDisk) -> Store {
        let config = Config { flush: self.flush, segment_bytes: self.segment_bytes, ..small_config() };
        Store::open(config, Arc::new(disk.clone())).unwrap()
    }

    fn written(&self) -> (FakeDisk, Vec<Stored>) {
        let disk = FakeDisk::new(512);
        let store = self.open(&disk);
        let mut now = 1_700_000_000_000;
        for (number, list) in self.batches.iter().enumerate() {
            let mut batch = store.batch();
            for (queue, length) in list {
                let (topic, queue_id) = QUEUES[*queue];
                let body = vec![b'a' + u8::try_from((number + length) % 26).unwrap(); *length];
                let queue = store.queue(topic, queue_id).unwrap();
                batch.push(&queue, &message(&body, b"KEYS\x01key\x02TAGS\x01TagA\x02")).unwrap();
            }
            now += 7;
            store.append(&mut batch, now).unwrap();
            if self.checkpoint == Some(number) {
                store.checkpoint().unwrap();
            }
            if self.journal == Some(number) {
                store.journal().unwrap();
            }
        }
        let (found, _) = served(&store);
        let mut stored: Vec<Stored> = found.into_iter().map(Stored::of).collect();
        stored.sort_by_key(|stored| stored.range.start);
        (disk.killed(), stored)
    }

    /// The part of the log that is harmed.
    fn harm(&self, disk: &FakeDisk, end: u64) -> Range<u64> {
        let at = self.place * end / 65_536;
        let (base, position) = (at / self.segment_bytes * self.segment_bytes, at % self.segment_bytes);
        let file = disk.open(format!("/store/commitlog/{base:020}").as_ref()).unwrap();
        let sector = position / 512 * 512;
        let harm = match (self.harm, self.page) {
            // Without our notes on mounts zeros may be pages that a power cut took.
            (Harm::Zeros, Page::Javas) => Harm::Garbage,
            (harm, _) => harm,
        };
        match harm {
            Harm::Flip(mask) => {
                let mut byte = [0];
                file.read_at(&mut byte, position).unwrap();
                file.write_at(&[byte[0] ^ mask], position).unwrap();
                at..at + 1
            }
            Harm::Garbage => {
                let bytes: Vec<u8> = (0..512u64).map(|index| (index * 31 + self.place) as u8 | 1).collect();
                file.write_at(&bytes, sector).unwrap();
                base + sector..base + sector + 512
            }
            Harm::Zeros => {
                file.write_at(&[0; 512], sector).unwrap();
                base + sector..base + sector + 512
            }
        }
    }

    fn harm_page(&self, disk: &FakeDisk) {
        let path = Path::new("/store/checkpoint");
        match self.page {
            Page::Kept => {}
            Page::Missing => disk.remove(path).unwrap(),
            Page::Zeroed => disk.create(path, 4096, Space::Sparse).unwrap().zero(0, 4096).unwrap(),
            Page::Short => drop(disk.create(path, 20, Space::Sparse).unwrap()),
            Page::Javas => {
                drop(disk.create(path, 4096, Space::Sparse).unwrap());
                from_elsewhere(disk, 0, true);
            }
        }
    }
}

impl Stored {
    fn of((key, bytes): ((String, i32, u64), Vec<u8>)) -> Self {
        let view = RecordView::parse(&bytes).unwrap();
        let (start, size) = (view.log_offset().unwrap().get(), view.size() as u64);
        Self { key, range: start..start + size, bytes }
    }

    fn is_hit(&self, harmed: &Range<u64>) -> bool {
        self.range.start < harmed.end && harmed.start < self.range.end
    }
}

/// Returns the number of the message whose flags, queue id or topic were changed. No checksum covers these fields
/// behind the last checkpoint, so the message can appear in another queue, in place of the message with its number.
fn misplaced(stored: &[Stored], harmed: &Range<u64>, harm: Harm) -> Option<u64> {
    let Harm::Flip(_) = harm else { return None };
    let hit = stored.iter().find(|it| it.is_hit(harmed))?;
    let view = RecordView::parse(&hit.bytes).unwrap();
    let at = usize::try_from(harmed.start - hit.range.start).unwrap();
    let topic_end = hit.bytes.len() - view.properties().len() - 2;
    let topic = topic_end - view.topic().len()..topic_end;
    ((12..16).contains(&at) || (36..40).contains(&at) || topic.contains(&at)).then_some(hit.key.2)
}

/// Stored messages, and the damage.
struct Written {
    stored: Vec<Stored>,
    harmed: Range<u64>,
    misplaced: Option<u64>,
}

impl Written {
    fn must_stay(&self, it: &Stored) -> bool {
        !it.is_hit(&self.harmed) && self.misplaced != Some(it.key.2)
    }

    /// Whether the offset of a message must not be assigned again. Behind damage at the very end, the former message
    /// leaves no proof. A queue whose messages were all damaged leaves no trace of its existence.
    fn is_taken(&self, key: &(String, i32, u64)) -> bool {
        let followed = |it: &Stored| {
            self.stored.iter().any(|other| !other.is_hit(&self.harmed) && other.range.start > it.range.start)
        };
        let is_known =
            self.stored.iter().any(|it| (&it.key.0, it.key.1) == (&key.0, key.1) && self.must_stay(it));
        let is_one =
            |it: &Stored| it.key == *key && (self.must_stay(it) || self.misplaced.is_none() && followed(it));
        is_known && self.stored.iter().any(is_one)
    }

    /// Checks that every undamaged message is in its place, and that any other served message lies at the damage.
    fn check(&self, found: &Messages, what: &str) {
        let Self { stored, harmed, .. } = self;
        let hit: BTreeSet<u64> =
            stored.iter().filter(|it| it.is_hit(harmed)).map(|it| it.range.start).collect();
        for kept in stored.iter().filter(|it| self.must_stay(it)) {
            let is_there = found.get(&kept.key) == Some(&kept.bytes);
            assert!(is_there, "{what}: {:?} at {:?} is gone, hit {hit:?}", kept.key, kept.range);
        }
        for (key, bytes) in found {
            let at = Stored::of((key.clone(), bytes.clone())).range.start;
            let is_known = stored.iter().any(|it| it.range.start == at && it.key == *key);
            assert!(is_known || hit.contains(&at), "{what}: {key:?} is nothing that was stored");
        }
    }
}

fn run(case: &Case) {
    let (disk, stored) = case.written();
    let harmed = case.harm(&disk, stored.last().unwrap().range.end);
    case.harm_page(&disk);
    let misplaced = misplaced(&stored, &harmed, case.harm);
    let written = Written { stored, harmed, misplaced };
    let store = case.open(&disk);
    let what = format!("{:?}", store.recovered());
    store.wait_healed();
    written.check(&served(&store).0, &what);
    let mut added = Vec::new();
    for (topic, queue_id) in QUEUES {
        let offset = append(&store, &store.queue(topic, queue_id).unwrap(), b"next", 1_700_000_100_000);
        let key = (topic.to_owned(), queue_id, offset);
        assert!(!written.is_taken(&key), "{what}: {key:?} is given out again");
        added.push(key);
    }
    if case.closed_before_the_second_restart {
        store.close().unwrap();
    }
    let again = disk.killed();
    drop(store);
    let store = case.open(&again);
    store.wait_healed();
    let (mut found, _) = served(&store);
    for key in added {
        assert!(found.remove(&key).is_some(), "{what}: {key:?} is gone after the second restart");
    }
    written.check(&found, &what);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_single_damage_and_a_kill_cost_the_messages_it_hits(case in cases()) {
        run(&case);
    }
}

#[test]
fn the_number_of_a_queue_s_newest_record_stays_taken_when_its_digest_shows_damage() {
    let mut case = Case {
        flush: FlushMode::Async,
        segment_bytes: 8192,
        batches: vec![vec![(3, 9)], vec![(3, 261), (0, 5)]],
        checkpoint: Some(1),
        journal: None,
        page: Page::Missing,
        harm: Harm::Flip(1),
        place: 0,
        closed_before_the_second_restart: false,
    };
    let (_, stored) = case.written();
    // The time of birth, which the body's checksum does not cover.
    let target = stored[1].range.start + 44;
    case.place = (target * 65_536).div_ceil(stored[2].range.end);
    run(&case);
}

/// The digest of the newest record of a queue shows that its queue offset was changed: its place in the log gives it its number.
#[test]
fn a_damaged_queue_offset_of_the_newest_record_is_not_given_again() {
    let batches: [&[(usize, usize)]; 15] = [
        &[(0, 0), (0, 24)],
        &[(0, 37), (3, 251)],
        &[(2, 97), (0, 112)],
        &[(0, 115)],
        &[(2, 72)],
        &[(2, 18), (2, 310)],
        &[(0, 98)],
        &[(0, 26), (0, 58), (2, 344)],
        &[(3, 486)],
        &[(0, 226), (2, 341), (2, 30), (0, 79)],
        &[(0, 266)],
        &[(0, 19), (2, 97), (2, 259), (1, 13)],
        &[(1, 91), (2, 18)],
        &[(0, 89), (2, 70), (3, 900)],
        &[(2, 424), (2, 900)],
    ];
    run(&Case {
        flush: FlushMode::Async,
        segment_bytes: 4096,
        batches: batches.map(<[_]>::to_vec).into(),
        checkpoint: Some(12),
        journal: None,
        page: Page::Missing,
        harm: Harm::Flip(1),
        place: 39_355,
        closed_before_the_second_restart: false,
    });
}
