//! Reading the messages a pop returns, in the form pop clients expect.

use store::{CqUnit, Read, ReadError};
use wire::codes::response;
use wire::pop::{Handle, Kind};
use wire::properties::{self, key};
use wire::record::{self, Placement, RecordFields, RecordView};

use super::Picking;
use crate::pull::{Pull, Scan, Source, without};

impl Picking<'_> {
    /// Reads the messages of the scan into the body of the response, and returns their number. `None` if the disk
    /// would have to be read.
    pub(super) fn read(&mut self, pull: &Pull, kind: Kind, scan: &Scan) -> Option<usize> {
        if scan.code != response::SUCCESS {
            self.units.clear();
        }
        let recode = kind != Kind::Normal && !self.parts.runtime.config.pop.actual_retry_topic;
        let (store, queue) = (&self.parts.tables.store, &pull.queue.index);
        let mut records = Vec::new();
        while !self.units.is_empty() {
            let start = self.popped.body.len();
            let target = if recode { &mut records } else { &mut self.popped.body };
            let read = match self.source {
                Source::Memory => store.read_messages(queue, &self.units, target),
                Source::Disk => store.read_messages_blocking(queue, &self.units, target).map(|()| Read::Done),
            };
            match read {
                Ok(Read::Done) => break,
                Ok(Read::NotResident) => {
                    self.popped.body.truncate(start);
                    return None;
                }
                Err(error) => {
                    self.popped.body.truncate(start);
                    records.clear();
                    self.units = readable(&self.units, &error);
                    // Damaged messages are skipped; messages that any other error withholds are read again by a later pop.
                    self.refused = !matches!(error, ReadError::Damaged(_));
                    tracing::error!(topic = pull.queue.index.topic(), offset = pull.ask.offset, %error, "messages cannot be popped");
                }
            }
        }
        if recode {
            self.recode(&records, kind, pull.ask.offset);
        }
        Some(self.units.len())
    }

    /// Copies messages of a retry topic into the body as messages of the topic the client asked for, each with its handle
    /// (`POP_CK`).
    fn recode(&mut self, mut records: &[u8], kind: Kind, start_offset: i64) {
        while let Ok(record) = RecordView::parse(records) {
            let offset = record.raw_queue_offset();
            let handle = Handle {
                start_offset,
                pop_ms: self.popped.pop_ms,
                invisible_ms: self.pop.invisible_ms,
                revive_queue: self.popped.revive_queue,
                kind,
                broker_name: &self.parts.runtime.config.broker_name,
                queue_id: Some(record.queue_id()),
                offset: Some(offset),
            };
            append_recoded(&mut self.popped.body, &record, self.topic.name(), &handle.to_string());
            records = &records[record.size()..];
        }
    }
}

/// Which of `units` can still be returned when reading them failed with `error`.
fn readable(units: &[CqUnit], error: &ReadError) -> Vec<CqUnit> {
    match error {
        ReadError::Damaged(damaged) => without(units, damaged),
        // The log was deleted while it was read, or the disk cannot read that range.
        _ => Vec::new(),
    }
}

/// Appends a copy of a record with another topic and with a handle in its properties.
fn append_recoded(out: &mut Vec<u8>, record: &RecordView<'_>, topic: &str, handle: &str) {
    let mut text = Vec::new();
    let known = properties::get(record.properties(), key::POP_CK);
    properties::rewrite(
        &mut text,
        record.properties(),
        &[],
        &[(key::POP_CK, known.unwrap_or(handle.as_bytes()))],
    );
    let fields = RecordFields {
        topic,
        queue_id: record.queue_id(),
        flag: record.flag(),
        sys_flag: record.sys_flag(),
        born_timestamp: record.born_timestamp(),
        born_host: record.born_host(),
        store_host: record.store_host(),
        reconsume_times: record.reconsume_times(),
        prepared_transaction_offset: record.prepared_transaction_offset(),
        body: record.body(),
        properties: &text,
        crc_property: false,
    };
    let start = out.len();
    if let Err(error) = record::encode(&fields, out) {
        tracing::error!(topic, %error, "a message that comes back has no room for its handle and is not returned");
        return;
    }
    let placement = Placement {
        queue_offset: record.queue_offset(),
        log_offset: record.log_offset().unwrap_or_default(),
        store_timestamp: record.store_timestamp(),
    };
    record::place(&mut out[start..], &placement);
}
