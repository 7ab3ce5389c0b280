//! Requests about users and acls: 3001 to 3010 (`AdminBrokerProcessor.createUser` to `AdminBrokerProcessor.listAcl`). They run in
//! the disk pool, because a change is on disk before it counts.

use auth::{Auth, AuthError, Subject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::body::{AclInfo, NONCE, NONCE_BYTES_MAX, PROOF, USERS_VERSION, UserInfo, proven_head};
use wire::seal::SEAL;

use super::answer::Answer;
use super::codec::{done, json};
use super::incoming::Request;
use crate::{Refusal, Result};

/// Users and acls.
///
/// # Errors
/// `SYSTEM_ERROR` with RocketMQ's text when `authenticationMetadataProvider` is not set, so that no users are kept.
fn auth<'a>(r: &Request<'a>) -> Result<&'a Auth> {
    let auth = r.broker.sessions.gate.auth();
    if auth.settings().keeps_users {
        return Ok(auth);
    }
    Err(Refusal::error(
        "An system error occurred, please try again later. Cause: no users and acls are kept, authenticationMetadataProvider is not set",
    ))
}

fn body<T: DeserializeOwned + Default>(r: &Request<'_>) -> Result<T> {
    if r.command.body.is_empty() { Ok(T::default()) } else { r.body() }
}

fn field<'a>(r: &Request<'a>, name: &str) -> &'a str {
    r.text(name).unwrap_or_default()
}

/// The name of the user that a request is about; that of the body when the header has none.
fn named<'a>(r: &Request<'a>, info: &'a UserInfo) -> &'a str {
    r.word("username").or(info.username.as_deref()).unwrap_or_default()
}

/// Makes a response with a list. An empty list has no body.
fn list(found: Vec<impl Serialize>) -> Answer {
    if found.is_empty() { Answer::success() } else { json(found) }
}

/// 3001 `AUTH_CREATE_USER`.
pub(super) fn create_user(r: &Request<'_>) -> Result<Answer> {
    let (auth, info) = (auth(r), body::<UserInfo>(r)?);
    blank_user(named(r, &info))?;
    if info.password.as_deref().is_none_or(|password| password.trim().is_empty()) {
        // Checked even if no users are stored (`AuthenticationMetadataManagerImpl.validate`).
        return Err(AuthError::Invalid("password can not be blank").into());
    }
    Ok(auth?.create_user(&r.caller.user, named(r, &info), &info).map(done)?)
}

/// 3002 `AUTH_UPDATE_USER`.
pub(super) fn update_user(r: &Request<'_>) -> Result<Answer> {
    let (auth, info) = (auth(r), body::<UserInfo>(r)?);
    blank_user(named(r, &info))?;
    Ok(auth?.update_user(&r.caller.user, named(r, &info), &info).map(done)?)
}

/// Refuses a blank name, even on a server without users, as in RocketMQ.
fn blank_user(name: &str) -> Result<(), AuthError> {
    if name.trim().is_empty() { Err(AuthError::BlankUser) } else { Ok(()) }
}

/// 3003 `AUTH_DELETE_USER`.
pub(super) fn delete_user(r: &Request<'_>) -> Result<Answer> {
    let name = r.word("username").ok_or(AuthError::Invalid("username can not be blank"))?;
    Ok(auth(r)?.delete_user(&r.caller.user, name).map(done)?)
}

/// Returns the identity for which users are shown. With `authenticationHidesPasswords`, a caller without a seal
/// ([`wire::seal`]) sees what an anonymous caller sees. The gate has checked the seal of a user.
fn reader<'a>(r: &Request<'a>, auth: &Auth) -> &'a Subject {
    let is_sealed = || matches!(r.caller.user, Subject::User(_)) && r.text(SEAL).is_some();
    match !auth.settings().hides_passwords || is_sealed() {
        true => &r.caller.user,
        false => &Subject::Anonymous,
    }
}

/// 3004 `AUTH_GET_USER`: without a body when there is no such user.
pub(super) fn user(r: &Request<'_>) -> Result<Answer> {
    blank_user(field(r, "username"))?;
    let auth = auth(r)?;
    let found = auth.user(reader(r, auth), field(r, "username"))?;
    Ok(found.map_or_else(Answer::success, json))
}

/// 3005 `AUTH_LIST_USER`: without a body for a caller who has the present list.
pub(super) fn users(r: &Request<'_>) -> Result<Answer> {
    let auth = auth(r)?;
    // Read before the users: a change between the two is asked for again.
    let version = auth.version();
    let answer = match r.text(USERS_VERSION) == Some(&version) {
        true => Answer::success(),
        false => list(auth.users(reader(r, auth), field(r, "filter"))),
    };
    Ok(proven(r, answer, version))
}

/// Adds the version of the users to the response. If the request has a nonce, also adds a proof that the response comes
/// from a server that knows the secret of the user in the request's access key.
fn proven(r: &Request<'_>, answer: Answer, version: String) -> Answer {
    let nonce = r.text(NONCE).filter(|nonce| nonce.len() <= NONCE_BYTES_MAX);
    let proof = nonce.and_then(|nonce| {
        let head = proven_head(r.command.code, nonce, &version);
        r.broker.sessions.gate.auth().prove(field(r, auth::ACCESS_KEY), &[head.as_bytes(), &answer.body])
    });
    let answer = answer.field(USERS_VERSION, version);
    match proof {
        Some(proof) => answer.field(PROOF, proof),
        None => answer,
    }
}

/// 3006 `AUTH_CREATE_ACL` and 3007 `AUTH_UPDATE_ACL`, which do the same.
pub(super) fn change_acl(r: &Request<'_>) -> Result<Answer> {
    Ok(auth(r)?.change_acl(field(r, "subject"), &body::<AclInfo>(r)?).map(done)?)
}

/// 3008 `AUTH_DELETE_ACL`.
pub(super) fn delete_acl(r: &Request<'_>) -> Result<Answer> {
    let subject = r.word("subject").ok_or(AuthError::Invalid("The subject is null."))?;
    Ok(auth(r)?.delete_acl(subject, field(r, "policyType"), field(r, "resource")).map(done)?)
}

/// 3009 `AUTH_GET_ACL`: without a body when the user has none.
pub(super) fn acl(r: &Request<'_>) -> Result<Answer> {
    let subject = r.word("subject").ok_or(AuthError::Invalid("The subject is null."))?;
    Ok(auth(r)?.acl(subject)?.map_or_else(Answer::success, json))
}

/// 3010 `AUTH_LIST_ACL`.
pub(super) fn acls(r: &Request<'_>) -> Result<Answer> {
    let auth = auth(r)?;
    let version = auth.version();
    Ok(proven(r, list(auth.acls(field(r, "subjectFilter"), field(r, "resourceFilter"))), version))
}

#[cfg(test)]
mod tests;
