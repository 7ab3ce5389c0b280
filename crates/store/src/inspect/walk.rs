//! Walking a commit log file from its start, over what is damaged or cannot be read to the next whole record.

use super::{Survey, SurveyError};
use crate::log::Segment;
use crate::recover::window::{Found, Window, find, next_whole};
use std::ops::ControlFlow;
use std::sync::Arc;
use wire::record::RecordView;

/// How much of a file is tried page by page where the disk gives errors: after that the disk is gone rather than bad in
/// places, and the rest of the file counts as unreadable.
const UNREADABLE_BYTES_MAX: u64 = 64 << 20;

/// A stretch of a file.
pub(super) enum Piece<'a> {
    /// A whole record at a position of the log.
    Record(u64, RecordView<'a>),
    /// The blank record at the end of a file, by position of the log and size.
    Blank(u64, u64),
    /// No whole record from here to there, positions of the log. The end of the file when none follows.
    Damage(u64, u64, String),
    /// The disk gives an error from here to there, positions of the log. The damage or empty space it lies in follows.
    Unreadable(u64, u64, &'a str),
    /// Nothing was written from here to the end of the file.
    Empty(u64),
}

impl Survey {
    /// Visits all pieces of a file in order, until told to stop.
    pub(super) fn walk(
        &self,
        segment: &Arc<Segment>,
        visit: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
    ) -> Result<(), SurveyError> {
        let (base, length) = (segment.base, self.segment_bytes);
        let mut window = Window::new(segment.clone(), length).giving_up_after(UNREADABLE_BYTES_MAX);
        let mut at = 0;
        while at < length {
            let found = find(&mut window, at).map_err(SurveyError::io(&segment.path))?;
            let (piece, next) = match found {
                Found::Record(size) => {
                    let bytes = window.get(at, size).map_err(SurveyError::io(&segment.path))?;
                    let view = RecordView::parse(bytes).map_err(std::io::Error::other);
                    (
                        Piece::Record(base + at, view.map_err(SurveyError::io(&segment.path))?),
                        at + size as u64,
                    )
                }
                Found::Roll => (Piece::Blank(base + at, length - at), length),
                Found::Nothing | Found::Damage(_) => {
                    let whole =
                        next_whole(&mut window, at, length).map_err(SurveyError::io(&segment.path))?;
                    let end = whole.unwrap_or(length);
                    for part in window.unreadable_in(at, end) {
                        if visit(Piece::Unreadable(base + part.at, base + part.end, &part.error)).is_break() {
                            return Ok(());
                        }
                    }
                    match found {
                        Found::Damage(what) => (Piece::Damage(base + at, base + end, what), end),
                        _ if whole.is_none() => (Piece::Empty(base + at), length),
                        _ => {
                            let what = "zeros where a record should begin".to_owned();
                            (Piece::Damage(base + at, base + end, what), end)
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
