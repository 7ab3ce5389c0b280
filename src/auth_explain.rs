//! `vostok auth explain`: why a request of a user would be served or refused, from the files of users and acls. Nothing is changed and no
//! broker is asked; `vostok auth import` makes the files of a running one.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use auth::{Auth, AuthConfig, PlainFiles, Request};
use broker::{Named, needs_of_code};
use clap::Args;
use wire::body::parse_key_values;
use wire::codes::request;

use crate::roles::Error;

/// Cluster of a broker whose file names none.
const CLUSTER: &str = "DefaultCluster";

/// Settings for users and acls without a configuration file: authentication, authorization and the strict check are on,
/// as in a start without a file.
const BOTH: [(&str, &str); 5] = [
    ("authorizationStrict", "true"),
    ("authenticationEnabled", "true"),
    (
        "authenticationMetadataProvider",
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
    ),
    ("authorizationEnabled", "true"),
    (
        "authorizationMetadataProvider",
        "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
    ),
];

/// Settings with which a start would change the files.
const CHANGING: [(&str, &str); 3] = [
    ("initAuthenticationUser", ""),
    ("innerClientAuthenticationCredentials", ""),
    ("migrateAuthFromV1Enabled", "false"),
];

/// Arguments of `vostok auth explain`.
#[derive(Args)]
pub struct Explain {
    /// The user.
    #[arg(long, value_name = "NAME")]
    user: String,
    /// Code of the request, as in docs/requests.md: 310 is a send.
    #[arg(long, value_name = "CODE")]
    request: i32,
    /// The topic that the request names.
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// The consumer group that the request names.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Address of the client.
    #[arg(long, value_name = "IP")]
    from: IpAddr,
    /// The broker's configuration file: its white lists, authorizationStrict, cluster and store count.
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of users.json and acls.json; without it config below the store of the configuration file, or ./data/config.
    #[arg(long = "in", value_name = "DIR")]
    input: Option<PathBuf>,
    /// Decide as with authorizationStrict=true, and as without a configuration file.
    #[arg(long)]
    strict: bool,
}

/// Settings of the broker that decide about requests.
struct Server {
    settings: AuthConfig,
    directory: PathBuf,
    cluster: String,
}

impl Explain {
    /// The explanation, in lines.
    ///
    /// # Errors
    /// A file cannot be read, or its settings stop a start.
    pub fn run(&self) -> Result<String, Error> {
        let Server { settings, directory, cluster } = self.server()?;
        let plain = PlainFiles { file: directory.join("none"), directory: directory.join("none") };
        let auth = Auth::open(&settings, &directory, &plain)
            .map_err(|error| Error::new("users and acls cannot be used", error))?;
        if auth.settings().is_plain {
            let found = "aclEnable is on, which is ACL 1.0";
            return Err(Error::new("expected users and acls of Auth 2.0", found));
        }
        let named = Named { topic: self.topic.as_deref(), group: self.group.as_deref(), cluster: &cluster };
        let needs = needs_of_code(self.request, named, auth.settings().is_strict);
        self.check_is_named(named, auth.settings().is_strict, needs.len())?;
        let code = Request::Code(self.request);
        let explanation = auth.explain(&self.user, code, self.from, &needs);
        let mut text = String::new();
        let name = request::name(self.request).unwrap_or("an unknown request");
        let _ = writeln!(text, "request {} ({name}) of {} from {}", self.request, self.user, self.from);
        if auth.settings().unsigned.contains(code) {
            let why =
                "authenticationWhitelist: the request needs no signature, and without one it has no user";
            let _ = writeln!(text, "{why}");
        }
        let _ = write!(text, "{explanation}");
        Ok(text)
    }

    /// Refuses to explain a request whose topic or group is not given. `found` is the number of permissions that the
    /// request needs as given. If it needs more with a topic or group, the explanation would leave them out.
    fn check_is_named(&self, named: Named<'_>, is_strict: bool, found: usize) -> Result<(), Error> {
        let needs_more = |named| needs_of_code(self.request, named, is_strict).len() > found;
        let without_topic = named.topic.is_none() && needs_more(Named { topic: Some("any"), ..named });
        let without_group = named.group.is_none() && needs_more(Named { group: Some("any"), ..named });
        let expected = match (without_topic, without_group) {
            (false, false) => return Ok(()),
            (true, false) => "expected --topic, because the request names a topic",
            (false, true) => "expected --group, because the request names a consumer group",
            (true, true) => "expected --topic and --group, because the request names both",
        };
        Err(Error::new(format!("request {} cannot be explained", self.request), expected))
    }

    fn server(&self) -> Result<Server, Error> {
        let mut settings = AuthConfig::default();
        let (mut store, mut cluster) = (None, CLUSTER.to_owned());
        match &self.config {
            None => set(&mut settings, BOTH),
            Some(path) => {
                for (key, value) in read(path)? {
                    match key.as_str() {
                        "storePathRootDir" => store = Some(PathBuf::from(value.trim()).join("config")),
                        "brokerClusterName" => value.trim().clone_into(&mut cluster),
                        key => {
                            settings.set(key, &value);
                        }
                    }
                }
            }
        }
        set(&mut settings, CHANGING);
        if self.strict {
            set(&mut settings, [("authorizationStrict", "true")]);
        }
        let directory = self.input.clone().or(store).unwrap_or_else(|| PathBuf::from("./data/config"));
        if !directory.join("users.json").is_file() {
            let expected =
                "expected users.json; name its directory with --in, or make it with `vostok auth import`";
            return Err(Error::new(directory.display(), expected));
        }
        Ok(Server { settings, directory, cluster })
    }
}

fn set<const N: usize>(settings: &mut AuthConfig, values: [(&str, &str); N]) {
    for (key, value) in values {
        assert!(settings.set(key, value), "{key} is a setting");
    }
}

fn read(path: &Path) -> Result<Vec<(String, String)>, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::new(path.display(), error);
    let text = fs::read(path).map_err(|error| failed(&error))?;
    let values = parse_key_values(&text).map_err(|error| failed(&error))?;
    Ok(values.into_iter().collect())
}
