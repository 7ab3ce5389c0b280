use prost::Message as _;

use super::*;

#[test]
fn a_send_is_read_back() {
    let system =
        SystemProperties { message_id: "id".to_owned(), tag: Some(String::new()), ..Default::default() };
    let message = Message {
        topic: Some(Resource::named("T")),
        user_properties: [("k".to_owned(), "v".to_owned())].into(),
        system_properties: Some(system),
        body: bytes::Bytes::from_static(b"body"),
    };
    let request = SendMessageRequest { messages: vec![message] };
    assert_eq!(SendMessageRequest::decode(&*request.encode_to_vec()).unwrap(), request);
}

#[test]
fn times_are_in_milliseconds() {
    for ms in [0, 1, 999, 1_700_000_000_123, -1] {
        assert_eq!((Timestamp::of_ms(ms).ms(), Duration::of_ms(ms).ms()), (ms, ms));
    }
}
