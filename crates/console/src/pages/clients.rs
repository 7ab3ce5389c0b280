//! Connected clients.

use super::list::part;
use super::runtime::{masters, shown_failures, silent};
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{Page, answer, columns_table, field, taken};
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::{Value, json};

/// The members with their group, by which their pages are found.
fn of_group(mut consumers: Value, group: &str) -> Value {
    for member in consumers["members"].as_array_mut().into_iter().flatten() {
        member["group"] = group.into();
    }
    consumers
}

/// The members of a group, or why there are none: brokers refuse the question for a group of which nobody is online.
fn consumers(lang: Lang, members: &Result<Value, Refusal>) -> Markup {
    html! {
        h2 { (lang.say("Consumers")) }
        @match members {
            Ok(members) => (answer(lang, members)),
            Err(refusal) => p { (refusal.text) },
        }
    }
}

/// Connected producers of all masters, and the members of a group that is named.
pub(super) async fn clients(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, mut producers, mut failures) = (who.lang, Vec::new(), silent(app));
    for broker in masters(app, who).await? {
        match app.look(who, ("client", "list-producers"), &[("broker", &broker)], 1000).await {
            Ok(Value::Array(rows)) => producers.extend(rows),
            Ok(_) => {}
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    // A producer is connected to each broker.
    producers.sort_by_key(|row| (row["group"].to_string(), row["client_id"].to_string()));
    producers.dedup_by(|one, other| one["client_id"] == other["client_id"] && one["group"] == other["group"]);
    for row in &mut producers {
        // The name of a producer group leads to no page.
        let group = row["group"].take();
        row["producer_group"] = group;
    }
    let members = match fields.get("group") {
        Some(group) => {
            let members = app.look(who, ("client", "consumers"), &[("group", group)], 1000).await;
            Some(members.map(|members| of_group(members, group)))
        }
        None => None,
    };
    let part = part(&producers, |row| row["producer_group"].as_str().unwrap_or_default(), fields, |_| true);
    let columns = ["producer_group", "client_id", "address", "language", "version", "last_heartbeat"];
    let body = html! {
        (taken(who))
        form.row method="get" action="/clients" {
            (field(lang.say("Group"), "group", fields.text("group")))
            (field(lang.say("Producer group"), "q", fields.text("q")))
            button { (lang.say("Look")) }
        }
        @if let Some(members) = &members { (consumers(lang, members)) }
        h2 { (lang.say("Producers")) }
        (shown_failures(&failures))
        (columns_table(lang, &part.rows, &columns))
        (part.links(lang, "/clients", fields))
    };
    let members = members.and_then(Result::ok);
    let data =
        json!({"found": part.found(), "producers": part.rows, "consumers": members, "failures": failures});
    Ok(Page::new(lang.say("Clients"), data, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_members_is_said_to_have_none() {
        let text =
            consumers(Lang::En, &Err(Refusal::missing("nobody of the group <g> is online"))).into_string();
        assert_eq!(text, "<h2>Consumers</h2><p>nobody of the group &lt;g&gt; is online</p>");
        let members = json!({"members": [{"client_id": "c", "group": "g"}]});
        assert!(consumers(Lang::En, &Ok(members)).into_string().contains("/client?group=g&amp;id=c"));
    }
}
