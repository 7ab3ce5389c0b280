//! Changes of a running broker beside its settings: cold reads, read-ahead, the timer's engine, positions.

use super::settings::{read, title};
use crate::operation::{Written, change_each};
use crate::request::{Request, body};
use crate::text::{indented, time_to_second};
use crate::{Arguments, Error, Session};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::body::format_key_values;
use wire::codes::request;

pub(super) async fn flush_offset(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let offset = arguments.need("offset")?;
    let ask = Request::new(request::RESET_MASTER_FLUSH_OFFSET).with("masterFlushOffset", offset);
    let line = format!("reset master flush offset to {offset} success");
    change_each(session, &session.masters(arguments).await?, &ask, &line).await
}

pub(super) async fn set_cold_flow(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let setting = (arguments.need("group")?.to_owned(), arguments.need("threshold")?.to_owned());
    let ask = Request::new(request::UPDATE_COLD_DATA_FLOW_CTR_CONFIG)
        .body(format_key_values(&BTreeMap::from([setting])));
    let brokers = session.masters(arguments).await?;
    change_each(session, &brokers, &ask, "updateColdDataFlowCtrGroupConfig success, {}").await
}

pub(super) async fn remove_cold_flow(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let ask = Request::new(request::REMOVE_COLD_DATA_FLOW_CTR_CONFIG).body(arguments.need("group")?);
    let brokers = session.masters(arguments).await?;
    change_each(session, &brokers, &ask, "remove broker cold read threshold success, {}").await
}

/// Shows which groups read cold messages, and how much they may (`ColdDataCgCtrService.getColdDataFlowCtrInfo`).
pub(super) async fn cold_flow(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let brokers = session.targets(arguments).await?;
    let mut outcomes = Vec::new();
    for broker in &brokers {
        let reply = session.look(&broker.address, &Request::new(request::GET_COLD_DATA_FLOW_CTR_INFO)).await;
        outcomes.push(reply.map(|reply| (broker, reply)));
    }
    let (mut rows, mut text) = (Vec::new(), String::new());
    for (broker, reply) in session.answers(outcomes)? {
        let address = &broker.address;
        let _ = writeln!(text, " {}", title(broker, &brokers));
        if reply.body.is_empty() {
            let _ = writeln!(text, "Broker[{address}] has no cold ctr table !");
            continue;
        }
        let mut table: Value = body(address, &reply)?;
        let groups = table.get_mut("runtimeTable").and_then(Value::as_object_mut);
        for group in groups.into_iter().flatten().filter_map(|(_, group)| group.as_object_mut()) {
            for (ms, format) in
                [("lastColdReadTimeMills", "lastColdReadTimeFormat"), ("createTimeMills", "createTimeFormat")]
            {
                let time = group.remove(ms).and_then(|ms| ms.as_i64()).unwrap_or_default();
                group.insert(format.to_owned(), time_to_second(time).into());
            }
        }
        let _ = writeln!(text, "{}", indented(&table.to_string()));
        rows.push(json!({"broker": address, "cold_reads": table}));
    }
    Ok(Written::new(rows, text))
}

pub(super) async fn read_ahead(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let mode = arguments.need("mode")?;
    if !["0", "1"].contains(&mode) {
        return Err(Error::Usage("set the read mode error; 0 is default, 1 random read".to_owned()));
    }
    let ask = Request::new(request::SET_COMMITLOG_READ_MODE).with("READ_AHEAD_MODE", mode);
    let brokers = session.targets(arguments).await?;
    let (mut rows, mut text) = (Vec::new(), String::new());
    for broker in &brokers {
        let Some(reply) = session.change(&broker.address, &ask).await? else { continue };
        let remark = reply.remark.unwrap_or_default();
        let _ = writeln!(text, " {}", title(broker, &brokers));
        let _ = writeln!(text, "commitLog set readAhead mode rstStr{remark}");
        rows.push(json!({"broker": broker.address, "answer": remark}));
    }
    Ok(Written::new(rows, text))
}

pub(super) async fn timer_engine(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let engine = match arguments.need("engine")? {
        "R" => "ROCKSDB_TIMELINE",
        "F" => "FILE_TIME_WHEEL",
        _ => return Err(Error::Usage("switchTimerEngine engineType must be R or F".to_owned())),
    };
    let ask = Request::new(request::SWITCH_TIMER_ENGINE).with("E_T", arguments.need("engine")?);
    let line = format!("switchTimerEngine to {engine} success, {{}}");
    change_each(session, &session.masters(arguments).await?, &ask, &line).await
}

/// Makes brokers of RocketMQ write their pop checkpoints from RocksDB to the revive topic. With
/// `-d true` no request is sent. `ExportPopRecordCommand` of RocketMQ sends no request with
/// `-d false`, and only then.
pub(super) async fn pop_records(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let is_dry = arguments.is_on("dry");
    let (mut rows, mut text) = (Vec::new(), String::new());
    for broker in session.targets(arguments).await? {
        let (address, mut name) = (broker.address, broker.name);
        if name.is_empty() {
            name = read(session, &address).await?.remove("brokerName").unwrap_or_default();
        }
        if !is_dry {
            session.change(&address, &Request::new(request::POP_ROLLBACK)).await?;
        }
        let _ =
            writeln!(text, "Export broker records, brokerName={name}, brokerAddr={address}, dryRun={is_dry}");
        rows.push(json!({"broker": name, "address": address, "dry_run": is_dry}));
    }
    Ok(Written::new(rows, text))
}
