//! Base64 as Java's decoder accepts it: the last letters may lack their padding, and unused bits are ignored.

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// The URL-safe alphabet.
pub(crate) static URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);
/// The standard alphabet, used in JSON bodies.
pub(crate) static STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);

/// Encodes bytes in base64, with padding.
pub(crate) fn encode(alphabet: &GeneralPurpose, raw: &[u8]) -> String {
    alphabet.encode(raw)
}

/// Decodes base64. Returns `None` if a letter is not in the alphabet, or the padding has a wrong length.
pub(crate) fn decode(alphabet: &GeneralPurpose, text: &str) -> Option<Vec<u8>> {
    let is_whole = !text.ends_with('=') || text.len().is_multiple_of(4);
    alphabet.decode(text).ok().filter(|_| is_whole)
}
