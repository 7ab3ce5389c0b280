//! Settings: requests 25 and 26. What may be changed while the broker runs says the property table.

use std::sync::Arc;

use net::Peer;
use wire::body::parse_key_values;
use wire::codes::response;
use wire::frame::Command;
use wire::json;

use crate::broker::Broker;
use crate::config::{Config, NotChanged, TooManySets, Update, merged, update};
use crate::{Answer, Refusal, persist, topics};

/// 26 `GET_BROKER_CONFIG`.
pub(crate) fn config(broker: &Broker) -> Result<Answer, Refusal> {
    let version = broker.topics.version();
    let version = String::from_utf8_lossy(&json::to_vec(&version)).into_owned();
    let mut config = Config::clone(&broker.config);
    config.store.flush = broker.flush_mode();
    Ok(Answer::success().field("version", version).body(config.to_properties().into_bytes()))
}

/// 25 `UPDATE_BROKER_CONFIG`: all settings of the request are changed and written to the broker's file, or none. The answer comes
/// when they count. May wait for the disk.
pub(crate) fn update_config(
    broker: &Arc<Broker>,
    peer: &Arc<Peer>,
    command: &Command<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let unreadable = |_| Refusal::error("string2Properties error");
    let changes = parse_key_values(command.body).map_err(unreadable)?.into_iter().collect();
    // One after the other, so that the file follows the order of changes.
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
    // Before the file is written: it shall say what counts.
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
        // Whoever asked may be gone; the change counts all the same.
        let _ = peer.push(|out| out.extend_from_slice(&late));
    });
    Ok(())
}

/// Does what goes beyond reading the new value the next time.
fn take_effect<'k>(broker: &Broker, keys: impl Iterator<Item = &'k str>) -> Result<(), Refusal> {
    for key in keys {
        match key {
            // Name servers are told what may be read and written, topic by topic.
            "brokerPermission" => broker.topics.renew(broker.now_ms()),
            // The template of new topics says whether there may be any.
            "autoCreateTopicEnable" => topics::create_system_topics(broker)?,
            // And how many queues they get at most.
            "defaultTopicQueueNums" => topics::renew_template(broker)?,
            "timerStopEnqueue" | "timerStopDequeue" => broker.timer.wake(),
            _ => {}
        }
    }
    Ok(())
}
