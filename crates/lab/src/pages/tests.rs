use super::html::Additions;
use crate::archive::{Factors, Phase, Record};
use crate::judge::conclusion::Conclusion;
use crate::judge::guards::Limits;
use crate::judge::{Language, fixture};

fn record() -> Record {
    let cell = |threads, size, tps| (Factors { size, groups: 1, ..fixture::factors(threads) }, tps);
    let cells = [
        (1, 1_024, 900.0),
        (10, 1_024, 9_000.0),
        (60, 1_024, 20_000.0),
        (1, 10_240, 800.0),
        (10, 10_240, 4_000.0),
        (60, 10_240, 4_100.0),
    ];
    let mut record = fixture::record(&cells.map(|(threads, size, tps)| cell(threads, size, tps)));
    // The last cell is invalid.
    for second in record.cells[5].repeats.iter_mut().flat_map(|repeat| &mut repeat.load) {
        second.lab_cores = 7.9;
        second.sent = 4_242;
    }
    record
}

fn html(language: Language) -> String {
    let record = record();
    super::html::report(&Conclusion::new(&record, &Limits::default()), Additions::default(), language)
}

#[test]
fn the_page_has_every_chapter_in_both_languages() {
    let page = html(Language::En);
    for anchor in [
        "verdict",
        "environment",
        "matrix",
        "curve",
        "trends",
        "latency",
        "balance",
        "backlog",
        "comparison",
        "plan",
        "origin",
    ] {
        assert!(page.contains(&format!("<section id=\"{anchor}\">")), "{anchor}");
    }
    for words in ["1 Verdict", "1 结论", "11 Origin", "11 来源与复现", "Highest safe rate", "最高安全 TPS"]
    {
        assert!(page.contains(words), "{words}");
    }
    for trend in [
        "Rate",
        "Send latency",
        "End-to-end",
        "CPU of",
        "Load average",
        "Memory",
        "Disk throughput",
        "Disk requests",
        "Disk busy",
        "Network",
        "Pauses",
    ] {
        assert!(page.contains(trend), "{trend}");
    }
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\" data-show=\"en\">"));
    assert!(html(Language::Zh).contains("data-show=\"zh\""));
}

#[test]
fn the_page_fetches_nothing() {
    let page = html(Language::En);
    let foreign = page.match_indices("http").map(|(at, _)| &page[at..at + 26]);
    // The name of SVG's language is a name, not an address.
    assert_eq!(
        foreign.filter(|address| *address != "http://www.w3.org/2000/svg").collect::<Vec<_>>(),
        Vec::<&str>::new()
    );
    for word in ["<img", "<iframe", "@import", "url(", "src="] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn an_invalid_cell_has_reasons_and_no_number() {
    let record = record();
    let run = Conclusion::new(&record, &Limits::default());
    let page = html(Language::En);
    assert!(page.contains("the load generator used"));
    let csv = super::table::csv(&run);
    for (kind, text) in
        [("html", &page), ("csv", &csv), ("md", &super::markdown::markdown(&run, Language::En))]
    {
        assert!(
            !text.contains("4,242") && !text.contains("4242"),
            "{kind} shows the rate of an invalid cell"
        );
    }
    let json = super::json::json(&run);
    assert!(json["cells"][5]["figures"].is_null());
    assert!(json["cells"][5]["invalid"][0]["zh"].as_str().is_some_and(|reason| reason.contains("压测端")));
}

#[test]
fn the_table_begins_with_the_columns_of_seed_003() {
    let record = record();
    let csv = super::table::csv(&Conclusion::new(&record, &Limits::default()));
    let mut lines = csv.lines();
    let head = lines.next().expect("a line of names");
    assert!(head.starts_with(
        "case,disk,flush,queues,size,compress,send ms,send TPS,consume TPS,load,iowait,netin,netout,note,"
    ));
    let first = lines.next().expect("the first cell");
    assert!(first.starts_with("1,vda ext4,ASYNC_FLUSH,8,1024,none,1.1"), "{first}");
    assert_eq!(lines.count(), 5);
}

#[test]
fn the_table_is_in_the_language_of_the_page() {
    let record = record();
    let text = super::markdown::markdown(&Conclusion::new(&record, &Limits::default()), Language::Zh);
    assert!(text.contains("无效：压测端 CPU 使用") && !text.contains("the load generator"), "{text}");
}

#[test]
fn names_from_elsewhere_are_no_markup() {
    let mut record = record();
    record.file.target.name = "<img src=x> | **a** [b](c)".to_owned();
    let run = Conclusion::new(&record, &Limits::default());
    let text = super::markdown::markdown(&run, Language::En);
    let title = text.lines().next().expect("a title");
    assert!(title.contains(r"&lt;img src=x&gt; \| \*\*a\*\* \[b\](c)"), "{title}");
}

#[test]
fn what_was_not_measured_is_not_zero() {
    let mut record = record();
    record.file.hosts.truncate(1);
    record.file.target.brokers[0].host = None;
    record.cells.iter_mut().flat_map(|cell| &mut cell.repeats).for_each(|repeat| repeat.end_to_end.clear());
    let run = Conclusion::new(&record, &Limits::default());
    let rows = super::table::rows(&run, Language::En);
    let value = |name| {
        let place = super::table::columns().iter().position(|column| *column == name).expect("a column");
        rows[0][place].as_str()
    };
    for name in ["disk", "load", "iowait", "netin", "netout", "e2e p99 ms", "cpu %", "disk MB/s"] {
        assert_eq!(value(name), "", "{name}");
    }
    let lines = super::verdict::lines(&run);
    let unseen = lines.iter().find(|(name, _)| name.en == "Not looked at").expect("it is told");
    assert!(unseen.1.en.starts_with("the brokers' machines"), "{}", unseen.1.en);
}

#[test]
fn phases_of_a_backlog_have_their_percentiles() {
    let mut record = fixture::record(&[(fixture::factors(60), 20_000.0)]);
    let phases = &mut record.cells[0].cell.phases;
    let drained: Vec<Phase> =
        phases.iter().map(|phase| Phase { name: "drain".to_owned(), ..phase.clone() }).collect();
    phases.extend(drained);
    let run = Conclusion::new(&record, &Limits::default());
    let page = super::html::report(&run, Additions::default(), Language::En);
    assert!(page.contains("<th>p99 ms</th><th>p99.9 ms</th>"));
    let rows = super::table::rows(&run, Language::En);
    let drain = rows.last().expect("a row for the phase");
    for name in ["p99 ms", "p99.9 ms", "TPS low"] {
        let place = super::table::columns().iter().position(|column| *column == name).expect("a column");
        assert!(!drain[place].is_empty() && drain[0].ends_with("drain"), "{name}: {drain:?}");
    }
}

#[test]
fn every_machine_of_a_broker_is_drawn() {
    let mut record = record();
    let twin = crate::archive::HostFile { name: "b2".to_owned(), ..record.file.hosts[1].clone() };
    record.file.hosts.push(twin);
    let other = crate::archive::BrokerFile {
        name: "broker-b".to_owned(),
        host: Some("b2".to_owned()),
        ..record.file.target.brokers[0].clone()
    };
    record.file.target.brokers.push(other);
    for repeat in record.cells.iter_mut().flat_map(|cell| &mut cell.repeats) {
        let (host, broker) = (repeat.hosts["b1"].clone(), repeat.brokers["broker-a"].clone());
        repeat.hosts.insert("b2".to_owned(), host);
        repeat.brokers.insert("broker-b".to_owned(), broker);
    }
    let run = Conclusion::new(&record, &Limits::default());
    let page = super::html::report(&run, Additions::default(), Language::En);
    for title in ["Memory: b1", "Memory: b2", "Disk busy: b2", "Bytes behind: broker-b"] {
        assert!(page.contains(title), "{title}");
    }
}

#[test]
fn a_cell_that_was_ended_early_is_called_so() {
    let mut record = record();
    record.cells[0].cell.interrupted = true;
    let run = Conclusion::new(&record, &Limits::default());
    let page = super::html::report(&run, Additions::default(), Language::En);
    assert!(page.contains("ended early") && page.contains("提前结束"));
    assert!(super::table::rows(&run, Language::En)[0].iter().any(|value| value.starts_with("ended early")));
}

#[test]
fn settings_that_are_no_defaults_are_told() {
    let mut record = record();
    let settings = &mut record.file.target.brokers[0].settings;
    settings.insert("flushDiskType".to_owned(), "SYNC_FLUSH".to_owned());
    settings.insert("deleteWhen".to_owned(), "04".to_owned());
    let run = Conclusion::new(&record, &Limits::default());
    let page = super::html::report(&run, Additions::default(), Language::En);
    assert!(page.contains(
        "<td><code>flushDiskType</code></td><td><code>SYNC_FLUSH</code></td><td><code>ASYNC_FLUSH"
    ));
    assert!(
        !page.contains("<td><code>deleteWhen</code></td><td><code>04</code></td><td>"),
        "it is the default"
    );
    let text = super::markdown::markdown(&run, Language::En);
    assert!(
        text.contains(r"broker-a \#0: not the defaults of RocketMQ 5.5.0: flushDiskType=SYNC\_FLUSH"),
        "{text}"
    );
}

#[test]
fn a_default_that_depends_on_the_machine_is_told_in_the_language_of_the_page() {
    let mut record = record();
    let broker = &mut record.file.target.brokers[0];
    broker.host = None;
    broker.settings.insert("sendMessageThreadPoolNums".to_owned(), "16".to_owned());
    let run = Conclusion::new(&record, &Limits::default());
    let [en, zh] = [Language::En, Language::Zh].map(|language| super::markdown::markdown(&run, language));
    assert!(en.contains("sendMessageThreadPoolNums=16 (its default depends on the machine)"), "{en}");
    assert!(zh.contains("sendMessageThreadPoolNums=16（默认值取决于主机）"), "{zh}");
}

#[test]
fn limits_that_nobody_measured_are_no_zeros() {
    let mut record = record();
    record.file.hosts.truncate(1);
    let limits = record.file.hosts[0].roofline.as_mut().expect("has one");
    let net_bytes = limits.net_bytes;
    *limits = crate::archive::Roofline { net_bytes, ..Default::default() };
    let run = Conclusion::new(&record, &Limits::default());
    let page = super::html::report(&run, Additions::default(), Language::En);
    let row = "<td>lab</td><td>–</td><td>–</td><td>–</td><td>–</td><td>–</td><td>125 MB/s</td>";
    assert!(page.contains(row));
}

#[test]
fn a_run_without_figures_says_why() {
    let mut record = fixture::record(&[(fixture::factors(60), 20_000.0)]);
    fixture::each_second(&mut record, |_, second| second.sent = 0);
    let lines = super::verdict::lines(&Conclusion::new(&record, &Limits::default()));
    let (_, why) = lines.iter().find(|(name, _)| name.en == "Invalid").expect("it is told");
    assert!(why.en.starts_with("no message was acknowledged (cell 001"), "{}", why.en);
}

#[test]
fn a_probe_is_called_one() {
    let mut record = record();
    let probe = &mut record.cells[0].cell.factors.more;
    probe.insert("purpose".to_owned(), "search".to_owned());
    let run = Conclusion::new(&record, &Limits::default());
    let rows = super::table::rows(&run, Language::En);
    assert!(rows[0].iter().any(|value| value.starts_with("probe: ")), "{:?}", rows[0]);
    let lines = super::verdict::lines(&run);
    assert!(
        lines
            .iter()
            .any(|(_, text)| text.en.starts_with("4 of 5 measured cells") && text.en.contains("1 probes"))
    );
}

#[test]
fn a_ceiling_is_not_below_the_rate_that_is_safe() {
    let said = |open: f64| {
        let closed = [(60, 9_900.0), (120, 10_000.0), (240, 10_050.0)];
        let mut cells: Vec<(Factors, f64)> =
            closed.map(|(threads, tps)| (fixture::factors(threads), tps)).into();
        cells.push((Factors { rate: Some(open), ..fixture::factors(10_000) }, open));
        let record = fixture::record(&cells);
        let lines = super::verdict::lines(&Conclusion::new(&record, &Limits::default()));
        lines.into_iter().find(|(name, _)| name.en == "Ceiling").expect("it is told").1.en
    };
    assert!(said(9_000.0).starts_with("9,98"), "{}", said(9_000.0));
    assert!(said(9_000.0).contains(" msg/s, 10,0"), "{}", said(9_000.0));
    assert!(said(12_000.0).contains(" msg/s at least, in an open loop; closed loops reached 9,98"));
}

#[test]
fn a_ceiling_is_not_held_against_the_rate_of_another_load() {
    let cells = [
        (10, 1_024, 40_000.0),
        (60, 1_024, 41_000.0),
        (10, 10_240, 8_980.0),
        (60, 10_240, 9_000.0),
        (120, 10_240, 9_010.0),
    ];
    let cell = |(threads, size, tps)| (Factors { size, ..fixture::factors(threads) }, tps);
    let mut record = fixture::record(&cells.map(cell));
    // Of the small messages one cell is valid, which is no ladder.
    let invalid = record.cells[1].repeats.iter_mut().flat_map(|repeat| &mut repeat.load);
    invalid.for_each(|second| second.lab_cores = 7.9);
    let run = Conclusion::new(&record, &Limits::default());
    assert_eq!(run.safe.as_ref().map(|safe| safe.cell), Some(0));
    let lines = super::verdict::lines(&run);
    let said = &lines.iter().find(|(name, _)| name.en == "Ceiling").expect("it is told").1.en;
    assert!(said.contains("gained") && !said.contains("open loop"), "{said}");
}

#[test]
fn settings_that_do_something_are_told_everywhere() {
    let with = |value: &str| {
        let mut factors = fixture::factors(60);
        factors.more.insert("set:flushLeastPages".to_owned(), value.to_owned());
        factors
    };
    let told = |tps: f64| {
        let record = fixture::record(&[(with("1"), 20_000.0), (with("4"), tps)]);
        let run = Conclusion::new(&record, &Limits::default());
        let page = super::html::report(&run, Additions::default(), Language::En);
        let texts = [Language::En, Language::Zh].map(|language| super::markdown::markdown(&run, language));
        (page, texts, super::json::json(&run)["sensitive"].clone())
    };
    let (page, [en, zh], json) = told(30_000.0);
    for text in [&page, &en] {
        assert!(text.contains("Settings that do something"), "{en}");
        assert!(text.contains("set:flushLeastPages 1 → 4: +"), "{en}");
    }
    assert!(page.contains("有影响的配置项") && zh.contains("## 有影响的配置项"), "{zh}");
    assert_eq!(json.as_array().map(Vec::len), Some(1));
    assert!(!page.contains("no cells differ in one factor alone"), "these do");
    let (page, [en, _], json) = told(20_000.0);
    assert!(page.contains("none of the settings that were swept") && en.contains("none of the settings"));
    assert_eq!(json.as_array().map(Vec::len), Some(0));
    assert!(!html(Language::En).contains("Settings that do something"), "nothing was swept");
}

#[test]
fn markdown_has_the_verdict_and_how_to_repeat_it() {
    let record = record();
    let text = super::markdown::markdown(&Conclusion::new(&record, &Limits::default()), Language::Zh);
    for part in [
        "## 结论",
        "最高安全 TPS",
        "| case | disk |",
        "vostok lab matrix --threads 1,10",
        "修正后",
        "001-w1-s1024-q8：p99 ",
        "；p99.9 ",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}
