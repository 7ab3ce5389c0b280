//! All operations of the table, each with a form: what only looks is answered below it, what changes something is previewed,
//! and what destroys wants the name typed.

use super::runtime::shown_failures;
use crate::answers::with_failures;
use crate::app::{App, Done, Visitor, arguments_of, find, is_file, is_offered};
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{Page, answer, table, token};
use crate::words::Lang;
use admin::{Argument, Arguments, Effect, Kind, OPERATIONS, Operation};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Rows of a list unless the visitor asks for more.
const ROWS: &str = "100";
/// What a form says in `_step` to have its operation performed.
const LOOK: &str = "look";
const CHANGE: &str = "go";

fn effect(lang: Lang, effect: Effect) -> &'static str {
    match effect {
        Effect::Look => lang.say("only looks"),
        Effect::Change => lang.say("changes"),
        Effect::Destroy => lang.say("destroys"),
    }
}

/// The page of all operations, as links to their forms.
pub(super) fn list(who: &Visitor) -> Page {
    let lang = who.lang;
    let all =
        OPERATIONS.into_iter().flatten().filter(|operation| is_offered(operation) && who.may(operation));
    let body = html! {
        ul.operations { @for operation in all {
            li { a href=(format!("/op/{}/{}", operation.noun, operation.verb)) { (operation.noun) " " (operation.verb) }
                " " span.small { "(" (effect(lang, operation.effect)) ")" } " " (lang.about(operation)) }
        } }
    };
    Page::new(lang.say("Operations"), Value::Null, body)
}

/// Whether a request wants the answer of an operation that only looks. To open its form asks no broker of anything; a program,
/// which asks for JSON, has no use for a form.
fn wants_answer(is_api: bool, fields: &Fields) -> bool {
    is_api || fields.get("_step") == Some(LOOK)
}

/// The form of an operation; the answer below it when it only looks, was asked for, and has all it needs.
pub(super) async fn form(
    app: &App,
    who: &Visitor,
    (noun, verb): (&str, &str),
    fields: &Fields,
    is_api: bool,
) -> Result<Page, Refusal> {
    let operation = find(noun, verb)?;
    if !who.may(operation) {
        return Err(Refusal::forbidden(who.lang.say("Your role does not allow this")));
    }
    // Of a list that can be long a page is shown, as of every list.
    let is_list = ["after", "limit"].iter().all(|name| operation.arguments.iter().any(|it| it.name == *name));
    let begin = Fields::parse(&fields.with("limit", fields.get("limit").unwrap_or(ROWS))[1..]);
    let fields = if is_list { &begin } else { fields };
    let is_complete = operation.arguments.iter().all(|it| !it.is_required() || fields.get(it.name).is_some());
    let looked = match operation.effect == Effect::Look && is_complete && wants_answer(is_api, fields) {
        true => Some(app.perform(who, operation, &arguments_of(operation, fields), false).await),
        false => None,
    };
    let done = match looked.transpose() {
        Ok(done) => done,
        Err(refusal) => return Ok(refused(who, operation, fields, &refusal)),
    };
    let data = done.as_ref().map_or(Value::Null, |done| match &done.answer {
        list @ Value::Array(_) => with_failures(list.clone(), &done.failures),
        other => other.clone(),
    });
    let body = html! {
        (inputs(who, operation, fields, None))
        @if let Some(done) = &done { h2 { (who.lang.say("Answer")) } (looked_at(who.lang, done)) }
    };
    Ok(Page::new(title(operation), data, body))
}

/// An answer; a list has no member that says what is missing of it.
fn looked_at(lang: Lang, done: &Done) -> Markup {
    html! {
        @if done.answer.is_array() { (shown_failures(&done.failures)) }
        (answer(lang, &done.answer))
    }
}

/// The form of an operation as it was filled in, below the reason why the operation was not performed.
fn refused(who: &Visitor, operation: &Operation, fields: &Fields, refusal: &Refusal) -> Page {
    Page::refused(title(operation), refusal, inputs(who, operation, fields, None))
}

fn title(operation: &Operation) -> String {
    format!("{} {}", operation.noun, operation.verb)
}

/// Previews an operation, or performs it and notes it in the audit log.
pub(super) async fn change(
    app: &App,
    who: &Visitor,
    (noun, verb): (&str, &str),
    form: &Fields,
) -> Result<Page, Refusal> {
    let operation = find(noun, verb)?;
    let arguments = arguments_of(operation, form);
    if !who.may(operation) {
        app.note(who, &line(operation, &arguments), "refused: role")?;
        return Err(Refusal::forbidden(who.lang.say("Your role does not allow this")));
    }
    let changed = match form.get("_step") == Some(CHANGE) {
        true => performed(app, who, (operation, &arguments), form).await,
        false => previewed(app, who, (operation, &arguments), form).await,
    };
    Ok(changed.unwrap_or_else(|refusal| refused(who, operation, form, &refusal)))
}

async fn previewed(
    app: &App,
    who: &Visitor,
    (operation, arguments): (&'static Operation, &Arguments),
    form: &Fields,
) -> Result<Page, Refusal> {
    let lang = who.lang;
    let done = app.perform(who, operation, arguments, true).await?;
    let data = json!({"planned": done.planned, "answer": done.answer});
    let body = html! {
        (preview(lang, &done))
        (inputs(who, operation, form, Some(lang.say("Nothing was changed"))))
    };
    Ok(Page::new(title(operation), data, body))
}

async fn performed(
    app: &App,
    who: &Visitor,
    (operation, arguments): (&'static Operation, &Arguments),
    form: &Fields,
) -> Result<Page, Refusal> {
    let lang = who.lang;
    let wanted = name_to_type(operation, arguments);
    if operation.effect == Effect::Destroy && form.text("_confirm") != wanted {
        let text = format!("{} {wanted} {}", lang.say("This cannot be undone. Type"), lang.say("to confirm"));
        return Err(Refusal::wrong(text));
    }
    let action = line(operation, arguments);
    app.note(who, &action, "begun")?;
    let outcome = app.perform(who, operation, arguments, false).await;
    let text = match &outcome {
        Ok(_) => "done".to_owned(),
        Err(refusal) => format!("failed: {}", refusal.text),
    };
    // The change was announced in the log before; a failure to write its end must not hide its answer.
    if let Err(refusal) = app.note(who, &action, &text) {
        tracing::error!(action, text, why = refusal.text, "the audit log lacks the outcome");
    }
    let done = outcome?;
    let body = html! {
        p.success role="status" { "✓ " (lang.say("Done")) }
        (answer(lang, &done.answer))
        (inputs(who, operation, form, None))
    };
    Ok(Page::new(title(operation), done.answer, body))
}

fn preview(lang: Lang, done: &Done) -> Markup {
    let planned: Vec<Value> = done.planned.iter().map(|planned| json!(planned)).collect();
    html! {
        h2 { (lang.say("Requests that would be sent")) }
        (table(lang, &planned))
        h2 { (lang.say("Answer")) }
        (answer(lang, &done.answer))
    }
}

/// The first argument that is given.
fn first_given<'a>(operation: &Operation, arguments: &'a Arguments) -> Option<&'a str> {
    operation.arguments.iter().find_map(|argument| arguments.get(argument.name))
}

/// What has to be typed before something is destroyed: the first argument that is given.
fn name_to_type<'a>(operation: &Operation, arguments: &'a Arguments) -> &'a str {
    first_given(operation, arguments).unwrap_or(operation.verb)
}

/// What a form says has to be typed. Before anything is filled in nobody knows the name.
fn confirmation(lang: Lang, operation: &Operation, arguments: &Arguments) -> Markup {
    let needs_name = operation.arguments.iter().any(Argument::is_required);
    html! {
        @match first_given(operation, arguments) {
            Some(name) => { (lang.say("This cannot be undone. Type")) " " code { (name) } " " (lang.say("to confirm")) },
            None => {
                (lang.say("This cannot be undone. To confirm, type once more what is in the first field that is filled in"))
                @if !needs_name { " (" (lang.say("if none is")) ": " code { (operation.verb) } ")" }
            },
        }
    }
}

/// The operation with its arguments, without secrets.
fn line(operation: &Operation, arguments: &Arguments) -> String {
    let given = operation.arguments.iter().filter_map(|argument| {
        let value = arguments.get(argument.name)?;
        let is_hidden = argument.name.contains("password")
            || argument.name == "body"
            || argument.name == "value" && is_secret_setting(arguments);
        let value: String =
            if is_hidden { "(not shown)".to_owned() } else { value.chars().take(200).collect() };
        Some(format!("{}={value}", argument.name))
    });
    let given = given.collect::<Vec<_>>().join(" ");
    format!("{} {} {given}", operation.noun, operation.verb)
}

/// Whether the arguments give a setting a value that may be a secret, such as a key's password.
fn is_secret_setting(arguments: &Arguments) -> bool {
    let (Some(key), Some(value)) = (arguments.get("key"), arguments.get("value")) else { return false };
    let setting = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    admin::without_secrets(setting.clone()) != setting
}

fn inputs(who: &Visitor, operation: &Operation, fields: &Fields, note: Option<&str>) -> Markup {
    let lang = who.lang;
    let (noun, verb, is_look) = (operation.noun, operation.verb, operation.effect == Effect::Look);
    let shown = operation.arguments.iter().filter(|it| !is_file(it));
    html! {
        p { (lang.about(operation)) " (" (effect(lang, operation.effect)) ")" }
        @if let Some(note) = note { p { (note) } }
        form.stacked method=(if is_look { "get" } else { "post" }) action=(format!("/op/{noun}/{verb}")) {
            @if is_look { input type="hidden" name="_step" value=(LOOK); } @else { (token(who)) }
            @for argument in shown { (input(lang, argument, fields.text(argument.name))) }
            @if operation.effect == Effect::Destroy {
                label { span { (confirmation(lang, operation, &arguments_of(operation, fields))) } input name="_confirm" autocomplete="off"; }
            }
            div.actions {
                @if is_look { button { (lang.say("Look")) } }
                @else {
                    button name="_step" value="preview" { (lang.say("Preview")) }
                    button.danger[operation.effect == Effect::Destroy] name="_step" value=(CHANGE) { (lang.say("Do it")) }
                }
            }
        }
        p.small { (lang.say("Command")) ": " code { "vostok admin " (noun) " " (verb) } }
    }
}

fn input(lang: Lang, argument: &Argument, value: &str) -> Markup {
    let note = if argument.is_required() { lang.say("required") } else { lang.say("optional") };
    html! {
        label.check[argument.kind == Kind::Switch] {
            @if argument.kind == Kind::Switch {
                input type="checkbox" name=(argument.name) value="true" checked[value == "true"];
                span { (argument.name) " - " (lang.help(argument)) }
            } @else {
                span { (argument.name) " - " (lang.help(argument)) " (" (note) ")" }
                @if argument.name == "body" && argument.is_required() {
                    textarea name=(argument.name) rows="6" required { (value) }
                } @else {
                    input name=(argument.name) value=(value) required[argument.is_required()] autocomplete="off"
                        type=(if argument.name == "password" { "password" } else { "text" });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Role;

    #[test]
    fn the_log_has_no_secrets_and_destroying_wants_the_name() {
        let create = find("user", "create").unwrap();
        let arguments = arguments_of(create, &Fields::parse("user=alice&password=planted&broker=b"));
        let text = line(create, &arguments);
        assert!(text.contains("user=alice") && !text.contains("planted"), "{text}");
        let set = find("broker", "set").unwrap();
        let setting = |form: &str| line(set, &arguments_of(set, &Fields::parse(form)));
        let text = setting("broker=b&key=tls.server.keyPassword&value=planted");
        assert!(text.contains("key=tls.server.keyPassword") && !text.contains("planted"), "{text}");
        assert!(setting("broker=b&key=fileReservedTime&value=48").contains("value=48"));
        let delete = find("topic", "delete").unwrap();
        let arguments = arguments_of(delete, &Fields::parse("topic=T&cluster=C"));
        assert_eq!(name_to_type(delete, &arguments), "T");
    }

    #[test]
    fn only_its_own_form_performs_an_operation_that_looks() {
        let list = find("topic", "rates").unwrap();
        let form = inputs(&Visitor::of_test(Role::Viewer), list, &Fields::default(), None).into_string();
        assert!(form.contains("<input type=\"hidden\" name=\"_step\" value=\"look\">"), "{form}");
        assert!(wants_answer(false, &Fields::parse("topic=&_step=look")));
        assert!(!wants_answer(false, &Fields::parse("topic=T")), "a link to the form");
        assert!(wants_answer(true, &Fields::parse("topic=T")), "a program");
        let create = find("topic", "create").unwrap();
        let form = inputs(&Visitor::of_test(Role::Admin), create, &Fields::default(), None).into_string();
        assert!(!form.contains("value=\"look\""), "{form}");
    }

    #[test]
    fn a_refused_form_stays_filled_in() {
        let delete = find("topic", "delete").unwrap();
        let form = Fields::parse("topic=Orders&cluster=C&_step=go&_confirm=Order");
        let why = Refusal::wrong("type the name");
        let page = refused(&Visitor::of_test(Role::Admin), delete, &form, &why);
        assert_eq!(
            (page.status, &page.data),
            (http::StatusCode::BAD_REQUEST, &json!({"error": "type the name"}))
        );
        let text = page.body.into_string();
        assert!(text.contains("role=\"alert\">✗ type the name</p>"), "{text}");
        assert!(
            text.contains("name=\"topic\" value=\"Orders\"") && text.contains("name=\"cluster\" value=\"C\""),
            "{text}"
        );
    }

    #[test]
    fn a_form_asks_for_no_other_name_than_is_wanted() {
        let text = |verb: (&str, &str), form: &str| {
            let operation = find(verb.0, verb.1).unwrap();
            confirmation(Lang::En, operation, &arguments_of(operation, &Fields::parse(form))).into_string()
        };
        assert!(text(("topic", "delete"), "cluster=C&topic=T").contains("Type <code>T</code> to confirm"));
        let empty = text(("topic", "delete"), "");
        assert!(empty.contains("the first field that is filled in") && !empty.contains("<code>"), "{empty}");
        let optional = text(("broker", "clean-log"), "");
        assert!(optional.contains("(if none is: <code>clean-log</code>)"), "{optional}");
    }

    #[test]
    fn arguments_are_explained_in_chinese() {
        let offered = admin::OPERATIONS.into_iter().flatten().filter(|it| is_offered(it));
        for operation in offered {
            for argument in operation.arguments.iter().filter(|it| !is_file(it)) {
                let (english, chinese) = (Lang::En.help(argument), Lang::Zh.help(argument));
                assert!(english == argument.help && !chinese.is_empty());
                assert!(!chinese.is_ascii(), "{} {}: {english}", operation.noun, operation.verb);
            }
        }
    }
}
