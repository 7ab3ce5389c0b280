//! Lines of the log as JSON.

use std::fmt::{self, Debug};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes each event as one JSON object on a line of its own.
pub(super) struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut members = Members(Map::new());
        members.0.insert("timestamp".to_owned(), time.into());
        members.0.insert("level".to_owned(), event.metadata().level().as_str().into());
        members.0.insert("thread".to_owned(), std::thread::current().name().unwrap_or_default().into());
        members.0.insert("target".to_owned(), event.metadata().target().into());
        event.record(&mut members);
        writeln!(writer, "{}", Value::Object(members.0))
    }
}

/// The members of one line.
struct Members(Map<String, Value>);

impl Members {
    /// Adds a field of the event. A field with the name of a member that every line has gets an underscore at the end.
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        let mut name = field.name().to_owned();
        if self.0.contains_key(&name) {
            name.push('_');
        }
        self.0.insert(name, value.into());
    }
}

impl Visit for Members {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_one_object_whatever_its_fields_hold() {
        let memory = Memory::default();
        let writer = memory.clone();
        let log = tracing_subscriber::fmt().with_writer(move || writer.clone()).event_format(Lines).finish();
        tracing::subscriber::with_default(log, || {
            tracing::warn!(count = 3, level = 18, topic = "a\"b\nc", cause = %"disk", "a {} line", "new\n");
        });
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["level"], &line["count"]), (&"WARN".into(), &3.into()));
        assert_eq!(line["level_"], 18);
        assert_eq!((&line["topic"], &line["cause"]), (&"a\"b\nc".into(), &"disk".into()));
        assert_eq!(line["message"], "a new\n line");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
        assert!(line["target"].as_str().unwrap().ends_with("logs::json::tests"));
    }
}
