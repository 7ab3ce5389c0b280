//! `plain_acl.yml`: any bytes are rules or an error that names the file, and rules let nobody in who has no account.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use auth::{PlainAcl, PlainFiles, Signable};
use libfuzzer_sys::fuzz_target;
use wire::frame::{Command, Encoding, FrameWriter, Head};

static FILES: LazyLock<PlainFiles> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let directory = parent.join(format!("vostok-fuzz-plain-acl-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    PlainFiles { file: directory.join("plain_acl.yml"), directory: directory.join("acl") }
});

const KEY: &str = "nobody-has-this-key";

fuzz_target!(|data: &[u8]| {
    if data.windows(KEY.len()).any(|bytes| bytes == KEY.as_bytes()) {
        return;
    }
    std::fs::write(&FILES.file, data).expect("the file can be written");
    let rules = match PlainAcl::open(FILES.clone()) {
        Ok(rules) => rules,
        Err(error) => {
            assert!(error.to_string().contains("plain_acl.yml"), "{error}");
            return;
        }
    };
    assert!(!rules.reload().expect("the same file"), "nothing has changed");
    let mut frame = Vec::new();
    FrameWriter::begin(&mut frame, Head::request(Encoding::Json, 310, 1))
        .text(auth::ACCESS_KEY, KEY)
        .text(auth::SIGNATURE, "AAAAAAAAAAAAAAAAAAAAAAAAAAA=")
        .finish(b"");
    let command = Command::decode(&mut frame).expect("our own frame");
    if let Ok(identity) = rules.verify(&Signable::from(&command), [192, 0, 2, 1].into()) {
        // Only a white list of addresses lets such a request in, and then it has no account.
        assert_eq!(identity.access_key(), None);
    }
});
