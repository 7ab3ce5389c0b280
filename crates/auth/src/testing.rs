//! Shared code of several modules' tests.

use std::cell::Cell;
use std::net::IpAddr;
use std::path::PathBuf;

use tempfile::TempDir;
use wire::body::{AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo};
use wire::frame::{Command, Encoding, FrameWriter, Head};

use crate::auth::{Auth, StartError, Subject};
use crate::config::{AuthConfig, Request};
use crate::names::{Action, Actions};
use crate::plain::PlainFiles;
use crate::resource::{Permission, Resource};
use crate::signature::{SIGNATURE, Signable};

thread_local! {
    /// Bytes of signed content that this thread has hashed to check signatures.
    pub(crate) static HASHED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The settings of a broker with authentication and authorization.
pub(crate) const BOTH: [(&str, &str); 5] = [
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
    ("initAuthenticationUser", r#"{"username":"rocketmq2","password":"12345678"}"#),
];

/// Directories of a server.
pub(crate) struct Fixture {
    pub(crate) home: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn plain(&self) -> PlainFiles {
        PlainFiles { file: self.path("plain_acl.yml"), directory: self.path("acl") }
    }

    pub(crate) fn open(&self, settings: &[(&str, &str)]) -> Result<Auth, StartError> {
        let mut config = AuthConfig::default();
        for (key, value) in settings {
            assert!(config.set(key, value), "{key}");
        }
        Auth::open(&config, self.home.path(), &self.plain())
    }

    /// A server with [`BOTH`] and more settings.
    pub(crate) fn auth(&self, more: &[(&str, &str)]) -> Auth {
        self.open(&[&BOTH, more].concat()).unwrap()
    }
}

pub(crate) fn root() -> Subject {
    Subject::User("rocketmq2".into())
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn topic<'a>(name: &'a str, actions: &[Action]) -> Permission<'a> {
    Permission::new(Resource::topic(name), Actions::of(actions))
}

pub(crate) fn group<'a>(name: &'a str, actions: &[Action]) -> Permission<'a> {
    Permission::new(Resource::group(name), Actions::of(actions))
}

pub(crate) fn user(password: &str, kind: &str) -> UserInfo {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    UserInfo { password: text(password), user_type: text(kind), ..UserInfo::default() }
}

/// An entry from `decision actions resource [addresses]`, lists with commas.
pub(crate) fn entry(text: &str) -> PolicyEntryInfo {
    let words: Vec<_> = text.split(' ').collect();
    let list = |at: usize| words.get(at).map(|text| text.split(',').map(str::to_owned).collect());
    PolicyEntryInfo {
        decision: Some(words[0].to_owned()),
        actions: list(1),
        resource: Some(words[2].to_owned()),
        source_ips: list(3),
    }
}

/// Makes an acl of entries. Entries that begin with `default` belong to the default policy.
pub(crate) fn acl(entries: &[&str]) -> AclInfo {
    let policies = entries.iter().map(|text| {
        let (kind, text) =
            text.strip_prefix("default ").map_or((None, *text), |text| (Some("Default".to_owned()), text));
        PolicyInfo { entries: Some(vec![entry(text)]), policy_type: kind }
    });
    AclInfo { policies: Some(policies.collect()), subject: None }
}

/// The refusal of a request, or `served by` and the rule.
pub(crate) fn decide(auth: &Auth, name: &str, from: &str, needed: &[Permission<'_>]) -> String {
    let ruling = auth.decide(&Subject::User(name.into()), Request::Code(310), ip(from), needed);
    ruling.refusal.map_or_else(|| format!("served by {}", ruling.rule), |refusal| refusal.to_string())
}

/// Calls `use_it` with a request that has these fields.
pub(crate) fn with_request<T>(
    encoding: Encoding,
    fields: &[(&'static str, &str)],
    body: &[u8],
    use_it: impl FnOnce(Signable<'_>) -> T,
) -> T {
    let mut frame = Vec::new();
    let writer = FrameWriter::begin(&mut frame, Head::request(encoding, 105, 7));
    fields.iter().fold(writer, |writer, (name, value)| writer.text(name, value)).finish(body);
    let command = Command::decode(&mut frame).unwrap();
    use_it(Signable::from(&command))
}

/// The fields of the first vector of the specification, signed by `rocketmq2` with `12345678`.
pub(crate) const VECTOR: [(&str, &str); 3] =
    [("topic", "TopicTest"), ("AccessKey", "rocketmq2"), (SIGNATURE, "GeeGoP9mRvDhoVp4PD5omX0prgE=")];
