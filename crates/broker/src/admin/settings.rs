//! Reads and changes settings. The property table marks the settings that can be changed while the broker runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wire::codes::response;

use crate::config::{Config, NotChanged, TooManySets, Update, merged, update};
use crate::parts::{Delivery, Replication, Runtime, Tables};
use crate::{Refusal, Result, replication, system_topics};

/// Returns all settings, with the present value of `flushDiskType`.
pub(crate) fn config(replication: &Replication, runtime: &Runtime) -> Config {
    let mut config = Config::clone(&runtime.config);
    config.store.flush = replication.durability.mode();
    config
}

/// Makes all `changes` of settings and writes them to the broker's file, or makes no change. `from`
/// is the address of the operator, for the log. `then` gets remarks for the operator when the
/// changes have taken effect. That may be before or after this function returns. May wait for the
/// disk.
pub(crate) fn update_config(
    delivery: &Delivery,
    runtime: &Runtime,
    from: SocketAddr,
    changes: BTreeMap<String, String>,
    then: impl FnOnce(&[String]) + Send + 'static,
) -> Result<()> {
    // Held to the end, so that the file gets the changes in the order in which they take effect.
    let _changing = runtime.settings_changing.lock();
    let not_changed = |error| match error {
        NotChanged::Forbidden(text) => Refusal::new(response::NO_PERMISSION, text),
        NotChanged::Invalid(text) => Refusal::new(response::INVALID_PARAMETER, text),
    };
    let update = update(&runtime.config, changes).map_err(not_changed)?;
    let file = delivery.tables.files.at(update.config.file());
    let text =
        if update.written.is_empty() { String::new() } else { merged(&file.read_text()?, &update.written) };
    // Checked before the file is written, so that the file never has settings that stop a start.
    update.check_next_start(&text).map_err(not_changed)?;
    let Update { config, written, notes, planned } = update;
    for note in &notes {
        tracing::warn!(%from, note, "a remark on a change of settings");
    }
    for note in &planned {
        tracing::info!(%from, note, "a change of settings is planned");
    }
    let notes = [notes, planned].concat();
    if written.is_empty() {
        then(&notes);
        return Ok(());
    }
    let refuse = |error: TooManySets| Refusal::error(error.to_string());
    // Checked before the file is written, so that the file never has settings that were not taken.
    runtime.config.admits(&config).map_err(refuse)?;
    file.write(text.as_bytes())?;
    let (now, flush) = (delivery.replication.durability.mode(), config.store.flush);
    if flush == store::FlushMode::Async && runtime.config.is_controlled() {
        replication::note_flushed_later(&delivery.tables, runtime)?;
    }
    runtime.config.replace(config).map_err(refuse)?;
    tracing::info!(%from, ?written, "settings were changed");
    take_effect(&delivery.tables, delivery, runtime, written.keys().map(String::as_str))?;
    if now == flush {
        then(&notes);
    } else {
        delivery.replication.durability.set_mode(flush, move || then(&notes));
    }
    Ok(())
}

/// Applies changed settings that have an effect beyond the next read.
fn take_effect<'k>(
    tables: &Tables,
    delivery: &Delivery,
    runtime: &Runtime,
    keys: impl Iterator<Item = &'k str>,
) -> Result<()> {
    for key in keys {
        match key {
            // Registers all topics anew, because name servers store the permission per topic.
            "brokerPermission" => tables.topics.renew(None, runtime.now_ms()),
            // The template for automatically created topics holds whether any may be created.
            "autoCreateTopicEnable" => system_topics::create_system_topics(tables, delivery, runtime)?,
            // The template also holds the largest number of queues of such a topic.
            "defaultTopicQueueNums" => system_topics::renew_template(tables, delivery, runtime)?,
            "namesrvAddr" => delivery.replication.registration_acks.change_name_servers(),
            "timerStopEnqueue" | "timerStopDequeue" => delivery.timer.wakeup().wake(),
            _ => {}
        }
    }
    Ok(())
}
