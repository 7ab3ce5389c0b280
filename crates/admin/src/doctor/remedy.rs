//! Remedy of a finding: advice in words, and an operation of the table that helps.

use super::bilingual::Text;
use crate::{Arguments, Effect, Operation, operation};
use serde_json::{Value, json};

/// Remedy of a finding: the next action of an operator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remedy {
    /// Steps that no operation performs, for example to start a process or to edit a file.
    pub advice: Text,
    pub fix: Option<Fix>,
}

impl<T: Into<Text>> From<T> for Remedy {
    fn from(advice: T) -> Self {
        Self { advice: advice.into(), fix: None }
    }
}

impl Remedy {
    /// Adds the operation that helps.
    pub fn with(self, fix: Fix) -> Self {
        Self { fix: Some(fix), ..self }
    }
}

/// An operation of the table with its arguments.
#[derive(Clone, Debug)]
pub struct Fix {
    operation: &'static Operation,
    arguments: Arguments,
}

impl Fix {
    /// # Panics
    /// If the table has no such operation. A test performs this for every check.
    pub(crate) fn new(noun: &str, verb: &str, given: &[(&'static str, &str)]) -> Self {
        let operation = operation(noun, verb).expect("the checks name operations of the table");
        let mut arguments = Arguments::default();
        given.iter().for_each(|(name, value)| arguments.set(name, *value));
        Self { operation, arguments }
    }

    /// The operation.
    pub fn operation(&self) -> &'static Operation {
        self.operation
    }

    /// Values of the operation's arguments.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The command line, quoted for a shell.
    pub fn command(&self) -> String {
        self.operation.command_line(&self.arguments)
    }

    pub(super) fn value(&self) -> Value {
        let Operation { noun, verb, effect, arguments, .. } = self.operation;
        let given = arguments.iter().filter_map(|it| Some((it.name, self.arguments.get(it.name)?)));
        let effect = match effect {
            Effect::Look => "look",
            Effect::Change => "change",
            Effect::Destroy => "destroy",
        };
        let given: serde_json::Map<String, Value> =
            given.map(|(name, value)| (name.to_owned(), value.into())).collect();
        json!({"noun": noun, "verb": verb, "arguments": given, "effect": effect, "command": self.command()})
    }
}
