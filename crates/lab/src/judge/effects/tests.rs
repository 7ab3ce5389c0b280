use super::*;
use crate::archive::Record;
use crate::judge::Text;
use crate::judge::{judged, testing};
use crate::sentences::Sentence;

fn found(cells: &[(Factors, f64)]) -> (Vec<Effect>, Vec<Interaction>, Option<Vec<Effect>>) {
    let record = testing::record(cells);
    let judged = judged(&record);
    (effects(&judged, 7), interactions(&judged, 7), sensitive(&judged, 7))
}

fn effects_of(record: &Record) -> Vec<Effect> {
    effects(&judged(record), 7)
}

fn sensitive_of(record: &Record) -> Option<Vec<Effect>> {
    sensitive(&judged(record), 7)
}

fn mode(flush: &str, replication: &str) -> Factors {
    let (flush, replication) = (flush.to_owned(), replication.to_owned());
    Factors { flush, replication, ..testing::factors(20) }
}

#[test]
fn modes_cost_what_was_planted() {
    // Seed 001-2: synchronous replication costs little, synchronous flush much.
    let (effects, ..) = found(&[
        (mode("async", "async"), 30_000.0),
        (mode("async", "sync"), 27_000.0),
        (mode("sync", "async"), 6_000.0),
        (mode("sync", "sync"), 5_400.0),
    ]);
    let flush = effects.iter().find(|effect| effect.factor == Factor::Flush).expect("varied");
    let replication = effects.iter().find(|effect| effect.factor == Factor::Replication).expect("varied");
    assert_eq!((flush.pairs, replication.pairs), (2, 2));
    assert!((flush.tps.mean - 0.2).abs() < 0.01 && flush.is_certain(), "{flush:?}");
    assert!((replication.tps.mean - 0.9).abs() < 0.01 && replication.is_certain(), "{replication:?}");
}

#[test]
fn a_factor_without_effect_is_flat() {
    let queues = |queues| Factors { queues, ..testing::factors(60) };
    let (effects, ..) = found(&[(queues(8), 30_000.0), (queues(16), 30_000.0), (queues(1024), 20_000.0)]);
    assert!(effects[0].sentence().en.contains("queues 8 → 16: flat"), "{}", effects[0].sentence().en);
    assert!(effects[1].sentence().en.starts_with("queues 8 → 1024: -33"), "{}", effects[1].sentence().en);
}

#[test]
fn what_is_sent_one_way_has_no_latency_to_change() {
    let queues = |queues| Factors { queues, ..testing::factors(60) };
    let mut record = testing::record(&[(queues(8), 30_000.0), (queues(16), 20_000.0)]);
    for cell in &mut record.cells {
        cell.cell.factors.more.insert("send".to_owned(), "oneway".to_owned());
        cell.repeats.iter_mut().for_each(|repeat| repeat.latency.clear());
    }
    testing::each_second(&mut record, |_, second| (second.p99_us, second.mean_us) = (0, 0.0));
    let found = effects(&judged(&record), 7);
    assert!(
        found[0].sentence().en.ends_with(')') && !found[0].sentence().zh.contains("p99"),
        "{:?}",
        found[0]
    );
}

#[test]
fn factors_changed_together_are_not_told_apart() {
    let other = Factors { size: 4096, queues: 16, ..testing::factors(60) };
    assert_eq!(found(&[(testing::factors(60), 30_000.0), (other, 10_000.0)]).0, []);
}

#[test]
fn an_interaction_is_seen_and_none_is_not() {
    let cell = |size, threads| Factors { size, ..testing::factors(threads) };
    let multiply = [
        (cell(1024, 10), 9_000.0),
        (cell(1024, 60), 18_000.0),
        (cell(4096, 10), 4_500.0),
        (cell(4096, 60), 9_000.0),
    ];
    assert_eq!(found(&multiply).1, []);
    let limited = [
        (cell(1024, 10), 9_000.0),
        (cell(1024, 60), 18_000.0),
        (cell(4096, 10), 4_500.0),
        (cell(4096, 60), 4_500.0),
    ];
    let (_, interactions, _) = found(&limited);
    assert_eq!(interactions.len(), 1);
    assert!((interactions[0].times.mean - 0.5).abs() < 0.02, "{:?}", interactions[0]);
}

#[test]
fn modes_are_late_at_equal_rate_only() {
    let open = |flush| Factors { rate: Some(4_200.0), ..mode(flush, "") };
    let cells = [(mode("async", ""), 30_000.0), (mode("sync", ""), 6_000.0)];
    let (effects, ..) = found(&cells);
    assert!(
        !effects[0].equal_rate && !effects[0].sentence().en.contains("p99"),
        "{}",
        effects[0].sentence().en
    );
    // The open loops begin with the last mode, because the brokers are still in it.
    let record =
        testing::record(&[&cells[..], &[(open("sync"), 4_200.0), (open("async"), 4_200.0)]].concat());
    let judge = |slower: u64| {
        let mut record = record.clone();
        let late = record.cells[2].repeats.iter_mut().flat_map(|repeat| &mut repeat.load);
        late.for_each(|second| second.p99_us *= slower);
        effects_of(&record)
    };
    let found = judge(3);
    assert_eq!((found.len(), found[0].pairs), (1, 2), "closed loops are no step of a ladder of rates");
    assert!((found[0].tps.mean - 0.2).abs() < 0.01, "{:?}: rates from closed loops", found[0]);
    assert!((found[0].p99.mean - 3.0).abs() < 0.1 && found[0].equal_rate, "{:?}", found[0]);
    assert!(found[0].sentence().en.contains("p99 at equal rate +"), "{}", found[0].sentence().en);
    assert!(found[0].sentence().zh.contains("等速率 p99 +"), "{}", found[0].sentence().zh);
}

#[test]
fn only_settings_that_do_something_are_told() {
    let with = |name: &str, value: &str| {
        let mut factors = testing::factors(60);
        factors.more.insert(format!("set:{name}"), value.to_owned());
        factors
    };
    let threads = |value: &str| with("sendMessageThreadPoolNums", value);
    let (effects, _, sensitive) = found(&[
        (testing::factors(60), 30_000.0),
        (threads("16"), 36_000.0),
        (with("useReentrantLockWhenPutMessage", "true"), 30_000.0),
    ]);
    assert_eq!(effects, [], "settings have a list of their own");
    let told: Vec<String> = sensitive.iter().flatten().map(|effect| effect.factor.name().en).collect();
    assert_eq!(told, ["set:sendMessageThreadPoolNums"]);
    // At a rate that every cell reaches, only latency differs.
    let open = |value: &str| Factors { rate: Some(9_000.0), ..threads(value) };
    let mut record = testing::record(&[(open("1"), 9_000.0), (open("16"), 9_000.0)]);
    assert_eq!(sensitive_of(&record), Some(Vec::new()));
    let late = record.cells[1].repeats.iter_mut().flat_map(|repeat| &mut repeat.load);
    late.for_each(|second| second.p99_us *= 2);
    let told = sensitive_of(&record).unwrap_or_default();
    assert_eq!(told.len(), 1);
    let Text { en, zh } = &told[0].sentence();
    let (en, en_late) = en.split_once(", p99 at equal rate +").expect("what it does");
    let (zh, zh_late) = zh.split_once("，等速率 p99 +").expect("what it does");
    assert!(en.contains("1 → 16: TPS unchanged (") && en_late.contains(" % (+"), "{:?}", told[0]);
    assert!(zh.contains("1 → 16：TPS 无变化（") && zh_late.contains(" %（+"), "{:?}", told[0]);
    // No setting was swept, so there is nothing to report.
    assert_eq!(found(&[(testing::factors(60), 9_000.0), (testing::factors(120), 9_900.0)]).2, None);
}
