//! `vostok controller`: what operators do with controllers beside what `mqadmin` does.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use wire::body::{BrokerReplicasInfo, ClusterInfo};
use wire::codes::request;
use wire::json;

use crate::call::{call, parse};
use crate::roles::Error;

/// Longest wait for a connection or an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What `vostok controller` does.
#[derive(Subcommand)]
pub enum ControllerCommand {
    /// Take over what other controllers know of broker sets (ids, addresses, epochs), as those of RocketMQ, whose files Vostok
    /// does not read. Afterwards restart the brokers with the new controllerAddr.
    Import(Import),
}

/// Arguments of `vostok controller import`.
#[derive(Args)]
pub struct Import {
    /// A controller of the other group.
    #[arg(long, value_name = "HOST:PORT")]
    from: String,
    /// A controller of the group that takes over.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// A name server, which says which clusters and broker sets there are.
    #[arg(short = 'n', long = "namesrv", value_name = "HOST:PORT")]
    name_server: String,
}

/// Runs a command.
pub fn run(command: &ControllerCommand) -> Result<(), Error> {
    let ControllerCommand::Import(import) = command;
    let (from, to) = (leader(&import.from)?, leader(&import.to)?);
    let clusters: ClusterInfo = parse(
        &import.name_server,
        &call(&import.name_server, PATIENCE, request::GET_BROKER_CLUSTER_INFO, &[], &[])?.1,
    )?;
    let mut count = 0;
    for (cluster, names) in &clusters.cluster_addr_table {
        let names = json::to_vec(names);
        let replicas: BrokerReplicasInfo =
            parse(&from, &call(&from, PATIENCE, request::CONTROLLER_GET_SYNC_STATE_DATA, &[], &names)?.1)?;
        for (name, info) in replicas.replicas_info_table {
            let fields = [("clusterName", cluster.as_str()), ("brokerName", name.as_str())];
            let (epoch, members) = (info.master_epoch, info.in_sync_replicas.len());
            let one = BrokerReplicasInfo { replicas_info_table: BTreeMap::from([(name.clone(), info)]) };
            call(&to, PATIENCE, request::VOSTOK_CONTROLLER_IMPORT, &fields, &json::to_vec(&one))?;
            // Nobody may be reading.
            let _ = writeln!(io::stdout(), "{cluster} {name}: master epoch {epoch}, {members} in sync");
            count += 1;
        }
    }
    let _ = writeln!(io::stdout(), "{count} broker sets were taken over by {to}");
    Ok(())
}

/// The leading controller of the group of this one.
fn leader(address: &str) -> Result<String, Error> {
    let (fields, _) = call(address, PATIENCE, request::CONTROLLER_GET_METADATA_INFO, &[], &[])?;
    let leader = fields.get("controllerLeaderAddress").filter(|leader| !leader.is_empty()).cloned();
    leader.ok_or_else(|| Error::new(format!("the controller {address}"), "no controller of its group leads"))
}
