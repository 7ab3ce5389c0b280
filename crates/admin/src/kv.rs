//! Operations on the key-value settings of name servers, and on the order of topics, which is kept there.

use crate::arguments::{optional, place};
use crate::operation::{Operation, Typed, Written, operations};
use crate::request::{Request, body};
use crate::{Argument, Arguments, Error, Session};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use wire::body::KvTable;
use wire::codes::request;

const NAMESPACE: Argument = place("namespace", ("s", "namespace"), "namespace of the keys");
const KEY: Argument = place("key", ("k", "key"), "the key");
/// Namespace of the order of topics (`NamesrvUtil`).
const ORDER: &str = "ORDER_TOPIC_CONFIG";

/// The operations on key-value settings.
pub(crate) const OPERATIONS: &[Operation] = operations! { "kv":
    "list", Look, [], "List the keys of a namespace and their values",
        [NAMESPACE], list;
    "get", Look, [], "Show the value of a key",
        [NAMESPACE, KEY], get;
    "put", Change, ["updateKvConfig"], "Set the value of a key on all name servers",
        [NAMESPACE, KEY, place("value", ("v", "value"), "its new value")], put;
    "delete", Destroy, ["deleteKvConfig"], "Delete a key on all name servers",
        [NAMESPACE, KEY], delete;
    "order", Change, ["updateOrderConf"],
        "Get, put or delete the order configuration of a topic, broker:queues;broker:queues",
        [place("method", ("m", "method"), "get, put or delete"),
         place("topic", ("t", "topic"), "name of the topic"),
         optional("value", ("v", "orderConf"), "the order configuration to put")], order;
};

/// A key and its value.
#[derive(Serialize)]
struct KeyValue {
    key: String,
    value: String,
}

impl Typed for Vec<KeyValue> {}

async fn list(session: &Session, arguments: &Arguments) -> Result<Vec<KeyValue>, Error> {
    let ask = Request::new(request::GET_KVLIST_BY_NAMESPACE).with("namespace", arguments.need("namespace")?);
    let (reply, server) = session.ask_name_server(&ask).await?;
    let table: KvTable = body(server, &reply)?;
    Ok(table.table.into_iter().map(|(key, value)| KeyValue { key, value }).collect())
}

async fn get(session: &Session, arguments: &Arguments) -> Result<Vec<KeyValue>, Error> {
    let (namespace, key) = (arguments.need("namespace")?, arguments.need("key")?);
    let value = value(session, namespace, key).await?;
    Ok(vec![KeyValue { key: key.to_owned(), value }])
}

async fn value(session: &Session, namespace: &str, key: &str) -> Result<String, Error> {
    let ask = Request::new(request::GET_KV_CONFIG).with("namespace", namespace).with("key", key);
    let (reply, _) = session.ask_name_server(&ask).await?;
    Ok(reply.text("value").unwrap_or_default().to_owned())
}

async fn put_value(session: &Session, namespace: &str, key: &str, value: &str) -> Result<(), Error> {
    let ask = Request::new(request::PUT_KV_CONFIG)
        .with("namespace", namespace)
        .with("key", key)
        .with("value", value);
    session.change_all(&session.name_servers, &ask).await.map(drop)
}

async fn delete_value(session: &Session, namespace: &str, key: &str) -> Result<(), Error> {
    let ask = Request::new(request::DELETE_KV_CONFIG).with("namespace", namespace).with("key", key);
    session.change_all(&session.name_servers, &ask).await.map(drop)
}

/// A change of a key that was made on all name servers.
fn changed(session: &Session, text: &str) -> Written {
    Written::new(json!({"servers": session.name_servers}), text.to_owned())
}

async fn put(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let value = arguments.need("value")?;
    put_value(session, arguments.need("namespace")?, arguments.need("key")?, value).await?;
    Ok(changed(session, "create or update kv config to namespace success.\n"))
}

async fn delete(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    delete_value(session, arguments.need("namespace")?, arguments.need("key")?).await?;
    Ok(changed(session, "delete kv config from namespace success.\n"))
}

/// Writes the order configuration of a topic: `queues` for each of the broker sets. A change of one broker keeps the
/// configuration of the other broker sets (`DefaultMQAdminExtImpl.createOrUpdateOrderConf`).
pub(crate) async fn put_order(
    session: &Session,
    topic: &str,
    (names, queues): (&[String], i32),
    is_whole: bool,
) -> Result<String, Error> {
    let old = if is_whole { String::new() } else { value(session, ORDER, topic).await.unwrap_or_default() };
    let order = merged(&old, names, queues);
    put_value(session, ORDER, topic, &order).await?;
    Ok(order)
}

/// An order configuration, `broker:queues;broker:queues`, with other numbers for some broker sets.
fn merged(old: &str, names: &[String], queues: i32) -> String {
    let rows = old.split(';').filter_map(|row| row.split_once(':'));
    let mut order: BTreeMap<&str, String> = rows.map(|(name, queues)| (name, queues.to_owned())).collect();
    order.extend(names.iter().map(|name| (name.as_str(), queues.to_string())));
    order.iter().map(|(name, queues)| format!("{name}:{queues}")).collect::<Vec<_>>().join(";")
}

async fn order(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let topic = arguments.need("topic")?;
    let named = |text: &str, order: &str| format!("{text}topic=[{topic}], orderConf=[{order}] \n");
    let (order, text) = match arguments.need("method")?.trim() {
        "get" => {
            let order = value(session, ORDER, topic).await?;
            let text = named("get orderConf success. ", &order);
            (Some(order), text)
        }
        "put" => {
            let order = arguments.need("value")?;
            put_value(session, ORDER, topic, order).await?;
            (Some(order.to_owned()), named("update orderConf success. ", order))
        }
        "delete" => {
            delete_value(session, ORDER, topic).await?;
            (None, format!("delete orderConf success. topic=[{topic}]\n"))
        }
        method => return Err(Error::Usage(format!("expected get, put or delete, found {method}"))),
    };
    Ok(Written::new(json!({"topic": topic, "order": order}), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_configuration_keeps_the_other_brokers() {
        let names = ["b".to_owned()];
        assert_eq!(merged("", &names, 4), "b:4");
        assert_eq!(merged("a:8;b:8", &names, 4), "a:8;b:4");
    }
}
