//! The command line that has the same effect as a form.

use admin::{Arguments, Kind, Operation};

/// `vostok admin` with the noun, the verb and the arguments, quoted for a shell. A password is left to the person.
pub(super) fn line(operation: &Operation, arguments: &Arguments, name_servers: &[String]) -> String {
    let mut words =
        vec!["vostok".to_owned(), "admin".to_owned(), operation.noun.to_owned(), operation.verb.to_owned()];
    let mut places = Vec::new();
    for argument in operation.arguments {
        let value = arguments.get(argument.name);
        let name = format!("--{}", argument.name);
        match (argument.kind, value) {
            (Kind::Place, value) => places.push(value.map_or_else(|| argument.name.to_uppercase(), quoted)),
            (Kind::Switch, Some("true")) => words.push(name),
            (Kind::Required, None) => words.extend([name, argument.name.to_uppercase()]),
            (Kind::Switch, _) | (_, None) => {}
            (_, Some(_)) if argument.name == "password" => {
                words.extend(["--password-file".to_owned(), "FILE".to_owned()]);
            }
            (_, Some(value)) => words.extend([name, quoted(value)]),
        }
    }
    words.extend(["-n".to_owned(), quoted(&name_servers.join(";"))]);
    // A value that begins with a dash would be taken for an option.
    if places.iter().any(|place| place.starts_with('-')) {
        words.push("--".to_owned());
        words.extend(places);
    } else {
        words.splice(4..4, places);
    }
    words.join(" ")
}

/// A word as a shell of Unix reads it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@,+%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{arguments_of, find};
    use crate::request::Fields;

    fn check((noun, verb): (&str, &str), form: &str, expected: &str) {
        let operation = find(noun, verb).unwrap();
        let arguments = arguments_of(operation, &Fields::parse(form));
        let servers = ["10.0.0.1:9876".to_owned(), "10.0.0.2:9876".to_owned()];
        assert_eq!(line(operation, &arguments, &servers), format!("vostok admin {expected}"));
    }

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        let end = "-n '10.0.0.1:9876;10.0.0.2:9876'";
        check(("topic", "create"), "topic=T&type=FIFO", &format!("topic create T --type FIFO {end}"));
        check(("topic", "create"), "", &format!("topic create TOPIC {end}"));
        check(
            ("message", "send"),
            "topic=T&body=it%27s+%24HOME",
            &format!("message send T --body 'it'\\''s $HOME' {end}"),
        );
        check(("topic", "status"), "topic=-x", &format!("topic status {end} -- -x"));
        check(
            ("user", "create"),
            "user=alice&password=planted",
            &format!("user create alice --password-file FILE {end}"),
        );
    }
}
