//! Lines of the audit log (`auth_audit.log`): RocketMQ's text, and after it address, connection and the rule that decided.
//! RocketMQ prints signatures; these lines never have one, nor a secret.

pub use crate::auth::Origin;
use crate::auth::{Ruling, Subject};
use crate::config::Request;
use crate::error::{AuthError, printable};
use crate::resource::Permission;

/// Makes the line about an authentication. RocketMQ writes failures at level info, and successes at debug.
pub fn authentication(user: &str, origin: Origin, result: Result<&Subject, &AuthError>) -> String {
    let (word, reason) = match result {
        Ok(_) => ("success", "verified".to_owned()),
        Err(error) => ("failed", error.to_string()),
    };
    let Origin { address, connection } = origin;
    format!(
        "[AUTHENTICATION] User:{} is authenticated {word} with Signature = ***. address = {address}, connection = {connection}, rule = {reason}",
        printable(user),
    )
}

/// The line about a decision. RocketMQ writes it at level info when the request is refused, else at debug.
pub fn authorization(
    identity: &Subject,
    origin: Origin,
    request: Request<'_>,
    needed: &Permission<'_>,
    ruling: &Ruling,
) -> String {
    let word = if ruling.is_allowed() { "Allow" } else { "Deny" };
    let (actions, resource) = (needed.actions.to_string(), needed.resource.to_string());
    decision((identity, origin, request), word, (&actions, &resource), &ruling.rule.to_string())
}

/// Makes the line about a request that is refused before its needs are known, or by ACL 1.0. RocketMQ writes no such
/// line.
pub fn refusal(identity: &Subject, origin: Origin, request: Request<'_>, reason: &str) -> String {
    decision((identity, origin, request), "Deny", ("null", "null"), reason)
}

fn decision(
    (identity, origin, request): (&Subject, Origin, Request<'_>),
    word: &str,
    (actions, resource): (&str, &str),
    rule: &str,
) -> String {
    let subject = match identity {
        Subject::User(name) => format!("User:{}", printable(name)),
        Subject::Off | Subject::Anonymous => "null".to_owned(),
    };
    let Origin { address, connection } = origin;
    format!(
        "[AUTHORIZATION] Subject = {subject} is {word} Action = {actions} from sourceIp = {address} on resource = {} for request = {}. \
         connection = {connection}, rule = {}",
        printable(resource),
        printable(&request.to_string()),
        printable(rule),
    )
}

#[cfg(test)]
mod tests;
