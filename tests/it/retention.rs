//! Old messages go and disks fill up, seen from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use wire::codes::{request, response};
use wire::header::SendHeader;

use crate::common::PATIENCE;
use crate::common::wire_client::{Arrived, Connection, pull_header, pull_reply, send_header};
use crate::stage::{Stage, eventually, records, setup};

const TOPIC: &str = "Kept";

fn send(connection: &mut Connection, body: &[u8]) -> Arrived {
    connection.send(&SendHeader { ..send_header(TOPIC, 0) }, body)
}

/// Queue offsets of all messages from `offset` on, as a consumer gets them that goes where it is told.
fn consume(connection: &mut Connection, mut offset: i64) -> Vec<i64> {
    let (mut found, began) = (Vec::new(), Instant::now());
    loop {
        let answer = connection.pull(&pull_header("CG", TOPIC, 0, offset));
        assert!(began.elapsed() < PATIENCE, "{answer:?}");
        match answer.code {
            response::SUCCESS => found.extend(records(&answer).iter().map(|record| record.0)),
            response::PULL_OFFSET_MOVED | response::PULL_RETRY_IMMEDIATELY => {}
            response::PULL_NOT_FOUND => return found,
            // A new group is written down before it is served, which a disk that is full at that moment does not allow.
            response::SYSTEM_ERROR if answer.remark().contains("No space left on device") => continue,
            _ => panic!("{answer:?}"),
        }
        offset = pull_reply(&answer).next_offset;
    }
}

fn min_offset(connection: &mut Connection) -> i64 {
    let answer = connection.call(
        request::GET_MIN_OFFSET,
        |writer| writer.text("topic", TOPIC).number("queueId", 0),
        b"",
    );
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.number("offset")
}

#[test]
fn a_consumer_goes_on_where_the_queue_begins_now() {
    let stage = Stage::start(&["mappedFileSizeCommitLog=65536", "fileReservedTime=0", "deleteWhen=04"]);
    let mut connection = stage.connect();
    for _ in 0..200 {
        assert_eq!(send(&mut connection, &[7; 1000]).code, 0);
    }
    // Whatever hour it is; the checkpoint lets files go that it has passed.
    let min = eventually("old files are deleted", || {
        let asked = connection.call(request::DELETE_EXPIRED_COMMITLOG, |writer| writer, b"");
        assert_eq!(asked.code, 0, "{asked:?}");
        Some(min_offset(&mut connection)).filter(|min| *min > 150)
    });
    let moved = connection.pull(&pull_header("CG", TOPIC, 0, 5));
    assert_eq!((moved.code, moved.remark()), (response::PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL"));
    assert_eq!((pull_reply(&moved).next_offset, pull_reply(&moved).min_offset), (min, min));
    assert_eq!(consume(&mut connection, 5), (min..200).collect::<Vec<_>>());
    let cleaned = connection.call(request::CLEAN_EXPIRED_CONSUMEQUEUE, |writer| writer, b"");
    assert_eq!(cleaned.code, 0, "{cleaned:?}");
    assert_eq!(send(&mut connection, b"next").number("queueOffset"), 200);
    let stage = stage.restart(|server| {
        server.terminate();
    });
    let mut connection = stage.connect();
    assert_eq!(min_offset(&mut connection), min);
    assert_eq!(consume(&mut connection, 0), (min..=200).collect::<Vec<_>>());
}

/// A small file system in memory, unmounted when dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: PathBuf, megabytes: u32) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let size = format!("size={megabytes}m");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).output();
        if done.is_ok_and(|done| done.status.success()) {
            return Some(Self(at));
        }
        eprintln!("SKIPPED: a small file system cannot be mounted here; this test needs root");
        None
    }

    /// Takes so many megabytes away.
    fn ballast(&self, megabytes: usize) -> PathBuf {
        let path = self.0.join("ballast");
        fs::write(&path, vec![0; megabytes << 20]).unwrap();
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: the server may still be ending.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn start_on(small: &Path, lines: &[&str]) -> Stage {
    let (mut setup, home) = setup(lines);
    // Its wheel alone would fill a small disk.
    setup.lines.push("timerWheelEnable=false".to_owned());
    setup.disk_limits = &[];
    small.join("data").clone_into(&mut setup.data);
    let server = setup.start().unwrap_or_else(|error| panic!("the server does not start: {error}"));
    Stage { server, home }
}

#[test]
fn a_full_disk_refuses_senders_serves_consumers_and_recovers_by_itself() {
    let home = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(home.path().join("small"), 48) else { return };
    let stage = start_on(&small.0, &["mappedFileSizeCommitLog=1048576", "cleanFileForciblyEnable=false"]);
    let mut connection = stage.connect();
    let mut stored = 0;
    for _ in 0..100 {
        assert_eq!(send(&mut connection, &[7; 1000]).code, 0);
        stored += 1;
    }
    for megabytes in [44, 48] {
        // To the last byte the second time: the file system says so before the broker looked.
        let wanted = (megabytes << 20) - used(&small.0);
        let path = if megabytes == 48 { fill(&small.0) } else { small.ballast(wanted >> 20) };
        let refused = eventually("sends are refused", || {
            let answer = send(&mut connection, &[7; 100_000]);
            stored += i64::from(answer.code == 0);
            Some(answer).filter(|answer| answer.code != 0)
        });
        assert_eq!(refused.code, response::SERVICE_NOT_AVAILABLE, "{refused:?}");
        let start = "service not available now. It may be caused by one of the following reasons: the broker's disk is full [CL: ";
        assert!(refused.remark().starts_with(start), "{refused:?}");
        assert_eq!(consume(&mut connection, 0), (0..stored).collect::<Vec<_>>());
        fs::remove_file(path).unwrap();
        eventually("sends are accepted again", || {
            Some(send(&mut connection, b"again")).filter(|answer| answer.code == 0)
        });
        stored += 1;
    }
    let stage = stage.restart(crate::common::server::Server::kill9);
    assert_eq!(consume(&mut stage.connect(), 0), (0..stored).collect::<Vec<_>>());
}

fn used(path: &Path) -> usize {
    let output = Command::new("df").args(["-B1", "--output=used"]).arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().nth(1).unwrap().trim().parse().unwrap()
}

/// Fills the file system until it takes nothing more.
fn fill(path: &Path) -> PathBuf {
    use std::io::Write;
    let path = path.join("ballast");
    let mut file = fs::File::create(&path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    path
}

#[test]
fn the_oldest_files_make_room_for_new_messages() {
    let home = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(home.path().join("small"), 24) else { return };
    let stage = start_on(&small.0, &["mappedFileSizeCommitLog=1048576", "mappedFileSizeConsumeQueue=2000"]);
    let mut connection = stage.connect();
    let mut stored = 0;
    // Twice what the disk holds; a sender that is too fast for the deletion is told to wait.
    while stored < 500 {
        eventually("the sender may go on", || {
            let answer = send(&mut connection, &[7; 100_000]);
            assert!([0, response::SERVICE_NOT_AVAILABLE].contains(&answer.code), "{answer:?}");
            (answer.code == 0).then_some(())
        });
        stored += 1;
    }
    let found = consume(&mut connection, 0);
    let min = found[0];
    assert!(min > 250 && found.len() > 50, "{min} {}", found.len());
    assert_eq!(found, (min..500).collect::<Vec<_>>());
}
