//! Tests that the flags of the scenarios lead to the runs that they name.

use super::*;
use crate::archive::Archive;
use crate::archive::RunFile;
use crate::command::values::bytes;
use crate::scenario::{Action, Until, seed_cells};
use clap::Parser;

#[derive(Parser)]
struct Line<Flags: Args> {
    #[command(flatten)]
    flags: Flags,
}

fn flags<Flags: Args>(line: &str) -> Flags {
    Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags
}

/// The cells of a matrix.
fn cells(line: &str) -> Vec<CellLoad> {
    let flags: MatrixFlags = flags(line);
    let options = flags.common.options(SECONDS);
    flags.matrix(&options).cells(&options)
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
    let cells = cells("--threads 1,10,30,60 --size 1k,5k --queues 1,8,16 --groups 2");
    assert_eq!(cells.len(), 24);
    let names: std::collections::BTreeSet<_> = cells.iter().map(|cell| cell.factors.name(0)).collect();
    assert_eq!(names.len(), 24);
    let second = &cells[1].factors;
    assert_eq!((second.threads, second.size, second.queues, second.groups), (10, 1024, 1, 2));
    let load = &cells[23].load;
    assert_eq!((load.threads, load.queues, load.sizes.clone()), (60, 16, Sizes::one(5120)));
    assert_eq!((load.topic.as_str(), second.compression.as_str()), ("lab_q16", "none"));
}

#[test]
fn requests_of_scenarios_are_signed_where_that_is_asked_for() {
    let access = cells("-a true --ak me --sk hush")[0].load.access.clone().unwrap();
    assert_eq!((access.access_key.as_str(), access.secret_key.as_str()), ("me", "hush"));
    assert!(!format!("{access:?}").contains("hush"));
    assert_eq!(cells("--ak me --sk hush")[0].load.access, None, "as with the scripts");
}

#[test]
fn any_flag_of_a_load_can_differ_between_cells() {
    let cells = cells(
        "--threads 8 --tags 3 --vary send=sync,async,transaction --vary consume=pull,orderly --vary headers=binary,json",
    );
    assert_eq!(cells.len(), 12);
    let load = &cells[11].load;
    assert_eq!((load.send, load.consume, load.json_headers), (Send::Transaction, Consume::Orderly, true));
    assert_eq!(load.tags, 3);
    let found = self::cells("--threads 8 --keys --vary property-size=0,300 --vary keys=false,true");
    let found: Vec<_> = found.iter().map(|cell| (cell.load.property_size, cell.load.keys)).collect();
    assert_eq!(found, [(0, false), (0, true), (300, false), (300, true)]);
    let send = |cell: &CellLoad| cell.factors.more.get("send").cloned();
    assert_eq!((send(&cells[0]), send(&cells[4]).as_deref()), (None, Some("async")));
    let found = self::cells("--threads 8 --consumer-threads 4 --consume push --vary consumers=1,3");
    let found: Vec<_> = found.iter().map(|cell| (cell.load.consumers, cell.load.consumer_threads)).collect();
    assert_eq!(found, [(1, Some(4)), (3, Some(4))]);
    let found = self::cells("--threads 8 --vary set:pages=4,8");
    let found: Vec<_> = found.iter().map(|cell| cell.factors.more["set:pages"].as_str()).collect();
    assert_eq!(found, ["4", "8"]);
    for (wrong, says) in [
        ("send=twice", "expected sync, async, oneway, transaction"),
        ("compression=zip", "compression: expected none, zlib, lz4, zstd, found \"zip\""),
        ("colour=red", "expected send, consume"),
        ("topics=0", "at least 1"),
        ("consumer-threads=0", "at least 1"),
        ("groups", "NAME=VALUE"),
        ("set:=4", "or set:KEY"),
        ("set:flushLeastPages=", "or set:KEY"),
        ("set:tlsServerKeyPassword=hush,hash", "set it at the broker"),
    ] {
        let error = wrong.parse::<Vary>().unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_mixture_of_sizes_is_a_factor() {
    let cell = &cells("--size 512:9/10k:1")[0];
    assert_eq!((cell.factors.size, cell.factors.more["sizes"].as_str()), (1484, "512:9/10240:1"));
    assert_eq!(cell.load.sizes, Sizes(vec![(512, 9), (10_240, 1)]));
}

#[test]
fn what_is_typed_counts_more_than_the_scale() {
    let steady = |line: &str| {
        let flags: SeedFlags = flags(line);
        let cells = seed_cells(&flags.options(), &flags.report, flags.scale).unwrap();
        cells[0].stages.iter().map(|stage| stage.seconds).collect::<Vec<_>>()
    };
    assert_eq!(steady("000"), [0, 2, 8]);
    assert_eq!(steady("000 --warmup 0 --duration 3"), [0, 0, 3]);
}

/// The search of a command line, and the options of its run.
fn search(line: &str) -> (Search, RunOptions) {
    let flags: SafeTpsFlags = flags(line);
    (flags.search(), flags.common.options(SECONDS))
}

fn groups(line: &str) -> u32 {
    let (search, options) = search(line);
    search.design(&options).unwrap().1.cells[0].load.groups
}

#[test]
fn a_search_that_is_gone_on_with_keeps_what_it_was_told_to_keep() {
    let place = tempfile::tempdir().unwrap();
    let slo: Slo = "e2e.p99<50ms".parse().unwrap();
    Archive::create(place.path(), &RunFile { slo, ..crate::judge::testing::file() }).unwrap();
    let out = place.path().to_str().unwrap();
    assert_eq!(groups(&format!("--out {out}")), 1);
    assert_eq!(groups(&format!("--out {out} --slo errors=0")), 0);
}

#[test]
fn who_asks_for_end_to_end_latency_has_a_consumer() {
    assert_eq!(groups("--slo e2e.p99<50ms,errors=0"), 1);
    assert_eq!(groups("--slo e2e.p99<50ms --groups 3"), 3);
    assert_eq!(groups("--slo send.p99<50ms"), 0);
}

#[test]
fn a_rate_is_confirmed_in_three_repeats_at_least() {
    let cells = |line: &str| {
        let (search, options) = search(line);
        let (steps, design) = search.design(&options).unwrap();
        let closed = steps.confirm_closed(480);
        assert_eq!((closed.factors.threads, closed.load.threads, closed.load.rate), (480, 480, None));
        let repeats = [design.cells[0].repeats, steps.probe(9.0).repeats, steps.confirm(9.0).repeats];
        assert_eq!(repeats[2], closed.repeats);
        // An open loop is named by the concurrency at which it was searched, and has room for a pause of the server.
        let probe = steps.at(960).probe(9.0);
        assert_eq!((probe.factors.threads, probe.load.threads), (960, 10_000));
        repeats
    };
    assert_eq!(cells("--repeats 1"), [None, Some(1), Some(3)]);
    assert_eq!(cells("--repeats 5"), [None, Some(1), Some(5)]);
}

/// The cell of a backlog.
fn backlog(line: &str) -> CellLoad {
    let flags: BacklogFlags = flags(line);
    flags.backlog().cells(&flags.common.options(SECONDS)).remove(0)
}

#[test]
fn a_backlog_can_be_drained_without_producers() {
    let steps =
        |line: &str| backlog(line).stages.iter().map(|stage| (stage.name, stage.action)).collect::<Vec<_>>();
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
    let during = |line: &str| {
        let CellLoad { stages, factors, .. } = backlog(line);
        assert_eq!((stages[3].name, stages[4].name), ("during", "drain"));
        (factors.more["fill"].clone(), stages[3].seconds, stages[3].until, stages[4].seconds)
    };
    assert_eq!(during("--fill 2k"), ("2048".to_owned(), 600, Until::Sent(2048), 600));
    assert_eq!(during("--fill 2k --fill-seconds 90"), ("2048".to_owned(), 90, Until::Sent(2048), 600));
    assert_eq!(during("--fill 2k --fill-seconds 900"), ("2048".to_owned(), 900, Until::Sent(2048), 900));
    assert_eq!(during("--fill 18h"), ("64800s".to_owned(), 64_800, Until::Time, 64_800));
    assert_eq!(during("--fill 18h --drain-seconds 9"), ("64800s".to_owned(), 64_800, Until::Time, 9));
}

#[test]
fn modes_that_are_none_are_refused_before_the_first_cell() {
    let said = |line: &str| flags::<ModesFlags>(line).run().unwrap_err().to_string();
    assert_eq!(said("--flush async,quick"), "--flush: expected async or sync, found quick");
    assert_eq!(said("--repl foo"), "--repl: expected none, async, sync or quorum, found foo");
}

#[test]
fn masters_of_a_cluster_of_the_labs_own_are_in_the_mode_that_is_compared() {
    let check = |line: &str, role: Option<&str>| {
        let local = flags::<ModesFlags>(line).local().ok().flatten();
        let found = local.and_then(|local| local.settings.get("brokerRole").cloned());
        assert_eq!(found.as_deref(), role, "{line}");
    };
    check("--local 2m2s", Some("ASYNC_MASTER"));
    check("--local 2m2s --repl async", Some("ASYNC_MASTER"));
    check("--local 2m2s --repl sync", Some("SYNC_MASTER"));
    check("--local 2m2s --repl async,sync", None);
    check("--repl sync", None);
}
