//! Frames of both header encodings: any bytes are a command or an error, and what was decoded can be written and
//! decoded again without a change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::frame::{Command, Encoding, FrameWriter, Head, frame_length};
use wire::header::{PullHeader, PullResponseHeader, SendHeader, SendResponseHeader};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(command: &Command<'_>) -> Pairs {
    command.fields.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn typed(command: &Command<'_>) {
    for code in [10, 310, command.code] {
        if let Ok(header) = SendHeader::decode(code, &command.fields) {
            let mut out = Vec::new();
            header.write(FrameWriter::begin(&mut out, Head::request(Encoding::Json, 310, 1))).finish(b"");
            let again = Command::decode(&mut out).expect("our own frame");
            assert_eq!(SendHeader::decode(310, &again.fields).as_ref(), Ok(&header));
        }
    }
    let _ = PullHeader::decode(&command.fields);
    let _ = PullResponseHeader::decode(&command.fields);
    let _ = SendResponseHeader::decode(&command.fields);
}

/// Writes a command again; only what a writer accepts: text, and keys that need no escape.
fn rewrite(command: &Command<'_>, encoding: Encoding) -> Option<Vec<u8>> {
    let plain = |key: &[u8]| {
        key.len() < 1000
            && key.iter().all(|byte| (0x20..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\'))
    };
    let all = pairs(command);
    if !all.iter().all(|(key, value)| plain(key) && std::str::from_utf8(value).is_ok()) {
        return None;
    }
    let head = Head { flag: command.flag, ..Head::request(encoding, command.code, command.opaque) };
    let head = command.remark.map_or(head, |remark| head.remark(remark));
    let mut out = Vec::new();
    let mut writer = FrameWriter::begin(&mut out, head);
    for (key, value) in &all {
        writer = writer.bytes(std::str::from_utf8(key).ok()?, value);
    }
    writer.finish(command.body);
    Some(out)
}

fuzz_target!(|data: &[u8]| {
    let _ = frame_length(data);
    let mut bytes = data.to_vec();
    let Ok(command) = Command::decode(&mut bytes) else { return };
    typed(&command);
    for encoding in [Encoding::Json, Encoding::Binary] {
        let Some(mut out) = rewrite(&command, encoding) else { continue };
        assert_eq!(frame_length(&out).ok().flatten(), Some(out.len()));
        let again = Command::decode(&mut out).expect("our own frame");
        assert_eq!((again.code, again.opaque, again.flag), (command.code, command.opaque, command.flag));
        let remark = |command: &Command<'_>| command.remark.unwrap_or_default().to_owned();
        assert_eq!(remark(&again), remark(&command));
        assert_eq!(pairs(&again), pairs(&command));
        assert_eq!(again.body, command.body);
    }
});
