use super::bench::{Plan as _, Watched};
use super::cluster::{asked_of, brokers_of};
use super::probes::watch;
use super::safe_tps::{Halving, again, is_far_over};
use super::seed::Seed;
use super::*;
use crate::agent::{self, Asked};
use crate::archive::{BrokerFile, Factors, HostFile, Target};
use crate::generator::{Consume, IntervalSample, Send, Sizes};
use crate::judge::ceiling::flat_part;
use crate::judge::conclusion::levels_off;
use crate::scenario_arguments::mix;
use crate::scenario_arguments::{AgentFlags, MatrixFlags, ScenarioArguments, SeedFlags};
use crate::session;
use crate::sizes::bytes;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: MatrixFlags,
}

fn flags(line: &str) -> MatrixFlags {
    Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags
}

#[test]
fn sizes_are_read_as_people_write_them() {
    let check = |text: &str, expected: Option<u64>| assert_eq!(bytes(text).ok(), expected, "{text}");
    check("512", Some(512));
    check("1k", Some(1024));
    check("1.5K", Some(1536));
    check("4m", Some(4 << 20));
    check("2g", Some(2 << 30));
    check("", None);
    check("k", None);
    check("-1", None);
    check("ten", None);
    assert_eq!(mix("512:9/10k"), Ok(Sizes(vec![(512, 9), (10_240, 1)])));
    assert!(mix("1k:x").is_err());
}

#[test]
fn a_matrix_has_every_combination_once() {
    let flags = flags("--threads 1,10,30,60 --size 1k,5k --queues 1,8,16 --groups 2");
    let cells = cells(&flags);
    assert_eq!(cells.len(), 24);
    let names: std::collections::BTreeSet<_> = cells.iter().map(|cell| cell.name(0)).collect();
    assert_eq!(names.len(), 24);
    assert_eq!((cells[1].threads, cells[1].size, cells[1].queues, cells[1].groups), (10, 1024, 1, 2));
    let workload = flags.arguments.workload(&cells[23]);
    assert_eq!((workload.threads, workload.queues, workload.sizes), (60, 16, Sizes::one(5120)));
}

#[test]
fn requests_of_scenarios_are_signed_where_that_is_asked_for() {
    let signed = flags("-a true --ak me --sk hush");
    let access = signed.arguments.workload(&cells(&signed)[0]).access.unwrap();
    assert_eq!((access.access_key.as_str(), access.secret_key.as_str()), ("me", "hush"));
    assert!(!format!("{access:?}").contains("hush"));
    let plain = flags("--ak me --sk hush");
    assert_eq!(plain.arguments.workload(&cells(&plain)[0]).access, None, "as with the scripts");
}

#[test]
fn any_flag_of_a_scene_can_differ_between_cells() {
    let flags = flags(
        "--threads 8 --tags 3 --vary send=sync,async,transaction --vary consume=pull,orderly --vary headers=binary,json",
    );
    let cells = cells(&flags);
    assert_eq!(cells.len(), 12);
    let workload = flags.arguments.workload(&cells[11]);
    assert_eq!(
        (workload.send, workload.consume, workload.json_headers),
        (Send::Transaction, Consume::Orderly, true)
    );
    assert_eq!(workload.tags, 3);
    let properties = self::flags("--threads 8 --keys --vary property-size=0,300 --vary keys=false,true");
    let found = self::cells(&properties);
    let found: Vec<_> = found.iter().map(|cell| properties.arguments.workload(cell)).collect();
    let found: Vec<_> = found.iter().map(|workload| (workload.property_size, workload.keys)).collect();
    assert_eq!(found, [(0, false), (0, true), (300, false), (300, true)]);
    assert!(!cells[0].more.contains_key("send") && cells[4].more["send"] == "async", "{:?}", cells[4]);
    let consumers = self::flags("--threads 8 --consumer-threads 4 --consume push --vary consumers=1,3");
    let found = self::cells(&consumers);
    let found: Vec<_> = found.iter().map(|cell| consumers.arguments.workload(cell)).collect();
    let found: Vec<_> =
        found.iter().map(|workload| (workload.consumers, workload.consumer_threads)).collect();
    assert_eq!(found, [(1, Some(4)), (3, Some(4))]);
    for (wrong, says) in [
        ("send=twice", "expected sync, async, oneway, transaction"),
        ("colour=red", "expected send, consume"),
        ("topics=0", "at least 1"),
        ("consumer-threads=0", "at least 1"),
        ("groups", "NAME=VALUE"),
        ("set:=4", "or set:KEY"),
        ("set:flushLeastPages=", "or set:KEY"),
        ("set:tlsServerKeyPassword=hush,hash", "set it at the broker"),
    ] {
        let error = wrong.parse::<crate::scenario_arguments::Vary>().unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_mixture_of_sizes_survives_the_archive() {
    let flags = flags("--size 512:9/10k:1");
    let cell = &cells(&flags)[0];
    assert_eq!(cell.size, 1484);
    assert_eq!(flags.arguments.workload(cell).sizes, Sizes(vec![(512, 9), (10_240, 1)]));
}

#[derive(Parser)]
struct SeedLine {
    #[command(flatten)]
    flags: SeedFlags,
}

fn seed(line: &str) -> Seed {
    Seed::new(&SeedLine::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags).unwrap()
}

#[test]
fn small_reports_end_within_twenty_five_minutes() {
    for report in ["000", "001", "002", "003", "004"] {
        let seed = seed(report);
        let seconds = |cell| {
            let once: u32 = seed.stages(cell).iter().map(|stage| stage.seconds).sum();
            once * seed.repeats(cell).unwrap_or(3)
        };
        let planned: u32 = seed.cells.iter().map(seconds).sum();
        assert!(
            planned <= 1400 && seed.cells.len() >= 5,
            "{report}: {planned} s, {} cells",
            seed.cells.len()
        );
    }
}

#[test]
fn what_is_typed_counts_more_than_the_scale() {
    let steady = |line: &str| {
        let seed = seed(line);
        seed.stages(&seed.cells[0]).iter().map(|stage| stage.seconds).collect::<Vec<_>>()
    };
    assert_eq!(steady("000"), [0, 2, 8]);
    assert_eq!(steady("000 --warmup 0 --duration 3"), [0, 0, 3]);
}

#[test]
fn whole_reports_hold_their_cells() {
    assert_eq!(seed("000 --scale full").cells.len(), 6 * 5 * 3);
    let queues: Vec<_> = seed("003 --scale full").cells.iter().map(|cell| cell.queues).collect();
    assert!([1024, 5000, 10_240, 50_000].iter().all(|number| queues.contains(number)));
    let names: std::collections::BTreeSet<_> =
        seed("003 --scale full").cells.iter().map(|cell| format!("{cell:?}")).collect();
    assert_eq!(names.len(), queues.len(), "no cell twice");
    let rows = seed("003 --scale full").cells;
    let count = |flush: &str, is_backlog: bool, compression: &str| {
        let is = |cell: &&Factors| {
            cell.flush == flush
                && cell.more.contains_key("fill") == is_backlog
                && cell.compression == compression
        };
        rows.iter().filter(is).count()
    };
    let found = ["async", "sync"].map(|flush| {
        [
            count(flush, false, "zlib"),
            count(flush, false, "none"),
            count(flush, true, "zlib"),
            count(flush, true, "none"),
        ]
    });
    assert_eq!(found, [[14, 6, 3, 1], [11, 5, 3, 1]]);
    assert!(Seed::new(&SeedLine::parse_from(["x", "005"]).flags).is_err());
}

#[test]
fn reports_have_the_consumers_they_say() {
    let of = |line: &str| {
        let seed = seed(line);
        let loads = seed.cells.iter().map(|cell| seed.workload(cell)).filter(|load| load.groups > 0);
        let loads = loads.inspect(|load| load.check().unwrap());
        let found = loads.map(|load| (load.groups, load.consumers, load.consume, load.consumer_threads));
        found.fold(Vec::new(), |mut all, one| {
            if !all.contains(&one) {
                all.push(one);
            }
            all
        })
    };
    let (pull, push) = (Consume::Pull, Consume::Push);
    assert!(of("000 --scale full").is_empty());
    // The last cell is the soak, whose content is checked, which needs pull consumers.
    assert_eq!(of("001"), [(1, 1, push, Some(1)), (1, 2, push, Some(1)), (1, 2, pull, None)]);
    assert_eq!(of("002"), [(1, 2, pull, None)]);
    assert_eq!(of("003 --scale full"), [(1, 10, pull, None), (1, 4, pull, None), (1, 2, pull, None)]);
    assert_eq!(of("004"), [(1, 2, pull, None)]);
}

#[test]
fn no_two_cells_of_a_report_have_one_name_and_their_soaks_are_long_enough() {
    for report in ["000", "001", "002", "003", "004"] {
        for scale in ["small", "medium", "full"] {
            let seed = seed(&format!("{report} --scale {scale}"));
            let names: Vec<String> = seed.cells.iter().map(|cell| cell.name(0)).collect();
            let different: std::collections::BTreeSet<&String> = names.iter().collect();
            assert_eq!(different.len(), names.len(), "{report} {scale}: {names:?}");
            for seconds in seed.cells.iter().filter_map(|cell| cell.more.get("soak")) {
                let seconds: u32 = seconds.parse().unwrap();
                assert!(seconds >= crate::judge::validity::SOAK_SECONDS_MIN, "{report} {scale}: {seconds} s");
            }
        }
    }
}

fn drained(behind: u64, in_flight: u64, sending: bool, (sent, consumed): (u64, u64)) -> bool {
    let taken = IntervalSample { sent, consumed, ..IntervalSample::default() };
    super::record::Waits { behind, in_flight, sending }.is_drained(&taken, 2)
}

#[test]
fn a_small_load_with_many_in_flight_is_drained_all_the_same() {
    assert!(drained(100, 128, true, (1_000, 1_000)));
    assert!(drained(200, 128, true, (1_000, 1_000)) && !drained(201, 128, true, (1_000, 1_000)));
}

#[test]
fn nothing_may_wait_where_what_is_missing_is_called_lost() {
    assert!(drained(0, 0, false, (0, 0)));
    assert!(!drained(1, 0, false, (0, 0)) && !drained(0, 1, false, (0, 0)) && !drained(0, 0, false, (0, 9)));
}

#[test]
fn what_a_second_showed_began_with_it() {
    let taken = IntervalSample { at_ms: 5_000, lasted_ms: 1_000, ..IntervalSample::default() };
    let event = super::files::during(&taken, "steal", String::new());
    assert_eq!((event.at_ms, event.lasted_ms), (4_000, 1_000));
}

#[derive(Parser)]
struct SafeLine {
    #[command(flatten)]
    flags: crate::scenario_arguments::SafeTpsFlags,
}

fn safe_scene(line: &[&str]) -> ScenarioArguments {
    let flags = SafeLine::parse_from([&["x"], line].concat()).flags;
    super::safe_tps::arguments(&flags.arguments, &super::safe_tps::slo(&flags).unwrap())
}

#[test]
fn a_search_that_is_gone_on_with_keeps_what_it_was_told_to_keep() {
    let place = tempfile::tempdir().unwrap();
    let slo: crate::archive::Slo = "e2e.p99<50ms".parse().unwrap();
    let begun = crate::archive::RunFile { slo, ..crate::judge::fixture::file() };
    crate::archive::Archive::create(place.path(), &begun).unwrap();
    let out = place.path().to_str().unwrap();
    assert_eq!(safe_scene(&["--out", out]).groups, 1);
    assert_eq!(safe_scene(&["--out", out, "--slo", "errors=0"]).groups, 0);
}

#[test]
fn who_asks_for_end_to_end_latency_has_a_consumer() {
    let groups = |line: &[&str]| safe_scene(line).groups;
    assert_eq!(groups(&["--slo", "e2e.p99<50ms,errors=0"]), 1);
    assert_eq!(groups(&["--slo", "e2e.p99<50ms", "--groups", "3"]), 3);
    assert_eq!(groups(&["--slo", "send.p99<50ms"]), 0);
}

#[test]
fn a_rate_is_confirmed_in_three_repeats_at_least() {
    let repeats = |line: &[&str], purpose: &str| {
        let arguments = safe_scene(line);
        let mut cell = arguments.factors(60, &Sizes::one(1024), 8);
        cell.more.insert("purpose".to_owned(), purpose.to_owned());
        super::safe_tps::Search { arguments, confirm: 300 }.repeats(&cell)
    };
    assert_eq!(repeats(&["--repeats", "1"], "confirm"), Some(3));
    assert_eq!(repeats(&["--repeats", "5"], "confirm"), Some(5));
    assert_eq!(repeats(&["--repeats", "5"], "search"), Some(1));
    assert_eq!(repeats(&["--repeats", "5"], "ceiling"), None);
}

#[test]
fn a_ladder_ends_where_more_load_gives_no_more() {
    assert!(!levels_off(&[]) && !levels_off(&[100.0, 102.0]), "three steps at least");
    assert!(!levels_off(&[50.0, 100.0, 102.0]) && !levels_off(&[100.0, 101.0, 150.0]));
    assert!(levels_off(&[50.0, 100.0, 102.0, 104.0]) && levels_off(&[100.0, 101.0, 99.0]));
    assert!(!levels_off(&[50.0, 100.0, 99.0]), "one step that gained nothing may be chance");
    assert!(!levels_off(&[50.0, 100.0, 90.0]) && !levels_off(&[50.0, 100.0, 80.0, 101.0]), "so may a fall");
    assert!(levels_off(&[50.0, 100.0, 90.0, 85.0, 80.0]) && levels_off(&[50.0, 100.0, 80.0, 101.0, 99.0]));
    assert!(!levels_off(&[100.0, 70.0, 104.0, 108.0]), "slow growth is growth");
}

#[test]
fn the_ceiling_of_a_server_that_wanders_is_found() {
    let near = |step: &mut dyn FnMut() -> f64| {
        let mut search = || {
            let mut rates: Vec<f64> = Vec::new();
            while rates.len() < 8 && !levels_off(&rates) {
                // Each step of the ladder, with more requests in flight, gains less than the one before.
                let full = 10_000.0 * (1.0 - 0.35 * 0.5_f64.powi(rates.len() as i32));
                rates.push(full * step());
            }
            flat_part(&rates)
        };
        (0..1_000).filter(|_| (9_000.0..11_000.0).contains(&search())).count()
    };
    let mut random = fastrand::Rng::with_seed(7);
    // Every third step is a quarter too low.
    let low = near(&mut || if random.f64() < 0.33 { 0.75 } else { 0.98 + 0.04 * random.f64() });
    // Each of the three repeats of a step is off by up to a fifth.
    let mut repeat = || 0.8 + 0.4 * random.f64();
    let off = near(&mut || (repeat() + repeat() + repeat()) / 3.0);
    assert!(low >= 880 && off >= 880, "within a tenth in {low} and {off} of 1,000 searches");
}

#[test]
fn what_may_be_chance_is_tried_again() {
    use crate::judge::guards::{Guard, Watch};
    let guard = |watch, used| Guard { watch, node: String::new(), used, reading: Default::default() };
    assert!(is_far_over(&guard(Watch::CpuBusy, Some(1.33))), "a full processor is no chance");
    assert!(!is_far_over(&guard(Watch::CpuBusy, Some(1.1))));
    for watch in [Watch::Rate, Watch::Errors, Watch::SendP99, Watch::Load] {
        assert!(!is_far_over(&guard(watch, Some(f64::INFINITY))), "{watch:?}");
    }
}

#[test]
fn a_second_try_is_called_one() {
    let mut cell = crate::judge::fixture::factors(60);
    cell.more.insert("purpose".to_owned(), "search".to_owned());
    assert_eq!(again(&cell).name(7), "007-w60-s1024-q8-again-search");
}

#[test]
fn a_search_finds_the_highest_safe_rate() {
    for truth in [0.0, 500.0, 71_000.0, 99_000.0, 112_000.0, 200_000.0] {
        let mut halving = Halving::new(100_000.0);
        let mut tried = 0;
        while let Some(rate) = halving.next() {
            halving.note(rate, rate <= truth);
            tried += 1;
        }
        let most = if truth < 110_000.0 { 9 } else { 14 };
        assert!(tried <= most && halving.safe <= truth, "{truth}: {tried}");
        assert!(halving.safe >= truth - 3500.0, "{truth}: {}", halving.safe);
    }
}

/// An agent on a free port, and its address.
async fn agent(name: &str) -> (tokio::task::JoinHandle<Result<(), crate::Error>>, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = listener.local_addr().unwrap().to_string();
    (agent_on(listener, name), listen)
}

fn agent_on(
    listener: tokio::net::TcpListener,
    name: &str,
) -> tokio::task::JoinHandle<Result<(), crate::Error>> {
    let flags = AgentFlags {
        listen: String::new(),
        name: Some(name.to_owned()),
        load: false,
        pid: None,
        gc_log: None,
        selftest: None,
        roofline: None,
    };
    tokio::spawn(async move { agent::serve(listener, &flags).await })
}

fn brokers(addresses: &[(u64, &str)]) -> Target {
    let broker = |(id, address): &(u64, &str)| BrokerFile {
        id: *id,
        address: (*address).to_owned(),
        settings: [("storePathRootDir".to_owned(), format!("/store{id}"))].into(),
        ..BrokerFile::default()
    };
    Target { brokers: addresses.iter().map(broker).collect(), ..Target::default() }
}

#[test]
fn an_agent_knows_the_brokers_of_its_machine_by_any_of_its_names() {
    session::block_on(async {
        let target = brokers(&[
            (1, "127.0.0.1:10921"),
            (0, "192.0.2.7:10911"),
            (0, "127.0.0.1:10911"),
            (0, "nowhere.invalid:1"),
        ]);
        let (there, asked) = asked_of(&target, "localhost:9870").await;
        assert_eq!(there, [0, 2], "all brokers of the machine");
        assert_eq!((asked.port, asked.loopback), (Some(10_911), true), "the master is watched");
        assert_eq!(asked.store.unwrap().to_str(), Some("/store0"));
        let (there, asked) = asked_of(&target, "192.0.2.8:9870").await;
        assert_eq!((there.len(), asked.port, asked.store, asked.loopback), (0, None, None, false));
        let mut several = target.clone();
        let settings = &mut several.brokers[2].settings;
        settings.insert("storePathCommitLog".to_owned(), "/disk1/log,/disk2/log".to_owned());
        let (_, asked) = asked_of(&several, "localhost:9870").await;
        assert_eq!(asked.store.unwrap().to_str(), Some("/disk1/log"), "one of several directories");
        several.brokers.iter_mut().for_each(|broker| broker.settings.clear());
        let (_, asked) = asked_of(&several, "localhost:9870").await;
        assert_eq!(asked.store.unwrap().to_str(), Some(""), "a broker that does not say");
        Ok(())
    })
    .unwrap();
}

#[test]
fn of_several_clusters_one_has_to_be_named() {
    let group = |name: &str, cluster: &str| {
        let data = wire::body::BrokerData {
            broker_addrs: [(0, format!("{name}:10911")), (1, format!("{name}:10921"))].into(),
            cluster: cluster.to_owned(),
            ..wire::body::BrokerData::default()
        };
        (name.to_owned(), data)
    };
    let known = |groups: &[(&str, &str)]| wire::body::ClusterInfo {
        broker_addr_table: groups.iter().map(|(name, cluster)| group(name, cluster)).collect(),
        ..wire::body::ClusterInfo::default()
    };
    let found = |groups, cluster| {
        let brokers = brokers_of(known(groups), cluster).map_err(|error| error.to_string())?;
        Ok::<_, String>(brokers.into_iter().map(|broker| broker.address).collect::<Vec<_>>().join(" "))
    };
    let (one, two) = ([("a", "live")], [("a", "live"), ("b", "test")]);
    assert_eq!(found(&one, None), Ok("a:10911 a:10921".to_owned()));
    let error = "--cluster: the name servers know several, expected one of live, test".to_owned();
    assert_eq!(found(&two, None), Err(error));
    assert_eq!(found(&two, Some("test")), Ok("b:10911 b:10921".to_owned()));
    assert_eq!(found(&two, Some("none")), Ok(String::new()));
}

#[test]
fn every_machine_has_a_name_that_files_can_have() {
    session::block_on(async {
        let agents = [agent("db 1").await.1, agent("db 1").await.1];
        let arguments = ScenarioArguments { agents: agents.to_vec(), ..flags("").arguments };
        let host = HostFile { name: "lab".to_owned(), ..HostFile::default() };
        let client = client::Client::start(client::Config::new("127.0.0.1:1"))?;
        let target = brokers(&[(0, "127.0.0.1:10911")]);
        let (given_pid, ports, has_broker, store) = (None, Vec::new(), false, "/".into());
        let mut cluster = Cluster { client, target, host, given_pid, ports, has_broker, store };
        let (hosts, watched, _) = machines::hosts(&mut cluster, &arguments).await?;
        let second = format!("db_1-{}", agents[1].replace(':', "_"));
        let names: Vec<_> = hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["lab", "db_1", &second]);
        let names: Vec<_> = watched.iter().map(|watched| watched.name.as_str()).collect();
        assert_eq!(names, ["db_1", &second]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_agent_that_ends_is_noticed() {
    session::block_on(async {
        let (running, address) = agent("far").await;
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let watched = Watched { address, asked: Asked::default(), name: "far".to_owned() };
        let watching = tokio::spawn(watch(watched, sender));
        assert!(matches!(seen.recv().await, Some((name, Some(_))) if name == "far"));
        running.abort();
        while let Some((_, second)) = seen.recv().await {
            if second.is_none() {
                watching.abort();
                return Ok(());
            }
        }
        panic!("nobody told that the agent is gone");
    })
    .unwrap();
}

#[test]
fn an_agent_that_is_not_there_at_the_beginning_is_waited_for() {
    session::block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let watched = Watched { address, asked: Asked::default(), name: "far".to_owned() };
        let watching = tokio::spawn(watch(watched, sender));
        for _ in 0..2 {
            // The listener accepts, but is no agent.
            drop(listener.accept().await.unwrap());
        }
        let running = agent_on(listener, "far");
        assert!(matches!(seen.recv().await, Some((_, None))), "told once");
        assert!(matches!(seen.recv().await, Some((_, Some(_)))), "then seen");
        watching.abort();
        running.abort();
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_backlog_can_be_drained_without_producers() {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: crate::scenario_arguments::BacklogFlags,
    }
    let steps = |line: &str| {
        let flags = Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags;
        let plan = super::backlog::Backlog::new(&flags);
        let cell = &plan.cells(&flags)[0];
        plan.stages(cell).iter().map(|stage| (stage.name, stage.action)).collect::<Vec<_>>()
    };
    let goes_on = steps("");
    assert_eq!(goes_on, steps("--keep-producing --then drain"));
    assert_eq!(goes_on[4], ("drain", Action::StartReaders));
    let rests = steps("--keep-producing false");
    let between = [
        ("rest", Action::StopProducers),
        ("drain", Action::StartReaders),
        ("restart", Action::StartProducers),
        ("after", Action::None),
    ];
    assert_eq!(rests[4..], between);
}

#[test]
fn a_backlog_is_filled_by_size_or_by_time() {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: crate::scenario_arguments::BacklogFlags,
    }
    let during = |line: &str| {
        let flags = Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags;
        let plan = super::backlog::Backlog::new(&flags);
        let cell = &plan.cells(&flags)[0];
        let stages = plan.stages(cell);
        assert_eq!((stages[3].name, stages[4].name), ("during", "drain"));
        (cell.more["fill"].clone(), stages[3].seconds, stages[3].until, stages[4].seconds)
    };
    assert_eq!(during("--fill 2k"), ("2048".to_owned(), 600, Until::Sent(2048), 600));
    assert_eq!(during("--fill 2k --fill-seconds 90"), ("2048".to_owned(), 90, Until::Sent(2048), 600));
    assert_eq!(during("--fill 2k --fill-seconds 900"), ("2048".to_owned(), 900, Until::Sent(2048), 900));
    assert_eq!(during("--fill 18h"), ("64800s".to_owned(), 64_800, Until::Time, 64_800));
    assert_eq!(during("--fill 18h --drain-seconds 9"), ("64800s".to_owned(), 64_800, Until::Time, 9));
}
