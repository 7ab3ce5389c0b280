use super::*;
use proptest::prelude::*;

fn id(host: &str, offset: u64) -> OffsetId {
    OffsetId { store_host: host.parse().unwrap(), log_offset: LogOffset::new(offset) }
}

#[test]
fn offset_ids_match_java() {
    let check = |id: OffsetId, text: &str| {
        assert_eq!(id.to_string(), text);
        assert_eq!(OffsetId::parse(text), Some(id));
        assert_eq!(OffsetId::parse(&text.to_lowercase()), Some(id));
    };
    check(id("127.0.0.1:10911", 12345), "7F00000100002A9F0000000000003039");
    check(id("10.0.0.9:10911", 0), "0A00000900002A9F0000000000000000");
    check(id("[2001:db8::9]:10911", 174), "20010DB800000000000000000000000900002A9F00000000000000AE");
}

#[test]
fn malformed_offset_ids_are_refused() {
    for text in [
        "",
        "7F",
        "7F00000100002A9F000000000000303G",
        "7F00000100012A9F0000000000003039",
        "7F00000100002A9F8000000000003039",
        "7F00000100002A9F00000000000030390",
        "中文中文中文中文中文中文中文中文",
    ] {
        assert_eq!(OffsetId::parse(text), None, "{text}");
    }
}

#[test]
fn unique_keys_have_javas_shape() {
    let mut out = Vec::new();
    UniqKeys::new([127, 0, 0, 1].into(), 0x00ab, 0xcd18_b4aa).append_to(&mut out, 0xc200_0000, 0);
    assert_eq!(out, b"7F00000100ABCD18B4AAC20000000000");
    let mut out = Vec::new();
    UniqKeys::new([0u16; 8].into(), 1, 2).append_to(&mut out, 3, 4);
    assert_eq!(out.len(), 56);
}

proptest! {
    #[test]
    fn offset_ids_round_trip(ip in any::<IpAddr>(), port in any::<u16>(), offset in 0..i64::MAX) {
        let id = OffsetId {
            store_host: SocketAddr::new(ip, port),
            log_offset: LogOffset::from_i64(offset).unwrap(),
        };
        prop_assert_eq!(OffsetId::parse(&id.to_string()), Some(id));
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,60}") {
        let _ = OffsetId::parse(&text);
    }
}
