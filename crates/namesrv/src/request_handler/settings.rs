//! Requests about key-value settings and the configuration.

use std::collections::BTreeMap;
use std::io;

use wire::body::{KvTable, parse_key_values, rewrite_key_values};
use wire::codes::response;
use wire::json;

use super::{Errand, Refusal, RequestHandler};
use crate::{KvError, files};

impl From<KvError> for Refusal {
    fn from(error: KvError) -> Self {
        tracing::error!(%error, "the key-value settings cannot be written");
        Self::error(error.to_string())
    }
}

impl RequestHandler {
    /// Answers `PUT_KV_CONFIG`. RocketMQ takes a key without a value, too, and forgets the value that the key had.
    pub(super) fn put_kv(&self, errand: Errand<'_, '_>) -> Result<(), Refusal> {
        let fields = &errand.command.fields;
        let (Some(namespace), Some(key)) = (fields.text("namespace"), fields.text("key")) else {
            return Err(Refusal::error("namespace or key is null"));
        };
        self.kv().put(namespace, key, fields.need("value")?)?;
        errand.finish(&[])
    }

    /// Answers `GET_KV_CONFIG`.
    pub(super) fn get_kv(&self, mut errand: Errand<'_, '_>) -> Result<(), Refusal> {
        let fields = &errand.command.fields;
        let (namespace, key) = (fields.need("namespace")?, fields.need("key")?);
        let Some(value) = self.kv().get(namespace, key).map(str::to_owned) else {
            let remark = format!("No config item, Namespace: {namespace} Key: {key}");
            return Err(Refusal::new(response::QUERY_NOT_FOUND, remark));
        };
        errand.reply().text("value", &value).finish(&[]);
        Ok(())
    }

    /// Answers `DELETE_KV_CONFIG`; one that names no key deletes none.
    pub(super) fn delete_kv(&self, errand: Errand<'_, '_>) -> Result<(), Refusal> {
        let fields = &errand.command.fields;
        if let (Some(namespace), Some(key)) = (fields.text("namespace"), fields.text("key")) {
            self.kv().delete(namespace, key)?;
        }
        errand.finish(&[])
    }

    /// Answers `GET_KVLIST_BY_NAMESPACE`.
    pub(super) fn list_kv(&self, errand: Errand<'_, '_>) -> Result<(), Refusal> {
        let namespace = errand.command.fields.need("namespace")?;
        let Some(table) = self.kv().namespace(namespace).cloned() else {
            let remark = format!("No config item, Namespace: {namespace}");
            return Err(Refusal::new(response::QUERY_NOT_FOUND, remark));
        };
        errand.finish(&json::to_vec(&KvTable { table }))
    }

    /// Answers `UPDATE_NAMESRV_CONFIG`: makes all changes or none, and writes the file first.
    pub(super) fn update_config(&self, errand: Errand<'_, '_>) -> Result<(), Refusal> {
        let changes = parse_key_values(errand.command.body);
        let changes = changes.map_err(|_| Refusal::error("string2Properties error"))?;
        let mut config = self.config.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if changes.keys().any(|key| config.is_locked(key)) {
            return Err(Refusal::new(response::NO_PERMISSION, "Can not update config in black list."));
        }
        let mut changed = config.clone();
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
            *config = changed;
        }
        drop(config);
        errand.finish(&[])
    }

    /// Writes changed settings to the configuration file and keeps the rest of the file.
    fn persist(&self, changes: &BTreeMap<String, String>) -> io::Result<()> {
        let text = files::read(&self.config_path)?;
        let text = rewrite_key_values(&text, changes).map_err(io::Error::other)?;
        files::write_atomically(&self.config_path, text.as_bytes())
    }

    /// Answers `GET_NAMESRV_CONFIG`.
    pub(super) fn get_config(&self, errand: Errand<'_, '_>) -> Result<(), Refusal> {
        let text = self.config().text();
        errand.finish(text.as_bytes())
    }
}
