//! Changes of users and acls on several brokers, and copies from one broker to another.

use crate::operation::Written;
use crate::request::{Request, body};
use crate::{Arguments, Error, Session};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Write as _;
use wire::json;

/// Kind of thing to copy: its word, the header field with its name, and the requests about it.
pub(crate) struct CopyKind<T> {
    pub word: &'static str,
    pub field: &'static str,
    pub list: i32,
    pub get: i32,
    pub create: i32,
    pub update: i32,
    pub name: fn(&T) -> &str,
}

impl<T: Serialize + DeserializeOwned> CopyKind<T> {
    async fn get(&self, session: &Session, broker: &str, name: &str) -> Result<Option<T>, Error> {
        let reply = session.look(broker, &Request::new(self.get).with(self.field, name)).await?;
        if reply.body.is_empty() { Ok(None) } else { body(broker, &reply).map(Some) }
    }

    /// Creates or changes users or acls on the target as the source has them: the named ones, otherwise all.
    pub async fn copy(&self, session: &Session, arguments: &Arguments) -> Result<Written, Error> {
        let (from, to) = (arguments.need("from")?, arguments.need("to")?);
        let (source, target) = (session.broker(from).await?, session.broker(to).await?);
        let mut found = Vec::new();
        match arguments.get("names") {
            Some(names) => {
                for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                    found.extend(self.get(session, &source, name).await?);
                }
            }
            None => found = body(&source, &session.look(&source, &Request::new(self.list)).await?)?,
        }
        let (mut rows, mut text) = (Vec::new(), String::new());
        for one in &found {
            let name = (self.name)(one);
            let code = match self.get(session, &target, name).await? {
                None => self.create,
                Some(_) => self.update,
            };
            let ask = Request::new(code).with(self.field, name).secret(json::to_vec(one));
            session.change(&target, &ask).await?;
            let _ = writeln!(text, "copy {} of {name} from {from} to {to} success.", self.word);
            rows.push(json!({"name": name, "from": source, "to": target}));
        }
        Ok(Written::new(rows, text))
    }
}

/// Changes a user or an acl on the brokers that the arguments name. `about` has the name of the member of the answer, its value, and
/// the beginning of the lines that `mqadmin` prints.
pub(crate) async fn change_targets(
    session: &Session,
    arguments: &Arguments,
    ask: &Request,
    (member, name, verb): (&str, &str, &str),
) -> Result<Written, Error> {
    let targets = session.targets(arguments).await?;
    let brokers: Vec<String> = targets.into_iter().map(|member| member.address).collect();
    session.change_all(&brokers, ask).await?;
    let text = brokers.iter().map(|broker| format!("{verb} {broker} success.\n")).collect();
    Ok(Written::new(json!({member: name, "brokers": brokers}), text))
}
