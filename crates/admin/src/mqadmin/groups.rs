//! Groups of options of a command of `mqadmin`, of which exactly one must be given (`OptionGroup` of commons-cli).

use super::options::Given;
use crate::Argument;

/// Commands that want either a broker or a cluster.
const BROKER_OR_CLUSTER: &str = "brokerStatus createAcl createUser deleteAcl deleteUser getAcl getBrokerConfig getBrokerEpoch \
    getBrokerLiteInfo getUser listAcl listUser remappingStaticTopic switchTimerEngine updateAcl \
    updateStaticTopic updateSubGroupList updateTopic updateTopicList updateUser";

/// The short names of the options of each group of a command.
fn groups(name: &str) -> Vec<&'static [&'static str]> {
    let mut groups: Vec<&'static [&'static str]> = Vec::new();
    if BROKER_OR_CLUSTER.split(' ').any(|it| it == name) {
        groups.push(&["b", "c"]);
    }
    if name == "updateUser" {
        groups.push(&["p", "t", "s"]);
    }
    groups
}

/// Refuses two options of a group, with the text of commons-cli. That none was given is left to the operation.
///
/// # Errors
/// The text for the user.
pub(super) fn check(name: &str, options: &[&'static Argument], given: &Given) -> Result<(), String> {
    // `vostok admin` deletes from the only cluster.
    if name == "deleteTopic" && given.arguments.get("cluster").is_none() {
        return Err("Missing required option: c".to_owned());
    }
    for group in groups(name) {
        let is_given = |short: &&&str| {
            let option = options.iter().find(|option| option.short == **short);
            option.is_some_and(|option| given.arguments.get(option.name).is_some())
        };
        let mut found = group.iter().filter(is_given);
        if let (Some(first), Some(second)) = (found.next(), found.next()) {
            return Err(format!(
                "The option '{second}' was specified but an option from this group has already been selected: '{first}'"
            ));
        }
    }
    Ok(())
}
