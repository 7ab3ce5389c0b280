//! The local time of day in the system's time zone.

use std::ffi::c_int;

/// Hour of the day, 0 to 23, in the time zone of this machine (`TZ`, else `/etc/localtime`).
#[must_use]
pub fn local_hour(now_ms: i64) -> u8 {
    local_time(now_ms.div_euclid(1000))
        .and_then(|time| u8::try_from(time.0[HOUR]).ok())
        .filter(|hour| *hour < 24)
        .unwrap_or_else(|| u8::try_from(now_ms.div_euclid(3_600_000).rem_euclid(24)).unwrap_or(0))
}

/// Returns the local time as a number, `yyyyMMddHHmmssSSS`, or zero if the system cannot tell.
pub(crate) fn local_digits(now_ms: i64) -> u64 {
    let digits = |time: Broken| {
        let [second, minute, hour, day, month, year, ..] = time.0;
        let fields = [(minute, 100), (second, 100)];
        let date = (i64::from(year) + 1900) * 10_000 + i64::from(month + 1) * 100 + i64::from(day);
        let time = fields
            .iter()
            .fold(date * 100 + i64::from(hour), |so_far, (field, base)| so_far * base + i64::from(*field));
        u64::try_from(time * 1000 + now_ms.rem_euclid(1000))
            .ok()
            .filter(|digits| *digits < 100_000_000_000_000_000)
    };
    local_time(now_ms.div_euclid(1000)).and_then(digits).unwrap_or(0)
}

/// Place of `tm_hour` in the C library's `struct tm`, behind seconds and minutes.
const HOUR: usize = 2;

/// Larger than the `struct tm` of any C library (56 bytes on 64-bit Linux).
#[repr(C, align(16))]
struct Broken([c_int; 64]);

/// The C library applies every rule of time zones, and reads the same zone files as Java.
#[allow(unsafe_code)]
fn local_time(seconds: i64) -> Option<Broken> {
    const { assert!(size_of::<usize>() == 8, "the C library's time_t has 64 bits") };
    unsafe extern "C" {
        fn localtime_r(time: *const i64, broken: *mut Broken) -> *mut Broken;
    }
    let mut broken = Broken([0; 64]);
    // SAFETY: the function reads one time and writes one `struct tm`. Both pointers are to values on this stack, the
    // second value larger than a `struct tm` and aligned at least as strictly. The environment does not change
    // meanwhile: changing it is unsafe in this edition, and this crate never does it.
    let found = unsafe { localtime_r(&raw const seconds, &raw mut broken) };
    (!found.is_null()).then_some(broken)
}

#[cfg(test)]
mod tests {
    use super::{local_digits, local_hour};

    /// Compares with the output of the system's `date`.
    #[test]
    fn the_hour_is_the_one_the_system_shows() {
        for seconds in [0, 1_700_000_000, 1_719_800_000, 1_795_171_285] {
            let date = std::process::Command::new("date")
                .args([&format!("-d@{seconds}"), "+%H %Y%m%d%H%M%S"])
                .output()
                .unwrap();
            let date = String::from_utf8(date.stdout).unwrap();
            let (hour, digits) = date.trim().split_once(' ').unwrap();
            assert_eq!(local_hour(seconds * 1000 + 999), hour.parse::<u8>().unwrap(), "{seconds}");
            assert_eq!(local_digits(seconds * 1000 + 7).to_string(), format!("{digits}007"), "{seconds}");
        }
    }
}
