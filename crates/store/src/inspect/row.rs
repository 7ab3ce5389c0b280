//! A line of a dump: named values, printed as text or as a JSON object.

use std::ops::ControlFlow;

use serde_json::{Map, Value};

/// Named values in printing order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row(Map<String, Value>);

/// Takes the rows of a dump, and says whether more are wanted.
pub(super) type TakeRow<'a> = &'a mut dyn FnMut(Row) -> ControlFlow<()>;

impl Row {
    /// A row of a kind, such as `record` or `unit`.
    pub(super) fn new(kind: &str) -> Self {
        Self::default().with("kind", kind)
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Returns the row as a line of JSON.
    pub fn to_json(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }
}

/// Prints the kind, then `name=value` for each value.
impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            match (index, value) {
                (0, Value::String(kind)) => write!(f, "{kind}")?,
                (_, Value::String(text)) if is_plain(text) => write!(f, " {name}={text}")?,
                (_, value) => write!(f, " {name}={value}")?,
            }
        }
        Ok(())
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '"')
}
