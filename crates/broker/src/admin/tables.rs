//! Tables for slaves and tools.

use std::collections::BTreeSet;

use wire::body::DelayOffsetTable;

use crate::names;
use crate::parts::{Delivery, Runtime, Tables};
use crate::system_topics::system_topic_names;

/// The delivery positions of all delay levels.
pub(crate) fn delay_offsets(delivery: &Delivery, runtime: &Runtime) -> DelayOffsetTable {
    let levels = (1..=runtime.delay_levels()).map(|level| (level, delivery.schedule.offset(level)));
    let offset_table = levels.filter(|(_, offset)| *offset > 0).collect();
    DelayOffsetTable { offset_table, ..DelayOffsetTable::default() }
}

/// The topics that users do not create.
pub(crate) fn system_topics(tables: &Tables, delivery: &Delivery, runtime: &Runtime) -> BTreeSet<String> {
    let mut list: BTreeSet<String> = system_topic_names(delivery, runtime).into_iter().collect();
    let system = tables.topics.all().filter(|topic| names::is_system_topic(topic.name()));
    list.extend(system.map(|topic| topic.name().to_owned()));
    list
}
