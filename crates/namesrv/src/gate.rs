//! Gate: authentication of requests, if the name server requires it. RocketMQ's name server does not. The
//! settings, codes and texts of refusals are those of RocketMQ's broker. The gate has no sockets and no
//! clock, like the request handler.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use auth::audit::Origin;
use auth::{
    ACCESS_KEY, Action, Actions, Arrival, Attempt, Auth, Denial, Permission, PlainFiles, Request, Resource,
    Signable, StartError, Switch,
};
use wire::codes::request;
use wire::frame::Command;

use crate::Config;

/// Requests that change routes or settings, or keep a broker in the routes.
const CHANGES: [i32; 11] = [
    request::REGISTER_BROKER,
    request::UNREGISTER_BROKER,
    request::QUERY_DATA_VERSION,
    request::BROKER_HEARTBEAT,
    request::WIPE_WRITE_PERM_OF_BROKER,
    request::ADD_WRITE_PERM_OF_BROKER,
    request::DELETE_TOPIC_IN_NAMESRV,
    request::REGISTER_TOPIC_IN_NAMESRV,
    request::PUT_KV_CONFIG,
    request::DELETE_KV_CONFIG,
    request::UPDATE_NAMESRV_CONFIG,
];

/// The users of the name server, from `users.json` and `acls.json` beside its `kvConfig.json`.
pub(crate) struct Gate {
    auth: Auth,
}

impl Gate {
    /// Reads the users. Returns `None` without authentication.
    ///
    /// # Errors
    /// Errors of [`Auth::open`].
    pub fn open(config: &Config) -> Result<Option<Self>, StartError> {
        let directory = config.kv_config_path.parent().unwrap_or(Path::new("."));
        if config.auth.check()?.authentication == Switch::Off {
            return Ok(None);
        }
        // No setting of the name server imports accounts of ACL 1.0.
        let none = PlainFiles { file: directory.join("plain_acl.yml"), directory: directory.join("acl") };
        Ok(Some(Self { auth: Auth::open(&config.auth, directory, &none)? }))
    }

    /// Reads replaced files again. Invalid files leave the users unchanged.
    pub fn reload(&self) {
        match self.auth.reload() {
            Ok(true) => tracing::info!("the users of the name server have changed"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "the users of the name server stay as they were"),
        }
    }

    /// Whether a request is served that arrives at `now_ms` of the steady clock and `wall_ms` of the wall clock.
    /// `mark` is the mark of the connection.
    ///
    /// # Errors
    /// [`Denial`] when the sender is no user with permission for the request.
    pub fn admit(
        &self,
        (now_ms, wall_ms): (i64, i64),
        command: &Command<'_>,
        origin: Origin,
        mark: &AtomicU64,
    ) -> Result<(), Denial> {
        let user = command.fields.text(ACCESS_KEY).unwrap_or_default();
        let request = Request::Code(command.code);
        let signed = Signable::from(command);
        // A name server does not know the addresses that its clients dial.
        let arrival = Arrival { now_ms: wall_ms, is_own: None, is_forwarded: false };
        let verify = || {
            let identity = self.auth.verify(&signed)?;
            self.auth.check_seal(&identity, &signed, arrival).map(|()| identity)
        };
        let sender = self.auth.authenticate(Attempt { now_ms, origin, request, user, mark }, verify)?;
        let needs = || {
            let cluster = Resource::cluster(command.fields.text("clusterName").unwrap_or_default());
            let change = Permission::new(cluster, Actions::of(&[Action::Update]));
            Ok(CHANGES.contains(&command.code).then_some(change).into_iter().collect())
        };
        Ok(self.auth.authorize(now_ms, (&sender, request), origin, needs)?)
    }
}

#[cfg(test)]
mod tests;
