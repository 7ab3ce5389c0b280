//! Users and acls of the brokers, by cluster.

use super::list::NAMES_MS;
use super::runtime::shown_failures;
use crate::answers::rows;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::view::{Page, operation_link, table, taken};
use maud::html;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Users and acls of each cluster.
pub(super) async fn access(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let brokers = app.look(who, ("cluster", "list"), &[], NAMES_MS).await?;
    let clusters: BTreeSet<String> =
        rows(&brokers).iter().filter_map(|row| row["cluster"].as_str()).map(str::to_owned).collect();
    let mut found = Vec::new();
    for cluster in &clusters {
        let given = [("cluster", cluster.as_str())];
        let mut failures = Vec::new();
        let mut look = Vec::new();
        for what in [("user", "list"), ("acl", "list")] {
            look.push(app.look(who, what, &given, 0).await.unwrap_or_else(|refusal| {
                failures.push(format!("{} {}: {}", what.0, what.1, refusal.text));
                Value::Null
            }));
        }
        found.push(json!({"cluster": cluster, "users": look[0], "acls": look[1], "failures": failures}));
    }
    let texts = |value: &Value| -> Vec<String> {
        rows(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let body = html! {
        (taken(lang))
        @for part in &found {
            @let cluster = part["cluster"].as_str().unwrap_or_default();
            @let given = [("cluster", cluster)];
            h2 { (lang.say("Cluster")) ": " (cluster) }
            (shown_failures(&texts(&part["failures"])))
            div.actions {
                (operation_link(who, lang.say("Create a user"), ("user", "create"), &given))
                (operation_link(who, lang.say("Change a user"), ("user", "update"), &given))
                (operation_link(who, lang.say("Delete a user"), ("user", "delete"), &given))
                (operation_link(who, lang.say("Create an acl"), ("acl", "create"), &given))
                (operation_link(who, lang.say("Change an acl"), ("acl", "update"), &given))
                (operation_link(who, lang.say("Delete an acl"), ("acl", "delete"), &given))
            }
            h2 { (lang.say("Users of the brokers")) }
            (table(lang, rows(&part["users"])))
            h2 { (lang.say("Acls")) }
            (table(lang, rows(&part["acls"])))
        }
    };
    Ok(Page::new(lang.say("Users and acls"), json!(found), body))
}
