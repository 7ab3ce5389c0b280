//! The bits of `sysFlag` (`MessageSysFlag`).

/// The body is compressed.
pub const COMPRESSED: i32 = 0x1;
/// Mask of the transaction type.
pub const TRANSACTION_MASK: i32 = 0xc;
/// Transaction type: a half message.
pub const TRANSACTION_PREPARED: i32 = 0x4;
/// Transaction type: committed.
pub const TRANSACTION_COMMIT: i32 = 0x8;
/// Transaction type: rolled back.
pub const TRANSACTION_ROLLBACK: i32 = 0xc;
/// The born host is an IPv6 address.
pub const BORN_HOST_V6: i32 = 0x10;
/// The store host is an IPv6 address.
pub const STORE_HOST_V6: i32 = 0x20;
/// The body is a batch that consumers must unwrap.
pub const NEED_UNWRAP: i32 = 0x40;
/// The record holds several messages (inner batch).
pub const INNER_BATCH: i32 = 0x80;
/// Mask of the compression type.
pub const COMPRESSION_MASK: i32 = 0x700;

/// Compression of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// LZ4 frame.
    Lz4,
    /// Zstandard frame.
    Zstd,
    /// RFC 1950 (zlib) stream; senders before 5.0 mean it by type zero.
    Zlib,
}

/// The compression of a body: `None` when it is plain, `Some(Err)` with the type number when that is unknown.
pub const fn compression(sys_flag: i32) -> Option<Result<Compression, i32>> {
    if sys_flag & COMPRESSED == 0 {
        return None;
    }
    Some(match (sys_flag & COMPRESSION_MASK) >> 8 {
        0 | 3 => Ok(Compression::Zlib),
        1 => Ok(Compression::Lz4),
        2 => Ok(Compression::Zstd),
        other => Err(other),
    })
}

/// The `sysFlag` bits of a body that is compressed this way.
pub const fn compressed_with(compression: Compression) -> i32 {
    let kind = match compression {
        Compression::Lz4 => 1,
        Compression::Zstd => 2,
        Compression::Zlib => 3,
    };
    COMPRESSED | kind << 8
}

/// The transaction bits of a `sysFlag`.
pub const fn transaction(sys_flag: i32) -> i32 {
    sys_flag & TRANSACTION_MASK
}

/// Whether a record with this `sysFlag` gets a unit in its queue: transaction type none or commit.
pub const fn is_queued(sys_flag: i32) -> bool {
    matches!(transaction(sys_flag), 0 | TRANSACTION_COMMIT)
}
