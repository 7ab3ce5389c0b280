//! Users and acls of the brokers, by cluster.

use super::list::NAMES_MS;
use super::runtime::shown_failures;
use crate::app::{App, Visitor};
use crate::refusal::Refusal;
use crate::view::{Column, Page, Table, empty, operation_link, status, taken};
use crate::words::Lang;
use admin::{AclEntries, BrokerRow, Level, UserRow};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The users and acls of a cluster, and the reasons why a part is missing.
struct Access {
    cluster: String,
    users: Option<Arc<Vec<UserRow>>>,
    acls: Option<Arc<AclEntries>>,
    /// Whether the brokers keep users and acls.
    keeps_users: bool,
    failures: Vec<String>,
}

/// Users and acls of each cluster.
pub(super) async fn access(app: &App, who: &Visitor) -> Result<Page, Refusal> {
    let lang = who.lang;
    let brokers = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], NAMES_MS).await?;
    let clusters: BTreeSet<&str> = brokers.iter().map(|row| row.cluster.as_str()).collect();
    let mut found = Vec::new();
    for cluster in clusters {
        let given = [("cluster", cluster)];
        let users = app.typed::<Vec<UserRow>>(who, ("user", "list"), &given, 0).await;
        let acls = app.typed::<AclEntries>(who, ("acl", "list"), &given, 0).await;
        let why = |refusal: Option<&Refusal>| refusal.map(|refusal| refusal.text.clone());
        let reasons = [("user list", why(users.as_ref().err())), ("acl list", why(acls.as_ref().err()))];
        let (keeps_users, failures) = refusals(reasons);
        let cluster = cluster.to_owned();
        found.push(Access { cluster, failures, keeps_users, users: users.ok(), acls: acls.ok() });
    }
    let body = html! {
        (taken(who))
        @for part in &found {
            @let given = [("cluster", part.cluster.as_str())];
            h2 { (lang.say("Cluster")) " " (part.cluster) }
            (shown_failures(&part.failures))
            @if part.keeps_users {
                h3 { (lang.say("Users of the brokers")) }
                div.actions { (operation_link(who, lang.say("Create a user"), ("user", "create"), &given)) }
                (user_table(who, part))
                h3 { (lang.say("Acls")) }
                div.actions { (operation_link(who, lang.say("Create an acl"), ("acl", "create"), &given)) }
                (acl_table(who, part))
            } @else {
                (empty(lang, lang.say("The brokers keep no users: set authenticationMetadataProvider and authorizationMetadataProvider in their configuration files, and start them again")))
            }
        }
    };
    let data: Vec<Value> = found
        .iter()
        .map(|part| json!({"cluster": part.cluster, "users": part.users.as_deref(), "acls": part.acls.as_deref(), "failures": part.failures}))
        .collect();
    Ok(Page::new(lang.say("Users and acls"), json!(data), body))
}

/// Whether the brokers keep users or acls, and the refusals to show. Brokers of RocketMQ may have a provider of users alone
/// (`AuthenticationFactory`, `AuthorizationFactory`).
fn refusals(reasons: [(&str, Option<String>); 2]) -> (bool, Vec<String>) {
    let has_no_provider = |why: &String| why.contains("MetadataProvider is not ");
    if reasons.iter().all(|(_, why)| why.as_ref().is_some_and(has_no_provider)) {
        return (false, Vec::new());
    }
    let shown = reasons.into_iter().filter_map(|(name, why)| Some(format!("{name}: {}", why?)));
    (true, shown.collect())
}

fn titles<const N: usize>(lang: Lang, titles: [&str; N]) -> [Column; N] {
    titles.map(|title| Column::text(lang.say(title)))
}

fn user_table(who: &Visitor, part: &Access) -> Markup {
    let lang = who.lang;
    let rows = part.users.iter().flat_map(|users| users.iter()).map(|row| {
        let given = [("user", row.user.as_str()), ("cluster", part.cluster.as_str())];
        let state = match row.status.as_str() {
            "enable" => status(Level::Ok, lang.say("enabled")),
            other => status(Level::Unknown, other),
        };
        let change = html! {
            (operation_link(who, lang.say("Change"), ("user", "update"), &given)) " "
            (operation_link(who, lang.say("Delete"), ("user", "delete"), &given))
        };
        vec![html! { (row.user) }, html! { (row.kind) }, state, change]
    });
    let none = empty(lang, lang.say("Create a user; requests are checked once authenticationEnabled is on"));
    Table::new(titles(lang, ["User", "Type", "State", "Change"])).rows(rows).or(none)
}

fn acl_table(who: &Visitor, part: &Access) -> Markup {
    let lang = who.lang;
    let rows = part.acls.iter().flat_map(|acls| &acls.entries).map(|row| {
        let given = [("subject", row.subject.as_str()), ("cluster", part.cluster.as_str())];
        let decision = match row.decision.to_ascii_lowercase().as_str() {
            "allow" => status(Level::Ok, lang.say("allowed")),
            "deny" => status(Level::Critical, lang.say("denied")),
            _ => status(Level::Unknown, &row.decision),
        };
        let sources =
            row.sources.as_ref().map_or_else(|| lang.say("all addresses").to_owned(), |it| it.join(", "));
        let change = html! {
            (operation_link(who, lang.say("Change"), ("acl", "update"), &given)) " "
            (operation_link(who, lang.say("Delete"), ("acl", "delete"), &given))
        };
        vec![
            html! { (row.subject) },
            html! { (row.resource) },
            html! { (row.actions.join(", ")) },
            decision,
            html! { (sources) },
            change,
        ]
    });
    let none =
        empty(lang, lang.say("Create an acl; users may do what it allows once authorizationEnabled is on"));
    Table::new(titles(lang, ["Subject", "Resource", "Actions", "Decision", "Source", "Change"]))
        .rows(rows)
        .or(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_with_a_provider_of_users_alone_show_their_users() {
        let no_provider = || Some("The authorizationMetadataProvider is not configured".to_owned());
        assert_eq!(
            refusals([("user list", no_provider()), ("acl list", no_provider())]),
            (false, Vec::new())
        );
        let (keeps_users, shown) = refusals([("user list", None), ("acl list", no_provider())]);
        assert!(keeps_users && shown[0].starts_with("acl list: "), "{shown:?}");
        assert!(refusals([("user list", Some("refused".to_owned())), ("acl list", no_provider())]).0);
        assert_eq!(refusals([("user list", None), ("acl list", None)]), (true, Vec::new()));
    }
}
