//! The doctor's findings: causes, the gravest first, each with its consequences, the steps to take and the operation that helps.

use super::messages::local;
use crate::app::{App, Visitor};
use crate::view::{counted, group_link, operation_link};
use admin::{Diagnosis, Finding, Fix, State};
use maud::{Markup, html};

/// Causes that are shown at once.
const FIRST: usize = 3;

/// The verdict of the doctor, or how to get it.
pub(super) fn verdict(app: &App, who: &Visitor, doctor: Option<&Diagnosis>) -> Markup {
    let lang = who.lang;
    let servers = app.cluster.name_servers().join(";");
    let Some(doctor) = doctor else {
        return html! {
            p { (lang.say("The doctor has not looked yet; it begins when this page is open")) }
        };
    };
    let causes: Vec<usize> = doctor.causes().map(|(place, _)| place).collect();
    html! {
        @if causes.is_empty() { p.success { "✓ " (lang.say("Nothing is wrong as far as was looked")) } }
        @else {
            p.failure { "! " (counted(lang, causes.len(), lang.say("finding"), lang.say("findings"))) }
            (findings(who, doctor, &causes[..causes.len().min(FIRST)]))
            @if causes.len() > FIRST {
                details { summary { (lang.say("More")) } (findings(who, doctor, &causes[FIRST..])) }
            }
        }
        @if doctor.is_brief { p { (lang.say("Of so many topics and groups only the servers are checked; for all run the command below")) } }
        p.small {
            (counted(lang, doctor.count(State::Pass), lang.say("check passed"), lang.say("checks passed"))) (lang.comma())
            (doctor.count(State::Skip)) " " (lang.say("skipped for want of data")) (lang.stop())
            (lang.say("Figures taken at")) " " (local(who, doctor.health.taken_at_ms)) (lang.stop())
            (lang.say("Command")) (lang.colon()) code { "vostok doctor -n '" (servers) "'" }
        }
    }
}

/// Causes with their consequences.
fn findings(who: &Visitor, doctor: &Diagnosis, causes: &[usize]) -> Markup {
    let lang = who.lang;
    html! {
        ul.findings {
            @for place in causes {
                @let finding = &doctor.findings[*place];
                li.(finding.severity.name()) {
                    strong { (lang.say(finding.severity.name())) } " " (finding.title.of(lang.into())) " " code { (finding.code) }
                    p { (culprit(who, finding)) }
                    p { (lang.say("What to do")) (lang.colon()) (finding.advice.of(lang.into())) }
                    @if let Some(fix) = &finding.fix { (fix_row(who, fix)) }
                    @let count = doctor.consequences(*place).count();
                    @if count > 0 {
                        details {
                            summary { (counted(lang, count, lang.say("consequence"), lang.say("consequences"))) }
                            ul {
                                @for finding in doctor.consequences(*place) {
                                    li { (finding.title.of(lang.into())) " " code { (finding.code) } p { (culprit(who, finding)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The culprit and the figure of a finding, with the page of its group.
pub(super) fn culprit(who: &Visitor, finding: &Finding) -> Markup {
    let lang = who.lang.into();
    html! {
        (finding.subject.of(lang)) (who.lang.colon()) (finding.figure.in_zone(lang, &who.zone))
        @if let Some(group) = &finding.things.group { " (" (group_link(group)) ")" }
    }
}

/// The operation that helps: its command, and the way to its form.
fn fix_row(who: &Visitor, fix: &Fix) -> Markup {
    let operation = fix.operation();
    let given = operation.arguments.iter().filter_map(|it| Some((it.name, fix.arguments().get(it.name)?)));
    let given: Vec<(&str, &str)> = given.collect();
    html! {
        p {
            code { (fix.command()) } " "
            (operation_link(who, who.lang.about(operation), (operation.noun, operation.verb), &given))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Role;
    use admin::{Severity, Things, Zone};

    #[test]
    fn times_of_evidence_are_in_the_zone_of_the_visitor() {
        let mut who = Visitor::of_test(Role::Viewer);
        who.zone = Zone::parse("Asia/Shanghai~480").unwrap();
        let [title, source, advice] = ["", "", ""].map(admin::Text::from);
        let finding = Finding {
            code: "group-dead-letters",
            severity: Severity::Warning,
            title,
            subject: "G".into(),
            figure: "2 messages, the last at 2026-01-31T12:00:00.000Z".into(),
            time: String::new(),
            source,
            advice,
            fix: None,
            things: Things::default(),
            cause: None,
        };
        let text = culprit(&who, &finding).into_string();
        assert_eq!(text, "G: 2 messages, the last at 2026-01-31 20:00:00.000");
    }
}
