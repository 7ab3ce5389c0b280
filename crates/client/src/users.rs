//! Admin calls about users and acls (Auth 2.0). Users and acls belong to one broker; nothing carries them to others.

use std::time::Duration;

use serde::de::DeserializeOwned;
use wire::body::{AclInfo, UserInfo};
use wire::codes::request;
use wire::json;

use crate::{Client, Error};

/// Longest time for a call: a change of many users is written to the broker's disk first.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Client {
    /// All users of a broker (`AUTH_LIST_USER`), empty when there are none. Vostok tells passwords to super users only.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses,
    /// [`Error::Answer`] when its answer is malformed.
    pub async fn users(&self, broker: &str) -> Result<Vec<UserInfo>, Error> {
        self.list(broker, request::AUTH_LIST_USER).await
    }

    /// The acls of all users of a broker (`AUTH_LIST_ACL`), empty when there are none.
    ///
    /// # Errors
    /// As [`Client::users`].
    pub async fn acls(&self, broker: &str) -> Result<Vec<AclInfo>, Error> {
        self.list(broker, request::AUTH_LIST_ACL).await
    }

    async fn list<T: DeserializeOwned>(&self, broker: &str, code: i32) -> Result<Vec<T>, Error> {
        let reply = self.inner.remote.call(broker, code, TIMEOUT, |frame| frame.finish(b"")).await?;
        if reply.body.is_empty() {
            return Ok(Vec::new());
        }
        json::from_slice(&reply.body)
            .map_err(|why| Error::Answer { address: broker.to_owned(), why: why.to_string() })
    }

    /// Creates a user (`AUTH_CREATE_USER`), normal and enabled unless `user` says something else.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses, also when the user
    /// exists.
    pub async fn create_user(&self, broker: &str, user: &UserInfo) -> Result<(), Error> {
        let name = user.username.as_deref().unwrap_or_default();
        self.change(broker, request::AUTH_CREATE_USER, ("username", name), &json::to_vec(user)).await
    }

    /// Changes the given members of a user (`AUTH_UPDATE_USER`).
    ///
    /// # Errors
    /// As [`Client::create_user`], here when the user does not exist.
    pub async fn update_user(&self, broker: &str, user: &UserInfo) -> Result<(), Error> {
        let name = user.username.as_deref().unwrap_or_default();
        self.change(broker, request::AUTH_UPDATE_USER, ("username", name), &json::to_vec(user)).await
    }

    /// Adds an acl to that of its subject (`AUTH_CREATE_ACL`): entries for the same resource are replaced.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses, also when the
    /// subject does not exist.
    pub async fn create_acl(&self, broker: &str, acl: &AclInfo) -> Result<(), Error> {
        let subject = acl.subject.as_deref().unwrap_or_default();
        self.change(broker, request::AUTH_CREATE_ACL, ("subject", subject), &json::to_vec(acl)).await
    }

    async fn change(
        &self,
        broker: &str,
        code: i32,
        (key, name): (&'static str, &str),
        body: &[u8],
    ) -> Result<(), Error> {
        let write = |frame: wire::frame::FrameWriter<'_>| frame.text(key, name).finish(body);
        self.inner.remote.call(broker, code, TIMEOUT, write).await.map(|_| ())
    }
}
