//! Lines of the audit log (`auth_audit.log`): RocketMQ's text, and after it address, connection and the rule that decided.
//! RocketMQ prints signatures; these lines never have one, nor a secret.

use std::net::IpAddr;

use crate::auth::{Identity, Ruling};
use crate::config::Request;
use crate::error::{AuthError, shown};
use crate::resource::Needed;

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Address of the client, or the one that a trusted proxy named.
    pub address: IpAddr,
    /// Id of the connection.
    pub connection: u64,
}

/// The line about an authentication. RocketMQ writes it at level info when it failed, else at debug.
#[must_use]
pub fn authentication(user: &str, origin: Origin, result: &Result<Identity, AuthError>) -> String {
    let (word, reason) = match result {
        Ok(_) => ("success", "verified".to_owned()),
        Err(error) => ("failed", error.to_string()),
    };
    let Origin { address, connection } = origin;
    format!(
        "[AUTHENTICATION] User:{} is authenticated {word} with Signature = ***. address = {address}, connection = {connection}, rule = {reason}",
        shown(user),
    )
}

/// The line about a decision. RocketMQ writes it at level info when the request is refused, else at debug.
#[must_use]
pub fn authorization(
    identity: &Identity,
    origin: Origin,
    request: Request<'_>,
    needed: &Needed<'_>,
    ruling: &Ruling,
) -> String {
    let subject = match identity {
        Identity::User(name) => format!("User:{}", shown(name)),
        Identity::Off | Identity::Anonymous => "null".to_owned(),
    };
    let word = if ruling.is_allowed() { "Allow" } else { "Deny" };
    let Origin { address, connection } = origin;
    format!(
        "[AUTHORIZATION] Subject = {subject} is {word} Action = {} from sourceIp = {address} on resource = {} for request = {}. \
         connection = {connection}, rule = {}",
        needed.actions,
        shown(&needed.resource.to_string()),
        shown(&request.to_string()),
        shown(&ruling.rule.to_string()),
    )
}

#[cfg(test)]
mod tests;
