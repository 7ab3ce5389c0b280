//! Walks a commit log file from its start; skips damaged or unreadable parts up to the next whole record.

use super::survey::{Survey, SurveyError};
use crate::log::Segment;
use crate::recover::window::{LogContent, Window, find, next_whole};
use std::ops::ControlFlow;
use std::sync::Arc;
use wire::record::RecordView;

/// Bytes of a file that are tried page by page after a disk error. Beyond this limit the whole disk is failing, and
/// the rest of the file counts as unreadable.
const UNREADABLE_BYTES_MAX: u64 = 64 << 20;

/// A piece of a commit log file. All positions are log positions.
pub(super) enum LogPiece<'a> {
    /// A whole record at this position.
    Record(u64, RecordView<'a>),
    /// The blank record at the end of a file: position and size in bytes.
    Blank(u64, u64),
    /// Range without a whole record: start, end and fault. Extends to the end of the file if no whole record follows.
    Damage(u64, u64, String),
    /// A range that the disk cannot read, and the error. The damage or empty space around it follows as a separate piece.
    Unreadable(u64, u64, &'a str),
    /// Empty from this position to the end of the file.
    Empty(u64),
}

impl Survey {
    /// Passes all pieces of a file in order to `visit`, until it breaks.
    pub(super) fn walk(
        &self,
        segment: &Arc<Segment>,
        visit: &mut dyn FnMut(LogPiece<'_>) -> ControlFlow<()>,
    ) -> Result<(), SurveyError> {
        let (base, length) = (segment.base, self.segment_bytes);
        let mut window = Window::new(segment.clone(), length).giving_up_after(UNREADABLE_BYTES_MAX);
        let mut at = 0;
        while at < length {
            let found = find(&mut window, at).map_err(SurveyError::io(&segment.path))?;
            let (piece, next) = match found {
                LogContent::Record(size) => {
                    let bytes = window.get(at, size).map_err(SurveyError::io(&segment.path))?;
                    let view = RecordView::parse(bytes).map_err(std::io::Error::other);
                    (
                        LogPiece::Record(base + at, view.map_err(SurveyError::io(&segment.path))?),
                        at + size as u64,
                    )
                }
                LogContent::Roll => (LogPiece::Blank(base + at, length - at), length),
                LogContent::Nothing | LogContent::Damage(_) => {
                    let whole =
                        next_whole(&mut window, at, length).map_err(SurveyError::io(&segment.path))?;
                    let end = whole.unwrap_or(length);
                    for part in window.unreadable_in(at, end) {
                        if visit(LogPiece::Unreadable(base + part.at, base + part.end, &part.error))
                            .is_break()
                        {
                            return Ok(());
                        }
                    }
                    match found {
                        LogContent::Damage(what) => (LogPiece::Damage(base + at, base + end, what), end),
                        _ if whole.is_none() => (LogPiece::Empty(base + at), length),
                        _ => {
                            let what = "zeros where a record should begin".to_owned();
                            (LogPiece::Damage(base + at, base + end, what), end)
                        }
                    }
                }
            };
            if visit(piece).is_break() {
                return Ok(());
            }
            at = next;
        }
        Ok(())
    }
}
