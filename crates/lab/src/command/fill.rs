//! The size of a backlog: `--fill 200g`, `--fill 18h`.

use super::values::bytes;
use crate::scenario::Fill;

/// Parses the size of a backlog: bytes of bodies, or a time.
pub fn fill(text: &str) -> Result<Fill, String> {
    let units = [("min", 60.0), ("h", 3_600.0), ("d", 86_400.0), ("s", 1.0)];
    let lower = text.to_ascii_lowercase();
    let time = units.iter().find_map(|(unit, seconds)| Some((lower.strip_suffix(*unit)?, seconds)));
    let wrong = || format!("expected a size like 200g or a time like 18h or 30min, found {text:?}");
    if lower.trim().ends_with(|letter: char| letter.is_ascii_digit()) {
        return Err(format!("{text} of what? {}", wrong()));
    }
    let Some((number, each)) = time else { return bytes(text).map(Fill::Bytes).map_err(|_| wrong()) };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * each;
    let is_time = (1.0..=f64::from(u32::MAX)).contains(&seconds);
    if is_time { Ok(Fill::Seconds(seconds as u32)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read() {
        let check = |text: &str, expected: Option<Fill>| assert_eq!(fill(text).ok(), expected, "{text}");
        check("200G", Some(Fill::Bytes(200 << 30)));
        check("512k", Some(Fill::Bytes(512 << 10)));
        check("18h", Some(Fill::Seconds(18 * 3_600)));
        check("1.5H", Some(Fill::Seconds(5_400)));
        check("30min", Some(Fill::Seconds(1_800)));
        check("2d", Some(Fill::Seconds(172_800)));
        check("90s", Some(Fill::Seconds(90)));
        for wrong in ["h", "-1h", "0s", "nanh", "long", "", "10", "512 "] {
            check(wrong, None);
        }
        let said = fill("10").unwrap_err();
        assert_eq!(said, "10 of what? expected a size like 200g or a time like 18h or 30min, found \"10\"");
    }
}
