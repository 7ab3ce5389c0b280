//! Requests 25 and 26 about settings. The property table says which settings can be changed while the broker runs.

use std::sync::Arc;

use net::ConnectionHandle;
use wire::body::parse_key_values;
use wire::codes::response;
use wire::frame::Command;
use wire::json;

use crate::broker::Broker;
use crate::config::{Config, NotChanged, TooManySets, Update, merged, update};
use crate::{Answer, Refusal, persist, topics};

/// 26 `GET_BROKER_CONFIG`: all settings as a properties text, with `flushDiskType` as it is at this moment.
pub(crate) fn config(broker: &Broker) -> Result<Answer, Refusal> {
    let version = broker.topics.version();
    let version = String::from_utf8_lossy(&json::to_vec(&version)).into_owned();
    let mut config = Config::clone(&broker.config);
    config.store.flush = broker.flush_mode();
    Ok(Answer::success().field("version", version).body(config.to_properties().into_bytes()))
}

/// 25 `UPDATE_BROKER_CONFIG`: changes all settings of the request and writes them to the broker's file, or changes none. The
/// answer leaves when the changes have taken effect. The call may wait for the disk.
pub(crate) fn update_config(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let unreadable = |_| Refusal::error("string2Properties error");
    let changes = parse_key_values(command.body).map_err(unreadable)?.into_iter().collect();
    // Held to the end, so that the file gets the changes in the order in which they take effect.
    let _changing = broker.settings_changing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Update { config, written, notes } = update(&broker.config, changes).map_err(|error| match error {
        NotChanged::Forbidden(text) => Refusal::new(response::NO_PERMISSION, text),
        NotChanged::Invalid(text) => Refusal::new(response::INVALID_PARAMETER, text),
    })?;
    let answer = match notes.is_empty() {
        true => Answer::success(),
        false => Answer::success().remark(notes.join("; ")),
    };
    for note in &notes {
        tracing::warn!(from = %peer.remote(), note, "a setting is not changed");
    }
    if written.is_empty() {
        answer.write(command, out);
        return Ok(());
    }
    let refuse = |error: TooManySets| Refusal::error(error.to_string());
    // Checked before the file is written, so that the file never has settings that were not taken.
    broker.config.admits(&config).map_err(refuse)?;
    let path = config.file();
    let text = persist::read_text(&path)?;
    persist::write(&path, merged(&text, &written).as_bytes())?;
    let (now, flush) = (broker.flush_mode(), config.store.flush);
    broker.config.replace(config).map_err(refuse)?;
    tracing::info!(from = %peer.remote(), ?written, "settings were changed");
    take_effect(broker, written.keys().map(String::as_str))?;
    if now == flush {
        answer.write(command, out);
        return Ok(());
    }
    let mut late = Vec::new();
    answer.write(command, &mut late);
    let peer = peer.clone();
    broker.set_flush_mode(flush, move || {
        // The client may be gone; the settings are changed all the same.
        let _ = peer.push(|out| out.extend_from_slice(&late));
    });
    Ok(())
}

/// Performs what a changed setting needs beyond being read the next time.
fn take_effect<'k>(broker: &Broker, keys: impl Iterator<Item = &'k str>) -> Result<(), Refusal> {
    for key in keys {
        match key {
            // Registers all topics anew, because name servers are told the permission topic by topic.
            "brokerPermission" => broker.topics.renew(broker.now_ms()),
            // The template for automatically created topics holds whether any may be created.
            "autoCreateTopicEnable" => topics::create_system_topics(broker)?,
            // The template also holds the largest number of queues of such a topic.
            "defaultTopicQueueNums" => topics::renew_template(broker)?,
            "timerStopEnqueue" | "timerStopDequeue" => broker.timer.wake(),
            _ => {}
        }
    }
    Ok(())
}
