//! Configuration files for every node of a plan, for `vostok serve -c FILE` and for RocketMQ's scripts.

use super::arithmetic::Plan;
use super::target::Target;

/// Names and contents of the files. Hosts are named `ns1`, `broker1`, … and are to be replaced.
pub fn files(target: &Target, plan: &Plan) -> Vec<(String, String)> {
    let mut files = vec![("namesrv.conf".to_owned(), namesrv())];
    for master in 0..plan.masters {
        for id in 0..=plan.slaves {
            files.push((format!("{}-{id}.conf", broker_name(master)), broker(target, plan, (master, id))));
        }
    }
    files.push(("README.md".to_owned(), readme(plan)));
    files
}

/// Broker names in order: `broker-a`, …, `broker-z`, `broker-27`, …
fn broker_name(index: u32) -> String {
    match u8::try_from(index) {
        Ok(letter) if letter < 26 => format!("broker-{}", char::from(b'a' + letter)),
        _ => format!("broker-{}", index + 1),
    }
}

fn namesrv() -> String {
    "# Every name server alike: vostok serve --roles namesrv -c namesrv.conf\nlistenPort=9876\n".to_owned()
}

fn broker(target: &Target, plan: &Plan, (master, id): (u32, u32)) -> String {
    let name = broker_name(master);
    let servers: Vec<String> = (1..=plan.name_servers).map(|number| format!("ns{number}:9876")).collect();
    let hours = target.retain.0.ceil();
    let mut lines = vec![
        format!("# vostok serve --roles broker -c {name}-{id}.conf"),
        "brokerClusterName=DefaultCluster".to_owned(),
        format!("brokerName={name}"),
        format!("brokerId={id}"),
        format!("brokerRole={}", role(plan, id)),
        "flushDiskType=ASYNC_FLUSH".to_owned(),
        format!("namesrvAddr={}", servers.join(";")),
        "listenPort=10911".to_owned(),
        format!("fileReservedTime={hours:.0}"),
        "diskMaxUsedSpaceRatio=75".to_owned(),
    ];
    if plan.slaves > 0 {
        // Without this setting RocketMQ 5 does not wait for slaves, whatever the role says. The master counts as one.
        lines.push(format!("inSyncReplicas={}", 1 + plan.slaves));
    }
    lines.join("\n") + "\n"
}

/// Role of a broker. Acknowledged messages must survive the loss of a master, so a master with slaves waits for them.
fn role(plan: &Plan, id: u32) -> &'static str {
    match (id, plan.slaves) {
        (0, 0) => "ASYNC_MASTER",
        (0, _) => "SYNC_MASTER",
        _ => "SLAVE",
    }
}

fn readme(plan: &Plan) -> String {
    let mut text = format!(
        "# Plan\n\n{}\nReplace `ns1`, … by the name servers' addresses.\n",
        super::together(&plan.steps)
    );
    if plan.slaves > 0 {
        text.push_str(
            "\nA send is acknowledged when all slaves of its master have it (`SYNC_MASTER`, `inSyncReplicas`); while one is missing, it is \
             stored and answered FLUSH_SLAVE_TIMEOUT. Failover is manual with these files: when a master fails its slaves still serve what it holds, producers go to the other masters, and no slave becomes master. \
             Automatic failover needs the controllers counted above and brokers with `enableControllerMode=true`, for which no files are written.\n\
             主节点的全部从节点收到后才确认发送（`SYNC_MASTER`、`inSyncReplicas`）；缺少从节点时消息已存储，但返回 FLUSH_SLAVE_TIMEOUT。这些文件不含自动切换：主节点故障时，从节点继续提供其消息，生产者改用其他主节点，\
             从节点不会升为主节点。自动切换需要上面计数的 Controller 以及 `enableControllerMode=true`，此处不生成其配置文件。\n\
             \nThe files are for Vostok (`vostok serve --roles broker -c FILE`) and for RocketMQ brokers (`mqbroker -c FILE`); a slave of either follows a master of the other.\n\
             这些文件适用于 Vostok（`vostok serve --roles broker -c FILE`）与 RocketMQ（`mqbroker -c FILE`）；任何一方的从节点都可以跟随另一方的主节点。\n",
        );
    }
    text
}
