//! Requests about the rules of ACL 1.0: 50 to 53, which tools up to 5.2 send
//! (`AdminBrokerProcessor.updateAndCreateAccessConfig` to `AdminBrokerProcessor.getBrokerAclConfigVersion` of 4.9.8). They run in
//! the disk pool, because a change is on disk before it counts.

use std::path::Path;

use auth::{PlainAccount, PlainAcl, PlainVersion};
use serde_json::{Map, Value, json};
use wire::codes::response;

use super::answer::Answer;
use super::incoming::Request;
use crate::{Refusal, Result};

/// Response code of 4.9.8 for a failed change of an account (`ResponseCode`). Later versions use this number and the next
/// two for responses to pops.
const UPDATE_FAILED: i32 = 209;
const DELETE_FAILED: i32 = 210;
const WHITE_LIST_FAILED: i32 = 211;

/// The rules.
///
/// # Errors
/// `code` while ACL 1.0 is off.
fn rules<'a>(r: &Request<'a>, code: i32) -> Result<&'a PlainAcl> {
    let off = || Refusal::new(code, "expected aclEnable=true, found false: there are no rules of ACL 1.0");
    r.broker.sessions.gate.plain().ok_or_else(off)
}

/// The parts of a text with commas; `None` when the field is absent.
fn list(r: &Request<'_>, key: &str) -> Option<Vec<String>> {
    let words = r.text(key)?.split(',').map(str::trim);
    Some(words.filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

/// 50 `UPDATE_AND_CREATE_ACL_CONFIG`: an existing account keeps the values that the request does not name.
pub(super) fn update_account(r: &Request<'_>) -> Result<Answer> {
    let word = |key| r.word(key).map(str::to_owned);
    let account = PlainAccount {
        access_key: word("accessKey").unwrap_or_default(),
        secret_key: word("secretKey").unwrap_or_default(),
        white_remote_address: r.text("whiteRemoteAddress").map(str::to_owned),
        admin: Some(r.flag_or("admin", false)),
        default_topic_perm: word("defaultTopicPerm"),
        default_group_perm: word("defaultGroupPerm"),
        topic_perms: list(r, "topicPerms"),
        group_perms: list(r, "groupPerms"),
    };
    let updated = rules(r, UPDATE_FAILED)?.update_account(&account, r.broker.runtime.now_ms());
    updated.map(|()| Answer::success()).map_err(|error| Refusal::new(UPDATE_FAILED, error.to_string()))
}

/// 51 `DELETE_ACL_CONFIG`.
pub(super) fn delete_account(r: &Request<'_>) -> Result<Answer> {
    let name = r.word("accessKey").unwrap_or_default();
    match rules(r, DELETE_FAILED)?.delete_account(name, r.broker.runtime.now_ms()) {
        Ok(true) => Ok(Answer::success()),
        Ok(false) => {
            let text =
                format!("The accesskey[{name}] corresponding to accessConfig has been deleted failed.");
            Err(Refusal::new(DELETE_FAILED, text))
        }
        Err(error) => Err(Refusal::new(DELETE_FAILED, error.to_string())),
    }
}

/// 52 `GET_BROKER_CLUSTER_ACL_INFO`: how often each file was changed by requests, and when.
pub(super) fn versions(r: &Request<'_>) -> Result<Answer> {
    let rules = rules(r, response::SYSTEM_ERROR)?;
    let shown = |version: PlainVersion| json!({ "counter": version.counter, "timestamp": version.timestamp });
    let (versions, main) = (rules.versions(), rules.main_file());
    let of_main = versions.iter().find(|(path, _)| path == main).map(|(_, version)| *version);
    let all = versions.iter().map(|(path, version)| (path.display().to_string(), shown(*version)));
    Ok(Answer::success()
        .field("version", shown(of_main.unwrap_or_default()))
        .field("allAclFileVersion", Value::from(all.collect::<Map<_, _>>()))
        .field("brokerName", &r.broker.runtime.config.broker_name)
        .field("brokerAddr", r.broker.identity.address())
        .field("clusterName", &r.broker.runtime.config.broker_cluster_name))
}

/// 53 `UPDATE_GLOBAL_WHITE_ADDRS_CONFIG`: the addresses of a file that need no signature. The default is the main
/// file of the rules.
pub(super) fn update_white_list(r: &Request<'_>) -> Result<Answer> {
    let rules = rules(r, WHITE_LIST_FAILED)?;
    let addresses = list(r, "globalWhiteAddrs").ok_or_else(|| {
        Refusal::new(WHITE_LIST_FAILED, "The globalWhiteAddresses[null] has been updated failed.")
    })?;
    let updated = rules.update_white_list(
        &addresses,
        r.word("aclFileFullPath").map(Path::new),
        r.broker.runtime.now_ms(),
    );
    updated.map(|()| Answer::success()).map_err(|error| Refusal::new(WHITE_LIST_FAILED, error.to_string()))
}

#[cfg(test)]
mod tests;
