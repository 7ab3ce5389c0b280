//! Admin calls about users and acls (Auth 2.0). Users and acls belong to a broker and are not copied to other
//! brokers.

use std::time::Duration;

use net::Response;
use serde::de::DeserializeOwned;
use wire::body::{AclInfo, NONCE, PROOF, USERS_VERSION, UserInfo, proven_head};
use wire::codes::request;
use wire::frame::FrameWriter;
use wire::json;

use crate::{Client, Error};

/// Longest time for a call: a change of many users is written to the broker's disk first.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The reason to disbelieve an answer.
const UNPROVEN: &str =
    "expected the answer of a broker that knows the secret of these credentials, found no proof of that";

/// Users and acls of a broker as it wrote them, with their passwords.
pub struct AccessLists {
    /// Address of the broker.
    pub broker: String,
    /// Version that the broker gives to this state of its users and acls, for [`Client::access_lists`]. Empty without
    /// a version.
    pub version: String,
    /// The answer to `AUTH_LIST_USER`; equal bytes are equal users.
    pub users: Vec<u8>,
    /// The answer to `AUTH_LIST_ACL`.
    pub acls: Vec<u8>,
}

impl Client {
    /// Returns all users of a broker (`AUTH_LIST_USER`). Vostok sends passwords to super users only.
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
    /// Errors of [`Client::users`].
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

    /// Fetches all users and acls of a broker. Returns `None` if the broker reports that `known` is current, which
    /// only Vostok reports. Responses must prove that the broker knows the secret of this client's credentials,
    /// unless the broker `is_believed`.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when the broker does not answer, [`Error::Refused`] when it refuses,
    /// [`Error::Answer`] when a response lacks its proof.
    pub async fn access_lists(
        &self,
        broker: &str,
        known: &str,
        is_believed: bool,
    ) -> Result<Option<AccessLists>, Error> {
        let ask = async |code, known| {
            let nonce = crate::sign::nonce();
            let write = |frame: FrameWriter<'_>| {
                frame.maybe(USERS_VERSION, known).text(NONCE, &nonce).finish(b"");
            };
            let reply = self.inner.remote.call(broker, code, TIMEOUT, write).await?;
            match is_believed || self.is_proven(&reply, code, &nonce) {
                true => Ok(reply),
                false => Err(Error::Answer { address: broker.to_owned(), why: UNPROVEN.to_owned() }),
            }
        };
        let version = |reply: &Response| reply.text(USERS_VERSION).unwrap_or_default().to_owned();
        let known = Some(known).filter(|known| !known.is_empty());
        let users = ask(request::AUTH_LIST_USER, known).await?;
        if known.is_some_and(|known| known == version(&users)) {
            return Ok(None);
        }
        let acls = ask(request::AUTH_LIST_ACL, None).await?;
        // Changes between the two responses are requested again.
        let version = Some(version(&users)).filter(|of_users| *of_users == version(&acls));
        Ok(Some(AccessLists {
            broker: broker.to_owned(),
            version: version.unwrap_or_default(),
            users: users.body,
            acls: acls.body,
        }))
    }

    /// Whether an answer was made with the secret of this client's credentials.
    fn is_proven(&self, reply: &Response, code: i32, nonce: &str) -> bool {
        let (Some(credentials), Some(proof)) = (&self.inner.remote.credentials, reply.text(PROOF)) else {
            return false;
        };
        let head = proven_head(code, nonce, reply.text(USERS_VERSION).unwrap_or_default());
        let expected = credentials.sign([head.as_bytes(), &reply.body]);
        // Each nonce is used once, so that the time of the comparison reveals nothing to an impostor.
        proof.as_bytes() == expected
    }

    /// Creates a user (`AUTH_CREATE_USER`), normal and enabled unless `user` contains other values.
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
    /// Errors of [`Client::create_user`], here when the user does not exist.
    pub async fn update_user(&self, broker: &str, user: &UserInfo) -> Result<(), Error> {
        let name = user.username.as_deref().unwrap_or_default();
        self.change(broker, request::AUTH_UPDATE_USER, ("username", name), &json::to_vec(user)).await
    }

    /// Adds an acl to that of its subject (`AUTH_CREATE_ACL`). Entries for the same resource are replaced.
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
        let write = |frame: FrameWriter<'_>| frame.text(key, name).finish(body);
        self.inner.remote.call(broker, code, TIMEOUT, write).await.map(|_| ())
    }
}
