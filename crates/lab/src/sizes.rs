//! Parses numbers of bytes.

/// Parses a number of bytes: `512`, `1k`, `10K`, `1m`, `2g`, where `k` is 1,024.
///
/// # Errors
/// What was expected and what was found, for any other text.
pub fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || format!("expected a size like 512, 1k, 4m or 2g, found {text:?}");
    let letter = text.chars().last().ok_or_else(wrong)?.to_ascii_lowercase();
    let power = match letter {
        'k' => 1,
        'm' => 2,
        'g' => 3,
        _ => 0,
    };
    let digits = if power == 0 { text } else { &text[..text.len() - 1] };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    if number.is_finite() && number >= 0.0 {
        Ok((number * 1024_f64.powi(power)) as u64)
    } else {
        Err(wrong())
    }
}
