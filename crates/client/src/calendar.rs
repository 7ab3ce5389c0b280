//! Calendar dates in UTC, for message ids and printed lines.

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// Year, month and day of a day counted from 1970-01-01 (Howard Hinnant's `civil_from_days`, for days after 1970).
#[must_use]
pub fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Milliseconds since the month began: the variable part of a unique key (`MessageClientIDSetter`).
#[must_use]
pub fn month_ms(epoch_ms: u64) -> u32 {
    let (_, _, day) = civil(epoch_ms / DAY_MS);
    let ms = (day - 1) * DAY_MS + epoch_ms % DAY_MS;
    u32::try_from(ms).expect("a month has less than 2^32 milliseconds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_at_zero() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(month_ms(1_704_067_200_005), 5);
        assert_eq!(month_ms(1_709_251_199_999), 29 * 86_400_000 - 1);
    }
}
