//! When a certificate ends: as much of X.509 and DER as that takes.

/// Tag of the optional version in a certificate.
const VERSION: u8 = 0xa0;
/// Tag of a time with a year of two digits.
const UTC_TIME: u8 = 0x17;
const DAY_S: i64 = 86_400;

/// When a certificate ends (`validity.notAfter`), in milliseconds since 1970; `None` for bytes that are no certificate.
pub(super) fn ends_ms(certificate: &[u8]) -> Option<i64> {
    let (_, signed, _) = element(certificate)?;
    let (_, mut fields, _) = element(signed)?;
    let (tag, _, behind) = element(fields)?;
    if tag == VERSION {
        fields = behind;
    }
    // Serial number, algorithm of the signature, and issuer.
    for _ in 0..3 {
        (_, _, fields) = element(fields)?;
    }
    let (_, validity, _) = element(fields)?;
    let (_, _, end) = element(validity)?;
    let (tag, time, _) = element(end)?;
    time_ms(tag, std::str::from_utf8(time).ok()?)
}

/// Splits the first element off a DER text: its tag, its content, and the remaining bytes.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let (bytes, behind) = rest.split_at_checked(length - 0x80).filter(|(bytes, _)| bytes.len() <= 4)?;
        length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        rest = behind;
    }
    let (content, behind) = rest.split_at_checked(length)?;
    Some((tag, content, behind))
}

/// Parses a time such as `20991231235959Z`, or a time with a two-digit year from 1950 to 2049.
fn time_ms(tag: u8, text: &str) -> Option<i64> {
    let number = |from: usize, digits: usize| text.get(from..from + digits)?.parse::<i64>().ok();
    let (year, from) = match tag {
        UTC_TIME => (number(0, 2).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        _ => (number(0, 4)?, 4),
    };
    let at = |index: usize| number(from + 2 * index, 2);
    let (month, day, hour, minute, second) = (at(0)?, at(1)?, at(2)?, at(3)?, at(4)?);
    // Years that begin in March have their leap day at their end.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some((days * DAY_S + hour * 3600 + minute * 60 + second) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_both_forms() {
        let check = |tag, text: &str, expected| assert_eq!(time_ms(tag, text), expected, "{text}");
        check(UTC_TIME, "700101000000Z", Some(0));
        check(UTC_TIME, "000229010203Z", Some(951_786_123_000));
        check(UTC_TIME, "491231235959Z", Some(2_524_607_999_000));
        check(0x18, "99991231235959Z", Some(253_402_300_799_000));
        check(0x18, "20240301000000Z", Some(1_709_251_200_000));
        check(0x18, "2024", None);
        check(UTC_TIME, "xx0101000000Z", None);
    }

    #[test]
    fn the_end_of_a_certificate_is_read_from_its_bytes() {
        let mut wanted = rcgen::CertificateParams::new(vec!["name".to_owned()]).unwrap();
        wanted.not_after = rcgen::date_time_ymd(2031, 5, 17);
        let made = wanted.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        assert_eq!(ends_ms(made.der()), Some(1_936_742_400_000));
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
