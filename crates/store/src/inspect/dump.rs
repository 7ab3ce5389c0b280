//! Dumps the content of the store's files as rows.

use super::row::{Row, TakeRow};
use super::survey::{Survey, SurveyError};
use super::walk::LogPiece;
use crate::queue::batched::reader::BatchUnitReader;
use crate::queue::{UNIT_BYTES, Unit};
use std::ops::ControlFlow;
use wire::properties;
use wire::record::RecordView;

/// A part of the store to dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpPart {
    /// The records of the commit log.
    Log,
    /// The units of the queues.
    Queues,
    /// The `checkpoint` file.
    Checkpoint,
    /// The files of the key index and their items.
    Index,
    /// The units of the timer log and the slots of the wheel.
    Timers,
    /// The positions and tables of `config/`.
    Config,
}

/// Selection of records to dump.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Log position of the first record.
    pub from: u64,
    /// Log position behind the last record.
    pub to: u64,
    /// Topic to dump; `None` for all.
    pub topic: Option<String>,
    /// Queue id to dump; `None` for all.
    pub queue_id: Option<i32>,
    /// First queue offset.
    pub queue_from: u64,
    /// Whether message bodies are shown, as text where they are text.
    pub body: bool,
}

impl Default for Selection {
    fn default() -> Self {
        Self { from: 0, to: u64::MAX, topic: None, queue_id: None, queue_from: 0, body: false }
    }
}

impl Selection {
    fn is_topic(&self, topic: &str, queue_id: i32) -> bool {
        self.topic.as_deref().is_none_or(|wanted| wanted == topic)
            && self.queue_id.is_none_or(|wanted| wanted == queue_id)
    }
}

impl Survey {
    /// Passes the rows of a part to the callback in order, until it breaks.
    ///
    /// # Errors
    /// [`SurveyError::Io`] when a file cannot be read.
    pub fn dump(&self, part: DumpPart, wanted: &Selection, give: TakeRow<'_>) -> Result<(), SurveyError> {
        match part {
            DumpPart::Log => self.dump_log(wanted, give),
            DumpPart::Queues => self.dump_queues(wanted, give),
            DumpPart::Checkpoint => {
                self.dump_checkpoint(give);
                Ok(())
            }
            DumpPart::Index => {
                self.dump_index(wanted, give).map_err(SurveyError::io(self.root.join("index")))
            }
            DumpPart::Timers => {
                self.dump_timers(wanted, give).map_err(SurveyError::io(self.root.join("timerlog")))
            }
            DumpPart::Config => self.dump_config(give),
        }
    }

    fn dump_log(&self, wanted: &Selection, give: TakeRow<'_>) -> Result<(), SurveyError> {
        let mut flow = ControlFlow::Continue(());
        for segment in &self.segments {
            let end = segment.base + self.segment_bytes;
            if end <= wanted.from || segment.base >= wanted.to || flow.is_break() {
                continue;
            }
            self.walk(segment, &mut |piece| {
                flow = match piece {
                    LogPiece::Record(at, _)
                    | LogPiece::Damage(at, ..)
                    | LogPiece::Unreadable(at, ..)
                    | LogPiece::Blank(at, _)
                    | LogPiece::Empty(at)
                        if at >= wanted.to =>
                    {
                        ControlFlow::Break(())
                    }
                    LogPiece::Record(at, view)
                        if at >= wanted.from
                            && view.queue_offset().get() >= wanted.queue_from
                            && wanted.is_topic(view.topic_str().unwrap_or_default(), view.queue_id()) =>
                    {
                        give(record(at, &view, wanted.body))
                    }
                    LogPiece::Damage(from, end, what) if end > wanted.from => {
                        give(Row::new("damage").with("at", from).with("end", end).with("what", what))
                    }
                    LogPiece::Unreadable(from, end, error) if end > wanted.from => {
                        give(Row::new("unreadable").with("at", from).with("end", end).with("what", error))
                    }
                    LogPiece::Blank(at, size) if at >= wanted.from && wanted.topic.is_none() => {
                        give(Row::new("blank").with("at", at).with("size", size))
                    }
                    _ => ControlFlow::Continue(()),
                };
                flow
            })?;
        }
        Ok(())
    }

    fn dump_queues(&self, wanted: &Selection, give: TakeRow<'_>) -> Result<(), SurveyError> {
        if self.dump_batches(wanted, give)?.is_break() {
            return Ok(());
        }
        let queues = self.queues.values().filter(|queue| !self.batched.contains(&queue.topic));
        for queue in queues.filter(|queue| wanted.is_topic(&queue.topic, queue.queue_id)) {
            for (first, path) in &queue.files {
                let file = self.disk.open(path).map_err(SurveyError::io(path))?;
                let mut bytes = vec![0; usize::try_from(self.queue_file_bytes).unwrap_or(0)];
                file.read_at(&mut bytes, 0).map_err(SurveyError::io(path))?;
                for (number, bytes) in (*first..).zip(bytes.chunks_exact(UNIT_BYTES as usize)) {
                    let Some(unit) = Unit::from_bytes(bytes).filter(|_| number >= wanted.queue_from) else {
                        continue;
                    };
                    let row = Row::new(if unit.is_blank() { "blank-unit" } else { "unit" })
                        .with("topic", queue.topic.as_str())
                        .with("queue", queue.queue_id)
                        .with("offset", number);
                    let row = match unit.is_blank() {
                        true => row,
                        false => row
                            .with("at", unit.log_offset.get())
                            .with("size", unit.size)
                            .with("tagsCode", unit.tags_code),
                    };
                    if give(row).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Dumps the batch consume queues in RocketMQ's format.
    fn dump_batches(&self, wanted: &Selection, give: TakeRow<'_>) -> Result<ControlFlow<()>, SurveyError> {
        for ((topic, queue_id), (directory, file_bytes)) in &self.batches {
            if !wanted.is_topic(topic, *queue_id) {
                continue;
            }
            let mut units = BatchUnitReader::of(self.disk.clone(), directory.clone(), *file_bytes)
                .map_err(SurveyError::io(directory))?;
            while let Some(batch) = units.next().map_err(SurveyError::io(directory))? {
                if batch.end() <= wanted.queue_from {
                    continue;
                }
                let row = Row::new("batch-unit")
                    .with("topic", topic.as_str())
                    .with("queue", *queue_id)
                    .with("offset", batch.base)
                    .with("count", batch.count)
                    .with("at", batch.unit.log_offset.get())
                    .with("size", batch.unit.size)
                    .with("tagsCode", batch.unit.tags_code)
                    .with("storeTime", batch.store_time);
                if give(row).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn dump_checkpoint(&self, give: TakeRow<'_>) {
        let Some(page) = self.checkpoint else { return };
        let row = Row::new("checkpoint")
            .with("physicMsgTimestamp", page.physic_msg_timestamp)
            .with("logicsMsgTimestamp", page.logics_msg_timestamp)
            .with("indexMsgTimestamp", page.index_msg_timestamp)
            .with("masterFlushedOffset", page.master_flushed_offset)
            .with("confirmPhyOffset", page.confirm_phy_offset)
            .with("logicsPhysicalOffset", page.logics_physical_offset)
            .with("running", self.is_running);
        let _ = give(row);
    }

    fn dump_config(&self, give: TakeRow<'_>) -> Result<(), SurveyError> {
        let directory = self.root.join("config");
        for entry in self.disk.list(&directory).map_err(SurveyError::io(&directory))? {
            if entry.is_dir || !entry.name.ends_with(".json") {
                continue;
            }
            let path = directory.join(&entry.name);
            let text = self.read_file(&path).map_err(SurveyError::io(&path))?.unwrap_or_default();
            let row = Row::new("config").with("file", entry.name);
            let row = match wire::json::from_slice::<serde_json::Value>(&text) {
                Ok(value) => row.with("content", value),
                Err(error) => row.with("error", error.to_string()),
            };
            if give(row).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn record(at: u64, view: &RecordView<'_>, body: bool) -> Row {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pairs = properties::pairs(view.properties()).map(|(name, value)| (text(name), text(value).into()));
    let row = Row::new("record")
        .with("at", at)
        .with("size", view.size())
        .with("topic", text(view.topic()))
        .with("queue", view.queue_id())
        .with("offset", view.raw_queue_offset())
        .with("storeTime", view.store_timestamp())
        .with("storeHost", view.store_host().to_string())
        .with("bornTime", view.born_timestamp())
        .with("bornHost", view.born_host().to_string())
        .with("flag", view.flag())
        .with("sysFlag", view.sys_flag())
        .with("reconsumeTimes", view.reconsume_times())
        .with("preparedTransactionOffset", view.prepared_transaction_offset())
        .with("bodyBytes", view.body().len())
        .with("bodyCrc", view.body_crc())
        .with("properties", serde_json::Value::Object(pairs.collect()));
    if body { row.with("body", text(view.body())) } else { row }
}
