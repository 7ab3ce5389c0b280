use super::cluster::{Cluster, asked_of, brokers_of};
use super::machines::Watched;
use super::probes::watch;
use super::safe_tps::{Halving, LadderStep, above, again, best, is_far_over};
use super::*;
use crate::agent::{self, AgentOptions, Asked};
use crate::archive::{BrokerFile, HostFile, Target};
use crate::generator::{Consume, IntervalSample};
use crate::judge::ceiling::flat_part;
use crate::judge::conclusion::levels_off;
use crate::runtime;

fn seed(report: &str, scale: Scale) -> Vec<CellLoad> {
    let (warmup, duration) = scale.seconds();
    let options = RunOptions { warmup, duration, ..RunOptions::fixture() };
    seed_cells(&options, report, scale).unwrap()
}

#[test]
fn small_reports_end_within_twenty_five_minutes() {
    for report in ["000", "001", "002", "003", "004"] {
        let cells = seed(report, Scale::Small);
        let seconds: u64 = cells.iter().map(|cell| cell.seconds(3)).sum();
        assert!(seconds <= 1400 && cells.len() >= 5, "{report}: {seconds} s, {} cells", cells.len());
    }
}

#[test]
fn whole_reports_hold_their_cells() {
    assert_eq!(seed("000", Scale::Full).len(), 6 * 5 * 3);
    let rows = seed("003", Scale::Full);
    let queues: Vec<_> = rows.iter().map(|cell| cell.factors.queues).collect();
    assert!([1024, 5000, 10_240, 50_000].iter().all(|number| queues.contains(number)));
    let names: std::collections::BTreeSet<_> =
        rows.iter().map(|cell| format!("{:?}", cell.factors)).collect();
    assert_eq!(names.len(), queues.len(), "no cell twice");
    let count = |flush: &str, is_backlog: bool, compression: &str| {
        let is = |cell: &&CellLoad| {
            cell.factors.flush == flush
                && cell.factors.more.contains_key("fill") == is_backlog
                && cell.factors.compression == compression
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
    assert!(seed_cells(&RunOptions::fixture(), "005", Scale::Small).is_err());
}

#[test]
fn rows_of_reports_name_what_a_cell_has() {
    let known = "groups producers consumers consume flush size queues threads bodies soak backlog";
    for line in include_str!("seeds.txt").lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let scales = ["small", "medium", "full"];
        assert!(words[1].split(',').all(|scale| scales.contains(&scale)), "{line}");
        for list in &words[2..] {
            let (name, values) = list.split_once('=').unwrap();
            assert!(known.split(' ').any(|known| known == name), "{line}");
            let is_known = |value: &str| match name {
                "consume" => value == "push",
                "bodies" => ["plain", "repeat", "random"].contains(&value),
                "flush" => ["async", "sync"].contains(&value),
                "backlog" => value == "yes",
                "soak" => value == "min" || value.parse::<u32>().is_ok(),
                _ => value.parse::<u32>().is_ok_and(|number| number > 0),
            };
            assert!(values.split(',').all(is_known), "{line}");
        }
    }
}

#[test]
fn reports_have_the_consumers_they_say() {
    let of = |report: &str, scale: Scale| {
        let cells = seed(report, scale);
        let loads = cells.iter().map(|cell| &cell.load).filter(|load| load.groups > 0);
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
    assert!(of("000", Scale::Full).is_empty());
    // The last cell is the soak, whose content is checked, which needs pull consumers.
    assert_eq!(of("001", Scale::Small), [(1, 1, push, Some(1)), (1, 2, push, Some(1)), (1, 2, pull, None)]);
    assert_eq!(of("002", Scale::Small), [(1, 2, pull, None)]);
    assert_eq!(of("003", Scale::Full), [(1, 10, pull, None), (1, 4, pull, None), (1, 2, pull, None)]);
    assert_eq!(of("004", Scale::Small), [(1, 2, pull, None)]);
}

#[test]
fn no_two_cells_of_a_report_have_one_name_and_their_soaks_are_long_enough() {
    for report in ["000", "001", "002", "003", "004"] {
        for scale in [Scale::Small, Scale::Medium, Scale::Full] {
            let cells = seed(report, scale);
            let names: Vec<String> = cells.iter().map(|cell| cell.factors.name(0)).collect();
            let different: std::collections::BTreeSet<&String> = names.iter().collect();
            assert_eq!(different.len(), names.len(), "{report} {scale:?}: {names:?}");
            for seconds in cells.iter().filter_map(|cell| cell.factors.more.get("soak")) {
                let seconds: u32 = seconds.parse().unwrap();
                assert!(
                    seconds >= crate::judge::validity::SOAK_SECONDS_MIN,
                    "{report} {scale:?}: {seconds} s"
                );
            }
        }
    }
}

fn drained(behind: u64, in_flight: u64, sending: bool, (sent, consumed): (u64, u64)) -> bool {
    let sample = IntervalSample { sent, consumed, ..IntervalSample::default() };
    super::record::Waits { behind, in_flight, sending }.is_drained(&sample, 2)
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
    let sample = IntervalSample { at_ms: 5_000, lasted_ms: 1_000, ..IntervalSample::default() };
    let event = super::files::during(&sample, "steal", String::new());
    assert_eq!((event.at_ms, event.lasted_ms), (4_000, 1_000));
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
fn steps_of_the_ladder_above_what_open_loops_found_are_confirmed_first() {
    let step = |(threads, rate, keeps_guards)| LadderStep { threads, rate, keeps_guards };
    let ladder = [
        (60, 590_000.0, true),
        (240, 1_000_000.0, true),
        (480, 1_118_372.0, true),
        (960, 1_199_566.0, true),
        (1_920, 1_190_000.0, false),
    ]
    .map(step);
    assert_eq!(best(&ladder).map(|step| step.threads), Some(960), "where the search goes on");
    assert_eq!(above(&ladder, 627_068.0), [960, 480]);
    assert_eq!(above(&ladder, 1_150_000.0), [960]);
    assert!(above(&ladder, 1_250_000.0).is_empty() && best(&[]).is_none());
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
    use crate::judge::guards::{Guard, Missing, Reading, Watch};
    let guard = |watch, used| Guard {
        watch,
        node: String::new(),
        used,
        reading: Reading::NotMeasured(Missing::Agent),
    };
    assert!(is_far_over(&guard(Watch::CpuBusy, Some(1.33))), "a full processor is no chance");
    assert!(!is_far_over(&guard(Watch::CpuBusy, Some(1.1))));
    for watch in [Watch::Rate, Watch::Errors, Watch::SendP99, Watch::Load] {
        assert!(!is_far_over(&guard(watch, Some(f64::INFINITY))), "{watch:?}");
    }
}

#[test]
fn a_second_try_is_called_one() {
    let cell = RunOptions::fixture().cell(60, &crate::generator::Sizes::one(1024), 8);
    assert_eq!(
        again(&cell.meant_for(crate::archive::Purpose::Probe)).factors.name(7),
        "007-w60-s1024-q8-again-search"
    );
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
    let options = AgentOptions { name: Some(name.to_owned()), ..AgentOptions::default() };
    tokio::spawn(async move { agent::serve(listener, &options).await })
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
    runtime::block_on(async {
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
    runtime::block_on(async {
        let agents = [agent("db 1").await.1, agent("db 1").await.1];
        let options = RunOptions { agents: agents.to_vec(), ..RunOptions::fixture() };
        let host = HostFile { name: "lab".to_owned(), ..HostFile::default() };
        let client = client::Client::start(client::Config::new("127.0.0.1:1"))?;
        let target = brokers(&[(0, "127.0.0.1:10911")]);
        let (given_pid, ports, has_broker, store) = (None, Vec::new(), false, "/".into());
        let known_servers = vec![4711, 4712];
        let mut cluster =
            Cluster { client, target, host, given_pid, known_servers, ports, has_broker, store };
        assert_eq!(cluster.servers(Some(4711)), Some(vec![4712]), "they need no ports");
        let (hosts, watched, _) = machines::hosts(&mut cluster, &options).await?;
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
    runtime::block_on(async {
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
    runtime::block_on(async {
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
