//! Protobuf without a descriptor, as `protoc --decode_raw` shows it: numbers of fields with their values.

use std::fmt::Write as _;

/// Most messages within each other.
const DEPTH_MAX: usize = 16;

/// The fields of a body, a line each; `None` if the body is no Protobuf message.
pub(super) fn decoded(body: &[u8]) -> Option<String> {
    let mut out = String::new();
    (!body.is_empty()).then_some(())?;
    fields(body, 0, &mut out)?;
    Some(out)
}

fn fields(mut rest: &[u8], depth: usize, out: &mut String) -> Option<()> {
    let indent = "  ".repeat(depth);
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let field = Some(tag >> 3).filter(|field| (1..1 << 29).contains(field))?;
        let _ = match tag & 7 {
            0 => writeln!(out, "{indent}{field}: {}", varint(&mut rest)?),
            1 => {
                let bits = u64::from_le_bytes(*take(&mut rest, 8)?.first_chunk()?);
                writeln!(out, "{indent}{field}: {bits:#018x} ({:?})", f64::from_bits(bits))
            }
            5 => {
                let bits = u32::from_le_bytes(*take(&mut rest, 4)?.first_chunk()?);
                writeln!(out, "{indent}{field}: {bits:#010x} ({:?})", f32::from_bits(bits))
            }
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let bytes = take(&mut rest, length)?;
                let mut inner = String::new();
                match text(bytes) {
                    Some(text) => writeln!(out, "{indent}{field}: {text:?}"),
                    None if depth < DEPTH_MAX && fields(bytes, depth + 1, &mut inner).is_some() => {
                        writeln!(out, "{indent}{field} {{\n{inner}{indent}}}")
                    }
                    None => writeln!(out, "{indent}{field}: {}", hex(bytes)),
                }
            }
            _ => return None,
        };
    }
    Some(())
}

/// Bytes that are text rather than a message: no control characters, and not the tag of a first field of text.
fn text(bytes: &[u8]) -> Option<&str> {
    let is_text = |text: &&str| {
        !text.starts_with('\n') && !text.contains(|it: char| it.is_control() && !"\n\r\t".contains(it))
    };
    std::str::from_utf8(bytes).ok().filter(is_text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_shown_by_their_numbers() {
        let body = b"\x08\x96\x01\x12\x07testing\x1a\x02\x08\x05\x25\x00\x00\x80\x3f\x2a\x02\xff\xfe\x31\x05\0\0\0\0\0\0\0";
        let expected = "1: 150\n2: \"testing\"\n3 {\n  1: 5\n}\n4: 0x3f800000 (1.0)\n5: fffe\n6: 0x0000000000000005 (2.5e-323)\n";
        assert_eq!(decoded(body).as_deref(), Some(expected));
        for other in [&b""[..], b"{\"a\":1}", b"\x08", b"\x12\x7ftoo short", b"\x00\x01", b"\x0b\x0c"] {
            assert_eq!(decoded(other), None, "{other:?}");
        }
        let deep = (0..40).fold(vec![8, 1], |inner, _| [&[0x0a, inner.len() as u8], &inner[..]].concat());
        assert!(decoded(&deep).is_some_and(|text| text.matches('{').count() == DEPTH_MAX));
    }
}
