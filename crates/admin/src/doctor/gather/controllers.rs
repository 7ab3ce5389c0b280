//! Controllers and their broker sets.

use std::collections::BTreeSet;

use wire::body::{BrokerReplicasInfo, ReplicaIdentity};
use wire::codes::request;
use wire::json;

use crate::doctor::bundle::{Bundle, Controller, Replica, ReplicaSet};
use crate::request::{Request, body, for_each};
use crate::{Error, Session};

/// Asks the controllers in the settings of brokers for the leader, and the leader for the sets of these brokers.
pub(super) async fn gather(
    session: &Session,
    bundle: &Bundle,
    clock: fn() -> i64,
) -> (Vec<Controller>, Vec<ReplicaSet>) {
    let controlled =
        || bundle.brokers.iter().filter(|broker| broker.setting("enableControllerMode") == Some("true"));
    let listed = controlled().filter_map(|broker| broker.setting("controllerAddr"));
    let addresses: BTreeSet<&str> =
        listed.flat_map(|list| list.split([';', ','])).map(str::trim).filter(|it| !it.is_empty()).collect();
    let controllers = for_each(addresses, async |address| controller(session, address).await).await;
    let leaders: BTreeSet<&str> =
        controllers.iter().map(|it| it.leader.as_str()).filter(|it| !it.is_empty()).collect();
    let names: BTreeSet<&str> = controlled().map(|broker| broker.name.as_str()).collect();
    let mut sets = Vec::new();
    // Clusters with controllers of their own may share name servers.
    for leader in leaders {
        sets.extend(replica_sets(session, leader, (&names, clock)).await.unwrap_or_default());
    }
    (controllers, sets)
}

async fn controller(session: &Session, address: &str) -> Controller {
    let known = Controller { address: address.to_owned(), ..Controller::default() };
    match session.look(address, &Request::new(request::CONTROLLER_GET_METADATA_INFO)).await {
        Ok(reply) => Controller {
            leader: reply.text("controllerLeaderAddress").unwrap_or_default().to_owned(),
            ..known
        },
        Err(error) => Controller { error: Some(error.to_string()), ..known },
    }
}

async fn replica_sets(
    session: &Session,
    leader: &str,
    (names, clock): (&BTreeSet<&str>, fn() -> i64),
) -> Result<Vec<ReplicaSet>, Error> {
    let ask = Request::new(request::CONTROLLER_GET_SYNC_STATE_DATA).body(json::to_vec(names));
    let found: BrokerReplicasInfo = body(leader, &session.look(leader, &ask).await?)?;
    let now_ms = clock();
    let silent_ms = |member: &ReplicaIdentity| i64::try_from(member.silent_ms?).ok();
    let sets = found.replicas_info_table.into_iter().map(|(name, set)| {
        let in_sync = set.in_sync_replicas.into_iter().map(|member| (true, member));
        let members = in_sync.chain(set.not_in_sync_replicas.into_iter().map(|member| (false, member)));
        let members = members.map(|(is_in_sync, member)| Replica {
            id: member.broker_id,
            is_master: set.master_broker_id == Some(member.broker_id),
            is_in_sync,
            is_alive: member.alive,
            lost_ms: silent_ms(&member).map(|silent_ms| now_ms - silent_ms),
            address: member.broker_address,
        });
        ReplicaSet { name, members: members.collect() }
    });
    Ok(sets.collect())
}
