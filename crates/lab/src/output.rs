//! Standard output whose reader may be gone, as with `| head`. This is no reason to panic, nor to end a tool that has
//! other results than its output.

use crate::Error;
use crate::judge::Language;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The error that made standard output unusable; everything printed afterwards is dropped.
static CLOSED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Translation of a printed line.
type Translation = fn(&str) -> String;

/// Language of reports, and the translation of lines.
static SPEECH: OnceLock<(Language, Translation)> = OnceLock::new();

/// Sets the language of reports and the translation of lines. The first call decides.
pub(crate) fn speak(language: Language, translation: Translation) {
    SPEECH.get_or_init(|| (language, translation));
}

/// The language of reports and verdicts.
pub(crate) fn language() -> Language {
    SPEECH.get().map_or_else(Language::default, |speech| speech.0)
}

/// A line in the language of this process.
pub(crate) fn said(english: &str) -> String {
    SPEECH.get().map_or_else(|| english.to_owned(), |speech| (speech.1)(english))
}

/// Prints a translated line as `println!` does. The line is dropped when the reader of standard output is gone.
macro_rules! say {
    ($($arguments:tt)*) => {
        $crate::output::line(format_args!($($arguments)*))
    };
}
pub(crate) use say;

/// Prints a translated line as `eprintln!` does. The line is dropped when the reader of standard error is gone.
macro_rules! alert {
    ($($arguments:tt)*) => {
        $crate::output::warning(format_args!($($arguments)*))
    };
}
pub(crate) use alert;

/// Prints a line to standard output, translated.
pub(crate) fn line(text: Arguments<'_>) {
    raw(&said(&text.to_string()));
}

/// Prints a line to standard output as it is: for programs, or in the words of RocketMQ's benchmark.
pub(crate) fn raw(text: &str) {
    print(&mut io::stdout().lock(), &mut closed(), format_args!("{text}"));
}

/// Prints a line to standard error, translated.
pub(crate) fn warning(text: Arguments<'_>) {
    // A failure to write to standard error cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{}", said(&text.to_string()));
}

/// Whether standard output is unusable. A tool that does nothing but print ends then.
pub(crate) fn is_closed() -> bool {
    closed().is_some()
}

/// Reports whether everything was printed for which there was a reader.
///
/// # Errors
/// [`Error::System`] when standard output could not be written, unless because its reader is gone.
pub(crate) fn check() -> Result<(), Error> {
    outcome(closed().take())
}

fn closed() -> MutexGuard<'static, Option<io::Error>> {
    CLOSED.lock().expect("nothing panics while it is held")
}

fn print(out: &mut impl Write, closed: &mut Option<io::Error>, text: Arguments<'_>) {
    if closed.is_none() {
        *closed = writeln!(out, "{text}").and_then(|()| out.flush()).err();
    }
}

fn outcome(closed: Option<io::Error>) -> Result<(), Error> {
    match closed {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::system("print to standard output")(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_gone_is_no_fault_and_a_full_disk_is() {
        let (reader, mut pipe) = io::pipe().unwrap();
        drop(reader);
        let mut full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (mut gone, mut failed) = (None, None);
        for _ in 0..2 {
            print(&mut pipe, &mut gone, format_args!("a line"));
            print(&mut full, &mut failed, format_args!("a line"));
        }
        assert_eq!(gone.as_ref().map(io::Error::kind), Some(io::ErrorKind::BrokenPipe));
        assert!(outcome(gone).is_ok() && outcome(None).is_ok());
        let said = outcome(failed).unwrap_err().to_string();
        assert!(said.starts_with("print to standard output: No space left"), "{said}");
    }
}
