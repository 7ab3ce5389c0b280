//! Message records: any bytes are a record or an error, and every part of a record lies inside it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::record::{RecordFields, RecordView, encode, peek, peek_store_timestamp};

fuzz_target!(|data: &[u8]| {
    let _ = peek(data);
    let _ = peek_store_timestamp(data);
    let Ok(view) = RecordView::parse(data) else { return };
    assert!(view.size() <= data.len());
    let _ = view.check_crc();
    let parts = view.body().len() + view.topic().len() + view.properties().len();
    assert!(parts + 75 <= view.size() + 16);
    let _ = (view.born_host(), view.store_host(), view.queue_offset(), view.log_offset());
    let Some(topic) = view.topic_str() else { return };
    let fields = RecordFields {
        topic,
        queue_id: view.queue_id(),
        flag: view.flag(),
        sys_flag: view.sys_flag(),
        born_timestamp: view.born_timestamp(),
        born_host: view.born_host(),
        store_host: view.store_host(),
        reconsume_times: view.reconsume_times(),
        prepared_transaction_offset: view.prepared_transaction_offset(),
        body: view.body(),
        properties: view.properties(),
        crc_property: false,
    };
    let mut out = Vec::new();
    encode(&fields, &mut out).expect("what was parsed fits its fields");
    let again = RecordView::parse(&out).expect("our own record");
    assert!(again.check_crc().is_ok());
    assert_eq!(
        (again.body(), again.topic(), again.properties()),
        (view.body(), view.topic(), view.properties())
    );
    assert_eq!(
        (again.sys_flag(), again.flag(), again.queue_id()),
        (view.sys_flag(), view.flag(), view.queue_id())
    );
});
