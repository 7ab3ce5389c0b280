//! Compression of message bodies: producers compress, only consumers decompress (`CompressorFactory`).

use flate2::bufread::{ZlibDecoder, ZlibEncoder};
use std::io::{self, Read};
pub use wire::record::sys_flag::Compression;

/// Largest body in bytes that a consumer accepts after decompression; far more than a frame can hold uncompressed.
const PLAIN_BYTES_MAX: u64 = 256 << 20;

/// Compresses a body. `level` counts from 0 to 9 for zlib and from 1 to 22 for zstd; LZ4 has no levels.
///
/// # Errors
/// The error of the compression library, for example for a level out of range.
pub fn compress(kind: Compression, level: u32, body: &[u8]) -> io::Result<Vec<u8>> {
    match kind {
        Compression::Zlib => {
            let mut out = Vec::new();
            let level = flate2::Compression::new(level.min(9));
            ZlibEncoder::new(body, level).read_to_end(&mut out)?;
            Ok(out)
        }
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            io::Write::write_all(&mut encoder, body)?;
            encoder.finish().map_err(io::Error::other)
        }
        Compression::Zstd => zstd::encode_all(body, i32::try_from(level.min(22)).expect("at most 22")),
    }
}

/// Restores a body.
///
/// # Errors
/// When the bytes are not of this kind, or decompress to more than 256 MiB.
pub fn decompress(kind: Compression, body: &[u8]) -> io::Result<Vec<u8>> {
    decompress_up_to(kind, body, PLAIN_BYTES_MAX)
}

/// Restores a body of at most `bytes_max` bytes.
///
/// # Errors
/// When the bytes are not of this kind, or decompress to more.
pub fn decompress_up_to(kind: Compression, body: &[u8], bytes_max: u64) -> io::Result<Vec<u8>> {
    match kind {
        Compression::Zlib => bounded(ZlibDecoder::new(body), bytes_max),
        Compression::Lz4 => bounded(lz4_flex::frame::FrameDecoder::new(body), bytes_max),
        Compression::Zstd => bounded(zstd::Decoder::with_buffer(body)?, bytes_max),
    }
}

fn bounded(source: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    source.take(bytes_max.saturating_add(1)).read_to_end(&mut out)?;
    if out.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("the body grows beyond {bytes_max} bytes")));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_back() {
        let bodies = [
            Vec::new(),
            b"hello".to_vec(),
            vec![7; 100_000],
            (0..60_000_u32).map(|n| (n * n) as u8).collect(),
        ];
        for body in bodies {
            for kind in [Compression::Zlib, Compression::Lz4, Compression::Zstd] {
                let packed = compress(kind, 5, &body).unwrap();
                assert_eq!(decompress(kind, &packed).unwrap(), body, "{kind:?}, {} bytes", body.len());
            }
        }
    }

    #[test]
    fn rubbish_is_an_error() {
        for kind in [Compression::Zlib, Compression::Lz4, Compression::Zstd] {
            assert!(decompress(kind, b"no such format").is_err(), "{kind:?}");
        }
    }

    #[test]
    fn formats_are_those_of_java() {
        let head = |kind| compress(kind, 5, b"hello").unwrap()[..4].to_vec();
        assert_eq!(head(Compression::Zlib)[0], 0x78);
        assert_eq!(head(Compression::Lz4), [0x04, 0x22, 0x4d, 0x18]);
        assert_eq!(head(Compression::Zstd), [0x28, 0xb5, 0x2f, 0xfd]);
    }
}
