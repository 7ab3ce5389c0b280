//! Bodies of messages: as text, as JSON, as the fields of Protobuf, as hexadecimal digits.

use super::protobuf;
use crate::answers::HIDDEN;
use crate::app::Visitor;
use crate::request::{Fields, query};
use crate::view::{bytes, number};
use crate::words::Lang;
use admin::MessageView;
use maud::{Markup, html};
use serde_json::Value;
use std::fmt::Write as _;

/// Most bytes of a body that are shown; the whole body is downloaded.
const SHOWN_MAX: usize = 64 << 10;
/// Most bytes of a body that are shown as hexadecimal digits.
const HEX_MAX: usize = 4096;
/// Most characters of a body in a list.
const BRIEF_MAX: usize = 120;

/// Form in which a body is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Protobuf,
    Hex,
}

impl Form {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Text, "text"), (Self::Json, "json"), (Self::Protobuf, "protobuf"), (Self::Hex, "hex")];

    /// The form that is asked for, otherwise the form that fits the body.
    fn of(wanted: &str, body: &[u8]) -> Self {
        let named = Self::ALL.into_iter().find(|(_, name)| *name == wanted).map(|(form, _)| form);
        let is_binary = |it: char| it.is_control() && !"\n\r\t".contains(it);
        named.unwrap_or_else(|| match (std::str::from_utf8(body), json(body)) {
            (Ok(_), Some(_)) => Self::Json,
            (Ok(text), None) if !text.contains(is_binary) => Self::Text,
            _ if decoded(body).is_some() => Self::Protobuf,
            (Ok(_), None) => Self::Text,
            (Err(_), _) => Self::Hex,
        })
    }

    fn label(self, lang: Lang) -> &'static str {
        match self {
            Self::Text => lang.say("Text"),
            Self::Json => "JSON",
            Self::Protobuf => "Protobuf",
            Self::Hex => lang.say("Hexadecimal"),
        }
    }
}

/// A body that is an object or a list of JSON, indented.
fn json(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    (value.is_object() || value.is_array()).then(|| serde_json::to_string_pretty(&value).unwrap_or_default())
}

/// The fields of a body that is a Protobuf message and can be shown whole.
fn decoded(body: &[u8]) -> Option<String> {
    if body.len() > SHOWN_MAX { None } else { protobuf::decoded(body) }
}

/// Lines of sixteen bytes: offset, hexadecimal digits, ASCII characters.
fn hex(body: &[u8]) -> String {
    body.chunks(16).enumerate().fold(String::new(), |mut out, (line, bytes)| {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let letter = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let letters: String = bytes.iter().map(letter).collect();
        let _ = writeln!(out, "{:06x}  {digits:<47}  {letters}", line * 16);
        out
    })
}

/// The body of a message with links to its other forms. A visitor who may not see bodies gets a sentence. `fields` are
/// the fields of the page.
pub(super) fn shown(who: &Visitor, message: &MessageView, fields: &Fields) -> Markup {
    let lang = who.lang;
    if !who.bodies {
        return html! { p { (lang.say("Your login does not show bodies of messages")) } };
    }
    let body = message.bytes();
    let form = Form::of(fields.text("as"), body);
    let is_hex = form == Form::Hex || form == Form::Protobuf && decoded(body).is_none();
    let most = if is_hex { HEX_MAX } else { SHOWN_MAX };
    let part = &body[..body.len().min(most)];
    let text = match form {
        Form::Text => String::from_utf8_lossy(part).into_owned(),
        // A part of JSON is none.
        Form::Json => json(body)
            .filter(|_| body.len() <= most)
            .unwrap_or_else(|| String::from_utf8_lossy(part).into_owned()),
        Form::Protobuf => decoded(body).unwrap_or_else(|| hex(part)),
        Form::Hex => hex(part),
    };
    let file = query([("topic", message.topic.as_str()), ("id", message.offset_id.as_str())]);
    html! {
        div.actions {
            @for (other, name) in Form::ALL {
                a.button href=(format!("/message{}", fields.with("as", name))) aria-current=[(other == form).then_some("true")] { (other.label(lang)) }
            }
            a.button href=(format!("/message/body{file}")) download { (lang.say("Download")) " (" (bytes(body.len() as i64)) ")" }
        }
        @if form == Form::Json && json(body).is_none() { p.small { (lang.say("The body is no JSON")) } }
        @if form == Form::Protobuf && protobuf::decoded(body).is_none() { p.small { (lang.say("The body is no Protobuf")) } }
        @if body.len() > most { p.small { (number(most as i64)) " / " (number(body.len() as i64)) " B" } }
        pre tabindex="0" { (text) }
    }
}

/// The beginning of a body in a line.
pub(super) fn brief(message: &MessageView) -> String {
    if message.body == HIDDEN {
        return String::new();
    }
    let letters = message.body.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut text: String = letters.take(BRIEF_MAX + 1).collect();
    if text.chars().count() > BRIEF_MAX {
        text.pop();
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_shown_in_the_form_that_fits() {
        let check = |body: &[u8], expected: Form| assert_eq!(Form::of("", body), expected, "{body:?}");
        check(b"{\"a\":1}", Form::Json);
        check(b"[1]", Form::Json);
        check(b"17", Form::Text);
        check("中".as_bytes(), Form::Text);
        check(&[0, 0xff], Form::Hex);
        check(b"\x08\x96\x01", Form::Protobuf);
        check(b"\x08\x05\x12\x07testing", Form::Protobuf);
        check(b"a\n\tb", Form::Text);
        assert_eq!(Form::of("hex", b"{}"), Form::Hex, "as asked for");
        assert_eq!(json(b"{\"a\":1}").unwrap(), "{\n  \"a\": 1\n}");
        let lines = hex(b"\x00abc\xff0123456789abcdef");
        assert_eq!(
            lines.lines().next().unwrap(),
            "000000  00 61 62 63 ff 30 31 32 33 34 35 36 37 38 39 61  .abc.0123456789a"
        );
        assert_eq!(lines.lines().count(), 2);
    }
}
