//! The enumerations of `apache.rocketmq.v2` (`definition.proto`).

enumerations! {
/// Scheme of an address: IPv4, IPv6 or domain name.
pub enum AddressScheme {
    Unspecified = 0,
    Ipv4 = 1,
    Ipv6 = 2,
    DomainName = 3,
}

/// Type of a client: producer, or a kind of consumer.
pub enum ClientType {
    Unspecified = 0,
    Producer = 1,
    PushConsumer = 2,
    SimpleConsumer = 3,
    PullConsumer = 4,
    LitePushConsumer = 5,
    LiteSimpleConsumer = 6,
}

/// Algorithm of a body's checksum.
pub enum DigestType {
    Unspecified = 0,
    Crc32 = 1,
    Md5 = 2,
    Sha1 = 3,
}

/// Compression of a message body.
pub enum Encoding {
    Unspecified = 0,
    Identity = 1,
    Gzip = 2,
}

/// Kind of a filter expression: tag or SQL92.
pub enum FilterType {
    Unspecified = 0,
    Tag = 1,
    Sql = 2,
}

/// Programming language of a client.
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

/// Change of a consumer's lite topics: add some, remove some, or replace all.
pub enum LiteSubscriptionAction {
    PartialAdd = 0,
    PartialRemove = 1,
    CompleteAdd = 2,
    CompleteRemove = 3,
}

/// Type of a message: normal, ordered, timed, transactional, and others.
pub enum MessageType {
    Unspecified = 0,
    Normal = 1,
    Fifo = 2,
    Delay = 3,
    Transaction = 4,
    Lite = 5,
    Priority = 6,
}

/// Start position by policy: the last or the first offset.
pub enum Policy {
    Last = 0,
    Min = 1,
    Max = 2,
}

/// Permission of a queue: none, read, write, or both.
pub enum Permission {
    Unspecified = 0,
    None = 1,
    Read = 2,
    Write = 3,
    ReadWrite = 4,
}

/// Decision about a transaction: commit or roll back.
pub enum TransactionResolution {
    Unspecified = 0,
    Commit = 1,
    Rollback = 2,
}

/// Origin of a decision: the client itself, or a check-back of the server.
pub enum TransactionSource {
    Unspecified = 0,
    Client = 1,
    ServerCheck = 2,
}
}
