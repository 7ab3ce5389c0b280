//! The enumerations of `apache.rocketmq.v2` (`definition.proto`).

/// `AddressScheme`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum AddressScheme {
    Unspecified = 0,
    Ipv4 = 1,
    Ipv6 = 2,
    DomainName = 3,
}

/// `ClientType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ClientType {
    Unspecified = 0,
    Producer = 1,
    PushConsumer = 2,
    SimpleConsumer = 3,
    PullConsumer = 4,
    LitePushConsumer = 5,
    LiteSimpleConsumer = 6,
}

/// `DigestType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum DigestType {
    Unspecified = 0,
    Crc32 = 1,
    Md5 = 2,
    Sha1 = 3,
}

/// `Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Encoding {
    Unspecified = 0,
    Identity = 1,
    Gzip = 2,
}

/// `FilterType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum FilterType {
    Unspecified = 0,
    Tag = 1,
    Sql = 2,
}

/// `Language`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Language {
    Unspecified = 0,
    Java = 1,
    Cpp = 2,
    DotNet = 3,
    Golang = 4,
    Rust = 5,
    Python = 6,
    Php = 7,
    NodeJs = 8,
    Ruby = 9,
    ObjectiveC = 10,
    Dart = 11,
    Kotlin = 12,
}

/// `LiteSubscriptionAction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum LiteSubscriptionAction {
    PartialAdd = 0,
    PartialRemove = 1,
    CompleteAdd = 2,
    CompleteRemove = 3,
}

/// `MessageType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum MessageType {
    Unspecified = 0,
    Normal = 1,
    Fifo = 2,
    Delay = 3,
    Transaction = 4,
    Lite = 5,
    Priority = 6,
}

/// `OffsetOption.Policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Policy {
    Last = 0,
    Min = 1,
    Max = 2,
}

/// `Permission`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Permission {
    Unspecified = 0,
    None = 1,
    Read = 2,
    Write = 3,
    ReadWrite = 4,
}

/// `TransactionResolution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum TransactionResolution {
    Unspecified = 0,
    Commit = 1,
    Rollback = 2,
}

/// `TransactionSource`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum TransactionSource {
    Unspecified = 0,
    Client = 1,
    ServerCheck = 2,
}
