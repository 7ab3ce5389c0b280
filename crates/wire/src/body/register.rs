//! The body of a broker's registration, as JSON and in the packed format that is compressed.
//!
//! Packed format (`RegisterBrokerBody.encode` with compression; integers big-endian):
//!
//! | part | layout |
//! |---|---|
//! | data version | `int length`, JSON |
//! | topics | `int count`, then per topic `int length`, text of [`TopicConfig`]'s `Display` |
//! | filter servers | `int length`, JSON array |
//! | mappings, from version [`MAPPING_VERSION_MIN`] on | `int count`, then per topic `int length`, JSON |

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{TopicConfig, TopicConfigSerializeWrapper, TopicQueueMapping};
use crate::json::{self, JsonError};

/// The first version (V5_0_0) whose packed body has static-topic mappings.
pub const MAPPING_VERSION_MIN: i32 = 413;

/// Header field of `REGISTER_BROKER`. `true` if the body has only some topics of the broker: changed topics, or a
/// part of a large table. A name server then keeps the topics that the body does not name, even with
/// `deleteTopicWithBrokerRegistration`. Brokers and name servers of RocketMQ do not know the field.
pub const PART_OF_TABLE: &str = "partOfTable";

/// A broker's registration at the name server (`org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegisterBrokerBody {
    /// Legacy filter servers; `None` leaves the stored list unchanged.
    pub filter_server_list: Option<Vec<String>>,
    /// Topics and static-topic mappings with their data versions.
    pub topic_config_serialize_wrapper: TopicConfigSerializeWrapper,
}

/// Error of a packed registration that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackedError {
    /// A length is negative or exceeds the body.
    #[error("packed registration: expected {expected} at byte {position}, found the end of the body")]
    Truncated {
        /// The part that was expected.
        expected: &'static str,
        /// Position in the inflated body, in bytes.
        position: usize,
    },
    /// A topic's text has fewer than five words, or a word that should be a number is not.
    #[error("packed registration: expected a topic of at least five words, found `{text}`")]
    Topic {
        /// The topic's text.
        text: String,
    },
    /// The registration has more topics, or static-topic mappings, than the reader takes.
    #[error("packed registration: expected at most {max} {expected}, found {found}")]
    TooMany {
        /// The kind of entry.
        expected: &'static str,
        /// Most entries that are taken.
        max: usize,
        /// Number of entries that the registration states.
        found: usize,
    },
    /// A JSON part is malformed.
    #[error("packed registration: {0}")]
    Json(#[from] JsonError),
}

impl RegisterBrokerBody {
    /// Parses the inflated packed body of a request of `version`, with at most `topics_max` topics and as many
    /// mappings.
    ///
    /// # Errors
    /// [`PackedError`] when the body is truncated, a part of it is malformed, or it has more entries.
    pub fn from_packed(packed: &[u8], version: i32, topics_max: usize) -> Result<Self, PackedError> {
        let mut unpack = Unpack { bytes: packed, position: 0, elements_max: topics_max };
        let mut body = Self::default();
        let wrapper = &mut body.topic_config_serialize_wrapper;
        wrapper.data_version = unpack.json("a data version")?;
        let topics = unpack.count("topics")?;
        for _ in 0..topics {
            let text = String::from_utf8_lossy(unpack.part("a topic")?);
            let topic = TopicConfig::from_words(&text);
            let topic = topic.ok_or_else(|| PackedError::Topic { text: text.into_owned() })?;
            wrapper.topic_config_table.insert(topic.topic_name.clone(), topic);
        }
        body.filter_server_list = Some(unpack.json("a list of filter servers")?);
        if version >= MAPPING_VERSION_MIN {
            let mappings = unpack.count("mappings")?;
            for _ in 0..mappings {
                let mapping: TopicQueueMapping = unpack.json("a mapping")?;
                wrapper.topic_queue_mapping_info_map.insert(mapping.topic.clone(), mapping);
            }
        }
        Ok(body)
    }
}

struct Unpack<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Most entries of each table, and most elements of each JSON part.
    elements_max: usize,
}

impl<'a> Unpack<'a> {
    fn take(&mut self, length: usize, expected: &'static str) -> Result<&'a [u8], PackedError> {
        let taken = self.position.checked_add(length).and_then(|end| self.bytes.get(self.position..end));
        let taken = taken.ok_or(PackedError::Truncated { expected, position: self.position })?;
        self.position += length;
        Ok(taken)
    }

    fn number(&mut self, expected: &'static str) -> Result<usize, PackedError> {
        let position = self.position;
        let bytes = self.take(4, expected)?.try_into().expect("four bytes were taken");
        usize::try_from(i32::from_be_bytes(bytes)).map_err(|_| PackedError::Truncated { expected, position })
    }

    /// The number of entries that follow.
    fn count(&mut self, expected: &'static str) -> Result<usize, PackedError> {
        let (found, max) = (self.number(expected)?, self.elements_max);
        if found > max { Err(PackedError::TooMany { expected, max, found }) } else { Ok(found) }
    }

    fn part(&mut self, expected: &'static str) -> Result<&'a [u8], PackedError> {
        let length = self.number(expected)?;
        self.take(length, expected)
    }

    fn json<T: DeserializeOwned>(&mut self, expected: &'static str) -> Result<T, PackedError> {
        Ok(json::from_slice_within(self.part(expected)?, self.elements_max)?)
    }
}
