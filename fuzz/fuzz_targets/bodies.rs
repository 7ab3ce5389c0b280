//! JSON bodies: any bytes are a value or an error, and a value that was written reads as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::body;
use wire::json::{Dialect, from_slice, to_vec_as};

macro_rules! check {
    ($data:expr, $($kind:ty),+ $(,)?) => {
        $(if let Ok(value) = from_slice::<$kind>($data) {
            for dialect in [Dialect::Plain, Dialect::Standard] {
                let text = to_vec_as(&value, dialect);
                let again: $kind = from_slice(&text).expect(stringify!($kind));
                assert_eq!(to_vec_as(&again, dialect), text, stringify!($kind));
            }
        })+
    };
}

fuzz_target!(|data: &[u8]| {
    check!(
        data,
        body::HeartbeatData,
        body::CheckClientBody,
        body::LockBatchBody,
        body::LockBatchResponseBody,
        body::TopicConfig,
        body::TopicConfigSerializeWrapper,
        body::RegisterBrokerBody,
        body::TopicRouteData,
        body::ClusterInfo,
        body::SubscriptionGroupTable,
        body::ConsumerListByGroup,
        body::ConsumerOffsetTable,
        body::DelayOffsetTable,
        body::ResetOffsetBody,
        body::BatchAckBody,
        body::QueryAssignmentBody,
        body::KvTable,
    );
    for version in [100, 400, 513] {
        let _ = body::RegisterBrokerBody::from_packed(data, version, 10_000);
    }
    let _ = body::parse_key_values(data);
});
