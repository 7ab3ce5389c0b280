//! Surveys of a store whose queue table changes, or cannot be read, meanwhile.

use super::*;
use crate::checkpoint_file::Mark;
use crate::inspect::{DumpPart, Repair, Selection, verify};
use crate::{Config, FakeDisk, Store};
use std::ops::ControlFlow;

const ROOT: &str = "/store";

/// Makes a closed store with a queue. Returns it with the path of its queue table.
fn closed() -> (FakeDisk, PathBuf) {
    let disk = FakeDisk::new(512);
    let config = Config { segment_bytes: 4096, queue_file_bytes: 160, ..Config::new(ROOT) };
    let store = Store::open(config, Arc::new(disk.clone())).unwrap();
    let queue = store.queue("A", 0).unwrap();
    let host = "10.0.0.9:10911".parse().unwrap();
    let message = crate::Message {
        body: b"x",
        properties: b"",
        sys_flag: 0,
        flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let mut batch = store.batch();
    batch.push(&queue, &message).unwrap();
    store.append(&mut batch, 0).unwrap();
    store.close().unwrap();
    let directory = table::directory(ROOT.as_ref());
    let generation = table::newest_generation(&disk, ROOT.as_ref()).unwrap().unwrap();
    (disk, directory.join(format!("queues.{generation}")))
}

fn survey(disk: &FakeDisk) -> Survey {
    Survey::of(Arc::new(disk.clone()), ROOT.as_ref(), &[]).unwrap()
}

#[test]
fn a_queue_table_that_cannot_be_read_is_a_finding_and_the_rest_is_looked_at() {
    let (disk, path) = closed();
    assert!(verify(&survey(&disk), 1, &|_| {}).unwrap().is_clean());
    disk.set_unreadable(&path, 0..1);
    let survey = survey(&disk);
    assert!(!survey.past.is_sure);
    let found = verify(&survey, 1, &|_| {}).unwrap();
    assert_eq!((found.findings.len(), found.records, found.units), (1, 1, 1), "{:?}", found.findings);
    assert!(found.findings[0].what.starts_with("the queue table cannot be read: "), "{}", found.findings[0]);
    assert!(Repair::of(&survey, &found).steps().is_empty());
    let mut rows = 0;
    let mut give = |_| {
        rows += 1;
        ControlFlow::Continue(())
    };
    survey.dump(DumpPart::Log, &Selection::default(), &mut give).unwrap();
    assert!(rows > 0);
}

#[test]
fn a_queue_table_replaced_meanwhile_is_looked_for_once_more() {
    let (disk, path) = closed();
    let mut survey = survey(&disk);
    let page = survey.checkpoint.unwrap();
    let mark = page.mark.unwrap();
    // The `checkpoint` file as it was before the broker replaced the table.
    let before = Mark { generation: mark.generation + 1000, ..mark };
    survey.checkpoint = Some(Checkpoint { mark: Some(before), ..page });
    survey.past = NewestTable::default();
    survey.find_past().unwrap();
    assert!(survey.past.is_sure);
    assert_eq!(survey.checkpoint.unwrap().mark, Some(mark));
    // A missing table is no finding: the next opening does without it.
    disk.remove(&path).unwrap();
    survey.find_past().unwrap();
    assert_eq!((survey.past.is_sure, survey.past.is_unreadable, survey.findings.len()), (false, false, 0));
}
