//! The command line that performs an operation, quoted for a shell.

use crate::{Arguments, Kind, Operation};

impl Operation {
    /// Returns the line of `vostok admin` that performs the operation with these arguments.
    pub fn command_line(&self, arguments: &Arguments) -> String {
        let mut line = format!("vostok admin {} {}", self.noun, self.verb);
        let mut places = Vec::new();
        for argument in self.arguments {
            let Some(value) = arguments.get(argument.name) else { continue };
            match argument.kind {
                Kind::Place => places.push(value),
                Kind::Switch => line.push_str(&format!(" --{}", argument.name)),
                // A separate word that begins with a dash would be another option.
                _ if value.starts_with('-') => {
                    line.push_str(&format!(" --{}={}", argument.name, quoted(value)))
                }
                _ => line.push_str(&format!(" --{} {}", argument.name, quoted(value))),
            }
        }
        if places.iter().any(|value| value.starts_with('-')) {
            line.push_str(" --");
        }
        places.iter().for_each(|value| line.push_str(&format!(" {}", quoted(value))));
        line
    }
}

/// A word of a command line, in single quotes if a shell would change it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation;

    #[test]
    fn a_shell_reads_each_value_as_one_word() {
        let line = |noun, verb, given: &[(&'static str, &str)]| {
            let mut arguments = Arguments::default();
            given.iter().for_each(|(name, value)| arguments.set(name, *value));
            operation(noun, verb).expect("an operation").command_line(&arguments)
        };
        assert_eq!(
            line("group", "progress", &[("group", "%RETRY%G")]),
            "vostok admin group progress %RETRY%G"
        );
        assert_eq!(
            line("group", "progress", &[("group", "it's $(one)"), ("topic", "-t")]),
            r"vostok admin group progress --topic=-t 'it'\''s $(one)'"
        );
        assert_eq!(
            line("client", "status", &[("group", "-G"), ("client", "h@1;rm"), ("stack", "true")]),
            "vostok admin client status --client 'h@1;rm' --stack -- -G"
        );
    }
}
