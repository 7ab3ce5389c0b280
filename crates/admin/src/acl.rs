//! Operations on acls (Auth 2.0): permissions of users.

use crate::arguments::{BROKER, BROKERS, optional, place, required};
use crate::copy::{CopyKind, change_targets};
use crate::operation::{Operation, Typed, Written, operations};
use crate::request::{Request, body};
use crate::text::Table;
use crate::{Argument, Arguments, Error, Session};
use client::Response;
use serde::Serialize;
use wire::body::{AclInfo, PolicyEntryInfo, PolicyInfo};
use wire::codes::request;
use wire::json;

const SUBJECT: Argument = place("subject", ("s", "subject"), "the user, as User:name");
const RESOURCES: Argument =
    required("resources", ("r", "resources"), "resources such as Topic:orders*,Group:*");
const ACTIONS: Argument = required("actions", ("a", "actions"), "actions such as Pub,Sub");
const DECISION: Argument = required("decision", ("d", "decision"), "Allow or Deny");
const SOURCES: Argument =
    optional("sources", ("i", "sourceIp"), "addresses from which it counts; all if left out");

/// The operations on acls.
pub(crate) const OPERATIONS: &[Operation] = operations! { "acl":
    "list", Look, ["listAcl"], "List the acls of a broker, or of the masters of a cluster",
        [BROKER, BROKERS, optional("subject", ("s", "subject"), "part of the subject"),
         optional("resource", ("r", "resource"), "part of the resource")], list;
    "get", Look, ["getAcl"], "Show what a user may do",
        [SUBJECT, BROKER, BROKERS], get;
    "create", Change, ["createAcl"],
        "Allow or deny a user actions on resources, on a broker or on all brokers of a cluster",
        [SUBJECT, RESOURCES, ACTIONS, DECISION, BROKER, BROKERS, SOURCES],
        |session, arguments| change(session, arguments, request::AUTH_CREATE_ACL, "create acl to");
    "update", Change, ["updateAcl"],
        "Replace what a user may do with resources; other resources stay as they are",
        [SUBJECT, RESOURCES, ACTIONS, DECISION, BROKER, BROKERS, SOURCES],
        |session, arguments| change(session, arguments, request::AUTH_UPDATE_ACL, "update acl to");
    "delete", Destroy, ["deleteAcl"], "Delete what a user may do with resources, or its whole acl",
        [SUBJECT, BROKER, BROKERS, optional("resources", ("r", "resources"), "only this resource")], delete;
    "copy", Change, ["copyAcl"], "Copy acls from one broker to another",
        [place("from", ("f", "fromBroker"), "address or broker set of the source"),
         place("to", ("t", "toBroker"), "address or broker set of the target"),
         optional("names", ("s", "subjects"), "only those of these users, as User:name, separated by commas")],
        |session, arguments| COPIED.copy(session, arguments);
};

const COPIED: CopyKind<AclInfo> = CopyKind {
    word: "acl",
    field: "subject",
    list: request::AUTH_LIST_ACL,
    get: request::AUTH_GET_ACL,
    create: request::AUTH_CREATE_ACL,
    update: request::AUTH_UPDATE_ACL,
    name: |acl| acl.subject.as_deref().unwrap_or_default(),
};

/// An entry of an acl of a broker.
#[derive(Serialize)]
pub struct AclEntry {
    /// Address of the broker that answered.
    pub broker: String,
    /// Subject, such as `User:name`.
    pub subject: String,
    /// Policy: `CUSTOM` or `DEFAULT`.
    pub policy: String,
    /// Resource, such as `Topic:name`.
    pub resource: String,
    /// Actions on the resource.
    pub actions: Vec<String>,
    /// Addresses to which the entry applies; `None` for all.
    pub sources: Option<Vec<String>>,
    /// `ALLOW` or `DENY`.
    pub decision: String,
}

/// The entries of acls.
#[derive(Serialize)]
#[serde(transparent)]
pub struct AclEntries {
    /// The entries, by broker.
    pub entries: Vec<AclEntry>,
    /// Addresses of the brokers that were asked.
    #[serde(skip)]
    brokers: Vec<String>,
}

impl Typed for AclEntries {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut text = String::new();
        for broker in &self.brokers {
            let mut table = Table::new(
                "{#Subject:<16}  {#PolicyType:<10}  {#Resource:<22}  {#Actions:<20}  {#SourceIp:<24}  {#Decision:<10}",
            );
            for entry in self.entries.iter().filter(|entry| entry.broker == *broker) {
                let list = |items: &[String]| format!("[{}]", items.join(", "));
                let sources = entry.sources.as_deref().map_or_else(|| "null".to_owned(), list);
                let actions = list(&entry.actions);
                table.row(&[
                    &entry.subject,
                    &entry.policy,
                    &entry.resource,
                    &actions,
                    &sources,
                    &entry.decision,
                ]);
            }
            text += &table.text;
        }
        text
    }
}

/// The entries of an acl, one by one.
fn entries(broker: &str, acl: AclInfo) -> Vec<AclEntry> {
    let subject = acl.subject.unwrap_or_default();
    let of_policy = |policy: PolicyInfo| {
        let kind = policy.policy_type.unwrap_or_else(|| "Custom".to_owned());
        let subject = subject.clone();
        policy.entries.unwrap_or_default().into_iter().map(move |entry| AclEntry {
            broker: broker.to_owned(),
            subject: subject.clone(),
            policy: kind.clone(),
            resource: entry.resource.unwrap_or_default(),
            actions: entry.actions.unwrap_or_default(),
            sources: entry.source_ips,
            decision: entry.decision.unwrap_or_default(),
        })
    };
    acl.policies.unwrap_or_default().into_iter().flat_map(of_policy).collect()
}

async fn list(session: &Session, arguments: &Arguments) -> Result<AclEntries, Error> {
    let ask = Request::new(request::AUTH_LIST_ACL)
        .maybe("subjectFilter", arguments.get("subject"))
        .maybe("resourceFilter", arguments.get("resource"));
    entries_of(session, arguments, &ask, body).await
}

/// The entries of all masters that have some.
async fn entries_of(
    session: &Session,
    arguments: &Arguments,
    ask: &Request,
    read: fn(&str, &Response) -> Result<Vec<AclInfo>, Error>,
) -> Result<AclEntries, Error> {
    let mut outcomes = Vec::new();
    for broker in session.masters(arguments).await? {
        let found = session.look(&broker, ask).await.and_then(|reply| match reply.body.is_empty() {
            true => Ok(None),
            false => read(&broker, &reply).map(Some),
        });
        outcomes.push(found.map(|found| (broker, found)));
    }
    let mut all = AclEntries { entries: Vec::new(), brokers: Vec::new() };
    for (broker, acls) in session.answers(outcomes)? {
        if let Some(acls) = acls {
            all.entries.extend(acls.into_iter().flat_map(|acl| entries(&broker, acl)));
            all.brokers.push(broker);
        }
    }
    Ok(all)
}

async fn get(session: &Session, arguments: &Arguments) -> Result<AclEntries, Error> {
    let ask = Request::new(request::AUTH_GET_ACL).with("subject", arguments.need("subject")?);
    entries_of(session, arguments, &ask, |broker, reply| Ok(vec![body(broker, reply)?])).await
}

/// The acl that the arguments describe: an entry for each resource.
fn acl(arguments: &Arguments) -> Result<AclInfo, Error> {
    let items = |text: &str| {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(str::to_owned).collect::<Vec<String>>()
    };
    let actions = items(arguments.need("actions")?);
    let decision = arguments.need("decision")?;
    let entry = |resource: String| PolicyEntryInfo {
        actions: Some(actions.clone()),
        decision: Some(decision.to_owned()),
        resource: Some(resource),
        source_ips: arguments.get("sources").map(items),
    };
    let entries = items(arguments.need("resources")?).into_iter().map(entry).collect();
    let policy = PolicyInfo { entries: Some(entries), policy_type: None };
    Ok(AclInfo { policies: Some(vec![policy]), subject: Some(arguments.need("subject")?.to_owned()) })
}

async fn change(
    session: &Session,
    arguments: &Arguments,
    code: i32,
    verb: &'static str,
) -> Result<Written, Error> {
    let subject = arguments.need("subject")?;
    let ask = Request::new(code).with("subject", subject).body(json::to_vec(&acl(arguments)?));
    change_targets(session, arguments, &ask, ("subject", subject, verb)).await
}

async fn delete(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let subject = arguments.need("subject")?;
    let ask = Request::new(request::AUTH_DELETE_ACL)
        .with("subject", subject)
        .maybe("resource", arguments.get("resources"));
    change_targets(session, arguments, &ask, ("subject", subject, "delete acl to")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_has_an_entry_for_each_resource() {
        let mut arguments = Arguments::default();
        for (name, value) in [
            ("subject", "User:alice"),
            ("resources", "Topic:orders*, Group:billing"),
            ("actions", "Pub,Sub"),
            ("decision", "Allow"),
        ] {
            arguments.set(name, value);
        }
        let found = entries("a:1", acl(&arguments).unwrap());
        let resources: Vec<_> = found.iter().map(|entry| entry.resource.as_str()).collect();
        assert_eq!(resources, ["Topic:orders*", "Group:billing"]);
        assert_eq!((found[1].actions.len(), found[1].policy.as_str()), (2, "Custom"));
        let all = AclEntries { entries: found, brokers: vec!["a:1".into()] };
        let text = Typed::mqadmin(&all, &arguments);
        assert!(text.contains("[Pub, Sub]            null"), "{text}");
    }
}
