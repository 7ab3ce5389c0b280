//! Runs an operation: connects to the cluster, performs it, and closes the connections.

use crate::operation::{Answer, Operation};
use crate::{Arguments, Error, Lang, Planned, Session};
use client::{Client, Config, Credentials, TlsSources};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Name server if neither an option nor the environment names one: `vostok serve` on the same machine.
const LOCAL: &str = "127.0.0.1:9876";

/// Access of an operation to the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Addresses of the name servers, separated by semicolons; `None` for those of the environment.
    pub name_servers: Option<String>,
    /// File with `accessKey` and `secretKey`; `None` for `conf/tools.yml` of `ROCKETMQ_HOME`, if there is one.
    pub credentials: Option<PathBuf>,
    /// Whether requests that change anything are only collected.
    pub is_dry_run: bool,
    /// Whether operations that name neither broker nor cluster are refused, as by `mqadmin`.
    pub needs_target: bool,
}

/// Outcome of an operation.
pub(crate) struct Outcome {
    /// The operation's answer.
    pub answer: Box<dyn Answer>,
    /// The requests that a dry run did not send.
    pub planned: Option<Vec<Planned>>,
}

/// Performs an operation, once or again after each pause, and shows each outcome until the output is closed.
///
/// # Errors
/// The errors of the operation; [`Error::Incomplete`] when its only answer was shown and is not complete.
#[expect(clippy::disallowed_methods, reason = "the shell of a command that repeats itself")]
pub(crate) fn perform(
    operation: &Operation,
    arguments: &Arguments,
    access: &Access,
    pause: Option<Duration>,
    mut show: impl FnMut(Outcome) -> Result<bool, Error>,
) -> Result<(), Error> {
    with_cluster(access, async |cluster: &Cluster| {
        loop {
            let session = cluster.session(access.is_dry_run);
            let session = if access.needs_target { session.without_default_cluster() } else { session };
            let answer = (operation.call)(&session, arguments).await?;
            let is_seen = show(Outcome { answer, planned: session.planned() })?;
            let failures = session.take_failures();
            match pause {
                Some(pause) if is_seen => {
                    // Standard error may be closed.
                    failures.iter().for_each(|why| _ = writeln!(std::io::stderr(), "{why}"));
                    tokio::time::sleep(pause).await;
                }
                _ if failures.is_empty() => return Ok(()),
                _ => return Err(Error::Incomplete(failures)),
            }
        }
    })
}

/// Connects to the cluster, does some work with it, and closes the connections.
pub(crate) fn session<T>(
    access: &Access,
    work: impl AsyncFnOnce(&Session) -> Result<T, Error>,
) -> Result<T, Error> {
    with_cluster(access, async |cluster: &Cluster| work(&cluster.session(access.is_dry_run)).await)
}

fn with_cluster<T>(
    access: &Access,
    work: impl AsyncFnOnce(&Cluster) -> Result<T, Error>,
) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cluster = connect(access)?;
    let done = runtime.block_on(work(&cluster));
    cluster.close();
    done
}

/// Connects to the cluster of `access`, encrypted as the `tls.*` settings of RocketMQ's clients demand.
pub(crate) fn connect(access: &Access) -> Result<Cluster, Error> {
    let variable = |name: &str| std::env::var(name).ok();
    let given = access.name_servers.clone().or_else(|| variable("NAMESRV_ADDR"));
    let mut config = Config::new(given.as_deref().unwrap_or(LOCAL));
    let security = TlsSources::of_environment(variable).and_then(TlsSources::of_tool);
    config.security = security.map_err(|why| Error::Usage(format!("TLS: {why}")))?;
    Cluster::connect(config, access.credentials.as_deref())
}

/// A lasting connection to a cluster.
pub struct Cluster {
    client: Client,
    name_servers: Vec<String>,
    /// Index of the name server that answered last, for all sessions.
    last_answered: Arc<AtomicUsize>,
}

impl Cluster {
    /// Connects to a cluster. Servers are asked on first use. Requests are signed with the keys of the file, otherwise of
    /// `conf/tools.yml` of `ROCKETMQ_HOME`.
    ///
    /// # Errors
    /// [`Error`] when the file has no keys, or the client's threads cannot be started.
    pub fn connect(mut config: Config, keys: Option<&Path>) -> Result<Self, Error> {
        config.credentials = credentials(keys)?;
        let name_servers = config.name_servers.clone();
        Ok(Self { client: Client::start(config)?, name_servers, last_answered: Arc::default() })
    }

    /// Begins a session of an operator. A dry run sends no request that changes anything.
    pub fn session(&self, is_dry_run: bool) -> Session {
        let session = Session::new(self.client.clone(), self.name_servers.clone(), now_ms(), is_dry_run);
        session.remembering(self.last_answered.clone())
    }

    /// Addresses of the name servers.
    pub fn name_servers(&self) -> &[String] {
        &self.name_servers
    }

    /// Closes the connections.
    pub fn close(&self) {
        self.client.shutdown();
    }
}

/// The settings of the broker at `address`, of Vostok or Apache RocketMQ.
///
/// # Errors
/// [`Error`]: the file with credentials is not readable, or the broker does not answer or refuses.
pub fn settings_of(address: &str, credentials: Option<&Path>) -> Result<BTreeMap<String, String>, Error> {
    let access = Access { credentials: credentials.map(Path::to_owned), ..Access::default() };
    session(&access, async |session: &Session| crate::broker::told_settings(session, address).await)
}

/// The time in ms since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The language of the environment.
pub(crate) fn lang() -> Lang {
    Lang::of_environment(|name| std::env::var(name).ok())
}

/// Reads credentials from a file like RocketMQ's `tools.yml`. If no file is given, the file of `ROCKETMQ_HOME` may be
/// absent.
fn credentials(file: Option<&Path>) -> Result<Option<Credentials>, Error> {
    let text = match (file, std::env::var_os("ROCKETMQ_HOME")) {
        (Some(file), _) => std::fs::read_to_string(file)
            .map_err(|why| Error::Usage(format!("cannot read {}: {why}", file.display())))?,
        (None, Some(home)) => {
            std::fs::read_to_string(Path::new(&home).join("conf/tools.yml")).unwrap_or_default()
        }
        (None, None) => String::new(),
    };
    match (scalar(&text, "accessKey"), scalar(&text, "secretKey")) {
        (Some(access), Some(secret)) => Ok(Some(Credentials::new(access, secret))),
        (None, None) if file.is_none() => Ok(None),
        _ => Err(Error::Usage("expected accessKey and secretKey in the file with credentials".to_owned())),
    }
}

/// A value at the top of a YAML file: `key: value`, the value with or without quotes (`AclUtils.getAclRPCHook`).
fn scalar<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    let inner = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    Some(inner('"').or_else(|| inner('\'')).unwrap_or(value)).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_from_yaml() {
        let text = "# tools\naccessKey: rocketmq2 # a user\nsecretKey: \"12:34\"\nempty:\n";
        assert_eq!(scalar(text, "accessKey"), Some("rocketmq2"));
        assert_eq!(scalar(text, "secretKey"), Some("12:34"));
        assert_eq!((scalar(text, "empty"), scalar(text, "absent")), (None, None));
    }
}
