//! `vostok controller`: what operators do with controllers beside what `mqadmin` does.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use client::Client;
use wire::body::{BrokerReplicasInfo, ClusterInfo};
use wire::codes::request;
use wire::json;

use crate::auth_command::Access;
use crate::call::{call, parse};
use crate::roles::Error;

/// Longest wait for an answer.
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
    #[command(flatten)]
    access: Access,
}

/// Runs a command.
pub fn run(command: &ControllerCommand) -> Result<(), Error> {
    let ControllerCommand::Import(import) = command;
    import.access.with_client(&import.from, async |client| import.run(client).await)
}

impl Import {
    async fn run(&self, client: &Client) -> Result<(), Error> {
        let (from, to) = (leader(client, &self.from).await?, leader(client, &self.to).await?);
        let clusters =
            call(client, &self.name_server, PATIENCE, request::GET_BROKER_CLUSTER_INFO, (&[], &[])).await?;
        let clusters: ClusterInfo = parse(&self.name_server, &clusters.body)?;
        let mut count = 0;
        for (cluster, names) in &clusters.cluster_addr_table {
            let names = json::to_vec(names);
            let code = request::CONTROLLER_GET_SYNC_STATE_DATA;
            let replicas = call(client, &from, PATIENCE, code, (&[], &names)).await?;
            let replicas: BrokerReplicasInfo = parse(&from, &replicas.body)?;
            for (name, info) in replicas.replicas_info_table {
                let fields = [("clusterName", cluster.as_str()), ("brokerName", name.as_str())];
                let (epoch, members) = (info.master_epoch, info.in_sync_replicas.len());
                let one = BrokerReplicasInfo { replicas_info_table: BTreeMap::from([(name.clone(), info)]) };
                let one = json::to_vec(&one);
                call(client, &to, PATIENCE, request::VOSTOK_CONTROLLER_IMPORT, (&fields, &one)).await?;
                // Nobody may be reading.
                let _ = writeln!(io::stdout(), "{cluster} {name}: master epoch {epoch}, {members} in sync");
                count += 1;
            }
        }
        let _ = writeln!(io::stdout(), "{count} broker sets were taken over by {to}");
        Ok(())
    }
}

/// The leading controller of the group of this one.
async fn leader(client: &Client, address: &str) -> Result<String, Error> {
    let code = request::CONTROLLER_GET_METADATA_INFO;
    let answer = call(client, address, PATIENCE, code, (&[], &[])).await?;
    let leader = answer.text("controllerLeaderAddress").filter(|leader| !leader.is_empty());
    let leader = leader.map(str::to_owned);
    leader.ok_or_else(|| Error::new(format!("the controller {address}"), "no controller of its group leads"))
}
