//! The `ROCKETMQ` binary header (`RocketMQSerializable`).

use super::{Empty, FrameError, RawHeader};
use crate::codes::Language;
use crate::fields::{Pair, Pairs};

/// Parses a binary header; positions are relative to `header`.
pub(super) fn decode(header: &[u8], pairs: &mut Pairs, empty: Empty) -> Result<RawHeader, FrameError> {
    let mut cursor = BinaryCursor { bytes: header, at: 0 };
    let code = i32::from(i16::from_be_bytes(cursor.array()?));
    let language = Language::from_byte(cursor.array::<1>()?[0]);
    let version = i32::from(i16::from_be_bytes(cursor.array()?));
    let opaque = i32::from_be_bytes(cursor.array()?);
    let flag = i32::from_be_bytes(cursor.array()?);
    let remark_len = cursor.length32()?;
    let remark = cursor.range(remark_len)?;
    let map_len = cursor.length32()?;
    let map_end = cursor.at + map_len;
    if map_end > header.len() {
        return Err(cursor.error("the field map is longer than the header"));
    }
    cursor.bytes = &header[..map_end];
    while cursor.at < map_end {
        let key_len = usize::from(u16::from_be_bytes(cursor.array()?));
        let key = cursor.range(key_len)?;
        let value_len = cursor.length32()?;
        let value = cursor.range(value_len)?;
        // RocketMQ decodes an empty string as null and drops such fields.
        let is_null = key_len == 0 || value_len == 0 && empty == Empty::Null;
        if !is_null && !pairs.push(Pair { key, value }) {
            return Err(cursor.error("too many header fields"));
        }
    }
    let remark = (remark_len > 0).then_some(remark);
    Ok(RawHeader { code, language, version, opaque, flag, remark })
}

struct BinaryCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BinaryCursor<'_> {
    fn error(&self, why: &'static str) -> FrameError {
        FrameError::Header { at: self.at, why }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let found = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let array = *found.ok_or_else(|| self.error("the header ends inside a fixed field"))?;
        self.at += N;
        Ok(array)
    }

    fn length32(&mut self) -> Result<usize, FrameError> {
        let length = i32::from_be_bytes(self.array()?);
        usize::try_from(length).map_err(|_| self.error("negative length"))
    }

    fn range(&mut self, len: usize) -> Result<(u32, u32), FrameError> {
        let to = self.at + len;
        if to > self.bytes.len() {
            return Err(self.error("a string is longer than the header"));
        }
        let range = (self.at as u32, to as u32);
        self.at = to;
        Ok(range)
    }
}
