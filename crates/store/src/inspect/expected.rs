//! The queue units that the records of a commit log file require.

use super::past::NewestTable;
use super::survey::Survey;
use crate::dispatch::is_indexed;
use crate::dispatch::tags::Tags;
use crate::queue::Unit;
use crate::queue::batched::{self, BatchUnit};
use std::collections::{BTreeMap, HashMap};
use wire::names::SCHEDULE_TOPIC;
use wire::properties::{self, key};
use wire::record::{RecordView, sys_flag};
use wire::units::LogOffset;

/// A unit that a record requires.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequiredUnit {
    /// Queue offset of the unit.
    pub(super) number: u64,
    pub(super) unit: Unit,
    /// Whether the tags code is known. The code of delayed messages depends on the broker's delay levels.
    pub(super) has_tags: bool,
}

/// Required units of a commit log file, by queue.
#[derive(Default)]
pub(super) struct UnitsByQueue {
    pub(super) queues: HashMap<String, HashMap<i32, Vec<RequiredUnit>>>,
    /// Units of batch consume queues in RocketMQ's format.
    pub(super) batches: BTreeMap<(String, i32), Vec<BatchUnit>>,
}

impl UnitsByQueue {
    /// Adds the units of the record at log position `at`.
    pub(super) fn add(&mut self, at: u64, view: &RecordView<'_>, survey: &Survey) {
        let Some(topic) = view.topic_str() else { return };
        let past = &survey.past;
        let is_batched = survey.batched.contains(topic) || view.sys_flag() & sys_flag::INNER_BATCH != 0;
        if !is_indexed(view.sys_flag(), is_batched) {
            return;
        }
        let has_tags = topic != SCHEDULE_TOPIC;
        let tags_code = Tags::of(false, view.properties(), &[]).at(0);
        let size = u32::try_from(view.size()).expect("a record's size fits its 4-byte field");
        let unit = Unit { log_offset: LogOffset::new(at), size, tags_code };
        if is_batched {
            let Some((base, count)) = batched::place_in(view.properties()) else { return };
            let batch = BatchUnit { unit, store_time: view.store_timestamp(), base, count };
            for number in base..batch.end() {
                self.put(past, (topic, view.queue_id()), RequiredUnit { number, unit, has_tags });
            }
            if past.covers(topic, view.queue_id(), at, batch.end() - 1) {
                return;
            }
            return self.batches.entry((topic.to_owned(), view.queue_id())).or_default().push(batch);
        }
        let expected = RequiredUnit { number: view.queue_offset().get(), unit, has_tags };
        self.put(past, (topic, view.queue_id()), expected);
        // Further queues of the message (multi-dispatch): either all offsets are set, or none is.
        let list = |key| properties::get_str(view.properties(), key).unwrap_or_default().split(',');
        let numbers: Vec<_> =
            list(key::INNER_MULTI_QUEUE_OFFSET).filter_map(|number| number.parse().ok()).collect();
        let names: Vec<_> = list(key::INNER_MULTI_DISPATCH).filter(|name| !name.is_empty()).collect();
        if names.len() == numbers.len() {
            for (name, number) in names.iter().zip(numbers) {
                let queue_id = if name.starts_with("%LMQ%") { 0 } else { view.queue_id() };
                self.put(past, (name, queue_id), RequiredUnit { number, ..expected });
            }
        }
    }

    fn put(&mut self, past: &NewestTable, (topic, queue_id): (&str, i32), expected: RequiredUnit) {
        if past.covers(topic, queue_id, expected.unit.log_offset.get(), expected.number) {
            return;
        }
        if !self.queues.contains_key(topic) {
            self.queues.insert(topic.to_owned(), HashMap::new());
        }
        let queues = self.queues.get_mut(topic).expect("put there above");
        queues.entry(queue_id).or_default().push(expected);
    }
}
