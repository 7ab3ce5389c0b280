//! Text of the file of offsets. A group of lite topics has hundreds of thousands of offsets. Maps of all offsets would
//! take many times the memory of the table at every save, and the text as a whole as much as the table. So the text of
//! each part of a table is made under the lock of the table, and written without the lock.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};

use wire::body::{DataVersion, Extra};

use super::file::{LIGHT_OFFSETS, TOPICS_BY_GROUP};
use super::topics::Part;
use super::{MaybeOffset, Offsets, Position};
use crate::names::is_light;

/// Bytes that are written at a time. Tests write several pieces.
const PIECE_BYTES: usize = if cfg!(test) { 64 } else { 128 << 10 };

/// Content of the file.
pub(super) struct Text<'a> {
    pub offsets: &'a Offsets,
    pub version: DataVersion,
    pub extra: &'a Extra,
    /// Topics whose offsets are written as 0.
    pub leaving: &'a HashSet<Box<str>>,
}

/// A member with offsets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Committed,
    Pulled,
    /// Committed offsets of light groups, whose queues all have the id 0.
    Light,
}

impl Text<'_> {
    /// Writes the content. A table that is split meanwhile shows an entry twice, so that the file has its key twice. Loading
    /// the file keeps the last offsets, which are the newer.
    pub(super) fn write(&self, file: &mut impl Write) -> io::Result<()> {
        let mut to = BufWriter::with_capacity(PIECE_BYTES, file);
        let offsets = self.offsets;
        let names = offsets.groups();
        to.write_all(b"{\"dataVersion\":")?;
        serde_json::to_writer(&mut to, &self.version)?;
        let light = offsets.light.is_some().then_some((LIGHT_OFFSETS, Member::Light));
        let members = [("offsetTable", Member::Committed), ("pullOffsetTable", Member::Pulled)];
        for (name, member) in members.into_iter().chain(light) {
            write!(to, ",\"{name}\":{{")?;
            let mut separator = "";
            for group in &names {
                self.write_parts(&mut to, group, &mut separator, |part, text| {
                    self.entries(member, group, part, text)
                })?;
            }
            to.write_all(b"}")?;
        }
        write!(to, ",\"{TOPICS_BY_GROUP}\":{{")?;
        for (index, group) in names.iter().enumerate() {
            to.write_all(if index > 0 { "," } else { "" }.as_bytes())?;
            serde_json::to_writer(&mut to, group)?;
            to.write_all(b":[")?;
            self.write_parts(&mut to, group, &mut "", topics)?;
            to.write_all(b"]")?;
        }
        to.write_all(b"}")?;
        for (name, value) in self.extra.iter().filter(|(name, _)| *name != LIGHT_OFFSETS) {
            to.write_all(b",")?;
            serde_json::to_writer(&mut to, name)?;
            to.write_all(b":")?;
            serde_json::to_writer(&mut to, value)?;
        }
        to.write_all(b"}")?;
        to.flush()
    }

    /// Writes the text of each part of a group's entries. `text_of` appends a comma behind each of its values.
    fn write_parts(
        &self,
        to: &mut impl Write,
        group: &str,
        separator: &mut &'static str,
        text_of: impl Fn(&Part, &mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut index, mut text) = (0, Vec::new());
        while let Some(written) = self.offsets.with_part(group, index, |part| text_of(part, &mut text)) {
            written?;
            if text.pop().is_some() {
                to.write_all(separator.as_bytes())?;
                to.write_all(&text)?;
                *separator = ",";
            }
            text.clear();
            index += 1;
        }
        Ok(())
    }

    /// Appends the entries of a part, each with a comma.
    fn entries(&self, member: Member, group: &str, part: &Part, text: &mut Vec<u8>) -> io::Result<()> {
        for (topic, entry) in part {
            let entry = entry.lock();
            let of = |position: &Position| -> MaybeOffset {
                if member == Member::Pulled { position.pulled } else { position.committed }
            };
            let first = entry.queues.get(0).and_then(|position| position.committed.get());
            let is_in_light = self.offsets.light.is_some() && is_light(group) && first.is_some();
            let is_here = member == Member::Pulled || is_in_light == (member == Member::Light);
            if !is_here || entry.queues.iter().all(|(_, position)| of(&position).get().is_none()) {
                continue;
            }
            let is_leaving = member != Member::Pulled && self.leaving.contains(&**topic);
            serde_json::to_writer(&mut *text, &format_args!("{topic}@{group}"))?;
            text.push(b':');
            if member == Member::Light {
                write!(text, "{},", if is_leaving { 0 } else { first.unwrap_or(0) })?;
                continue;
            }
            let mut open = '{';
            for (queue, position) in entry.queues.iter() {
                let Some(offset) = of(&position).get() else { continue };
                write!(text, "{open}\"{queue}\":{}", if is_leaving { 0 } else { offset })?;
                open = ',';
            }
            text.extend_from_slice(b"},");
        }
        Ok(())
    }
}

/// Appends the names of the topics of a part with a commit, each with a comma.
fn topics(part: &Part, text: &mut Vec<u8>) -> io::Result<()> {
    for (topic, entry) in part {
        if entry.lock().queues.iter().any(|(_, position)| position.committed.get().is_some()) {
            serde_json::to_writer(&mut *text, &**topic)?;
            text.push(b',');
        }
    }
    Ok(())
}
