//! Refusal of a start next to a running broker of the same name and id. Name servers know one address for each name and
//! id. So the two brokers would take each other's clients away, and consumers of one would not find messages that were
//! sent to the other.

use std::collections::BTreeMap;
use std::time::Duration;

use client::Client;
use net::tls::Security;
use wire::body::{ClusterInfo, parse_key_values};
use wire::codes::request;
use wire::settings::counts_after_restart;

use crate::call::{self, call, parse};
use crate::roles::Error;

/// Longest time that a server which does not answer holds up a start.
const PATIENCE: Duration = Duration::from_secs(1);

/// Refuses a broker whose name and id one of the name servers knows at an address where a broker with this name and id
/// answers. Both are asked as the broker asks name servers later: with its keys, over TLS where it is on. Servers that are down,
/// refuse or do not answer in a second prove nothing. Brokers under controllers get their id from them and are not looked at.
///
/// # Errors
/// Such a broker runs; the text says where, and what to do. The threads that ask cannot be started.
pub async fn refuse(
    config: &broker::Config,
    name_servers: &[String],
    security: &Security,
) -> Result<(), Error> {
    let Some(first) = name_servers.first().filter(|_| !config.is_controlled()) else {
        return Ok(());
    };
    let (name, id) = (&config.broker_name, config.broker_id);
    let client = call::client(first, security.clone(), config.own_credentials())?;
    let mut found = None;
    for name_server in name_servers {
        if let Some(address) = running(&client, name_server, name, id).await {
            found = Some((name_server, address));
            break;
        }
    }
    client.shutdown();
    if let Some((name_server, address)) = found {
        return Err(Error::new(
            format!("the broker {name} with the id {id} runs already"),
            format!(
                "it answers at {address}, where the name server {name_server} knows it; stop it, or give this broker another brokerName \
                 (a slave of it: another brokerId)"
            ),
        ));
    }
    Ok(())
}

/// Address of the broker with this name and id that a name server knows, if such a broker answers there.
async fn running(client: &Client, name_server: &str, name: &str, id: i64) -> Option<String> {
    let nothing: (&[(&str, &str)], &[u8]) = (&[], &[]);
    let known = call(client, name_server, PATIENCE, request::GET_BROKER_CLUSTER_INFO, nothing).await.ok()?;
    let known: ClusterInfo = parse(name_server, &known.body).ok()?;
    let address = known.broker_addr_table.get(name)?.broker_addrs.get(&id)?;
    // The address of a broker that stopped a moment ago may have gone to another one.
    let settings = call(client, address, PATIENCE, request::GET_BROKER_CONFIG, nothing).await.ok()?;
    let settings = parse_key_values(&settings.body).ok()?;
    is_named_so(&settings, name, id).then(|| address.clone())
}

/// Whether a broker with these settings may run under a name and id. A value that counts after the next start does not
/// tell the present name. In this case the answer of the name server counts.
fn is_named_so(settings: &BTreeMap<String, String>, name: &str, id: i64) -> bool {
    let is = |key: &str, expected: &str| {
        counts_after_restart(settings, key) || settings.get(key).is_some_and(|found| found == expected)
    };
    is("brokerName", name) && is("brokerId", &id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_counts_after_a_restart_is_not_the_present_one() {
        let check = |text: &str, expected| {
            let settings = parse_key_values(text.as_bytes()).unwrap();
            assert_eq!(is_named_so(&settings, "a", 0), expected, "{text}");
        };
        check("brokerName=a\nbrokerId=0\n", true);
        check("brokerName=b\nbrokerId=0\n", false);
        check("brokerName=b\nbrokerId=0\ncountsAfterRestart=brokerName\n", true);
        check("brokerName=a\nbrokerId=1\ncountsAfterRestart=brokerId;brokerRole\n", true);
        check("brokerName=b\nbrokerId=1\ncountsAfterRestart=brokerId\n", false);
    }
}
