//! Messages between their form in the protocol and their form in the log.

mod sent;
mod stored;

pub use sent::{MessageKind, Outgoing, check, outgoing};
pub use stored::{message, resource};

use grpc::messages::MessageType;

/// Values of the topic attribute `message.type`.
const TYPES: [(&str, MessageType); 6] = [
    ("NORMAL", MessageType::Normal),
    ("FIFO", MessageType::Fifo),
    ("DELAY", MessageType::Delay),
    ("TRANSACTION", MessageType::Transaction),
    ("PRIORITY", MessageType::Priority),
    ("LITE", MessageType::Lite),
];

/// Returns the name of a message type in topics and error texts.
pub fn type_name(of: MessageType) -> &'static str {
    TYPES.iter().find(|(_, known)| *known == of).map_or("UNSPECIFIED", |(name, _)| name)
}

/// Returns the types of messages that a topic takes, by its attribute `message.type`. A topic without it takes normal
/// messages.
pub fn accepted_types(attribute: Option<&str>) -> Vec<MessageType> {
    match attribute {
        None => vec![MessageType::Normal],
        Some("MIXED") => {
            vec![MessageType::Normal, MessageType::Fifo, MessageType::Delay, MessageType::Transaction]
        }
        Some(name) => {
            let known = TYPES.iter().find(|(known, _)| *known == name);
            vec![known.map_or(MessageType::Unspecified, |(_, known)| *known)]
        }
    }
}

#[cfg(test)]
mod tests;
