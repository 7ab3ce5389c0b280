//! The messages of `apache.rocketmq.v2`, derived with `prost`. Names, numbers and types are facts of the protocol;
//! `interop/grpc-python/descriptors.py` compares them with the descriptors in the official Python package.

#![expect(
    missing_docs,
    reason = "fields and variants have the names of the protocol, whose definition describes them"
)]

/// Declares messages: each field with its attribute of `prost`.
macro_rules! messages {
    ($($(#[$meta:meta])* pub struct $Message:ident { $(#[$($kind:tt)*] $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $Message {
            $(#[prost($($kind)*)] pub $field: $type,)*
        }
    )*};
}

/// Declares enumerations: each value with its number.
macro_rules! enumerations {
    ($($(#[$meta:meta])* pub enum $Enumeration:ident { $($Value:ident = $number:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
        #[repr(i32)]
        pub enum $Enumeration {
            $($Value = $number,)*
        }
    )*};
}

mod code;
mod definition;
mod enums;
mod json;
mod service;

use std::time::Duration as StdDuration;

pub use code::Code;
pub use definition::*;
pub use enums::*;
pub use json::settings_json;
pub use service::*;

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// The time `ms` milliseconds after the epoch.
    pub fn of_ms(ms: i64) -> Self {
        Self {
            seconds: ms.div_euclid(1000),
            nanos: i32::try_from(ms.rem_euclid(1000)).unwrap_or(0) * 1_000_000,
        }
    }

    /// Milliseconds since the epoch; a time that does not fit is as far away as fits.
    pub fn ms(self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(i64::from(self.nanos / 1_000_000))
    }
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Duration {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Duration {
    /// A duration of `ms` milliseconds.
    pub fn of_ms(ms: i64) -> Self {
        Self { seconds: ms / 1000, nanos: i32::try_from(ms % 1000).unwrap_or(0) * 1_000_000 }
    }

    /// Returns the duration in milliseconds, limited to the range of the type.
    pub fn ms(self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(i64::from(self.nanos / 1_000_000))
    }
}

impl From<StdDuration> for Duration {
    fn from(duration: StdDuration) -> Self {
        Self::of_ms(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Code {
    /// The name of the code in the protocol, such as `MESSAGE_NOT_FOUND`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for (index, letter) in format!("{self:?}").chars().enumerate() {
            if letter.is_uppercase() && index > 0 {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        name
    }
}

impl Status {
    /// A status with a text. An empty text is replaced by the name of the code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code: code.into(), message: if message.is_empty() { code.name() } else { message } }
    }

    /// Success: code `OK` with the message `OK`.
    pub fn ok() -> Self {
        Self { code: Code::Ok.into(), message: "OK".to_owned() }
    }
}

impl Resource {
    /// The resource without a namespace.
    pub fn named(name: impl Into<String>) -> Self {
        Self { resource_namespace: String::new(), name: name.into() }
    }
}

/// The name of a resource of a request; empty when the request names none.
pub fn name(resource: &Option<Resource>) -> &str {
    resource.as_ref().map_or("", |resource| resource.name.as_str())
}

#[cfg(test)]
mod tests;
