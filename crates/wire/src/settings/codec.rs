//! Parsing and printing of setting values.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::Fault;

/// A value type of settings.
pub trait Setting: Sized {
    /// Reads a value.
    ///
    /// # Errors
    /// A description of the values that are accepted.
    fn parse(text: &str) -> Result<Self, &'static str>;

    /// The text of the value.
    fn show(&self) -> String;
}

impl Setting for bool {
    fn parse(text: &str) -> Result<Self, &'static str> {
        switch(text).ok_or("true or false")
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn parse(text: &str) -> Result<Self, &'static str> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Setting for PathBuf {
    fn parse(text: &str) -> Result<Self, &'static str> {
        Ok(text.into())
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

macro_rules! numbers {
    ($($type:ty: $expected:literal),*) => {$(
        impl Setting for $type {
            fn parse(text: &str) -> Result<Self, &'static str> {
                text.parse().map_err(|_| $expected)
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers! {
    u16: "a port number of 0 to 65535", u32: "a number of 0 or more", u64: "a number of 0 or more",
    usize: "a number of 0 or more", i32: "a number", i64: "a number"
}

/// Reads and shows the values of a setting.
pub trait Codec<T> {
    /// Reads a value.
    ///
    /// # Errors
    /// [`Fault`] when the text is rejected.
    fn read(&self, text: &str) -> Result<T, Fault>;

    /// The text of a value.
    fn show(&self, value: &T) -> String;
}

/// Codec of a value type: any value of the type is accepted.
pub struct Plain;

impl<T: Setting> Codec<T> for Plain {
    fn read(&self, text: &str) -> Result<T, Fault> {
        T::parse(text).map_err(|expected| Fault::Invalid(expected.to_owned()))
    }

    fn show(&self, value: &T) -> String {
        value.show()
    }
}

/// Codec of a number within bounds. A number above the upper bound is replaced by the bound. A number below
/// the lower bound is rejected, because RocketMQ uses such numbers for "none" or "any".
impl<T: TryFrom<i64> + Display> Codec<T> for RangeInclusive<i64> {
    fn read(&self, text: &str) -> Result<T, Fault> {
        let expected = || format!("a number of {} to {}", self.start(), self.end());
        let value = text.parse::<i128>().map_err(|_| Fault::Invalid(expected()))?;
        if value > i128::from(*self.end()) {
            return Err(Fault::Above(self.end().to_string(), expected()));
        }
        let value = i64::try_from(value).ok().filter(|value| value >= self.start());
        value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| Fault::Invalid(expected()))
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }
}

/// Codec of a number, such as a port, for which no other number is a replacement. A number above the upper
/// bound is rejected.
pub struct Exact(pub RangeInclusive<i64>);

impl<T: TryFrom<i64> + Display> Codec<T> for Exact {
    fn read(&self, text: &str) -> Result<T, Fault> {
        self.0.read(text).map_err(|fault| match fault {
            Fault::Above(_, expected) => Fault::Invalid(expected),
            fault => fault,
        })
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }
}

/// Codec of a number of milliseconds within bounds.
pub struct Milliseconds(pub RangeInclusive<i64>);

impl Codec<Duration> for Milliseconds {
    fn read(&self, text: &str) -> Result<Duration, Fault> {
        self.0.read(text).map(Duration::from_millis)
    }

    fn show(&self, value: &Duration) -> String {
        value.as_millis().to_string()
    }
}

/// Codec of a value that is named by a word from a list.
impl<T: Copy + PartialEq, const N: usize> Codec<T> for [(&'static str, T); N] {
    fn read(&self, text: &str) -> Result<T, Fault> {
        let found = self.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| Fault::Invalid(self.each_ref().map(|(word, _)| *word).join(" or ")))
    }

    fn show(&self, value: &T) -> String {
        self.iter().find(|(_, known)| known == value).map(|(word, _)| (*word).to_owned()).unwrap_or_default()
    }
}

/// Codec of a value that a function reads and `Display` shows.
pub struct FunctionCodec<F>(pub F);

impl<T: Display, F: Fn(&str) -> Result<T, Fault>> Codec<T> for FunctionCodec<F> {
    fn read(&self, text: &str) -> Result<T, Fault> {
        (self.0)(text)
    }

    fn show(&self, value: &T) -> String {
        value.to_string()
    }
}

/// Text that is shown instead of a secret.
pub(super) const HIDDEN: &str = "***";

/// Codec of a secret, which is never shown.
pub struct SecretCodec<C>(pub C);

impl<C: Codec<String>> Codec<String> for SecretCodec<C> {
    fn read(&self, text: &str) -> Result<String, Fault> {
        self.0.read(text)
    }

    fn show(&self, secret: &String) -> String {
        if secret.is_empty() { String::new() } else { HIDDEN.to_owned() }
    }
}

/// Codec of a value that the first function reads and the second one shows.
impl<T, F: Fn(&str) -> Result<T, Fault>, S: Fn(&T) -> String> Codec<T> for (F, S) {
    fn read(&self, text: &str) -> Result<T, Fault> {
        (self.0)(text)
    }

    fn show(&self, value: &T) -> String {
        (self.1)(value)
    }
}

/// Words that turn a switch off, beside misspellings of `false`.
const OFF: [&str; 9] = ["", "no", "off", "0", "n", "f", "none", "disable", "disabled"];

/// Reads a switch. Returns `None` for text that may mean "on" or is unclear.
///
/// RocketMQ reads everything but `true` as false (`MixAll.properties2Object`). Words that mean false are accepted
/// here too. Words that mean true, and words without a meaning, are rejected, because RocketMQ would silently turn
/// the switch off.
pub fn switch(text: &str) -> Option<bool> {
    let word = text.to_ascii_lowercase();
    match word.as_str() {
        "true" => Some(true),
        word if OFF.contains(&word) || word.starts_with('f') && distance(word, "false") <= 2 => Some(false),
        _ => None,
    }
}

/// Reads a switch that decides about users: `true` or `false` in any case, or empty text for `false`. A misspelt word
/// is rejected because it may mean either.
pub fn exact_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "" | "false" => Some(false),
        _ => None,
    }
}

/// Returns the edit distance of two words: the number of letters to change, add or remove.
fn distance(word: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in word.bytes().take(32).enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, known) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != known);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
