//! Fields of forms: names of the cluster to pick from, times in the zone of the visitor.

use crate::app::{App, Visitor};
use crate::request::Fields;
use crate::words::Lang;
use admin::{Argument, BrokerRow, Consumers, GroupName, Kind, Operation, TopicRow, Zone};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Most names of a list.
const NAMES_MAX: &str = "500";
/// Time for which names are not asked for again, ms.
const NAMES_MS: i64 = 5000;
/// Arguments that are times.
const TIMES: [&str; 3] = ["time", "begin", "end"];
/// Field of a form with the zone in which its times are written.
pub(super) const ZONE: &str = "_zone";
/// Values of arguments that have few: noun, verb and argument; empty for any noun or verb.
const VALUES: [(&str, &str, &str, &[&str]); 9] = [
    ("topic", "create", "type", &["NORMAL", "FIFO", "DELAY", "TRANSACTION", "LITE", "PRIORITY"]),
    ("topic", "", "perm", &["6", "4", "2"]),
    ("group", "mode", "mode", &["PULL", "POP"]),
    ("user", "", "type", &["Normal", "Super"]),
    ("user", "", "status", &["enable", "disable"]),
    ("acl", "", "decision", &["Allow", "Deny"]),
    ("message", "resend", "again", &["true"]),
    ("offset", "", "force", &["true", "false"]),
    ("message", "key", "type", &["K", "T"]),
];

/// Names that a visitor can pick for arguments, by argument.
#[derive(Default)]
pub(super) struct Choices(BTreeMap<&'static str, Vec<String>>);

/// Kind of names that an argument takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Cluster,
    Broker,
    Topic,
    Group,
    Member,
    NameServer,
}

fn names_of(argument: &str) -> Option<Names> {
    match argument {
        "cluster" | "clusters" => Some(Names::Cluster),
        "broker" | "brokers" | "from" | "to" => Some(Names::Broker),
        "topic" | "parent" => Some(Names::Topic),
        "group" | "source" | "target" => Some(Names::Group),
        "client" => Some(Names::Member),
        "namesrv" | "name-server" => Some(Names::NameServer),
        _ => None,
    }
}

impl Choices {
    /// Asks for the names that the arguments of an operation take. A list that cannot be had is left out: names can be typed.
    pub async fn of(app: &App, who: &Visitor, operation: &Operation, fields: &Fields) -> Self {
        let mut choices = Self::default();
        for argument in operation.arguments {
            // A producer group is none of the names that brokers list.
            let is_producer = argument.name == "group" && argument.help.contains("producer");
            if let Some(kind) = names_of(argument.name).filter(|_| !is_producer) {
                choices.0.insert(argument.name, names(app, who, kind, fields.text("group")).await);
            }
        }
        choices
    }

    /// The topics that people made.
    pub async fn topics(app: &App, who: &Visitor) -> Vec<String> {
        names(app, who, Names::Topic, "").await
    }

    /// The consumer groups.
    pub async fn groups(app: &App, who: &Visitor) -> Vec<String> {
        names(app, who, Names::Group, "").await
    }

    fn get(&self, argument: &str) -> &[String] {
        self.0.get(argument).map(Vec::as_slice).unwrap_or_default()
    }
}

async fn names(app: &App, who: &Visitor, kind: Names, group: &str) -> Vec<String> {
    // Retry topics and dead letters come before all other names.
    let topics = [("after", "&"), ("limit", NAMES_MAX)];
    let unique = |names: BTreeSet<String>| names.into_iter().collect();
    match kind {
        Names::Cluster | Names::Broker => {
            let rows = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], NAMES_MS).await;
            let name =
                |row: &BrokerRow| if kind == Names::Cluster { &row.cluster } else { &row.broker }.clone();
            rows.map_or_else(|_| Vec::new(), |rows| unique(rows.iter().map(name).collect()))
        }
        Names::Topic => {
            let rows = app.typed::<Vec<TopicRow>>(who, ("topic", "list"), &topics, NAMES_MS).await;
            rows.map_or_else(|_| Vec::new(), |rows| rows.iter().map(|row| row.topic.clone()).collect())
        }
        Names::Group => {
            let rows = app.typed::<Vec<GroupName>>(who, ("group", "names"), &topics[1..], NAMES_MS).await;
            rows.map_or_else(|_| Vec::new(), |rows| rows.iter().map(|row| row.group.clone()).collect())
        }
        Names::Member if group.is_empty() => Vec::new(),
        Names::Member => {
            let members =
                app.typed::<Consumers>(who, ("client", "consumers"), &[("group", group)], 1000).await;
            members.map_or_else(
                |_| Vec::new(),
                |found| found.members.iter().map(|it| it.client_id.clone()).collect(),
            )
        }
        Names::NameServer => app.cluster.name_servers().to_vec(),
    }
}

/// A labelled field with a list of names to pick from; other names can be typed.
pub(super) fn picker(label: &str, name: &str, value: &str, names: &[String]) -> Markup {
    html! { label { span { (label) } (picked(name, value, names, false)) } }
}

fn picked(name: &str, value: &str, names: &[String], is_required: bool) -> Markup {
    let list = format!("names-{name}");
    html! {
        input name=(name) value=(value) required[is_required] list=[(!names.is_empty()).then_some(&list)] autocomplete="off" spellcheck="false";
        @if !names.is_empty() { datalist id=(list) { @for name in names { option value=(name) {} } } }
    }
}

/// A labelled field of a time in the visitor's zone. The form must have [`zone_field`] too.
pub(super) fn time_field(who: &Visitor, label: &str, name: &str, value: &str) -> Markup {
    html! { label { span { (label) " (" (who.zone.name()) ")" } (time_input(who, name, value, false)) } }
}

fn time_input(who: &Visitor, name: &str, value: &str, is_required: bool) -> Markup {
    let value = match value {
        "now" => who.zone.field(crate::answers::now_ms()),
        text => ms_of(&who.zone, text).map(|ms| who.zone.field(ms)).unwrap_or_default(),
    };
    html! { input type="datetime-local" name=(name) value=(value) step="1" required[is_required]; }
}

/// Hidden field with the zone of the form's times, because the visitor's zone may change before the form is sent.
pub(super) fn zone_field(who: &Visitor) -> Markup {
    html! { input type="hidden" name=(ZONE) value=(who.zone.name()); }
}

/// A time in ms since the epoch: of a field in a zone, as pages show times, or in ms.
fn ms_of(zone: &Zone, text: &str) -> Option<i64> {
    zone.read(text).or_else(|| admin::parse_time(text))
}

/// The fields with times as operations take them, in UTC. A text that is no time is left to the operation.
pub(super) fn in_utc(who: &Visitor, fields: &Fields) -> Fields {
    let zone = fields.get(ZONE).filter(|name| *name != who.zone.name()).and_then(Zone::parse);
    let zone = zone.as_ref().unwrap_or(&who.zone);
    TIMES.iter().fold(fields.clone(), |fields, name| {
        match fields.get(name).and_then(|text| zone.read(text)) {
            Some(ms) => {
                let text = match admin::time(ms) {
                    text if text.is_empty() => ms.to_string(),
                    text => text,
                };
                Fields::parse(&fields.with(name, &text)[1..])
            }
            None => fields,
        }
    })
}

/// Values of an argument that has few.
fn values_of(operation: &Operation, argument: &Argument) -> Option<&'static [&'static str]> {
    let is_of = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    let found = VALUES.iter().find(|(noun, verb, name, _)| {
        is_of(noun, operation.noun) && is_of(verb, operation.verb) && *name == argument.name
    });
    found.map(|(.., values)| *values).or_else(|| {
        let begins = ["true ", "whether ", "false "];
        begins.iter().any(|begin| argument.help.starts_with(begin)).then_some(&["true", "false"][..])
    })
}

/// The field of an argument of an operation.
pub(super) fn argument(
    (who, operation): (&Visitor, &Operation),
    argument: &Argument,
    value: &str,
    choices: &Choices,
) -> Markup {
    let (lang, name, is_required) = (who.lang, argument.name, argument.is_required());
    let names = choices.get(name);
    html! {
        label.check[argument.kind == Kind::Switch] {
            @if argument.kind == Kind::Switch {
                input type="checkbox" name=(name) value="true" checked[value == "true"];
                span { (lang.help(argument)) }
            } @else {
                (title(lang, argument, TIMES.contains(&name).then_some(&who.zone)))
                @if name == "body" && is_required {
                    textarea name=(name) rows="6" required { (value) }
                } @else if TIMES.contains(&name) {
                    (time_input(who, name, value, is_required))
                } @else if let Some(values) = values_of(operation, argument) {
                    select name=(name) {
                        @if !is_required { option value="" { (lang.say("as by default")) } }
                        @for one in values { option value=(one) selected[*one == value] { (one) } }
                        @if !value.is_empty() && !values.contains(&value) { option value=(value) selected { (value) } }
                    }
                } @else if name == "cluster" && !names.is_empty() {
                    (cluster(lang, (operation, argument), value, names))
                } @else if name == "password" {
                    input name=(name) type="password" value=(value) required[is_required] autocomplete="off";
                } @else {
                    (picked(name, value, names, is_required))
                }
            }
        }
    }
}

/// Label of a field: name of the argument, its help or the zone of its time, and whether it is required.
fn title(lang: Lang, argument: &Argument, zone: Option<&Zone>) -> Markup {
    let note = if argument.is_required() { lang.say("required") } else { lang.say("optional") };
    html! {
        span {
            b { (argument.name) } " · "
            @match zone {
                Some(zone) => { (lang.say("time in the zone")) " " (zone.name()) },
                None => (lang.help(argument)),
            }
            " (" (note) ")"
        }
    }
}

/// Field to choose a cluster. If there is a single cluster, the visitor need not choose.
fn cluster(
    lang: Lang,
    (operation, argument): (&Operation, &Argument),
    value: &str,
    names: &[String],
) -> Markup {
    let is_required = argument.is_required();
    let is_filter = argument.help.starts_with("only ");
    // Without a broker set these want a cluster to be named.
    let has_default = !["controller", "replica"].contains(&operation.noun);
    html! {
        select name="cluster" required[is_required] {
            @if !is_required {
                option value="" { @match names {
                    _ if is_filter => (lang.say("all clusters")),
                    [only] if has_default => { (lang.say("the only cluster")) (lang.colon()) (only) },
                    _ => (lang.say("none")),
                } }
            }
            @for name in names { option value=(name) selected[name == value || is_required && names.len() == 1] { (name) } }
            @if !value.is_empty() && !names.iter().any(|name| name == value) { option value=(value) selected { (value) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::find;
    use crate::users::Role;

    fn shanghai() -> Visitor {
        Visitor { zone: Zone::parse("Asia/Shanghai~480").unwrap(), ..Visitor::of_test(Role::Admin) }
    }

    #[test]
    fn times_of_forms_are_in_the_zone_of_the_visitor() {
        let utc = |who: &Visitor, form: &str| in_utc(who, &Fields::parse(form)).text("time").to_owned();
        let who = shanghai();
        assert_eq!(utc(&who, "time=2026-01-31T20:00"), "2026-01-31T12:00:00.000Z");
        assert_eq!(utc(&who, "time=2026-01-31T20:00:05&_zone=Asia/Shanghai"), "2026-01-31T12:00:05.000Z");
        // The page was made before the browser told its zone, and says UTC.
        assert_eq!(utc(&who, "time=2026-01-31T20:00:00&_zone=UTC"), "2026-01-31T20:00:00.000Z");
        assert_eq!(utc(&who, "time=1970-01-01T08:00:00"), "0", "the beginning");
        for text in ["now", "17", "2026-01-31#12:00:00:000"] {
            assert_eq!(utc(&who, &format!("time={text}")), text, "{text}");
        }
    }

    #[test]
    fn a_time_is_shown_as_its_field_takes_it() {
        let shown = |value: &str| time_input(&shanghai(), "time", value, true).into_string();
        for text in ["2026-01-31T12:00:00.000Z", "1769860800000", "2026-01-31T20:00:00"] {
            assert!(shown(text).contains("value=\"2026-01-31T20:00:00\""), "{}", shown(text));
        }
        assert!(shown("0").contains("value=\"1970-01-01T08:00:00\"") && shown("").contains("value=\"\""));
    }

    #[test]
    fn names_and_values_are_picked() {
        let create = find("topic", "create").unwrap();
        let field = |name: &str, value: &str, clusters: &[&str]| {
            let found = create.arguments.iter().find(|it| it.name == name).unwrap();
            let names = clusters.iter().map(|name| (*name).to_owned()).collect();
            let choices = Choices([("cluster", names)].into());
            argument((&Visitor::of_test(Role::Admin), create), found, value, &choices).into_string()
        };
        assert!(field("cluster", "", &["One"]).contains("<option value=\"\">the only cluster: One</option>"));
        assert!(
            field("cluster", "Two", &["One", "Two"]).contains("<option value=\"Two\" selected>Two</option>")
        );
        assert!(
            field("cluster", "<Gone>", &["One"]).contains("selected>&lt;Gone&gt;</option>"),
            "kept as it was"
        );
        assert!(field("type", "FIFO", &[]).contains("<option value=\"FIFO\" selected>FIFO</option>"));
        assert!(field("order", "", &[]).contains("<option value=\"false\">false</option>"));
        let text = picker("Topic", "topic", "", &["<T>".to_owned()]).into_string();
        assert!(
            text.contains("list=\"names-topic\"") && text.contains("<option value=\"&lt;T&gt;\">"),
            "{text}"
        );
    }
}
