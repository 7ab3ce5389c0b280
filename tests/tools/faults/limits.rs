//! Limits of the process and what operators do to a data folder.

use std::fs;
use std::process::Command;

use wire::codes::response;

use crate::Options;
use crate::bench::{Load, Trouble, end, home, judge, must, runs, send, setup, until};
use crate::common::disk::run;
use crate::common::judge::Promise;
use crate::common::server::{Setup, free_ports};
use crate::common::wire_client::Connection;

const SMALL: [&str; 2] = ["mappedFileSizeCommitLog=1048576", "mappedFileSizeConsumeQueue=2000"];
/// The log alone must not need the descriptors: it keeps its files open.
const FEW_FILES: [&str; 1] = ["mappedFileSizeCommitLog=67108864"];
/// Bytes of the log that a load fills before something happens.
const LOAD_BYTES: u64 = 256 << 10;

/// Few file descriptors: connections are refused or wait, those that are there are served, and nothing is lost.
pub fn file_descriptors(options: &Options) -> Result<String, Trouble> {
    const LIMIT: usize = 128;
    let home = home()?;
    let mut setup = setup(options, home.path(), home.path(), &FEW_FILES);
    setup.prefix = vec!["prlimit".to_owned(), format!("--nofile={LIMIT}")];
    run(Command::new("prlimit").args([&format!("--nofile={LIMIT}"), "true"])).map_err(Trouble::Impossible)?;
    let mut server = setup.start()?;
    let load = Load::start(&setup, 0, 8);
    load.go_on(LOAD_BYTES)?;
    let crowd: Vec<_> = (0..2 * LIMIT).filter_map(|_| Connection::open(setup.broker()).ok()).collect();
    load.go_on(LOAD_BYTES)?;
    runs(&mut server)?;
    let many = crowd.len();
    drop(crowd);
    until("new connections are served", || {
        let sent = Connection::open(setup.broker())
            .and_then(|mut connection| send(&mut connection, "Probe", 0, 100));
        Ok(sent.is_ok_and(|answer| answer.code == response::SUCCESS))
    })?;
    let histories = load.stop();
    let acknowledged = histories.iter().map(|history| history.sent.len()).sum::<usize>();
    must(acknowledged > 0, || "nothing was sent".to_owned())?;
    runs(&mut server)?;
    server.kill9();
    let server = setup.start()?;
    let counts = judge(&server, histories, Promise::Everything)?;
    end(server)?;
    Ok(format!("{LIMIT} descriptors, {many} connections opened, then served again; {counts}"))
}

/// A folder copied while the server runs is a crashed store: it opens elsewhere and has what was there before.
pub fn copied_folder(options: &Options) -> Result<String, Trouble> {
    let home = home()?;
    let setup = setup(options, home.path(), home.path(), &SMALL);
    let server = setup.start()?;
    let load = Load::start(&setup, 0, 8);
    load.go_on(LOAD_BYTES)?;
    let histories = load.stop();
    let busy = Load::start(&setup, 1, 8);
    let copy = home.path().join("copy");
    run(Command::new("cp").args(["-a", "--sparse=always"]).arg(&setup.data).arg(&copy))?;
    let others = busy.stop();
    let (namesrv_port, broker_port) = free_ports();
    let desk = home.path().join("copied");
    let copied = Setup { data: copy, namesrv_port, broker_port, desk, ..setup.clone() };
    let second = copied.start()?;
    // What was sent while it was copied may be there or not.
    let mut all = histories;
    all.extend(others.into_iter().map(|mut history| {
        history.sent.iter_mut().for_each(|sent| sent.fate = crate::common::load::Fate::Unknown);
        history
    }));
    let counts = judge(&second, all, Promise::Everything)?;
    end(second)?;
    end(server)?;
    Ok(format!("the copy opens on other ports: {counts}"))
}

/// Derived files that are deleted, truncated or foreign while the server is stopped are made again.
pub fn deleted_derived_files(options: &Options) -> Result<String, Trouble> {
    let home = home()?;
    let setup = setup(options, home.path(), home.path(), &SMALL);
    let server = setup.start()?;
    let load = Load::start(&setup, 0, 8);
    load.go_on(LOAD_BYTES)?;
    let histories = load.stop();
    end(server)?;
    let queues = setup.data.join("consumequeue").join(crate::bench::TOPIC);
    let damages: [&dyn Fn() -> std::io::Result<()>; 4] = [
        &|| fs::remove_dir_all(queues.join("0")),
        &|| fs::remove_dir_all(&queues),
        &|| fs::remove_file(setup.data.join("checkpoint")),
        &|| {
            fs::remove_dir_all(setup.data.join("consumequeue"))
                .and_then(|()| fs::remove_file(setup.data.join("checkpoint")))
        },
    ];
    let mut counts = String::new();
    for (index, damage) in damages.iter().enumerate() {
        damage()?;
        let server = setup.start().map_err(|error| format!("damage {index}: {error}"))?;
        counts = judge(&server, histories.clone(), Promise::Everything).map_err(|trouble| match trouble {
            Trouble::Failed(text) => Trouble::Failed(format!("damage {index}: {text}")),
            other => other,
        })?;
        end(server)?;
    }
    Ok(format!("one queue, one topic, the checkpoint, everything: {counts}"))
}
