//! Bodies that say who sent them: `producer, sequence, length, filler, checksum`, big-endian.

use wire::hash::crc32;

use super::random::Random;

/// Bytes beside the filler.
pub const FIXED_BYTES: usize = 20;

/// The producer of delayed messages, whose properties are not the usual ones.
pub const DELAYED: u32 = u32::MAX;

/// Who sent a message, and which of its messages it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    pub producer: u32,
    pub sequence: u64,
}

/// Property of a message whose sender does not wait for the disk.
pub const NO_WAIT: &[u8] = b"WAIT\x01false\x02";

/// The properties a message is sent with, in turn. A string without its last separator is legal, none at all is too.
pub fn properties(tag: Tag) -> &'static [u8] {
    const TURNS: [&[u8]; 5] = [
        b"a\x01b\x02",
        b"KEYS\x01k\x02TAGS\x01crash\x02",
        b"UNIQ_KEY\x017F0000010001\x02",
        b"",
        // Longer than a sector, so that a lost one shows.
        &LONG,
    ];
    TURNS[(tag.sequence % TURNS.len() as u64) as usize]
}

const LONG: [u8; 1206] = {
    let mut text = [b'l'; 1206];
    text[0] = b'L';
    text[1] = 1;
    text[1205] = 2;
    text
};

/// Appends the body of `tag` with `filler` bytes nobody can predict.
pub fn write(out: &mut Vec<u8>, tag: Tag, filler: usize) {
    let start = out.len();
    out.extend_from_slice(&tag.producer.to_be_bytes());
    out.extend_from_slice(&tag.sequence.to_be_bytes());
    out.extend_from_slice(&((FIXED_BYTES + filler) as u32).to_be_bytes());
    let mut random = Random::new(u64::from(tag.producer) << 40 ^ tag.sequence);
    out.extend_from_slice(&random.bytes(filler));
    let checksum = crc32(&out[start..]);
    out.extend_from_slice(&checksum.to_be_bytes());
}

/// Who sent a body; why not when it is no body of ours, whole and unchanged.
pub fn read(body: &[u8]) -> Result<Tag, &'static str> {
    if body.len() < FIXED_BYTES {
        return Err("shorter than any message sent");
    }
    let (content, checksum) = body.split_at(body.len() - 4);
    if crc32(content).to_be_bytes() != checksum {
        return Err("checksum differs");
    }
    if content[12..16] != (body.len() as u32).to_be_bytes() {
        return Err("length differs");
    }
    let producer = u32::from_be_bytes(content[..4].try_into().expect("four bytes"));
    let sequence = u64::from_be_bytes(content[4..12].try_into().expect("eight bytes"));
    Ok(Tag { producer, sequence })
}
