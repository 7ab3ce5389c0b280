//! Requests about key-value settings and the configuration.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;
use wire::body::{parse_key_values, rewrite_key_values};
use wire::codes::{request, response};
use wire::frame::Command;
use wire::json;
use wire::settings::FileSettings as _;

use super::{Refusal, RequestContext, RequestHandler};
use crate::{KvChange, KvError, files};

/// Keys and values of a namespace; serializes like `wire::body::KvTable`.
#[derive(Serialize)]
struct NamespaceTable<'a> {
    table: &'a BTreeMap<String, String>,
}

/// Returns the change that a request asks for, or `None` if a request to delete lacks namespace or key.
fn kv_change<'a>(command: &'a Command<'_>) -> Result<Option<KvChange<'a>>, Refusal> {
    let fields = &command.fields;
    let name = (fields.text("namespace"), fields.text("key"));
    if command.code == request::DELETE_KV_CONFIG {
        return Ok(match name {
            (Some(namespace), Some(key)) => Some(KvChange { namespace, key, value: None }),
            _ => None,
        });
    }
    let (Some(namespace), Some(key)) = name else {
        return Err(Refusal::error("namespace or key is null"));
    };
    // RocketMQ takes a key without a value, too, and forgets the value that the key had.
    Ok(Some(KvChange { namespace, key, value: Some(fields.need("value")?) }))
}

impl RequestHandler {
    /// Performs `PUT_KV_CONFIG` and `DELETE_KV_CONFIG` with one write of the file. Changes are on disk before they are visible.
    pub(super) fn change_kv(&self, commands: &[&Command<'_>]) -> Vec<Result<(), Refusal>> {
        let _change = self.change.lock();
        let bytes_max = self.config.read().kv_bytes_max;
        let mut changes = Vec::new();
        let mut outcomes: Vec<_> = commands
            .iter()
            .map(|command| {
                let Some(change) = kv_change(command)? else { return Ok(false) };
                changes.push(change);
                let bytes = self.kv.read().bytes_after(&changes);
                if change.value.is_some() && bytes > bytes_max {
                    changes.pop();
                    return Err(Refusal::error(format!(
                        "the key-value settings have no room: expected at most {bytes_max} bytes (kvConfigBytesMax), found {bytes}"
                    )));
                }
                Ok(true)
            })
            .collect();
        let is_needed = |change: &KvChange<'_>| {
            change.value.is_some() || self.kv.read().get(change.namespace, change.key).is_some()
        };
        if changes.iter().any(is_needed) {
            let (text, path) = {
                let kv = self.kv.read();
                (kv.text_with(&changes), kv.path().to_owned())
            };
            match files::write_atomically(&path, &text) {
                Ok(()) => self.kv.write().apply(&changes),
                Err(error) => {
                    let error = KvError::File { path, error };
                    tracing::error!(%error, "the key-value settings cannot be written");
                    for outcome in outcomes.iter_mut().filter(|outcome| matches!(outcome, Ok(true))) {
                        *outcome = Err(Refusal::error(error.to_string()));
                    }
                }
            }
        }
        outcomes.into_iter().map(|outcome| outcome.map(drop)).collect()
    }

    /// Serves `GET_KV_CONFIG`.
    pub(super) fn get_kv(&self, mut context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let fields = &context.command.fields;
        let (namespace, key) = (fields.need("namespace")?, fields.need("key")?);
        let Some(value) = self.kv.read().get(namespace, key).map(str::to_owned) else {
            let remark = format!("No config item, Namespace: {namespace} Key: {key}");
            return Err(Refusal::new(response::QUERY_NOT_FOUND, remark));
        };
        context.response().text("value", &value).finish(&[]);
        Ok(())
    }

    /// Serves `GET_KVLIST_BY_NAMESPACE`.
    pub(super) fn list_kv(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let namespace = context.command.fields.need("namespace")?;
        let Some(body) = self.kv_table(namespace) else {
            let remark = format!("No config item, Namespace: {namespace}");
            return Err(Refusal::new(response::QUERY_NOT_FOUND, remark));
        };
        context.finish(&body)
    }

    /// All keys and values of a namespace, in the form of `KVTable`.
    pub(super) fn kv_table(&self, namespace: &str) -> Option<Vec<u8>> {
        self.kv.read().namespace(namespace).map(|table| json::to_vec(&NamespaceTable { table }))
    }

    /// Serves `UPDATE_NAMESRV_CONFIG`: makes all changes or none, and writes the file first.
    pub(super) fn update_config(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let changes = parse_key_values(context.command.body);
        let changes = changes.map_err(|_| Refusal::error("string2Properties error"))?;
        let _change = self.change.lock();
        // Routes are looked up with the old settings while the file is written.
        let config = self.config.read().clone();
        if changes.keys().any(|key| config.is_locked(key)) {
            return Err(Refusal::new(response::NO_PERMISSION, "Can not update config in black list."));
        }
        let mut changed = config;
        let mut known = BTreeMap::new();
        for (key, value) in changes {
            if changed.set(&key, &value).map_err(|error| Refusal::error(error.to_string()))? {
                known.insert(key, value);
            }
        }
        if !known.is_empty() {
            self.persist(&known).map_err(|error| {
                Refusal::error(format!("cannot write {}: {error}", self.config_path.display()))
            })?;
            *self.config.write() = changed;
        }
        context.finish(&[])
    }

    /// Writes changed settings to the configuration file and keeps the rest of the file.
    fn persist(&self, changes: &BTreeMap<String, String>) -> io::Result<()> {
        let text = files::read(&self.config_path)?;
        let text = rewrite_key_values(&text, changes).map_err(io::Error::other)?;
        files::write_atomically(&self.config_path, text.as_bytes())
    }

    /// Serves `GET_NAMESRV_CONFIG`.
    pub(super) fn get_config(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let text = self.config.read().text();
        context.finish(text.as_bytes())
    }
}
