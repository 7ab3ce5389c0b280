//! Message ids: the offset id, which names a record's log position, and the unique key that producers generate.

use crate::units::LogOffset;
use std::net::{IpAddr, SocketAddr};

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `bytes` as upper-case hexadecimal digits.
pub fn append_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for part in bytes.chunks(16) {
        let mut digits = [[0; 2]; 16];
        for (byte, digits) in part.iter().zip(&mut digits) {
            *digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
        }
        out.extend_from_slice(&digits.as_flattened()[..part.len() * 2]);
    }
}

fn append_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => append_hex(out, &ip.octets()),
        IpAddr::V6(ip) => append_hex(out, &ip.octets()),
    }
}

/// Offset message id: the broker that stored a record, and the record's log position (`MessageDecoder.createMessageId`).
/// Shown to users as the `msgId` of a send response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetId {
    /// Address of the storing broker for clients.
    pub store_host: SocketAddr,
    /// Log position of the record on that broker.
    pub log_offset: LogOffset,
}

impl OffsetId {
    /// Appends the 32 (IPv4) or 56 (IPv6) hexadecimal digits.
    pub fn append_to(self, out: &mut Vec<u8>) {
        append_ip(out, self.store_host.ip());
        append_hex(out, &u32::from(self.store_host.port()).to_be_bytes());
        append_hex(out, &self.log_offset.get().to_be_bytes());
    }

    /// Parses an id of either length and with digits of either case; `None` when it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        let mut bytes = [0u8; 28];
        let length = text.len() / 2;
        if !matches!(text.len(), 32 | 56) {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        let (ip, rest) = bytes[..length].split_at(length - 12);
        let ip = match ip.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(ip).ok()?),
            _ => IpAddr::from(<[u8; 16]>::try_from(ip).ok()?),
        };
        let port = u32::from_be_bytes(rest[..4].try_into().ok()?);
        let offset = i64::from_be_bytes(rest[4..].try_into().ok()?);
        Some(Self {
            store_host: SocketAddr::new(ip, u16::try_from(port).ok()?),
            log_offset: LogOffset::from_i64(offset)?,
        })
    }
}

impl std::fmt::Display for OffsetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = Vec::with_capacity(56);
        self.append_to(&mut out);
        out.iter().try_for_each(|digit| std::fmt::Write::write_char(f, char::from(*digit)))
    }
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Generates unique keys (`MessageClientIDSetter.createUniqID`). Address, process id and class loader hash are the
/// fixed part. The ms since the first day of the month and a counter are the varying part.
#[derive(Clone, Debug)]
pub struct UniqKeys {
    fixed: Vec<u8>,
}

impl UniqKeys {
    /// Prepares the fixed part of the keys.
    pub fn new(ip: IpAddr, process_id: u16, loader_hash: u32) -> Self {
        let mut fixed = Vec::with_capacity(56);
        append_ip(&mut fixed, ip);
        append_hex(&mut fixed, &process_id.to_be_bytes());
        append_hex(&mut fixed, &loader_hash.to_be_bytes());
        Self { fixed }
    }

    /// Appends the next key: 32 hexadecimal digits with IPv4, 56 with IPv6.
    pub fn append_to(&self, out: &mut Vec<u8>, month_ms: u32, counter: u16) {
        out.extend_from_slice(&self.fixed);
        append_hex(out, &month_ms.to_be_bytes());
        append_hex(out, &counter.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
