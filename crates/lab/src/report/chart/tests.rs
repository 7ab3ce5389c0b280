use super::draw::pieces;
use super::words::Word;
use super::*;

fn line(points: &[(f64, f64)]) -> Line {
    let labels = points.iter().map(|(_, y)| Text::same(crate::judge::numbers::count(*y))).collect();
    Line { name: Text::same("line"), points: points.to_vec(), labels }
}

fn levels(levels: &[f64]) -> Vec<(f64, String)> {
    levels.iter().map(|level| (*level, level.to_string())).collect()
}

/// Checks that no word covers another and that none leaves the chart; returns the words.
fn check_words(chart: &Chart) -> Vec<Word> {
    let words = chart.written();
    let rows = 15.0 * (usize::from(!chart.bands.is_empty()) + chart.marks.len().min(3)) as f64;
    for (index, word) in words.iter().enumerate() {
        let area = word.area();
        assert!(
            area.left >= 0.0
                && area.top >= 0.0
                && area.right <= chart.size.0
                && area.bottom <= chart.size.1 + rows,
            "{word:?} leaves the chart"
        );
        for other in &words[index + 1..] {
            assert!(!area.meets(&other.area()), "{word:?} covers {other:?}");
        }
    }
    words
}

fn has(words: &[Word], text: &str) -> bool {
    words.iter().any(|word| word.text.en == text)
}

#[test]
fn a_chart_has_its_units_ticks_and_labels() {
    let chart = Chart {
        across: Text { en: "threads".to_owned(), zh: "线程数".to_owned() },
        up: Text::same("msg/s"),
        lines: vec![line(&[(1.0, 900.0), (10.0, 9_000.0), (60.0, 61_000.0)])],
        dots: true,
        levels: levels(&[1.0, 10.0, 60.0]),
        size: (550.0, 260.0),
        ..Chart::default()
    };
    let words = check_words(&chart);
    for text in ["threads", "msg/s", "1", "10", "60", "900", "9,000", "61,000"] {
        assert!(has(&words, text), "{text} is missing in {words:?}");
    }
    let svg = chart.svg().into_string();
    assert!(svg.contains(">线程数</text>") && svg.contains(">threads</text>"), "{svg}");
}

#[test]
fn nothing_to_draw_draws_nothing() {
    assert_eq!(Chart::default().svg().into_string(), "");
    let lines = vec![line(&[(1.0, 0.0)])];
    assert_eq!(Chart { up_scale: Scale::Log, lines, ..Chart::default() }.svg().into_string(), "");
}

#[test]
fn marks_that_stand_close_have_words_of_their_own() {
    let mark = |at: f64, name: &str| Mark { at, name: Text::same(name) };
    let band = |from, to, name: &str| Band { from, to, class: "steady", name: Text::same(name) };
    let seconds: Vec<(f64, f64)> = (0..60).map(|second| (f64::from(second), 1_000.0)).collect();
    let chart = Chart {
        lines: vec![Line { labels: Vec::new(), ..line(&seconds) }],
        bands: vec![band(0.0, 3.0, "warmup"), band(3.0, 60.0, "steady")],
        marks: vec![
            mark(30.0, "flow-control"),
            mark(30.5, "agent-lost"),
            mark(31.0, "steal"),
            mark(59.9, "roll"),
        ],
        range: Some((0.0, 60.0)),
        size: (550.0, 200.0),
        ..Chart::default()
    };
    let words = check_words(&chart);
    for text in ["flow-control", "agent-lost", "steal", "roll", "steady"] {
        assert!(has(&words, text), "{text} is missing in {words:?}");
    }
    assert!(!has(&words, "warmup"), "three seconds are too narrow for the word");
    assert!(chart.svg().into_string().contains("<title>warmup · warmup</title>"));
}

#[test]
fn many_lines_of_many_points_write_what_fits() {
    let lines = (1..8_u32).map(|times| {
        let points = [1.0, 10.0, 30.0, 60.0, 120.0, 200.0]
            .map(|x: f64| (x, x.sqrt() * 1_000.0 * f64::from(times).sqrt()));
        line(&points)
    });
    let chart = Chart {
        lines: lines.collect(),
        dots: true,
        levels: levels(&[1.0, 10.0, 30.0, 60.0, 120.0, 200.0]),
        size: (550.0, 260.0),
        ..Chart::default()
    };
    assert!(check_words(&chart).len() > 20);
}

#[test]
fn limits_are_named_at_their_lines() {
    let limit = |at, name: &str| Mark { at, name: Text::same(name) };
    let chart = Chart {
        lines: vec![line(&[(1.0, 900.0), (10.0, 9_000.0), (60.0, 10_000.0)])],
        limits: vec![limit(9_900.0, "ceiling 9,900"), limit(9_000.0, "safe 9,000")],
        dots: true,
        levels: levels(&[1.0, 10.0, 60.0]),
        size: (550.0, 260.0),
        ..Chart::default()
    };
    let words = check_words(&chart);
    assert!(has(&words, "ceiling 9,900") && has(&words, "safe 9,000"), "{words:?}");
}

#[test]
fn lines_differ_in_more_than_their_colour() {
    let chart = Chart { lines: vec![line(&[(1.0, 2.0)]); 9], dots: true, ..Chart::default() };
    let svg = chart.svg().into_string();
    let classes: std::collections::BTreeSet<&str> =
        svg.split("class=\"line ").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(classes.len(), 9, "{classes:?}");
}

#[test]
fn long_lines_are_thinned() {
    let line: Vec<(f64, f64)> = (0..28_800).map(|second| (f64::from(second), 1.0)).collect();
    assert!(thinned(&[line], average).len() <= POINTS_MAX);
}

#[test]
fn gaps_are_not_bridged() {
    let mut line: Vec<(f64, f64)> = (0..30).map(|second| (f64::from(second), 1.0)).collect();
    line.extend((100..130).map(|second| (f64::from(second), 1.0)));
    assert_eq!(pieces(&line).len(), 2);
}

#[test]
fn values_under_the_pointer_follow_from_a_line_and_the_axes() {
    let check = |up_scale: Scale, values: [f64; 2], power: fn(f64) -> f64| {
        let points = vec![(0.0, values[0]), (30.0, values[1])];
        let chart =
            Chart { up_scale, lines: vec![Line { labels: Vec::new(), ..line(&points) }], ..Chart::default() };
        let svg = chart.svg().into_string();
        let attribute = |name: &str| {
            let rest = svg.split(&format!(" {name}=\"")).nth(1).expect("the attribute");
            rest.split('"').next().expect("its end").split(' ').map(str::to_owned).collect::<Vec<_>>()
        };
        let number = |text: &String| text.parse::<f64>().expect("a number");
        let (plot, up) = (attribute("data-plot"), attribute("data-up"));
        let (top, bottom) = (number(&plot[1]), number(&plot[3]));
        let path = svg.split("class=\"line").nth(1).and_then(|it| it.split(" d=\"M").nth(1)).expect("a line");
        let heights = path.split('"').next().expect("its end").split('L').map(|point| {
            let y = number(&point.split(' ').nth(1).expect("a height").to_owned());
            let share = (bottom - y) / (bottom - top);
            power(number(&up[0]) + share * (number(&up[1]) - number(&up[0])))
        });
        for (height, value) in heights.zip(values) {
            assert!((height / value - 1.0).abs() < 0.02, "{height} for {value}: {svg}");
        }
        assert_eq!(up[2], format!("{up_scale:?}"));
        assert!(svg.contains("data-en=\"line\" data-zh=\"line\""), "{svg}");
    };
    check(Scale::Linear, [40_000.0, 60_000.0], |at| at);
    check(Scale::Log, [3.0, 900.0], |at| 10_f64.powf(at));
    check(Scale::Nines, [0.5, 0.999], |at| 1.0 - 10_f64.powf(-at));
}

/// Runs functions of the script of a report, where `node` is installed.
#[test]
fn values_under_the_pointer_have_the_digits_that_a_point_has() {
    let script = include_str!("../report.js");
    let from = script.find("function valueAt").expect("a function");
    let to = script.find("function pointsOf").expect("a function");
    let check = |expression: &str, expected: &str| {
        let program = format!("{}\nconsole.log({expression})", &script[from..to]);
        let Ok(ran) = std::process::Command::new("node").args(["-e", &program]).output() else {
            eprintln!("SKIPPED: node cannot be started, so the script of the charts is not tested");
            return;
        };
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), expected, "{expression} {ran:?}");
    };
    for percent in ["0", "50", "90", "99", "99.9", "99.95", "99.99", "99.999", "99.9999"] {
        check(&format!("shown({percent}, 'Nines')"), percent);
    }
    check("shown(valueAt([0, 4, 'Nines'], 0.8252), 'Nines')", "99.95");
    check(
        "[shown(61234, 'Linear'), shown(1.8049, 'Log'), shown(0.0123456, 'Log'), shown(0, 'Linear')].join(' ')",
        "61,200 1.8 0.0123 0",
    );
}
