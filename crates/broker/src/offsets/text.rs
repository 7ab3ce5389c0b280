//! Text of the file of offsets. A group of lite topics has hundreds of thousands of offsets. The text is written from
//! the entries, because maps of all offsets would take many times the memory of the table at every save.

use std::collections::{BTreeSet, HashSet};

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use wire::body::{DataVersion, Extra};

use super::file::{LIGHT_OFFSETS, TOPICS_BY_GROUP};
use super::{Offsets, Position, Topic};
use crate::names::is_light;

/// Members of the file.
pub(super) struct Text<'a> {
    pub offsets: &'a Offsets,
    pub version: DataVersion,
    pub extra: &'a Extra,
    /// Topics whose offsets are written as 0.
    pub leaving: &'a HashSet<Box<str>>,
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut members = to.serialize_map(None)?;
        members.serialize_entry("dataVersion", &self.version)?;
        members.serialize_entry("offsetTable", &Table(self, Member::Committed))?;
        members.serialize_entry("pullOffsetTable", &Table(self, Member::Pulled))?;
        members.serialize_entry(TOPICS_BY_GROUP, &Groups(self.offsets))?;
        if self.offsets.light {
            members.serialize_entry(LIGHT_OFFSETS, &Table(self, Member::Light))?;
        }
        for (name, value) in self.extra.iter().filter(|(name, _)| *name != LIGHT_OFFSETS) {
            members.serialize_entry(name, value)?;
        }
        members.end()
    }
}

/// A member with offsets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Committed,
    Pulled,
    /// Committed offsets of light groups, whose queues all have the id 0.
    Light,
}

impl Member {
    fn of(self, position: &Position) -> Option<i64> {
        if self == Self::Pulled { position.pulled.get() } else { position.committed.get() }
    }
}

struct Table<'a>(&'a Text<'a>, Member);

impl Serialize for Table<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(text, member) = *self;
        let (mut entries, mut outcome, mut key) = (to.serialize_map(None)?, Ok(()), String::new());
        // A table that is split meanwhile shows an entry twice, so that the file has its key twice. Loading the file
        // keeps the last offsets, which are the newer.
        text.offsets.each_part(None, |group, part| {
            for (topic, entry) in part {
                let entry = entry.lock();
                let is_left_out = entry.queues.iter().all(|(_, position)| member.of(position).is_none());
                let first = entry.queues.get(0).and_then(|position| position.committed.get());
                let is_in_light = text.offsets.light && is_light(group) && first.is_some();
                if is_left_out
                    || outcome.is_err()
                    || (member != Member::Pulled && is_in_light != (member == Member::Light))
                {
                    continue;
                }
                key.clear();
                key.extend([topic, "@", group]);
                let is_leaving = member != Member::Pulled && text.leaving.contains(topic);
                outcome = match member {
                    Member::Light => entries.serialize_entry(&key, &if is_leaving { Some(0) } else { first }),
                    _ => entries.serialize_entry(&key, &Queues { topic: &entry, member, is_leaving }),
                };
            }
        });
        outcome?;
        entries.end()
    }
}

/// Offsets of a group in a topic, by queue id.
struct Queues<'a> {
    topic: &'a Topic,
    member: Member,
    /// Whether the topic's queues are being removed, so that the offsets are written as 0.
    is_leaving: bool,
}

impl Serialize for Queues<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { topic, member, is_leaving } = *self;
        let offsets = topic.queues.iter().filter_map(|(queue, position)| Some((queue, member.of(position)?)));
        to.collect_map(offsets.map(|(queue, offset)| (queue, if is_leaving { 0 } else { offset })))
    }
}

/// Topics by group.
struct Groups<'a>(&'a Offsets);

impl Serialize for Groups<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let names: BTreeSet<String> = self.0.groups.read().keys().cloned().collect();
        to.collect_map(names.iter().map(|group| (group, Topics(self.0, group))))
    }
}

struct Topics<'a>(&'a Offsets, &'a str);

impl Serialize for Topics<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (mut names, mut outcome) = (to.serialize_seq(None)?, Ok(()));
        self.0.each_part(Some(self.1), |_, part| {
            for (topic, entry) in part {
                let is_committed =
                    entry.lock().queues.iter().any(|(_, position)| position.committed.get().is_some());
                if is_committed && outcome.is_ok() {
                    outcome = names.serialize_element(topic);
                }
            }
        });
        outcome?;
        names.end()
    }
}
