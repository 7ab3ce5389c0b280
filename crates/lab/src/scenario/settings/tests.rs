use super::*;
use crate::archive::Cell;
use crate::command::MatrixFlags;
use crate::generator::Sizes;
use crate::scenario::bench::{Bench, Plan};
use crate::scenario::matrix::{Plain, cells};
use crate::scenario::modes::Modes;
use crate::session;
use clap::Parser;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use wire::body::{BrokerData, ClusterInfo};
use wire::codes::{request, response};
use wire::frame::Command;
use wire::json;

type Settings = Arc<Mutex<BTreeMap<String, String>>>;

/// A name server and a Java broker in one, which tells its settings and takes all but `fixed`.
fn java(settings: &[(&str, &str)]) -> (String, Settings) {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let settings: Settings = Arc::new(Mutex::new(settings.collect()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, shared) = (listener.local_addr().unwrap(), Arc::clone(&settings));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || serve(stream, address, &shared));
        }
    });
    (address.to_string(), settings)
}

fn serve(mut stream: TcpStream, address: SocketAddr, settings: &Mutex<BTreeMap<String, String>>) {
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut frame = length.to_vec();
        frame.resize(4 + u32::from_be_bytes(length) as usize, 0);
        stream.read_exact(&mut frame[4..]).unwrap();
        let command = Command::decode(&mut frame).unwrap();
        let mut settings = settings.lock().unwrap();
        let body = match command.code {
            request::GET_BROKER_CLUSTER_INFO => json::to_vec(&info(address)),
            request::GET_BROKER_RUNTIME_INFO => br#"{"table":{"brokerVersionDesc":"V5_5_0"}}"#.to_vec(),
            request::GET_BROKER_CONFIG => {
                settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect::<String>().into()
            }
            request::UPDATE_BROKER_CONFIG => {
                let text = String::from_utf8(command.body.to_vec()).unwrap();
                let told = text.lines().filter_map(|line| line.split_once('='));
                let taken = told.filter(|(key, _)| *key != "fixed");
                settings.extend(taken.map(|(key, value)| (key.to_owned(), value.to_owned())));
                Vec::new()
            }
            _ => continue,
        };
        let mut out = Vec::new();
        command.reply(response::SUCCESS).write(&mut out, &body);
        stream.write_all(&out).unwrap();
    }
}

fn info(address: SocketAddr) -> ClusterInfo {
    let name = "java".to_owned();
    let broker = BrokerData {
        broker_addrs: [(0, address.to_string())].into(),
        broker_name: name.clone(),
        cluster: name.clone(),
        ..BrokerData::default()
    };
    ClusterInfo {
        broker_addr_table: [(name.clone(), broker)].into(),
        cluster_addr_table: [(name.clone(), [name].into())].into(),
    }
}

fn flags(address: &str, out: &Path, more: &str) -> MatrixFlags {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: MatrixFlags,
    }
    let out = out.to_str().unwrap();
    let line = format!("x -n {address} --out {out} --no-selftest --threads 8 {more}");
    Line::parse_from(line.split_whitespace()).flags
}

/// Makes a cell of a run one that was measured.
fn measure(bench: &Bench, number: u32, factors: &Factors) {
    let place = bench.archive().cell(number, factors);
    let cell = Cell { number, name: place.name(), factors: factors.clone(), ..Cell::default() };
    place.save_partial(&cell).unwrap();
    place.finish(&cell).unwrap();
}

#[test]
fn modes_of_several_starts_of_java_are_one_run() {
    let place = tempfile::tempdir().unwrap();
    let (address, settings) = java(&[(FLUSH, "ASYNC_FLUSH")]);
    let scene = flags(&address, &place.path().join("run"), "").scene;
    let mode = |flush: &str| {
        let flush = flush.to_owned();
        Factors { flush, ..scene.factors(8, &Sizes::one(1024), 8) }
    };
    let modes = [mode("async"), mode("sync")];
    let plan = Modes { scene: scene.clone() };
    session::block_on(async {
        let mut bench = Bench::open(&scene, "modes", modes.to_vec(), &plan).await?;
        measure(&bench, 1, &modes[0]);
        let error = bench.run(&plan).await.unwrap_err().to_string();
        assert!(error.ends_with("start it with SYNC_FLUSH"), "{error}");
        assert_eq!(bench.archive().run()?.ended_ms, None);
        settings.lock().unwrap().insert(FLUSH.to_owned(), "SYNC_FLUSH".to_owned());
        let mut bench = Bench::open(&scene, "modes", modes.to_vec(), &plan).await?;
        measure(&bench, 2, &modes[1]);
        bench.run(&plan).await?;
        assert!(bench.archive().run()?.ended_ms.is_some());
        Ok(())
    })
    .unwrap();
    assert_eq!(settings.lock().unwrap()[FLUSH], "SYNC_FLUSH", "it was started that way");
}

#[test]
fn what_a_sweep_changes_is_put_back() {
    let place = tempfile::tempdir().unwrap();
    let (address, settings) = java(&[("flushLeastPages", "4"), ("fixed", "1")]);
    let value = || settings.lock().unwrap()["flushLeastPages"].clone();
    let flags = flags(&address, &place.path().join("run"), "--vary set:flushLeastPages=8,16");
    let cells = cells(&flags);
    let plan = Plain { scene: flags.scene.clone() };
    session::block_on(async {
        let mut bench = Bench::open(&flags.scene, "matrix", cells.clone(), &plan).await?;
        for (number, (cell, expected)) in (1..).zip(cells.iter().zip(["8", "16"])) {
            plan.prepare(bench.cluster(), cell).await?;
            assert_eq!(value(), expected);
            measure(&bench, number, cell);
        }
        let said = async |key: &str| {
            let mut cell = cells[0].clone();
            cell.more = [(format!("set:{key}"), "2".to_owned())].into();
            plan.prepare(bench.cluster(), &cell).await.unwrap_err().to_string()
        };
        assert_eq!(said("fixed").await, "java was told fixed=2 and keeps 1");
        assert_eq!(said("colour").await, "java tells no setting colour");
        bench.run(&plan).await
    })
    .unwrap();
    assert_eq!(value(), "4");
}
