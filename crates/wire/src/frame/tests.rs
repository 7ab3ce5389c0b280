//! Golden frames of RocketMQ 5.5.0, round trips in both encodings, and hostile input.

use super::*;
use crate::codes::request;
use proptest::prelude::*;

const GOLDEN: &[u8] = include_bytes!("../golden/remoting-5.5.0.txt");

/// The line after `## title` in the golden file.
fn golden(title: &str) -> Vec<u8> {
    let mark = format!("## {title}\n");
    let at = GOLDEN.windows(mark.len()).position(|window| window == mark.as_bytes()).expect("title exists");
    let rest = &GOLDEN[at + mark.len()..];
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    rest[..end].to_vec()
}

fn unhex(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("hex") as u8;
    text.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn json_frame(header: &str, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend_from_slice(&((4 + header.len() + body.len()) as u32).to_be_bytes());
    frame.extend_from_slice(&(header.len() as u32).to_be_bytes());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(body);
    frame
}

#[test]
fn java_json_request_decodes() {
    let mut frame = unhex(&golden("JSON request frame hex"));
    assert_eq!(frame_length(&frame), Ok(Some(frame.len())));
    let command = Command::decode(&mut frame).unwrap();
    assert_eq!((command.code, command.opaque, command.flag, command.version), (105, 7, 0, 479));
    assert_eq!(command.language, Some(Language::Java));
    assert_eq!(command.fields.text("topic"), Some("TopicTest"));
    assert!(command.fields.flag_or("acceptStandardJsonOnly", false));
    assert!(command.body.is_empty());
}

#[test]
fn requests_state_a_language_that_old_clients_know() {
    let mut frame = Vec::new();
    Head::one_way(Encoding::Json, request::NOTIFY_CONSUMER_IDS_CHANGED, 1).write(&mut frame, b"");
    assert_eq!(Command::decode(&mut frame).unwrap().language, Some(Language::Java));
}

#[test]
fn java_binary_frame_decodes_and_reencodes_to_the_same_bytes() {
    let original = unhex(&golden("BIN frame"));
    let mut frame = original.clone();
    let command = Command::decode(&mut frame).unwrap();
    assert_eq!((command.code, command.opaque, command.remark), (105, 7, Some("rk")));
    assert_eq!(command.body, b"BODY");
    let mut out = Vec::new();
    let head =
        Head { language: Language::Java, ..Head::request(Encoding::Binary, command.code, command.opaque) };
    let mut writer = FrameWriter::begin(&mut out, head.remark("rk"));
    for (key, value) in command.fields.iter() {
        writer = writer.bytes(std::str::from_utf8(key).unwrap(), value);
    }
    writer.finish(command.body);
    // The only difference is the version that Vostok sends.
    let mut expected = original;
    expected[11..13].copy_from_slice(&(crate::codes::VERSION as i16).to_be_bytes());
    assert_eq!(out, expected);
}

#[test]
fn java_v2_send_decodes_in_both_encodings() {
    let mut binary = unhex(&golden("SENDV2 BIN"));
    let json = golden("SENDV2 JSON");
    let from = json.iter().position(|byte| *byte == b'{').unwrap();
    let text = std::str::from_utf8(&json[from..json.len() - 2]).unwrap();
    let mut json = json_frame(text, b"hi");
    for frame in [&mut binary, &mut json] {
        let command = Command::decode(frame).unwrap();
        let header = crate::header::SendHeader::decode(command.code, &command.fields).unwrap();
        assert_eq!((header.producer_group, header.topic, header.queue_id), ("PG", "T", 1));
        assert_eq!(header.properties, b"K\x01v\x02");
        assert_eq!(header.born_timestamp, 1_700_000_000_000);
        assert_eq!((header.broker_name, header.batch), ("broker-a", false));
        assert_eq!(command.body, b"hi");
    }
}

#[test]
fn json_header_is_read_leniently() {
    let mut frame = json_frame(
        r#"{ "unknown": {"a":[1,{"b":null}]}, "code": "34", "extFields":{"n":5,"t":true,"z":null,"e":"","u":"\u4e2d\ud83d\ude00\/x"}, "opaque":-3, "language":"MARS","flag":3 }"#,
        b"",
    );
    let command = Command::decode(&mut frame).unwrap();
    assert_eq!((command.code, command.opaque, command.flag), (34, -3, 3));
    assert_eq!(command.language, None);
    assert_eq!(command.fields.number_or("n", 0), Ok(5));
    assert!(command.fields.flag_or("t", false));
    assert_eq!(command.fields.text("z"), None);
    assert_eq!(command.fields.text("e"), Some(""));
    assert_eq!(command.fields.text("u"), Some("中😀/x"));
}

#[test]
fn json_headers_may_have_single_quotes_and_a_comma_behind_the_last_member() {
    let header =
        r#"{'code':34,"extFields":{'a':'it\'s "b"',"c":"d'e\n",},"skipped":['x',[1],{'y':2,}],'flag':1,}"#;
    let mut frame = json_frame(header, b"");
    let command = Command::decode(&mut frame).unwrap();
    assert_eq!((command.code, command.flag), (34, 1));
    assert_eq!((command.fields.text("a"), command.fields.text("c")), (Some("it's \"b\""), Some("d'e\n")));
    for text in
        [r#"{,}"#, r#"{"code":1,,}"#, r#"{'code":1}"#, r#"{"code":1,"#, r#"{"a":[1,]}"#, r#"{"a":'x"}"#]
    {
        assert!(Command::decode(&mut json_frame(text, b"")).is_err(), "{text}");
    }
}

#[test]
fn a_missing_ext_fields_object_is_no_fields() {
    let mut frame = json_frame(r#"{"code":34,"extFields":null}"#, b"");
    assert!(Command::decode(&mut frame).unwrap().fields.is_empty());
}

#[test]
fn broken_frames_are_refused() {
    assert_eq!(frame_length(&[0, 0]), Ok(None));
    assert_eq!(frame_length(&(-5_i32).to_be_bytes()), Err(FrameError::Length(-5)));
    assert_eq!(frame_length(&3_i32.to_be_bytes()), Err(FrameError::Length(3)));
    assert_eq!(frame_length(&16_777_213_i32.to_be_bytes()), Err(FrameError::Length(16_777_213)));
    assert_eq!(frame_length(&16_777_212_i32.to_be_bytes()), Ok(Some(FRAME_BYTES_MAX)));
    let mut long_header = vec![0, 0, 0, 8, 0, 0, 0, 9, 1, 2, 3, 4];
    assert!(matches!(
        Command::decode(&mut long_header),
        Err(FrameError::HeaderLength { header: 9, frame: 8 })
    ));
    let mut unknown = vec![0, 0, 0, 4, 7, 0, 0, 0];
    assert!(matches!(Command::decode(&mut unknown), Err(FrameError::Encoding(7))));
    for text in ["", "{", "[]", r#"{"code":}"#, r#"{"code":1}x"#, r#"{"a":"\x"}"#, r#"{"a":"\u12"}"#] {
        assert!(Command::decode(&mut json_frame(text, b"")).is_err(), "{text}");
    }
}

#[test]
fn a_code_beyond_16_bits_is_written_as_json() {
    let mut out = Vec::new();
    Head::request(Encoding::Binary, 200_050, 1).write(&mut out, b"");
    let command = Command::decode(&mut out).unwrap();
    assert_eq!((command.encoding, command.code), (Encoding::Json, 200_050));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        binary: bool,
        code in 0..30_000_i32,
        opaque: i32,
        remark in proptest::option::of("\\PC{1,40}"),
        fields in proptest::collection::vec(("[a-zA-Z]{1,12}", "[\\PC\u{1}\u{2}\n\"\\\\]{1,30}"), 0..40),
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let encoding = if binary { Encoding::Binary } else { Encoding::Json };
        let mut out = vec![9, 9];
        let head = Head { remark: remark.as_deref(), ..Head::response(encoding, code, opaque) };
        let mut writer = FrameWriter::begin(&mut out, head);
        for (key, value) in &fields {
            writer = writer.text(key, value);
        }
        writer.finish(&body);
        let frame = &mut out[2..];
        prop_assert_eq!(frame_length(frame), Ok(Some(frame.len())));
        let command = Command::decode(frame).unwrap();
        prop_assert_eq!((command.code, command.opaque), (code, opaque));
        prop_assert!(command.is_response() && !command.is_one_way());
        prop_assert_eq!(command.remark, remark.as_deref());
        prop_assert_eq!(command.body, &body[..]);
        let read: Vec<_> = command.fields.iter().collect();
        let written: Vec<_> = fields.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0..2_u8) {
        if bytes.len() >= 8 {
            bytes[4] = kind;
            bytes[5] = 0;
            bytes[6] = 0;
        }
        let _ = frame_length(&bytes);
        let _ = Command::decode(&mut bytes);
    }

    #[test]
    fn damaged_json_never_panics(at in 0..160_usize, byte: u8) {
        let text = r#"{"code":310,"extFields":{"a":"P\u0001\u0002\ud83d\ude00","n":[1,2,{"x":"y"}]},"flag":0,"remark":"\n"}"#;
        let mut frame = json_frame(text, b"x");
        let index = 8 + at % text.len();
        frame[index] = byte;
        let _ = Command::decode(&mut frame);
    }
}
