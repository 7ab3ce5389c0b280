//! The enumerations of `apache.rocketmq.v2` (`definition.proto`).

enumerations! {
/// `AddressScheme`.
pub enum AddressScheme {
    Unspecified = 0,
    Ipv4 = 1,
    Ipv6 = 2,
    DomainName = 3,
}

/// `ClientType`.
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
pub enum DigestType {
    Unspecified = 0,
    Crc32 = 1,
    Md5 = 2,
    Sha1 = 3,
}

/// `Encoding`.
pub enum Encoding {
    Unspecified = 0,
    Identity = 1,
    Gzip = 2,
}

/// `FilterType`.
pub enum FilterType {
    Unspecified = 0,
    Tag = 1,
    Sql = 2,
}

/// `Language`.
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
pub enum LiteSubscriptionAction {
    PartialAdd = 0,
    PartialRemove = 1,
    CompleteAdd = 2,
    CompleteRemove = 3,
}

/// `MessageType`.
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
pub enum Policy {
    Last = 0,
    Min = 1,
    Max = 2,
}

/// `Permission`.
pub enum Permission {
    Unspecified = 0,
    None = 1,
    Read = 2,
    Write = 3,
    ReadWrite = 4,
}

/// `TransactionResolution`.
pub enum TransactionResolution {
    Unspecified = 0,
    Commit = 1,
    Rollback = 2,
}

/// `TransactionSource`.
pub enum TransactionSource {
    Unspecified = 0,
    Client = 1,
    ServerCheck = 2,
}
}
