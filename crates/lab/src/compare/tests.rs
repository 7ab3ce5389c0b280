use super::*;
use crate::judge::testing;

fn runs(first: f64, second: f64) -> (Record, Record) {
    let mut java = testing::record(&[(testing::factors(1), 900.0), (testing::factors(60), first)]);
    let mut ours = testing::record(&[(testing::factors(1), 4_000.0), (testing::factors(60), second)]);
    java.file.target.name = "rocketmq-5.5.0".to_owned();
    ours.file.target.name = "vostok-0.1.0".to_owned();
    (java, ours)
}

#[test]
fn a_comparison_is_told_and_drawn() {
    let (java, ours) = runs(20_000.0, 100_000.0);
    let limits = Limits::default();
    let (one, other) = (Conclusion::new(&java, &limits), Conclusion::new(&ours, &limits));
    let costs = ["A=6900cny/mo".parse().expect("a good price")];
    let comparison = Comparison::new((&one, &other), &costs);
    let text = comparison.lines().into_iter().map(|line| line.en).collect::<Vec<_>>().join("\n");
    for part in [
        "B vostok-0.1.0 against A rocketmq-5.5.0",
        "cells: 2 better, 0 equal, 0 worse, 0 cannot be told",
        "capacity (closed loop, geometric mean): × 5.0",
        "latency at equal rate: not compared",
        "w60 1k q8: better in capacity",
        "w1 1k q8: better in round trip, 1.1",
        "per million messages",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    let page = page::page(&comparison, (&one, &other), (("../a/", ""), "two.json"), Language::En);
    assert!(page.contains("<svg") && page.contains("更优"));
    for part in ["× 5.0", "2 / 0 / 0 / 0", "no open-loop cells are valid in both", "class=\"interval good\""]
    {
        assert!(page.contains(part), "`{part}` is missing in\n{page}");
    }
    assert_eq!(page.matches("<svg class=\"interval").count(), 2, "one for each cell");
    assert!(
        page.contains("href=\"two.json\"") && !page.contains("compare.json"),
        "the file that was written"
    );
}

#[test]
fn runs_of_machines_that_are_apart_are_not_judged() {
    let (java, mut ours) = runs(20_000.0, 100_000.0);
    ours.file.hosts[1].roofline.as_mut().expect("the fixture has one").disk_write_bytes *= 4.0;
    let limits = Limits::default();
    let (one, other) = (Conclusion::new(&java, &limits), Conclusion::new(&ours, &limits));
    let mut comparison = Comparison::new((&one, &other), &[]);
    comparison.versus = comparison.versus.without_verdicts(apart(&java.file, &ours.file));
    let text = comparison.lines().into_iter().map(|line| line.en).collect::<Vec<_>>().join("\n");
    assert!(!text.contains("better"), "{text}");
    for part in ["not comparable: self-tests differ 4.00 times in disk writes", "2 in both, none judged"] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

#[test]
fn runs_of_one_target_are_told_apart() {
    let named = |change: fn(&mut RunFile)| {
        let (one, mut other) = (testing::file(), testing::file());
        change(&mut other);
        names(&one, &other)
    };
    let (first, second) = named(|file| file.id = "later".to_owned());
    assert_eq!((first.as_str(), second.as_str()), ("rocketmq-5.5.0, made-up", "rocketmq-5.5.0, later"));
    let (first, second) = named(|file| file.target.version = "V5_4_0".to_owned());
    assert_eq!((first.as_str(), second.as_str()), ("rocketmq-5.5.0, V5_5_0", "rocketmq-5.5.0, V5_4_0"));
    let (first, second) = named(|file| file.started_ms += 60_000);
    assert!(first != second && first.ends_with("UTC"), "{first} {second}");
    let (first, second) = named(|file| file.target.name = "vostok-0.1.0".to_owned());
    assert_eq!((first.as_str(), second.as_str()), ("rocketmq-5.5.0", "vostok-0.1.0"));
}

#[test]
fn what_is_written_is_read_again() {
    let (java, ours) = runs(20_000.0, 20_000.0);
    let limits = Limits::default();
    let (one, other) = (Conclusion::new(&java, &limits), Conclusion::new(&ours, &limits));
    let comparison = Comparison::new((&one, &other), &[]);
    let text = serde_json::to_string(&comparison).expect("numbers become JSON");
    let again: Comparison = serde_json::from_str(&text).expect("the same type");
    assert_eq!(again.versus.pairings.len(), 2);
    assert_eq!(again.lines(), comparison.lines());
}

#[test]
fn links_lead_from_the_page_to_each_run() {
    let place = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b/deep"].map(|name| place.path().join(name));
    [&a, &b].into_iter().for_each(|run| std::fs::create_dir_all(run).unwrap());
    assert_eq!(way(&b, &b), "");
    assert_eq!(way(&b, &a), "../../a/");
    assert_eq!(way(place.path(), &b), "b/deep/");
}
