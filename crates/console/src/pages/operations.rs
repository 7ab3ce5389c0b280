//! All operations of the table, each with a form. An operation that only reads is answered below its form. A change is
//! previewed, and a destruction needs the name typed.

use super::command;
use super::forms::{self, Choices, in_utc, zone_field};
use super::runtime::shown_failures;
use crate::answers::with_failures;
use crate::app::{App, Done, Visitor, arguments_of, find, is_file, is_offered};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{Column, Page, Table, answer, number, status, table, token};
use crate::words::Lang;
use admin::{Argument, Arguments, Effect, Level, OPERATIONS, Operation, Reset, ResetQueue};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::any::Any;
use std::collections::BTreeMap;

/// Rows of a list unless the visitor asks for more.
const ROWS: &str = "100";
/// Values of the field `_step` of a form: look at an operation first, or perform the operation.
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
    let is_shown = |operation: &&Operation| is_offered(operation) && who.may(operation);
    let nouns = OPERATIONS.into_iter().map(|noun| noun.iter().filter(is_shown).collect::<Vec<_>>());
    let columns = [lang.say("Operation"), lang.say("Effect"), lang.say("Meaning")];
    let row = |operation: &&Operation| {
        let Operation { noun, verb, .. } = operation;
        let level = match operation.effect {
            Effect::Look => Level::Unknown,
            Effect::Change => Level::Warning,
            Effect::Destroy => Level::Critical,
        };
        vec![
            html! { a href=(format!("/op/{noun}/{verb}")) { (noun) " " (verb) } },
            status(level, effect(lang, operation.effect)),
            html! { (lang.about(operation)) },
        ]
    };
    let body = html! {
        @for noun in nouns.filter(|noun| !noun.is_empty()) {
            h2 { (noun[0].noun) }
            (Table::new(columns.map(Column::text)).rows(noun.iter().map(row)))
        }
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
    let fields = in_utc(who, if is_list { &begin } else { fields });
    let fields = &fields;
    let is_complete = operation.arguments.iter().all(|it| !it.is_required() || fields.get(it.name).is_some());
    let looked = match operation.effect == Effect::Look && is_complete && wants_answer(is_api, fields) {
        true => Some(app.perform(who, operation, &arguments_of(operation, fields), false).await),
        false => None,
    };
    // A program has no use for a form.
    let choices = if is_api { Choices::default() } else { Choices::of(app, who, operation, fields).await };
    let form = Form { who, operation, fields, choices, name_servers: app.cluster.name_servers() };
    let done = match looked.transpose() {
        Ok(done) => done,
        Err(refusal) => return Ok(form.refused(&refusal)),
    };
    let data = done.as_ref().map_or(Value::Null, |done| match &done.answer {
        list @ Value::Array(_) => with_failures(list.clone(), &done.failures),
        other => other.clone(),
    });
    let body = html! {
        (form.shown(None))
        @if let Some(done) = &done { h2 { (who.lang.say("Answer")) } (looked_at(who.lang, done)) }
    };
    Ok(Page::new(title(who.lang, operation), data, body))
}

/// An answer. If it is a list, the failures of servers stand above it; an object contains them itself.
fn looked_at(lang: Lang, done: &Done) -> Markup {
    html! {
        @if done.answer.is_array() { (shown_failures(&done.failures)) }
        (answer(lang, &done.answer))
    }
}

/// The first part of the sentence about an operation.
fn title(lang: Lang, operation: &Operation) -> String {
    let about = lang.about(operation);
    let ends = [";", ": ", "；", "：", "。"].iter().filter_map(|it| about.find(it));
    let end = ends.min().unwrap_or(about.len());
    about[..end].trim_end_matches('.').to_owned()
}

/// Previews an operation, or performs it and notes it in the audit log.
pub(super) async fn change(
    app: &App,
    who: &Visitor,
    (noun, verb): (&str, &str),
    form: &Fields,
) -> Result<Page, Refusal> {
    let operation = find(noun, verb)?;
    let fields = &in_utc(who, form);
    let arguments = arguments_of(operation, fields);
    if !who.may(operation) {
        app.note(who, &line(operation, &arguments), "refused: role")?;
        return Err(Refusal::forbidden(who.lang.say("Your role does not allow this")));
    }
    let choices = Choices::of(app, who, operation, fields).await;
    let form = Form { who, operation, fields, choices, name_servers: app.cluster.name_servers() };
    let changed = match fields.get("_step") == Some(CHANGE) {
        true => performed(app, &form, &arguments).await,
        false => previewed(app, &form, &arguments).await,
    };
    Ok(changed.unwrap_or_else(|refusal| form.refused(&refusal)))
}

async fn previewed(app: &App, form: &Form<'_>, arguments: &Arguments) -> Result<Page, Refusal> {
    let lang = form.who.lang;
    let done = app.perform(form.who, form.operation, arguments, true).await?;
    let data = json!({"planned": done.planned, "answer": done.answer});
    let body = html! {
        (preview(lang, &done))
        (form.shown(Some(lang.say("Nothing was changed"))))
    };
    Ok(Page::new(title(lang, form.operation), data, body))
}

async fn performed(app: &App, form: &Form<'_>, arguments: &Arguments) -> Result<Page, Refusal> {
    let (who, operation, lang) = (form.who, form.operation, form.who.lang);
    let wanted = name_to_type(operation, arguments);
    if operation.effect == Effect::Destroy && form.fields.text("_confirm") != wanted {
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
        (answered(lang, &done))
        (form.shown(None))
    };
    Ok(Page::new(title(lang, operation), done.answer, body))
}

fn preview(lang: Lang, done: &Done) -> Markup {
    let planned: Vec<Value> = done.planned.iter().map(|planned| json!(planned)).collect();
    html! {
        h2 { (lang.say("Preview")) }
        (answered(lang, done))
        details { summary { (lang.say("Requests that would be sent")) " (" (planned.len()) ")" } (table(lang, &planned)) }
    }
}

/// The answer of an operation; offsets that are reset as current, new and difference.
fn answered(lang: Lang, done: &Done) -> Markup {
    let typed: &dyn Any = &*done.typed;
    match typed.downcast_ref::<Reset>() {
        Some(reset) => offsets(lang, &reset.queues),
        None => answer(lang, &done.answer),
    }
}

/// The offset of each queue before and after a reset.
fn offsets(lang: Lang, queues: &[ResetQueue]) -> Markup {
    let columns = Column::all(lang, ["Queue", "#Current offset", "#New offset", "#Difference", "Effect"]);
    let signed = |count: i64| format!("{}{}", if count > 0 { "+" } else { "" }, number(count));
    let sum: i64 = queues.iter().filter_map(|row| row.difference).sum();
    let shown = queues.iter().map(|row| {
        let effect = match row.difference {
            None => "",
            Some(0) => lang.say("stays"),
            Some(1..) => lang.say("messages are skipped"),
            Some(_) => lang.say("messages are consumed again"),
        };
        vec![
            html! { (row.broker) " / " (row.queue) },
            html! { (row.current.map_or_else(|| "–".to_owned(), number)) },
            html! { (number(row.offset)) },
            html! { (row.difference.map_or_else(|| "–".to_owned(), signed)) },
            html! { (effect) },
        ]
    });
    html! {
        (Table::new(columns).rows(shown))
        p { (lang.say("All queues")) (lang.colon()) (lang.say("Difference")) " " b { (signed(sum)) } " · " (lang.say("Queues")) (lang.colon()) (number(queues.len() as i64)) }
    }
}

fn first_given<'a>(operation: &Operation, arguments: &'a Arguments) -> Option<&'a str> {
    operation.arguments.iter().find_map(|argument| arguments.get(argument.name))
}

/// Text that has to be typed before something is destroyed: the first argument that is given.
fn name_to_type<'a>(operation: &Operation, arguments: &'a Arguments) -> &'a str {
    first_given(operation, arguments).unwrap_or(operation.verb)
}

/// Sentence of a form about the text that has to be typed. An empty form has no name to show.
fn confirmation(lang: Lang, operation: &Operation, arguments: &Arguments) -> Markup {
    let needs_name = operation.arguments.iter().any(Argument::is_required);
    html! {
        @match first_given(operation, arguments) {
            Some(name) => { (lang.say("This cannot be undone. Type")) " " code { (name) } " " (lang.say("to confirm")) },
            None => {
                (lang.say("This cannot be undone. To confirm, type once more what is in the first field that is filled in"))
                @if !needs_name { " (" (lang.say("if none is")) (lang.colon()) code { (operation.verb) } ")" }
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

/// The form of an operation as it was filled in.
struct Form<'a> {
    who: &'a Visitor,
    operation: &'static Operation,
    /// The values of the form, with times in UTC.
    fields: &'a Fields,
    choices: Choices,
    name_servers: &'a [String],
}

impl Form<'_> {
    /// The form below the reason why the operation was not performed.
    fn refused(&self, refusal: &Refusal) -> Page {
        Page::refused(title(self.who.lang, self.operation), refusal, self.shown(None))
    }

    fn shown(&self, note: Option<&str>) -> Markup {
        let Self { who, operation, fields, choices, name_servers } = self;
        let lang = who.lang;
        let (noun, verb, is_look) = (operation.noun, operation.verb, operation.effect == Effect::Look);
        let arguments = arguments_of(operation, fields);
        let shown = operation.arguments.iter().filter(|it| !is_file(it));
        html! {
            p { (lang.about(operation)) " (" (effect(lang, operation.effect)) ")" }
            (self.shortcuts())
            @if let Some(note) = note { p role="status" { (note) } }
            form.stacked method=(if is_look { "get" } else { "post" }) action=(format!("/op/{noun}/{verb}")) {
                (zone_field(who))
                @if is_look { input type="hidden" name="_step" value=(LOOK); } @else { (token(who)) }
                @for argument in shown { (forms::argument((who, operation), argument, fields.text(argument.name), choices)) }
                @if operation.effect == Effect::Destroy {
                    label { span { (confirmation(lang, operation, &arguments)) } input name="_confirm" autocomplete="off"; }
                }
                div.actions {
                    @if is_look { button.primary { (lang.say("Look")) } }
                    @else {
                        button name="_step" value="preview" { (lang.say("Preview")) }
                        button.(if operation.effect == Effect::Destroy { "danger" } else { "primary" }) name="_step" value=(CHANGE) { (lang.say("Do it")) }
                    }
                }
            }
            h2 { (lang.say("The same on a command line")) }
            pre tabindex="0" { (command::line(operation, &arguments, name_servers)) }
        }
    }

    /// Links that fill in the most frequent values.
    fn shortcuts(&self) -> Markup {
        let lang = self.who.lang;
        let given = ["group", "topic"].map(|name| (name, self.fields.text(name)));
        html! {
            @if (self.operation.noun, self.operation.verb) == ("offset", "reset") {
                div.actions {
                    a.button href=(format!("/op/offset/reset{}", query(given.into_iter().chain([("time", "0")])))) { (lang.say("From the first message")) }
                    a.button href=(format!("/op/offset/skip{}", query(given))) { (lang.say("To the end")) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Role;

    fn form_of<'a>(role: Role, operation: &'static Operation, fields: &'a Fields) -> Form<'a> {
        let who = Box::leak(Box::new(Visitor::of_test(role)));
        Form { who, operation, fields, choices: Choices::default(), name_servers: &[] }
    }

    #[test]
    fn a_reset_shows_current_new_and_difference_of_each_queue() {
        let reset = find("offset", "reset").unwrap();
        let queue = |broker: &str, queue, current: Option<i64>, offset| {
            let difference = current.map(|current| offset - current);
            ResetQueue { broker: broker.to_owned(), queue, current, offset, difference }
        };
        let queues = [queue("a", 0, Some(4), 1010), queue("a", 1, Some(9), 2), queue("b", 0, None, 2)];
        let text = offsets(Lang::En, &queues).into_string();
        for part in
            ["Current offset", "New offset", ">1,010<", ">+1,006<", "messages are skipped", ">-7<", "+999"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let form = form_of(Role::Admin, reset, &Fields::parse("group=G&topic=T")).shown(None).into_string();
        assert!(
            form.contains("type=\"datetime-local\" name=\"time\" value=\"\""),
            "no time is chosen: {form}"
        );
        assert!(form.contains("vostok admin offset reset G T TIME"), "{form}");
    }

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
        let form = form_of(Role::Viewer, list, &Fields::default()).shown(None).into_string();
        assert!(form.contains("<input type=\"hidden\" name=\"_step\" value=\"look\">"), "{form}");
        assert!(wants_answer(false, &Fields::parse("topic=&_step=look")));
        assert!(!wants_answer(false, &Fields::parse("topic=T")), "a link to the form");
        assert!(wants_answer(true, &Fields::parse("topic=T")), "a program");
        let create = find("topic", "create").unwrap();
        let form = form_of(Role::Admin, create, &Fields::default()).shown(None).into_string();
        assert!(!form.contains("value=\"look\""), "{form}");
    }

    #[test]
    fn a_refused_form_stays_filled_in() {
        let delete = find("topic", "delete").unwrap();
        let form = Fields::parse("topic=Orders&cluster=C&_step=go&_confirm=Order");
        let why = Refusal::wrong("type the name");
        let page = form_of(Role::Admin, delete, &form).refused(&why);
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
