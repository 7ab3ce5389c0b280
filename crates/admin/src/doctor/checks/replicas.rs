//! Whether the slaves of masters follow.

use super::reach::{in_sync_fix, is_bridge, is_local};
use crate::Lang;
use crate::doctor::bilingual::{Both, Text, text};
use crate::doctor::bundle::{Broker, Bundle, Controller, ReplicaSet, ip};
use crate::doctor::finding::{Check, Found, Look, checks};
use crate::doctor::remedy::{Fix, Remedy};
use crate::text::time;
use std::net::IpAddr;

/// Bytes that a slave may be behind (`haMaxGapNotInSync` is four times that).
const GAP_BYTES: i64 = 64 << 20;
const STATUS: &str = "GET_BROKER_HA_STATUS (907)";
const NEEDS: Both = ("replication status of masters", "master 的复制状态");
const NEEDS_SLAVE: Both = ("a slave that is connected", "已连接的 slave");
const NEEDS_SYNC: Both =
    ("replication status and settings of synchronous masters", "同步 master 的复制状态和配置");
const NEEDS_CONTROLLERS: Both = ("brokers with controllers", "使用 controller 的 broker");

pub(super) const CHECKS: &[Check] = checks! {
    "slave-not-connected", Critical, not_connected, "A slave is registered and does not copy from its master",
        "slave 已注册，但没有从 master 复制", NEEDS;
    "replication-address", Warning, unreachable_address,
        "Slaves are told an address of their master (brokerIP2) that other machines do not reach",
        "master 告诉 slave 的地址（brokerIP2）其他机器无法访问",
        ("settings of masters with a registered slave on another machine", "在另一台机器上有注册 slave 的 master 的配置");
    "slave-not-in-sync", Critical, not_in_sync, "A slave is so far behind that its master does not count on it",
        "slave 落后过多，master 不再把它算在内", NEEDS_SLAVE;
    "slave-behind", Warning, behind, "A slave is more than 64 MiB behind",
        "slave 落后超过 64 MiB", NEEDS_SLAVE;
    "too-few-in-sync", Critical, too_few,
        "Fewer replicas are in sync than minInSyncReplicas, so that sends are refused",
        "同步的副本少于 minInSyncReplicas，发送被拒绝", NEEDS_SYNC;
    "too-few-acks", Warning, too_few_acks,
        "Fewer slaves are in sync than inSyncReplicas, so that sends wait and are answered with SLAVE_NOT_AVAILABLE or FLUSH_SLAVE_TIMEOUT",
        "同步的 slave 少于 inSyncReplicas，发送会等待，并以 SLAVE_NOT_AVAILABLE 或 FLUSH_SLAVE_TIMEOUT 应答",
        NEEDS_SYNC;
    "replica-lost", Warning, replica_lost, "A member of a broker set is lost",
        "broker 组的一个成员已离线", NEEDS_CONTROLLERS;
    "controller-silent", Warning, controller_silent, "A controller does not answer",
        "controller 没有应答", NEEDS_CONTROLLERS;
    "no-controller-leader", Critical, no_leader, "No controller leads, so that a broken master is not replaced",
        "没有 controller 担任 leader，故障的 master 不会被替换", NEEDS_CONTROLLERS;
};

fn masters(bundle: &Bundle) -> impl Iterator<Item = &Broker> {
    bundle.brokers.iter().filter(|broker| broker.replication.as_ref().is_some_and(|status| status.is_master))
}

fn not_connected(bundle: &Bundle) -> Look {
    Look::each(masters(bundle), |master| {
        let connected = master.replication.as_ref()?.slaves.len();
        let same = |other: &&Broker| {
            other.name == master.name && other.cluster == master.cluster && other.id != master.id
        };
        let slaves: Vec<_> = bundle.brokers.iter().filter(same).map(Broker::title).collect();
        Found::when(slaves.len() > connected, || {
            let (list, address) = (slaves.join(", "), &master.address);
            let figure = text!(
                "{connected} connected to {address}, registered: {list}",
                "与 {address} 连接的有 {connected} 个，已注册的：{list}"
            );
            let port = master.setting("haListenPort").unwrap_or("10912");
            let advice = text!(
                "make port {port} of the master reachable from the slave; set brokerIP2 of the master to an address that it reaches",
                "让 slave 能访问 master 的端口 {port}；把 master 的 brokerIP2 设为 slave 能访问的地址"
            );
            Found::new(list, figure, STATUS, advice).fix(replication_fix(master)).of_broker(master)
        })
    })
}

/// Masters that tell slaves elsewhere an address of their own machine.
fn unreachable_address(bundle: &Bundle) -> Look {
    Look::each(bundle.brokers.iter().filter(|broker| broker.id == 0), |master| {
        let configured = master.setting("brokerIP2").filter(|configured| !configured.is_empty())?;
        let host: IpAddr = configured.trim_matches(['[', ']']).parse().ok()?;
        let own = ip(&master.address)?;
        let is_elsewhere = |other: &&Broker| {
            other.name == master.name
                && other.cluster == master.cluster
                && ip(&other.address).is_some_and(|ip| ip != own)
        };
        let slave = bundle.brokers.iter().find(is_elsewhere)?;
        Found::when(is_local(host) || is_bridge(host) && !is_bridge(own), || {
            let advice = text!(
                "set brokerIP2 in its broker.conf to an address that its slaves reach, and restart it",
                "把其 broker.conf 中的 brokerIP2 设为 slave 能访问的地址并重启"
            );
            let at = &slave.address;
            let figure = text!(
                "brokerIP2={configured}, and a slave is at {at}",
                "brokerIP2={configured}，而一个 slave 在 {at}"
            );
            Found::new(master.title(), figure, "GET_BROKER_CONFIG (26)", advice).of_broker(master)
        })
    })
}

fn not_in_sync(bundle: &Bundle) -> Look {
    slaves(bundle, |slave| !slave.is_in_sync)
}

fn behind(bundle: &Bundle) -> Look {
    slaves(bundle, |slave| slave.is_in_sync && slave.behind_bytes > GAP_BYTES)
}

/// Slaves of which something holds.
fn slaves(bundle: &Bundle, is_found: fn(&crate::doctor::bundle::Slave) -> bool) -> Look {
    let all = masters(bundle).flat_map(|master| {
        let slaves = master.replication.iter().flat_map(|status| &status.slaves);
        slaves.map(move |slave| (master, slave))
    });
    Look::each(all, |(master, slave)| {
        Found::when(is_found(slave), || {
            let (behind, address, title) = (slave.behind_bytes, &slave.address, master.title());
            let advice = text!(
                "watch whether the gap shrinks; if not, look at its disk and network",
                "观察差距是否在缩小；如果没有，检查它的磁盘和网络"
            );
            let subject = text!("{address} of {title}", "{title} 的 slave {address}");
            Found::new(subject, text!("{behind} bytes behind", "落后 {behind} 字节"), STATUS, advice)
                .fix(replication_fix(master))
                .of_set(&master.name)
                .at(address)
        })
    })
}

/// A number in the settings of a broker.
fn number(broker: &Broker, name: &str) -> Option<i64> {
    broker.setting(name)?.parse().ok()
}

/// Whether a setting of a broker is switched on.
fn is_on(broker: &Broker, name: &str) -> bool {
    broker.setting(name) == Some("true")
}

/// Whether sends to a master wait for slaves (`BrokerController.changeToMaster`: with controllers every master is synchronous).
fn is_synchronous(master: &Broker) -> Option<bool> {
    Some(is_on(master, "enableControllerMode") || master.setting("brokerRole")? == "SYNC_MASTER")
}

/// Members in sync with a synchronous master, the master included.
fn in_sync(master: &Broker) -> Option<i64> {
    is_synchronous(master)?.then_some(())?;
    Some(master.replication.as_ref()?.in_sync + 1)
}

fn start_slaves(master: &Broker) -> Remedy {
    let name = &master.name;
    Remedy::from(text!("start the lost brokers of {name}", "启动 {name} 中离线的 broker"))
        .with(replication_fix(master))
}

/// The operation that shows how far the slaves of a master are.
fn replication_fix(master: &Broker) -> Fix {
    Fix::new("broker", "replication", &[("broker", &master.address)])
}

/// Sends are refused below `minInSyncReplicas` alone (`CommitLog.asyncPutMessage`).
fn too_few(bundle: &Bundle) -> Look {
    Look::each(masters(bundle), |master| {
        let (found, needed) = (in_sync(master)?, number(master, "minInSyncReplicas").unwrap_or(1));
        Found::when(found < needed, || {
            let figure = text!(
                "{found} in sync, the master included; minInSyncReplicas={needed}: sends are refused",
                "包括 master 在内有 {found} 个同步副本；minInSyncReplicas={needed}：发送被拒绝"
            );
            Found::new(master.title(), figure, STATUS, start_slaves(master)).of_broker(master)
        })
    })
}

/// Sends wait for `inSyncReplicas`, unless the in-sync set or the number of connected slaves decides (`CommitLog.calcNeedAckNums`).
fn too_few_acks(bundle: &Bundle) -> Look {
    Look::each(masters(bundle), |master| {
        let (found, needed) = (in_sync(master)?, number(master, "inSyncReplicas").unwrap_or(1));
        let is_adapted = is_on(master, "enableAutoInSyncReplicas")
            || is_on(master, "enableControllerMode") && is_on(master, "allAckInSyncStateSet");
        let is_refused = found < number(master, "minInSyncReplicas").unwrap_or(1);
        Found::when(found < needed && !is_adapted && !is_refused, || {
            let figure = text!(
                "{found} in sync, the master included; inSyncReplicas={needed}",
                "包括 master 在内有 {found} 个同步副本；inSyncReplicas={needed}"
            );
            Found::new(master.title(), figure, STATUS, start_slaves(master)).of_broker(master)
        })
    })
}

const CONTROLLERS: &str = "CONTROLLER_GET_SYNC_STATE_DATA (1006)";

fn replica_lost(bundle: &Bundle) -> Look {
    let members =
        bundle.replica_sets.iter().flat_map(|set| set.members.iter().map(move |member| (set, member)));
    Look::each(members, |(set, member)| {
        Found::when(!member.is_alive, || {
            let (name, id, address) = (&set.name, member.id, &member.address);
            let subject = text!(
                "{name} (id {id} at the controllers, {address})",
                "{name}（controller 中的 id 为 {id}，{address}）"
            );
            let advice = text!(
                "start the broker again, and look at its machine and log; if it was taken away for good: replica forget",
                "重新启动该 broker，并检查它的机器和日志；如果它已被永久下线：replica forget"
            );
            Found::new(subject, lost_figure(bundle, set, member.lost_ms), CONTROLLERS, advice)
                .fix(in_sync_fix(bundle, name))
                .of_set(name)
                .at(address)
        })
    })
}

/// Figures of a set that lost a member, the time of the member's last heartbeat included if it is known.
fn lost_figure(bundle: &Bundle, set: &ReplicaSet, lost_ms: Option<i64>) -> Text {
    let master = masters(bundle).find(|broker| broker.name == set.name);
    let needed = master.and_then(|broker| number(broker, "minInSyncReplicas")).unwrap_or(1);
    let (left, count) = (set.in_sync(), set.members.len());
    let state = text!(
        "{left} of {count} members in sync, minInSyncReplicas={needed}",
        "{count} 个成员中 {left} 个同步，minInSyncReplicas={needed}"
    );
    let (en, zh) = (state.of(Lang::En), state.of(Lang::Zh));
    match lost_ms.map(time) {
        Some(since) => text!("no heartbeat since {since}; {en}", "自 {since} 起没有心跳；{zh}"),
        None => {
            text!("its heartbeats do not reach the controllers; {en}", "它的心跳没有到达 controller；{zh}")
        }
    }
}

const METADATA: &str = "CONTROLLER_GET_METADATA_INFO (1005)";

fn controller_silent(bundle: &Bundle) -> Look {
    Look::each(&bundle.controllers, |controller| {
        Found::when(controller.error.is_some(), || {
            let why = controller.error.clone().unwrap_or_default();
            let advice = text!(
                "start the controller again; sets fail over only while a majority of the controllers is there",
                "重新启动该 controller；只有多数 controller 在线时才能故障切换"
            );
            let mut others = bundle.controllers.iter().filter(|other| other.error.is_none());
            let fix =
                |other: &Controller| Fix::new("controller", "metadata", &[("controller", &other.address)]);
            Found::new(&controller.address, why, METADATA, advice)
                .fix(others.next().map(fix))
                .at(&controller.address)
        })
    })
}

fn no_leader(bundle: &Bundle) -> Look {
    let asked = Some(&bundle.controllers).filter(|controllers| !controllers.is_empty());
    Look::each(asked, |controllers| {
        Found::when(controllers.iter().all(|controller| controller.leader.is_empty()), || {
            let names: Vec<&str> = controllers.iter().map(|controller| controller.address.as_str()).collect();
            let silent = controllers.iter().filter(|controller| controller.error.is_some()).count();
            let count = names.len();
            let figure = text!(
                "{silent} of {count} controllers do not answer, and no controller knows a leader",
                "{count} 个 controller 中 {silent} 个没有应答，没有 controller 知道 leader"
            );
            let advice = text!(
                "start controllers until a majority runs, and check their network",
                "启动 controller 直到多数在运行，并检查它们的网络"
            );
            Found::new(names.join(", "), figure, METADATA, advice)
        })
    })
}
