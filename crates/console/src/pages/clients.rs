//! Connected clients.

use super::list::part;
use super::runtime::{masters, shown_failures, silent};
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::view::{Column, Page, Table, ago, empty, field, taken, topic_link, version};
use crate::words::Lang;
use admin::{Consumers, ProducerRow};
use maud::{Markup, html};
use serde_json::json;
use std::sync::Arc;

/// The members of a group and their subscriptions, or the refusal of a broker that has no member of the group.
fn consumers(lang: Lang, group: &str, found: &Result<Arc<Consumers>, Refusal>) -> Markup {
    let columns = Column::all(lang, ["Client", "Address", "Language", "Version"]);
    html! {
        h2 { (lang.say("Consumers")) }
        @match found {
            Ok(found) => {
                @let members = found.members.iter().map(|row| {
                    let page = format!("/client{}", query([("group", group), ("id", &row.client_id)]));
                    vec![
                        html! { a href=(page) { (row.client_id) } },
                        html! { (row.address) },
                        html! { (row.language) },
                        html! { (version(&row.version)) },
                    ]
                });
                @let wanted = found.subscriptions.iter().map(|row| vec![topic_link(&row.topic), html! { code { (row.expression) } }]);
                (Table::new(columns).rows(members))
                (Table::new(Column::all(lang, ["Topic", "Expression"])).rows(wanted).or(html! {}))
            }
            Err(refusal) => p { (refusal.text) },
        }
    }
}

/// Producers, which have no page of their own.
fn producers(lang: Lang, rows: &[ProducerRow]) -> Markup {
    let columns =
        Column::all(lang, ["Producer group", "Client", "Address", "Language", "Version", "Last heartbeat"]);
    let rows = rows.iter().map(|row| {
        vec![
            html! { (row.group) },
            html! { (row.client_id) },
            html! { (row.address.trim_start_matches('/')) },
            html! { (row.language) },
            html! { (version(&row.version)) },
            ago(lang, admin::parse_time(&row.last_heartbeat).unwrap_or_default()),
        ]
    });
    Table::new(columns).rows(rows).or(empty(lang, lang.say("No producer of this group is connected; brokers forget a producer two minutes after its last heartbeat")))
}

/// Connected producers of all masters, and the members of a group that is named.
pub(super) async fn clients(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, mut found, mut failures) = (who.lang, Vec::new(), silent(app));
    for broker in masters(app, who).await? {
        let given = [("broker", broker.as_str())];
        match app.typed::<Vec<ProducerRow>>(who, ("client", "list-producers"), &given, 1000).await {
            Ok(rows) => found.extend(rows.iter().cloned()),
            Err(refusal) => failures.push(format!("{broker}: {}", refusal.text)),
        }
    }
    // A producer is connected to each broker.
    let key = |row: &ProducerRow| (row.group.clone(), row.client_id.clone());
    found.sort_by_key(key);
    found.dedup_by_key(|row| key(row));
    let members = match fields.get("group") {
        Some(group) => {
            Some(app.typed::<Consumers>(who, ("client", "consumers"), &[("group", group)], 1000).await)
        }
        None => None,
    };
    let part = part(&found, |row| &row.group, fields, |_| true);
    let body = html! {
        (taken(who))
        form.row method="get" action="/clients" {
            (field(lang.say("Group"), "group", fields.text("group")))
            (field(lang.say("Producer group"), "q", fields.text("q")))
            button { (lang.say("Look")) }
        }
        @if let Some(members) = &members { (consumers(lang, fields.text("group"), members)) }
        h2 { (lang.say("Producers")) }
        (shown_failures(&failures))
        (producers(lang, &part.rows))
        (part.links(lang, "/clients", fields))
    };
    let members = members.and_then(Result::ok);
    let data = json!({"found": part.found(), "producers": part.rows, "consumers": members.as_deref(), "failures": failures});
    Ok(Page::new(lang.say("Clients"), data, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::Member;

    #[test]
    fn a_group_without_members_is_said_to_have_none() {
        let refused = Err(Refusal::missing("nobody of the group <g> is online"));
        let text = consumers(Lang::En, "g", &refused).into_string();
        assert_eq!(text, "<h2>Consumers</h2><p>nobody of the group &lt;g&gt; is online</p>");
        let member = Member { client_id: "c".to_owned(), version: "V5_5_0".to_owned(), ..Member::default() };
        let found = Consumers { members: vec![member], ..Consumers::default() };
        let text = consumers(Lang::En, "g", &Ok(Arc::new(found))).into_string();
        assert!(text.contains("/client?group=g&amp;id=c") && text.contains(">5.5.0<"), "{text}");
    }
}
