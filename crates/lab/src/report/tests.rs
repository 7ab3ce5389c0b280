mod reader;

use super::html::Additions;
use crate::archive::{Factors, Phase, Record, Round, Silence};
use crate::judge::conclusion::Conclusion;
use crate::judge::guards::Limits;
use crate::judge::{Language, testing};

fn record() -> Record {
    let cell = |threads, size, tps| (Factors { size, groups: 1, ..testing::factors(threads) }, tps);
    let cells = [
        (1, 1_024, 900.0),
        (10, 1_024, 9_000.0),
        (60, 1_024, 20_000.0),
        (1, 10_240, 800.0),
        (10, 10_240, 4_000.0),
        (60, 10_240, 4_100.0),
    ];
    let mut record = testing::record(&cells.map(|(threads, size, tps)| cell(threads, size, tps)));
    // The last cell is invalid because its generator is too busy.
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

fn report_of(record: &Record) -> String {
    let run = Conclusion::new(record, &Limits::default());
    super::html::report(&run, Additions::default(), Language::En)
}

/// The content of one chapter of a page.
fn chapter<'a>(page: &'a str, anchor: &str) -> &'a str {
    let begin =
        page.find(&format!("<section id=\"{anchor}\">")).unwrap_or_else(|| panic!("no chapter {anchor}"));
    page[begin..].split("</section>").next().expect("a chapter ends")
}

/// Adds to the first cell a phase `drain` that is as long as the steady one.
fn drained() -> Record {
    let mut record = testing::record(&[(testing::factors(60), 20_000.0)]);
    let phases = &mut record.cells[0].cell.phases;
    let named = |name: &str, of: &[Phase]| -> Vec<Phase> {
        of.iter().map(|phase| Phase { name: name.to_owned(), ..phase.clone() }).collect()
    };
    *phases = [named("before", phases), named("drain", phases)].concat();
    record
}

#[test]
fn the_page_has_every_chapter_in_both_languages() {
    let page = html(Language::En);
    for anchor in [
        "verdict",
        "cases",
        "matrix",
        "factors",
        "curve",
        "latency",
        "trends",
        "balance",
        "cells",
        "environment",
        "origin",
    ] {
        assert!(page.contains(&format!("<section id=\"{anchor}\">")), "{anchor}");
        assert!(page.contains(&format!("href=\"#{anchor}\"")), "{anchor}");
    }
    for words in ["Answer", "结论", "Origin", "来源与复现", "Highest safe rate", "最高安全 TPS"] {
        assert!(page.contains(words), "{words}");
    }
    for trend in [
        "Rate",
        "Send latency",
        "End-to-end",
        "CPU of",
        "Load average",
        "Cores used by the broker",
        "Memory",
        "Disk throughput",
        "Disk requests",
        "Disk busy",
        "Network",
    ] {
        assert!(chapter(&page, "trends").contains(trend), "{trend}");
    }
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\" data-show=\"en\">"));
    assert!(html(Language::Zh).contains("data-show=\"zh\""));
    for (one, other) in [("<span class=\"en\"", "<span class=\"zh\""), (" en\" x=", " zh\" x=")] {
        let counts = [one, other].map(|words| page.matches(words).count());
        assert!(counts[0] > 10 && counts[0] == counts[1], "{one}: {counts:?}");
    }
}

#[test]
fn what_was_not_measured_has_no_chapter_and_no_plot() {
    let page = html(Language::En);
    for anchor in ["backlog", "comparison", "plan"] {
        assert!(
            !page.contains(&format!("id=\"{anchor}\"")) && !page.contains(&format!("#{anchor}\"")),
            "{anchor}"
        );
    }
    for nothing in ["Pauses", "Bytes behind", "Swapping", "not measured in this run"] {
        assert!(!page.contains(nothing), "{nothing}");
    }
    let nothing = report_of(&Record { file: testing::file(), cells: Vec::new() });
    for anchor in ["matrix", "factors", "curve", "latency", "trends", "balance"] {
        assert!(!nothing.contains(&format!("id=\"{anchor}\"")), "{anchor} of a run without cells");
    }
    assert!(chapter(&nothing, "verdict").contains("no cell is valid"));
    let mut invalid = testing::record(&[(testing::factors(10), 9_000.0), (testing::factors(60), 20_000.0)]);
    testing::each_second(&mut invalid, |_, second| second.lab_cores = 7.9);
    let invalid = report_of(&invalid);
    assert!(!invalid.contains("id=\"matrix\""), "there is nothing to compare");
    assert!(chapter(&invalid, "trends").contains("001-w10-s1024-q8 × invalid: the load generator used"));
}

#[test]
fn the_answer_is_three_figures_what_limits_them_and_the_curve() {
    let cells = [(1, 900.0), (10, 9_000.0), (60, 30_000.0), (120, 30_300.0), (200, 30_400.0)];
    let mut record = testing::record(&cells.map(|(threads, tps)| (testing::factors(threads), tps)));
    let seconds = record.cells[4].repeats.iter_mut().filter_map(|repeat| repeat.hosts.get_mut("b1"));
    seconds.flatten().for_each(|second| second.disk_util = 0.8);
    let run = Conclusion::new(&record, &Limits::default());
    let page = report_of(&record);
    let answer = chapter(&page, "verdict");
    let figures = |cell: usize| run.cells[cell].judged.figures().expect("it is valid");
    let count = crate::judge::numbers::count;
    let p99 = crate::judge::numbers::micros(figures(4).latency.p99_us);
    let (p99, _) = p99.split_once(' ').expect("a unit");
    let values: Vec<&str> = answer
        .split("<p class=\"value\">")
        .skip(1)
        .filter_map(|rest| rest.split([' ', '<']).next())
        .collect();
    assert_eq!(values, [&count(figures(3).tps.mean), &count(figures(4).tps.mean), p99]);
    for words in [
        "Highest safe rate",
        "Highest measured rate",
        "Send p99 at the highest rate",
        "not a safe rate",
        "Bottleneck",
        "disk: busy 80",
    ] {
        assert!(answer.contains(words), "{words}");
    }
    for words in ["knee at 60", "拐点 60", "ceiling 30,", "highest safe 30,", ">200</text>"] {
        assert!(answer.contains(words), "{words} is missing in the curve");
    }
    let place = |words: &str| answer.find(words).unwrap_or_else(|| panic!("{words} is missing"));
    assert!(
        place("class=\"tile\"") < place("Bottleneck") && place("Bottleneck") < place("<svg class=\"chart")
    );
    assert!(place("<svg class=\"chart") < place("Confidence"));
}

#[test]
fn a_ladder_that_climbs_has_no_knee() {
    let cells = [(1, 900.0), (10, 9_000.0), (60, 30_000.0)];
    let record = testing::record(&cells.map(|(threads, tps)| (testing::factors(threads), tps)));
    let page = report_of(&record);
    let answer = chapter(&page, "verdict");
    assert!(answer.contains("not saturated") && !answer.contains("knee at"), "{answer}");
}

#[test]
fn a_backlog_is_shown_phase_by_phase() {
    let page = report_of(&drained());
    let told = chapter(&page, "backlog");
    let phases: Vec<&str> = told
        .split("<h4>")
        .skip(1)
        .filter_map(|rest| rest.split("lang=\"en\">").nth(1)?.split('<').next())
        .collect();
    assert_eq!(phases, ["before", "drain"], "{told}");
    for part in ["class=\"phases\"", "against before", "outcome", "band draining", "band counts"] {
        assert!(told.contains(part), "{part}");
    }
    assert!(!page.contains("what producers reach against before:"), "the paragraph is for readers of text");
    assert!(chapter(&page, "verdict").contains("Read while draining"));
}

#[test]
fn every_case_has_the_columns_of_the_seeds_in_the_page() {
    let page = html(Language::En);
    let table = chapter(&page, "cases");
    for column in [
        "case",
        "disk",
        "flush",
        "replication",
        "threads",
        "queues",
        "size, B",
        "compress",
        "send ms",
        "send TPS",
        "consume TPS",
        "load",
        "iowait %",
        "netin MB/s",
        "netout MB/s",
        "max ms",
        "CPU %",
    ] {
        assert!(table.contains(&format!(">{column}</")), "{column}");
    }
    for column in [
        "磁盘类型",
        "刷盘策略",
        "分区数",
        "消息大小 B",
        "发送耗时 ms",
        "发送 TPS",
        "订阅 TPS",
        "LOAD",
        "IOWAIT %",
        "复制方式",
    ] {
        assert!(table.contains(&format!(">{column}</")), "{column}");
    }
    assert_eq!(table.matches("<tr>").count(), 7, "a head and six cases");
    for value in [">async<", ">10,240<", ">vda ext4<"] {
        assert!(table.contains(value), "{value}");
    }
}

#[test]
fn the_reason_stands_beside_each_invalid_cell() {
    let page = html(Language::En);
    let reason = "the load generator used";
    for anchor in ["cases", "matrix", "cells"] {
        let text = chapter(&page, anchor);
        assert!(text.contains(reason), "{anchor}");
        let place = text.find(reason).expect("it is there");
        let before: String =
            text[..place].chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
        assert!(before.contains("invalid"), "{anchor} does not call it invalid: {before}");
    }
    assert_eq!(chapter(&page, "matrix").matches("<td class=\"invalid\">").count(), 4, "once in each map");
}

#[test]
fn rate_and_bytes_are_drawn_over_threads_and_over_size() {
    let page = html(Language::En);
    let charts = chapter(&page, "factors");
    for title in [
        "Rate over threads",
        "Bodies sent over threads",
        "Rate over size, bytes",
        "Bodies sent over size, bytes",
        "TPS 与线程数",
    ] {
        assert!(charts.contains(title), "{title}");
    }
    let threads = charts.split("</figure>").next().expect("a figure");
    for words in ["size 1k", "size 10k", ">threads</text>", ">1</text>", ">10</text>", ">60</text>"] {
        assert!(threads.contains(words), "{words}");
    }
    // Each point has a label, at least as a tooltip.
    let record = record();
    let run = Conclusion::new(&record, &Limits::default());
    for case in run.cells.iter().filter_map(|case| case.judged.figures()) {
        assert!(threads.contains(&crate::judge::numbers::count(case.tps.mean)));
    }
}

#[test]
fn trends_are_one_plot_for_each_step_with_phases_as_bands() {
    let cells = [(1, 900.0), (10, 9_000.0), (60, 30_000.0)];
    let record = testing::record(&cells.map(|(threads, tps)| (testing::factors(threads), tps)));
    let page = report_of(&record);
    for figure in chapter(&page, "trends").split("<figure>").skip(1) {
        assert_eq!(figure.matches("<svg class=\"chart").count(), 3, "{figure}");
        assert_eq!(figure.matches("class=\"band counts\"").count(), 9, "three repeats of each step");
    }
    let figures: Vec<&str> = chapter(&page, "trends").split("<figure>").collect();
    let of = |title: &str| figures.iter().filter(|figure| figure.contains(title)).count();
    assert_eq!((of("Load average"), of("Cores used by the broker")), (1, 1));
    assert!(!figures.iter().any(|figure| figure.contains(">load1<") && figure.contains("cores used")));
}

#[test]
fn maps_of_many_columns_have_the_width_of_the_page() {
    let cells =
        [1, 2, 4, 8, 16, 32, 64, 128].map(|threads| (testing::factors(threads), f64::from(threads) * 900.0));
    let page = report_of(&testing::record(&cells));
    let maps = chapter(&page, "matrix");
    assert!(maps.contains("class=\"maps full\""));
    // The factor is named once above its levels, to leave room for figures.
    let head = maps.split("</thead>").next().expect("a head");
    assert_eq!((head.matches("threads").count(), head.matches("class=\"level\"").count()), (1, 8), "{head}");
    assert!(html(Language::En).contains("class=\"maps\""));
}

#[test]
fn colours_follow_the_reader_and_no_chart_has_its_own() {
    let page = html(Language::En);
    let (style, body) = page.split_once("</style>").expect("a style sheet");
    for rule in ["prefers-color-scheme: dark", "@media print", "break-inside: avoid", "@page"] {
        assert!(style.contains(rule), "{rule}");
    }
    for colour in ["fill=\"#", "stroke=\"#", "rgb("] {
        assert!(!body.contains(colour), "{colour}");
    }
    for (at, _) in style.match_indices("var(--") {
        let name = style[at + 4..].split(')').next().expect("a name");
        assert!(
            name == "--p" || name == "--c" || style.contains(&format!("{name}:")),
            "{name} is not defined"
        );
    }
}

#[test]
fn the_page_fetches_nothing() {
    let page = html(Language::En);
    let foreign = page.match_indices("http").map(|(at, _)| &page[at..at + 26]);
    // The XML namespace of SVG is a name and not an address.
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
    let csv = super::columns::csv(&run);
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
    let csv = super::columns::csv(&Conclusion::new(&record, &Limits::default()));
    let mut lines = csv.lines();
    let head = lines.next().expect("a line of names");
    assert!(head.starts_with(
        "case,disk,flush,queues,size,compress,send ms,send TPS,consume TPS,load,iowait,netin,netout,note,"
    ));
    let first = lines.next().expect("the first cell");
    assert!(first.starts_with("1,vda ext4,async,8,1024,none,1.1"), "{first}");
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
    let rows = super::columns::rows(&run, Language::En);
    let value = |name| {
        let place = super::columns::names().iter().position(|column| *column == name).expect("a column");
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
    let record = drained();
    let run = Conclusion::new(&record, &Limits::default());
    let page = super::html::report(&run, Additions::default(), Language::En);
    assert!(page.contains("<th>p99 ms</th><th>p99.9 ms</th>"));
    let rows = super::columns::rows(&run, Language::En);
    let drain = rows.last().expect("a row for the phase");
    for name in ["p99 ms", "p99.9 ms", "TPS low"] {
        let place = super::columns::names().iter().position(|column| *column == name).expect("a column");
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
        repeat.brokers.values_mut().flatten().for_each(|second| second.flush_behind = 1_000_000);
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
    let table = chapter(&page, "cases");
    assert!(
        table.contains(">note</") && table.contains(">备注</") && table.contains("ended early"),
        "{table}"
    );
    assert!(super::columns::rows(&run, Language::En)[0].iter().any(|value| value.starts_with("ended early")));
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
    let mut record = testing::record(&[(testing::factors(60), 20_000.0)]);
    testing::each_second(&mut record, |_, second| second.sent = 0);
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
    let rows = super::columns::rows(&run, Language::En);
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
            closed.map(|(threads, tps)| (testing::factors(threads), tps)).into();
        cells.push((Factors { rate: Some(open), ..testing::factors(10_000) }, open));
        let record = testing::record(&cells);
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
    let cell = |(threads, size, tps)| (Factors { size, ..testing::factors(threads) }, tps);
    let mut record = testing::record(&cells.map(cell));
    // Only one cell of the small messages is valid, which is no ladder.
    let invalid = record.cells[1].repeats.iter_mut().flat_map(|repeat| &mut repeat.load);
    invalid.for_each(|second| second.lab_cores = 7.9);
    let run = Conclusion::new(&record, &Limits::default());
    assert_eq!(run.safe.as_ref().map(|safe| safe.cell), Some(0));
    let lines = super::verdict::lines(&run);
    let said = &lines.iter().find(|(name, _)| name.en == "Ceiling").expect("it is told").1.en;
    assert!(said.contains("gained") && !said.contains("open loop"), "{said}");
    let page = report_of(&record);
    assert!(!chapter(&page, "verdict").contains("highest safe"), "no line in the chart of the other ladder");
}

#[test]
fn settings_that_do_something_are_told_everywhere() {
    let with = |value: &str| {
        let mut factors = testing::factors(60);
        factors.more.insert("set:flushLeastPages".to_owned(), value.to_owned());
        factors
    };
    let told = |tps: f64| {
        let record = testing::record(&[(with("1"), 20_000.0), (with("4"), tps)]);
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
        "| case | disk | flush | replication | threads | queues | size | compress | send ms |",
        "vostok lab matrix --threads 1,10",
        "修正后",
        "001-w1-s1024-q8：p99 ",
        "；p99.9 ",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn a_run_without_a_valid_cell_has_no_interval() {
    let mut record = record();
    let told = |record: &Record| {
        let run = Conclusion::new(record, &Limits::default());
        super::verdict::lines(&run).into_iter().map(|(_, text)| text.en).collect::<Vec<_>>().join("\n")
    };
    assert!(told(&record).contains("CI95 of the highest rate"));
    testing::each_second(&mut record, |_, second| second.lab_cores = 8.0);
    let said = told(&record);
    assert!(!said.contains("CI95") && said.contains("no two valid cells"), "{said}");
}

#[test]
fn the_rounds_of_a_failover_are_drawn_and_listed() {
    let mut record = testing::record(&[(testing::factors(60), 20_000.0)]);
    let cell = &mut record.cells[0];
    cell.cell.factors.more.insert("fault".to_owned(), "leader-kill".to_owned());
    for (number, repeat) in (1_u64..).zip(&mut cell.repeats) {
        let fault_ms = repeat.load[30].at_ms;
        let silence = |connection, to_us| Silence { connection, from_us: fault_ms * 1_000, to_us };
        let to_us = Some((fault_ms + number * 1_000) * 1_000);
        let end = if number == 3 { None } else { to_us };
        let silences = vec![silence(None, to_us), silence(Some(0), to_us), silence(Some(1), end)];
        let round =
            Round { fault_ms, heal_ms: fault_ms + 9_000, connections: 2, silences, ..Round::default() };
        repeat.round = Some(round);
    }
    let run = Conclusion::new(&record, &Limits::default());
    let page = super::html::report(&run, Additions::default(), Language::En);
    let chapter = chapter(&page, "failover");
    for part in [
        "median 2.00 s, p99 3.00 s, longest 3.00 s",
        "without an end",
        "未恢复",
        "round.json",
        "<rect class=\"heat\"",
    ] {
        assert!(chapter.contains(part), "{part} is missing in\n{chapter}");
    }
    let rows = super::failover::csv(&run).expect("there are rounds");
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), 4);
    assert!(
        rows[1].starts_with("001-w60-s1024-q8,leader-kill,1,1000.000,1000.000,1000.000,1000.000,"),
        "{}",
        rows[1]
    );
    assert!(
        rows[3].contains(",3,3000.000,3000.000,3000.000,,"),
        "a gap without an end is empty: {}",
        rows[3]
    );
    assert!(super::failover::csv(&Conclusion::new(&self::record(), &Limits::default())).is_none());
}
