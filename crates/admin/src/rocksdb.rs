//! Operations on data that brokers of Apache RocketMQ keep in RocksDB. This program reads no files of RocksDB.

use crate::arguments::{BROKER, optional, place, required};
use crate::operation::{Operation, Written, change_each, operations};
use crate::request::{Request, body};
use crate::{Arguments, Error, Session};
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;
use wire::codes::request;

/// Age of the oldest queues that are compared (`CheckRocksdbCqWriteProgressCommand`).
const CHECKED_MS: i64 = 30 * 24 * 3_600_000;
/// Kinds of data that a broker can export (`ExportRocksDBConfigToJsonRequestHeader.ConfigType`).
const KINDS: &str = "topics;subscriptionGroups;consumerOffsets";

/// The operations on what is kept in RocksDB.
pub(crate) const OPERATIONS: &[Operation] = operations! { "rocksdb":
    "check", Look, ["checkRocksdbCqWriteProgress"],
        "Let the masters of a cluster compare the consume queues in RocksDB with those in files",
        [required("cluster", ("c", "cluster"), "name of the cluster"),
         optional("topic", ("t", "topic"), "only this topic"),
         optional("from", ("cf", "checkFrom"), "store time from which on; 30 days ago if left out")], check;
    "to-json", Change, ["rocksDBConfigToJson"], "Let brokers write what they keep in RocksDB to their JSON files",
        [BROKER, optional("cluster", ("c", "cluster"), "all masters of this cluster"),
         optional("kind", ("t", "configType"), "topics, subscriptionGroups or consumerOffsets; all if left out"),
         optional("path", ("p", "configPath"), "directory with files of RocksDB, which are not read here"),
         optional("file", ("e", "exportFile"), "only with a directory"),
         optional("json", ("j", "jsonEnable"), "only with a directory")], to_json;
    "print", Look, ["exportMetadataInRocksDB"], "Print topics or groups of files of RocksDB; they are not read here",
        [place("path", ("p", "path"), "directory with files of RocksDB"),
         place("kind", ("t", "configType"), "topics or subscriptionGroups"),
         optional("json", ("j", "jsonEnable"), "whether as JSON")], print;
};

/// The answer to `CHECK_ROCKSDB_CQ_WRITE_PROGRESS` (`CheckRocksdbCqWriteResult`).
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Checked {
    check_result: Option<String>,
    check_status: i32,
}

/// The status of a comparison that failed (`CheckStatus.CHECK_ERROR`).
const CHECK_ERROR: i32 = 3;

async fn check(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let from = session.time(arguments, "from")?.unwrap_or(session.now_ms - CHECKED_MS);
    let topic = arguments.get("topic").unwrap_or_default();
    let ask = Request::new(request::CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
        .with("topic", topic)
        .with("checkStoreTime", from);
    let mut outcomes = Vec::new();
    for broker in session.targets(arguments).await?.into_iter().filter(|broker| broker.id == 0) {
        let reply = session.look(&broker.address, &ask).await;
        let found = reply.and_then(|reply| body::<Checked>(&broker.address, &reply));
        outcomes.push(found.map(|found| (broker, found)));
    }
    let (mut rows, mut text) = (Vec::new(), String::new());
    for (broker, found) in session.answers(outcomes)? {
        let (name, result) = (broker.name, found.check_result.unwrap_or_default());
        let _ = match found.check_status {
            CHECK_ERROR => writeln!(text, "{name} check error, please check log... errInfo: {result}"),
            _ => writeln!(text, "{name} check doing, please wait and get the result from log... "),
        };
        rows.push(json!({"broker": name, "status": found.check_status, "result": result}));
    }
    Ok(Written::new(rows, text))
}

async fn to_json(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    if let (None, None, Some(path)) =
        (arguments.get("broker"), arguments.get("cluster"), arguments.get("path"))
    {
        return Err(unread(path));
    }
    let brokers = session.masters(arguments).await?;
    let kinds = arguments.get("kind").unwrap_or(KINDS);
    let ask = Request::new(request::EXPORT_ROCKSDB_CONFIG_TO_JSON).with("configType", kinds);
    change_each(
        session,
        &brokers,
        &ask,
        "Use [rpc mode] call broker to export to json file \nbroker export done.",
    )
    .await
}

async fn print(_: &Session, arguments: &Arguments) -> Result<Written, Error> {
    Err(unread(arguments.need("path")?))
}

fn unread(path: &str) -> Error {
    match std::fs::exists(path) {
        Ok(true) => Error::Usage(format!(
            "RocksDB load error, path={path}: files of RocksDB are not read here; ask a running broker instead"
        )),
        _ => Error::Usage("RocksDB path is invalid.".to_owned()),
    }
}
