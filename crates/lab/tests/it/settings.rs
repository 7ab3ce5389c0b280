//! Settings that a run changes, against brokers that know nothing but their settings: a run ends at its first message,
//! and until then everything has been tried, and afterwards it is put back.

use lab::archive::{Archive, Cell, FLUSH};
use lab::command::Lab;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wire::body::{BrokerData, ClusterInfo};
use wire::codes::{request, response};
use wire::frame::Command;
use wire::json;

const JAVA: &str = r#"{"table":{"brokerVersionDesc":"V5_5_0"}}"#;
const VOSTOK: &str = r#"{"table":{"vostokVersion":"0.1.0"}}"#;

/// Effect of a value at a broker: the value that the broker shows from then on, and its remark; nothing when the value
/// is gone.
type Take = fn(key: &str, value: &str) -> Option<(String, &'static str)>;

fn as_told(_key: &str, value: &str) -> Option<(String, &'static str)> {
    Some((value.to_owned(), ""))
}

/// A broker, which is a name server as well.
struct Broker {
    info: ClusterInfo,
    runtime: &'static str,
    take: Take,
    settings: Mutex<BTreeMap<String, String>>,
    told: Mutex<Vec<String>>,
    is_gone: AtomicBool,
}

impl Broker {
    fn value(&self, key: &str) -> String {
        self.settings.lock().unwrap()[key].clone()
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// Code, remark and body of the answer; `None` when there is none.
    fn answer(&self, command: &Command<'_>) -> Option<(i32, &'static str, Vec<u8>)> {
        let mut settings = self.settings.lock().unwrap();
        let (remark, body) = match command.code {
            request::GET_BROKER_CLUSTER_INFO => ("", json::to_vec(&self.info)),
            request::GET_BROKER_RUNTIME_INFO => ("", self.runtime.into()),
            request::GET_BROKER_CONFIG => {
                let lines = settings.iter().map(|(key, value)| format!("{key}={value}\n"));
                ("", lines.collect::<String>().into())
            }
            request::UPDATE_BROKER_CONFIG => {
                let line = std::str::from_utf8(command.body).unwrap().trim_end();
                self.told.lock().unwrap().push(line.to_owned());
                let (key, value) = line.split_once('=').unwrap();
                let Some((shown, remark)) = (self.take)(key, value) else {
                    self.is_gone.store(true, SeqCst);
                    return None;
                };
                settings.insert(key.to_owned(), shown);
                (remark, Vec::new())
            }
            _ => return Some((response::SYSTEM_ERROR, "not served", Vec::new())),
        };
        Some((response::SUCCESS, remark, body))
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut length = [0; 4];
        while stream.read_exact(&mut length).is_ok() && !self.is_gone.load(SeqCst) {
            let mut frame = length.to_vec();
            frame.resize(4 + u32::from_be_bytes(length) as usize, 0);
            stream.read_exact(&mut frame[4..]).unwrap();
            let command = Command::decode(&mut frame).unwrap();
            if command.is_one_way() {
                continue;
            }
            let Some((code, remark, body)) = self.answer(&command) else { return };
            let mut out = Vec::new();
            command.response(code).remark(remark).write(&mut out, &body);
            if stream.write_all(&out).is_err() {
                return;
            }
        }
    }
}

/// Brokers `b0`, `b1`, … with the same settings, and the address of one of them.
fn start(runtime: &'static str, takes: &[Take], settings: &[(&str, &str)]) -> (String, Vec<Arc<Broker>>) {
    let listeners: Vec<_> = takes.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let settings: BTreeMap<_, _> =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let one = |(listener, take): (TcpListener, &Take)| {
        let broker = Arc::new(Broker {
            info: info(&addresses),
            runtime,
            take: *take,
            settings: Mutex::new(settings.clone()),
            told: Mutex::default(),
            is_gone: AtomicBool::new(false),
        });
        let shared = Arc::clone(&broker);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        broker
    };
    let brokers = listeners.into_iter().zip(takes).map(one).collect();
    (addresses[0].to_string(), brokers)
}

fn info(addresses: &[SocketAddr]) -> ClusterInfo {
    let broker = |(number, address): (usize, &SocketAddr)| {
        let name = format!("b{number}");
        let data = BrokerData {
            broker_addrs: [(0, address.to_string())].into(),
            broker_name: name.clone(),
            cluster: "c".to_owned(),
            ..BrokerData::default()
        };
        (name, data)
    };
    let table: BTreeMap<_, _> = addresses.iter().enumerate().map(broker).collect();
    let names = table.keys().cloned().collect();
    ClusterInfo { broker_addr_table: table, cluster_addr_table: [("c".to_owned(), names)].into() }
}

fn run(address: &str, out: &Path, line: &str) -> Result<(), lab::Error> {
    let (tool, more) = line.split_once(' ').unwrap();
    let out = out.to_str().unwrap();
    let line = format!("{tool} -n {address} --out {out} --no-selftest --free-min 0 --threads 8 {more}");
    lab::run(Lab::new(line.split_whitespace().map(str::to_owned)))
}

/// End of a sweep of a setting, at a broker that has the value 4, and the values that the broker was given.
fn swept(runtime: &'static str, take: Take, (key, values): (&str, &str)) -> (String, Vec<String>) {
    let place = tempfile::tempdir().unwrap();
    let (address, brokers) = start(runtime, &[take], &[(key, "4")]);
    let line = format!("matrix --vary set:{key}={values}");
    let error = run(&address, &place.path().join("run"), &line).unwrap_err().to_string();
    assert_eq!(brokers[0].value(key), "4", "{error}");
    (error, brokers[0].told())
}

#[test]
fn what_a_sweep_changes_is_tried_before_and_put_back_afterwards() {
    let (error, told) = swept(JAVA, as_told, ("pages", "8,16"));
    assert!(error.contains("not served"), "{error}");
    assert_eq!(told, ["pages=16", "pages=8", "pages=4"]);
    let place = tempfile::tempdir().unwrap();
    let (address, brokers) = start(JAVA, &[as_told], &[("pages", "4")]);
    let error = run(&address, &place.path().join("run"), "matrix --vary set:colour=2").unwrap_err();
    assert_eq!(error.to_string(), "b0 tells no setting colour");
    assert!(brokers[0].told().is_empty());
}

#[test]
fn a_value_that_is_shown_as_another_one_is_refused() {
    let normal: Take = |_, value| Some((if value == "2048m" { "2g" } else { value }.to_owned(), ""));
    let (error, told) = swept(VOSTOK, normal, ("bytes", "1g,2048m,2g"));
    assert_eq!(error, "b0: bytes shows 2g for 2048m; write it so");
    assert_eq!(told, ["bytes=1g", "bytes=2048m", "bytes=4"]);
    let most: Take = |_, value| Some((value.parse::<u32>().unwrap().min(10).to_string(), ""));
    assert_eq!(swept(VOSTOK, most, ("pages", "9,99")).0, "b0: pages shows 10 for 99; write it so");
    let fixed: Take = |_, _| Some(("4".to_owned(), ""));
    assert_eq!(swept(VOSTOK, fixed, ("pages", "5")).0, "b0: pages shows 4 for 5; write it so");
}

#[test]
fn a_setting_without_effect_is_not_swept() {
    let unused: Take = |_, value| Some((value.to_owned(), "spin has no effect: nothing spins here"));
    let (error, told) = swept(VOSTOK, unused, ("spin", "4,5"));
    assert_eq!(error, "b0 takes spin=5 and does not use it: spin has no effect: nothing spins here");
    assert_eq!(told, ["spin=5", "spin=4"]);
    // Java says nothing: it makes its pools and its lock when it starts.
    for key in ["sendMessageThreadPoolNums", "useReentrantLockWhenPutMessage"] {
        let (error, told) = swept(JAVA, as_told, (key, "8"));
        assert_eq!(error, format!("b0 runs with {key}=4 and cannot change while it runs; start it with 8"));
        assert!(told.is_empty(), "{told:?}");
    }
}

#[test]
fn a_broker_that_is_gone_does_not_keep_others_changed() {
    let place = tempfile::tempdir().unwrap();
    let goes: Take = |_, value| (value != "2").then(|| (value.to_owned(), ""));
    let (address, brokers) = start(VOSTOK, &[as_told, goes, as_told], &[("pages", "4")]);
    run(&address, &place.path().join("run"), "matrix --vary set:pages=1,2").unwrap_err();
    let values = [0, 1, 2].map(|number: usize| brokers[number].value("pages"));
    assert_eq!(values, ["4", "1", "4"]);
    assert_eq!(brokers[2].told(), ["pages=1", "pages=4"]);
}

/// Makes a cell of a run one that was measured.
fn measured(out: &Path, number: u32) {
    let archive = Archive::open(out).unwrap();
    let factors = archive.run().unwrap().cells[number as usize - 1].clone();
    let place = archive.cell(number, &factors);
    let cell = Cell { number, name: place.name(), factors, ..Cell::default() };
    place.save_partial(&cell).unwrap();
    place.finish(&cell).unwrap();
}

#[test]
fn modes_of_several_starts_of_java_are_one_run() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run");
    let (address, brokers) = start(JAVA, &[as_told], &[(FLUSH, "ASYNC_FLUSH")]);
    let modes = || run(&address, &out, "modes --rate 100");
    let ended = || Archive::open(&out).unwrap().run().unwrap().ended_ms;
    assert!(modes().unwrap_err().to_string().contains("not served"));
    measured(&out, 1);
    let error = modes().unwrap_err().to_string();
    assert!(error.ends_with("start it with SYNC_FLUSH"), "{error}");
    assert_eq!(ended(), None);
    brokers[0].settings.lock().unwrap().insert(FLUSH.to_owned(), "SYNC_FLUSH".to_owned());
    measured(&out, 2);
    modes().unwrap();
    assert!(ended().is_some());
    assert_eq!(brokers[0].value(FLUSH), "SYNC_FLUSH", "it was started that way");
}
