//! When a certificate ends.

use std::time::Duration;

use pkcs8::der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use pkcs8::der::{Decode, Reader, SliceReader, Tag};

/// When a certificate ends (`validity.notAfter`), in milliseconds since 1970; `None` for bytes that are no certificate.
pub(super) fn ends_ms(certificate: &[u8]) -> Option<i64> {
    i64::try_from(end(certificate).ok()?.as_millis()).ok()
}

fn end(certificate: &[u8]) -> pkcs8::der::Result<Duration> {
    let mut certificate = content(&mut SliceReader::new(certificate)?)?;
    let mut fields = content(&mut certificate)?;
    // Before the validity: the version, which may be absent, serial number, algorithm of the signature, and issuer.
    let others = 3 + usize::from(fields.peek_tag()?.is_context_specific());
    for _ in 0..others {
        AnyRef::decode(&mut fields)?;
    }
    let mut validity = content(&mut fields)?;
    AnyRef::decode(&mut validity)?;
    match validity.peek_tag()? {
        Tag::UtcTime => Ok(UtcTime::decode(&mut validity)?.to_unix_duration()),
        _ => Ok(GeneralizedTime::decode(&mut validity)?.to_unix_duration()),
    }
}

/// Reads the next element, and returns a reader of its content.
fn content<'a>(reader: &mut SliceReader<'a>) -> pkcs8::der::Result<SliceReader<'a>> {
    SliceReader::new(AnyRef::decode(reader)?.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read_from_its_bytes() {
        let check = |year, expected| {
            let mut wanted = rcgen::CertificateParams::new(vec!["name".to_owned()]).unwrap();
            wanted.not_after = rcgen::date_time_ymd(year, 5, 17);
            let made = wanted.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
            assert_eq!(ends_ms(made.der()), Some(expected), "{year}");
        };
        check(2031, 1_936_742_400_000);
        // Years from 2050 on have four digits.
        check(2050, 2_536_358_400_000);
        check(9999, 253_382_515_200_000);
    }

    #[test]
    fn what_is_no_certificate_has_no_end() {
        let made = rcgen::generate_simple_self_signed(vec!["name".to_owned()]).unwrap();
        let der = made.cert.der();
        (0..der.len()).for_each(|length| assert_eq!(ends_ms(&der[..length]), None, "{length}"));
        assert_eq!(ends_ms(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(ends_ms(&[0x30, 0xff]), None);
    }
}
