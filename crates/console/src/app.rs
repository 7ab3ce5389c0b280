//! The console: its cluster, users and audit log; permissions of a visitor, and performing operations for a visitor.

mod kept;
pub(crate) mod servers;

use crate::answers::{now_ms, without_hidden};
use crate::audit::{Audit, Line};
use crate::guard::Tokens;
use crate::lab::Lab;
use crate::lag::Lags;
use crate::live::Live;
use crate::offsets::Offsets;
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::users::{Role, Sessions, Users};
use crate::words::Lang;
use admin::{Answer, Argument, Arguments, Cluster, Effect, Operation, Planned, Session, Zone};
use http::StatusCode;
use kept::{KeptAnswer, KeptAnswers};
use net::tls::ServerTls;
use serde_json::Value;
use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Nouns whose changes only an administrator may make: servers with their settings, elections, users.
const ADMIN_NOUNS: [&str; 9] =
    ["broker", "namesrv", "kv", "user", "acl", "controller", "replica", "container", "rocksdb"];
/// Arguments that name files and directories of the machine on which the console runs.
const FILE_ARGUMENTS: [&str; 4] = ["directory", "file", "password-file", "path"];

/// Settings of the console.
#[derive(Clone)]
pub struct Config {
    /// Address and port on which browsers are served.
    pub listens: SocketAddr,
    /// Names of this machine under which browsers may ask, beside its addresses and localhost.
    pub names: Vec<String>,
    /// Directory of users and audit log.
    pub home: PathBuf,
    /// Directory of the runs of `vostok lab`. Their reports are shown, and new runs are written there.
    pub runs: PathBuf,
    /// TLS with browsers; without, pages and passwords can be read on the way.
    pub tls: Option<Arc<ServerTls>>,
}

/// Author of a request.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub name: String,
    pub role: Role,
    /// Whether bodies of messages are shown.
    pub bodies: bool,
    pub address: IpAddr,
    pub cookie: String,
    /// CSRF token. Every request that changes something must carry the token.
    pub token: String,
    pub lang: Lang,
    /// Time zone of the browser; UTC until its script has set the cookie.
    pub zone: Zone,
    /// Whether there is a login that can be ended.
    pub has_login: bool,
}

impl Visitor {
    /// Whether the visitor may perform an operation.
    pub fn may(&self, operation: &Operation) -> bool {
        let needed = match (operation.effect, operation.noun) {
            (Effect::Look, "user" | "acl") => Role::Admin,
            (Effect::Look, _) => Role::Viewer,
            (_, noun) if ADMIN_NOUNS.contains(&noun) => Role::Admin,
            (Effect::Destroy, "offset") | (Effect::Change, _) => Role::Operator,
            (Effect::Destroy, _) => Role::Admin,
        };
        self.role >= needed
    }

    #[cfg(test)]
    pub fn of_test(role: Role) -> Self {
        let [name, cookie, token] = ["v", "", ""].map(str::to_owned);
        let address = IpAddr::from([127, 0, 0, 1]);
        let (lang, zone) = (Lang::En, Zone::default());
        Self { name, role, bodies: false, address, cookie, token, lang, zone, has_login: true }
    }
}

/// Result of an operation.
pub(crate) struct Done {
    /// The answer as data, without the parts that the visitor may not see.
    pub answer: Value,
    /// The answer in the operation's own type.
    pub typed: Box<dyn Answer>,
    /// The requests that a dry run did not send.
    pub planned: Vec<Planned>,
    /// The failures of the servers that gave no answer. The answer then has the part of the other servers.
    pub failures: Vec<String>,
}

/// State shared by all requests of the console: cluster, logins, sessions, audit, live figures.
pub(crate) struct App {
    pub cluster: Cluster,
    pub config: Config,
    pub users: Mutex<Users>,
    pub sessions: Mutex<Sessions>,
    pub audit: Mutex<Audit>,
    pub failures: auth::Failures,
    pub tokens: Tokens,
    pub live: Live,
    pub lags: Lags,
    pub offsets: Offsets,
    pub lab: Lab,
    /// Passwords that may be checked at once; each takes a core for a while.
    pub logins: tokio::sync::Semaphore,
    /// Forms that may be read at once; each may be as large as a message.
    pub forms: tokio::sync::Semaphore,
    /// Answers for other visitors.
    answers: Mutex<KeptAnswers>,
}

impl App {
    /// A console without visitors.
    pub fn new(cluster: Cluster, config: Config, users: Users, secret: &[u8]) -> Self {
        Self {
            cluster,
            users: Mutex::new(users),
            sessions: Mutex::default(),
            audit: Mutex::new(Audit::open(&config.home)),
            failures: auth::Failures::default(),
            tokens: Tokens::new(secret),
            live: Live::default(),
            lags: Lags::default(),
            offsets: Offsets::default(),
            lab: Lab::default(),
            logins: tokio::sync::Semaphore::new(2),
            forms: tokio::sync::Semaphore::new(8),
            answers: Mutex::default(),
            config,
        }
    }

    /// Returns the answer of an operation that only reads. An answer that is not older than `fresh_ms` is not asked for
    /// again.
    ///
    /// # Errors
    /// [`Refusal`] when the visitor may not look, or a server refuses or does not answer.
    pub async fn look(
        &self,
        who: &Visitor,
        operation: (&str, &str),
        given: &[(&str, &str)],
        fresh_ms: i64,
    ) -> Result<Value, Refusal> {
        let operation = looking(operation.0, operation.1)?;
        let answer = self.answer(who, operation, given, fresh_ms).await?;
        Ok(without_hidden(who.bodies, operation, answer.value()))
    }

    /// The answer of an operation that only reads, in the operation's own type. An answer that is not older than `fresh_ms` is not
    /// asked for again.
    ///
    /// # Errors
    /// Errors of [`Self::look`]; also if the operation answers with another type.
    pub async fn typed<T: Any + Send + Sync>(
        &self,
        who: &Visitor,
        (noun, verb): (&str, &str),
        given: &[(&str, &str)],
        fresh_ms: i64,
    ) -> Result<Arc<T>, Refusal> {
        let operation = looking(noun, verb)?;
        let answer: Arc<dyn Any + Send + Sync> = self.answer(who, operation, given, fresh_ms).await?;
        answer.downcast().map_err(|_| Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            text: format!("{noun} {verb} does not answer with {}", std::any::type_name::<T>()),
        })
    }

    /// The answer of an operation, from the answers that are kept or from the servers.
    async fn answer(
        &self,
        who: &Visitor,
        operation: &'static Operation,
        given: &[(&str, &str)],
        fresh_ms: i64,
    ) -> Result<Arc<dyn Answer>, Refusal> {
        if !who.may(operation) {
            return Err(denied(who));
        }
        let Operation { noun, verb, .. } = operation;
        let key = format!("{noun} {verb} {given:?}");
        if let Some(answer) = self.answers.lock().expect("short section").get(now_ms(), &key, fresh_ms) {
            return Ok(answer);
        }
        let pairs = given.iter().map(|(name, value)| (*name, *value));
        let (answer, _) = self.ask(who, operation, &arguments(operation, pairs), false).await?;
        let answer: Arc<dyn Answer> = answer.into();
        // Answers that depend on what the visitor may see are not kept.
        let is_kept = fresh_ms > 0 && !matches!(*noun, "message" | "dlq" | "user" | "acl");
        if is_kept && let Some(kept) = KeptAnswer::new(now_ms(), answer.clone()) {
            self.answers.lock().expect("short section").insert(key, kept);
        }
        Ok(answer)
    }

    /// Performs an operation, and removes from its answer the parts that the visitor may not see.
    async fn ask(
        &self,
        who: &Visitor,
        operation: &'static Operation,
        arguments: &Arguments,
        is_dry_run: bool,
    ) -> Result<(Box<dyn Answer>, Session), Refusal> {
        if !who.may(operation) {
            return Err(denied(who));
        }
        if (operation.noun, operation.verb) == ("client", "status") && arguments.get("client").is_none() {
            // Without a member the operation writes a file for each.
            return Err(Refusal::wrong("expected the id of a client"));
        }
        servers::check(self, who, arguments).await?;
        let session = self.cluster.session(is_dry_run);
        let refused = |error: admin::Error| {
            let Refusal { status, text } = error.into();
            Refusal { status, text: who.lang.error(&text) }
        };
        let mut answer = operation.perform(&session, arguments).await.map_err(refused)?;
        answer.redact(who.bodies);
        if operation.effect != Effect::Look && !is_dry_run {
            self.answers.lock().expect("short section").clear();
        }
        Ok((answer, session))
    }

    /// Performs an operation for a visitor. A dry run sends no request that changes anything.
    ///
    /// # Errors
    /// [`Refusal`] when the visitor may not do it, a server that is named is not one of the cluster, or a server refuses
    /// or does not answer.
    pub async fn perform(
        &self,
        who: &Visitor,
        operation: &'static Operation,
        arguments: &Arguments,
        is_dry_run: bool,
    ) -> Result<Done, Refusal> {
        let (answer, session) = self.ask(who, operation, arguments, is_dry_run).await?;
        Ok(Done {
            answer: without_hidden(who.bodies, operation, answer.value()),
            typed: answer,
            planned: session.planned().unwrap_or_default(),
            failures: session.failures(),
        })
    }

    /// Writes an action of a visitor and its outcome to the audit log.
    ///
    /// # Errors
    /// [`Refusal`] if the audit log cannot be written. The caller then does not perform the action.
    pub fn note(&self, who: &Visitor, action: &str, outcome: &str) -> Result<(), Refusal> {
        let line = Line {
            time: admin::time(now_ms()),
            user: who.name.clone(),
            address: who.address.to_string(),
            action: action.to_owned(),
            outcome: outcome.to_owned(),
        };
        self.audit.lock().expect("no panic while writing").write(&line).map_err(|error| Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            text: format!("nothing is changed, because the audit log cannot be written: {error}"),
        })
    }
}

/// An operation that only reads.
fn looking(noun: &str, verb: &str) -> Result<&'static Operation, Refusal> {
    let operation = find(noun, verb)?;
    match operation.effect {
        Effect::Look => Ok(operation),
        _ => Err(Refusal::wrong(format!("{noun} {verb} changes something"))),
    }
}

fn denied(who: &Visitor) -> Refusal {
    let text = who.lang.say("Your role does not allow this");
    Refusal::forbidden(format!("{text}: {} ({})", who.name, who.role.name()))
}

/// Whether an argument names a file or directory of the console's machine, which visitors cannot give.
pub(crate) fn is_file(argument: &Argument) -> bool {
    FILE_ARGUMENTS.contains(&argument.name)
}

/// Whether the console performs an operation for visitors: none that writes files (noun `export`) or needs a file.
/// These would be files of the console's machine, with the rights of the broker that runs beside it.
pub(crate) fn is_offered(operation: &Operation) -> bool {
    let needs_file = operation.arguments.iter().any(|it| it.is_required() && is_file(it));
    operation.noun != "export" && !needs_file
}

/// The operation of a noun and a verb, if it is offered to visitors.
pub(crate) fn find(noun: &str, verb: &str) -> Result<&'static Operation, Refusal> {
    admin::operation(noun, verb)
        .filter(|operation| is_offered(operation))
        .ok_or_else(|| Refusal::missing(format!("there is no operation {noun} {verb}")))
}

/// Values for the arguments of an operation; others are passed over. No file of the server is read or written for a visitor.
pub(crate) fn arguments<'a>(
    operation: &Operation,
    given: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Arguments {
    let mut arguments = Arguments::default();
    for (name, value) in given {
        let known = operation.arguments.iter().find(|argument| argument.name == name);
        if let Some(argument) = known.filter(|it| !value.is_empty() && !is_file(it)) {
            arguments.set(argument.name, value);
        }
    }
    arguments
}

/// The values of a form for the arguments of an operation.
pub(crate) fn arguments_of(operation: &Operation, fields: &Fields) -> Arguments {
    let pairs = operation.arguments.iter().filter_map(|it| Some((it.name, fields.get(it.name)?)));
    arguments(operation, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_may_what_they_are_for() {
        let may = |role, noun: &str, verb: &str| Visitor::of_test(role).may(find(noun, verb).unwrap());
        assert!(may(Role::Viewer, "topic", "list") && !may(Role::Viewer, "topic", "create"));
        assert!(!may(Role::Viewer, "message", "send") && !may(Role::Viewer, "user", "list"));
        assert!(may(Role::Operator, "topic", "create") && may(Role::Operator, "offset", "reset"));
        assert!(!may(Role::Operator, "topic", "delete") && !may(Role::Operator, "broker", "set"));
        assert!(may(Role::Admin, "topic", "delete") && may(Role::Admin, "acl", "list"));
        for (noun, verb) in
            [("controller", "set"), ("replica", "elect"), ("container", "add"), ("rocksdb", "to-json")]
        {
            assert!(may(Role::Admin, noun, verb) && !may(Role::Operator, noun, verb), "{noun} {verb}");
        }
        assert!(may(Role::Viewer, "controller", "metadata") && may(Role::Viewer, "replica", "in-sync"));
    }

    #[test]
    fn no_file_of_the_server_is_read_for_a_visitor() {
        let create = find("user", "create").unwrap();
        let given =
            arguments(create, [("password-file", "/etc/passwd"), ("user", "alice"), ("foreign", "x")]);
        assert_eq!((given.get("password-file"), given.get("user")), (None, Some("alice")));
    }

    #[test]
    fn operations_that_read_or_write_files_are_not_offered() {
        for (noun, verb) in [
            ("export", "metadata"),
            ("export", "configs"),
            ("export", "metrics"),
            ("message", "dump-compaction"),
            ("topic", "create-list"),
            ("group", "create-list"),
            ("rocksdb", "print"),
        ] {
            assert_eq!(
                find(noun, verb).err().map(|it| it.status),
                Some(StatusCode::NOT_FOUND),
                "{noun} {verb}"
            );
        }
        let to_json = find("rocksdb", "to-json").unwrap();
        let given = arguments(to_json, [("path", "/etc"), ("file", "/etc/passwd"), ("broker", "a")]);
        assert_eq!((given.get("path"), given.get("file"), given.get("broker")), (None, None, Some("a")));
    }
}
