//! Operations on users (Auth 2.0).

use crate::arguments::{BROKER, BROKERS, optional, place};
use crate::copy::{CopyKind, change_targets};
use crate::operation::{Operation, Typed, Written, operations};
use crate::request::{Request, body};
use crate::text::Table;
use crate::{Argument, Arguments, Error, Session};
use serde::Serialize;
use wire::body::UserInfo;
use wire::codes::request;
use wire::json;

const USER: Argument = place("user", ("u", "username"), "name of the user");
const TYPE: Argument = optional("type", ("t", "userType"), "Super or Normal; Normal if left out");
const PASSWORD: Argument =
    optional("password", ("p", "password"), "the password; others on this machine can see it");
const FILE: Argument = optional("password-file", ("", ""), "file whose first line is the password");

/// The operations on users.
pub(crate) const OPERATIONS: &[Operation] = operations! { "user":
    "list", Look, ["listUser"], "List the users of a broker, or of a cluster by the first master that has some",
        [BROKER, BROKERS, optional("filter", ("f", "filter"), "part of the name")], list;
    "get", Look, ["getUser"], "Show a user",
        [USER, BROKER, BROKERS], get;
    "create", Change, ["createUser"], "Create a user on a broker, or on all brokers of a cluster",
        [USER, BROKER, BROKERS, PASSWORD, FILE, TYPE],
        |session, arguments| change(session, arguments, request::AUTH_CREATE_USER, "create user to");
    "update", Change, ["updateUser"], "Change the password, type or status of a user; what is left out stays",
        [USER, BROKER, BROKERS, PASSWORD, FILE, TYPE,
         optional("status", ("s", "userStatus"), "enable or disable")],
        |session, arguments| change(session, arguments, request::AUTH_UPDATE_USER, "update user to");
    "delete", Destroy, ["deleteUser"], "Delete a user with its acl",
        [USER, BROKER, BROKERS], delete;
    "copy", Change, ["copyUser"], "Copy users from one broker to another, with their passwords",
        [place("from", ("f", "fromBroker"), "address or broker set of the source"),
         place("to", ("t", "toBroker"), "address or broker set of the target"),
         optional("names", ("u", "usernames"), "only these users, separated by commas")],
        |session, arguments| COPIED.copy(session, arguments);
};

const COPIED: CopyKind<UserInfo> = CopyKind {
    word: "user",
    field: "username",
    list: request::AUTH_LIST_USER,
    get: request::AUTH_GET_USER,
    create: request::AUTH_CREATE_USER,
    update: request::AUTH_UPDATE_USER,
    name: |user| user.username.as_deref().unwrap_or_default(),
};

/// A user of a broker. The password is only in the text of `mqadmin`.
#[derive(Serialize)]
pub struct UserRow {
    /// Address of the broker that answered.
    pub broker: String,
    /// Name of the user.
    pub user: String,
    /// `Super` or `Normal`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `enable` or `disable`.
    pub status: String,
    #[serde(skip)]
    password: String,
}

impl UserRow {
    fn new(broker: &str, user: UserInfo) -> Self {
        Self {
            broker: broker.to_owned(),
            user: user.username.unwrap_or_default(),
            kind: user.user_type.unwrap_or_default(),
            status: user.user_status.unwrap_or_default(),
            password: user.password.unwrap_or_default(),
        }
    }
}

impl Typed for Vec<UserRow> {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let Some(first) = self.first() else { return String::new() };
        let mut table = Table::new("{#UserName:<16}  {#Password:<22}  {#UserType:<22}  {#UserStatus:<22}");
        self.iter().for_each(|it| table.row(&[&it.user, &it.password, &it.kind, &it.status]));
        if arguments.get("broker").is_none() {
            table.text += &format!("get user from {} success.\n", first.broker);
        }
        table.text
    }
}

/// Asks the masters in turn until a master answers. Failures of earlier masters are noted.
async fn first_of<T: for<'a> serde::Deserialize<'a>>(
    session: &Session,
    arguments: &Arguments,
    ask: &Request,
) -> Result<Option<(String, T)>, Error> {
    let mut outcomes = Vec::new();
    for broker in session.masters(arguments).await? {
        let found = session.look(&broker, ask).await.and_then(|reply| match reply.body.is_empty() {
            true => Ok(None),
            false => body(&broker, &reply).map(Some),
        });
        let is_last = matches!(found, Ok(Some(_)));
        outcomes.push(found.map(|found| Some((broker, found?))));
        if is_last {
            break;
        }
    }
    Ok(session.answers(outcomes)?.into_iter().flatten().next())
}

async fn list(session: &Session, arguments: &Arguments) -> Result<Vec<UserRow>, Error> {
    let ask = Request::new(request::AUTH_LIST_USER).maybe("filter", arguments.get("filter"));
    let found: Option<(String, Vec<UserInfo>)> = first_of(session, arguments, &ask).await?;
    let rows = found
        .map(|(broker, users)| users.into_iter().map(|user| UserRow::new(&broker, user)).collect::<Vec<_>>());
    Ok(rows.unwrap_or_default())
}

async fn get(session: &Session, arguments: &Arguments) -> Result<Vec<UserRow>, Error> {
    let name = arguments.need("user")?;
    let ask = Request::new(request::AUTH_GET_USER).with("username", name);
    let found: Option<(String, UserInfo)> = first_of(session, arguments, &ask).await?;
    let missing = || Error::NotFound(format!("there is no user {name}"));
    let (broker, user) = found.ok_or_else(missing)?;
    Ok(vec![UserRow::new(&broker, user)])
}

fn password(arguments: &Arguments) -> Result<Option<String>, Error> {
    let Some(file) = arguments.get("password-file") else {
        return Ok(arguments.get("password").map(str::to_owned));
    };
    let text = std::fs::read_to_string(file)
        .map_err(|why| Error::Usage(format!("cannot read the password from {file}: {why}")))?;
    Ok(text.lines().next().map(str::to_owned))
}

/// A value that is one of two words, in any case; the word as servers know it. A server passes over a word that it does not know.
fn one_of(arguments: &Arguments, name: &str, words: [&str; 2]) -> Result<Option<String>, Error> {
    let Some(given) = arguments.get(name) else { return Ok(None) };
    match words.into_iter().find(|word| word.eq_ignore_ascii_case(given)) {
        Some(word) => Ok(Some(word.to_owned())),
        None => {
            let wanted = format!("{name} {}", words.join(" or "));
            Err(Error::Usage(format!("expected {wanted}, found {given}")))
        }
    }
}

async fn change(
    session: &Session,
    arguments: &Arguments,
    code: i32,
    verb: &'static str,
) -> Result<Written, Error> {
    let name = arguments.need("user")?;
    let user = UserInfo {
        username: Some(name.to_owned()),
        password: password(arguments)?,
        user_type: one_of(arguments, "type", ["Super", "Normal"])?,
        user_status: one_of(arguments, "status", ["enable", "disable"])?,
    };
    let has_change = user.password.is_some() || user.user_type.is_some() || user.user_status.is_some();
    if code == request::AUTH_UPDATE_USER && !has_change {
        return Err(Error::Usage("expected a password, a type or a status to change".to_owned()));
    }
    let ask = Request::new(code).with("username", name).secret(json::to_vec(&user));
    change_targets(session, arguments, &ask, ("user", name, verb)).await
}

async fn delete(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let name = arguments.need("user")?;
    let ask = Request::new(request::AUTH_DELETE_USER).with("username", name);
    change_targets(session, arguments, &ask, ("user", name, "delete user to")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_servers_pass_over_are_refused() {
        let word = |given: &str| {
            let mut arguments = Arguments::default();
            arguments.set("status", given);
            one_of(&arguments, "status", ["enable", "disable"])
        };
        assert_eq!(word("Disable").unwrap().as_deref(), Some("disable"));
        let why = word("disabled").unwrap_err();
        assert_eq!(
            (why.exit_code(), why.to_string().as_str()),
            (2, "expected status enable or disable, found disabled")
        );
        assert_eq!(one_of(&Arguments::default(), "status", ["enable", "disable"]).unwrap(), None);
    }
}
