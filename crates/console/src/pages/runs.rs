//! Runs of the lab: the list of runs, the report of a run, two runs side by side, and starting a run.

use crate::answers::{now_ms, rows};
use crate::app::{App, Visitor};
use crate::lab::{self, FIGURES, KINDS};
use crate::refusal::Refusal;
use crate::request::{Fields, query};
use crate::users::Role;
use crate::view::{Page, cell_text, columns_table, columns_with_values, empty, table, token};
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Directories that are looked at.
const RUNS_MAX: usize = 500;
/// Largest file of a run that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files of a run that can be opened: pages that need no other file.
const PAGES: [(&str, &str); 2] = [("report.html", "Open the report"), ("compare.html", "Comparison")];

/// Directory of the run `id`, which must be an entry of the directory of runs, so that a request reaches no other path.
fn directory(app: &App, id: &str) -> Result<PathBuf, Refusal> {
    let missing = || Refusal::missing(format!("there is no run {id}"));
    directories(&app.config.runs).into_iter().find(|run| name(run) == id).ok_or_else(missing)
}

fn name(run: &Path) -> String {
    run.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn directories(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|run| run.join("run.json").is_file()).take(RUNS_MAX).collect()
}

fn file(run: &Path, name: &str) -> Option<String> {
    String::from_utf8(auth::read_file(&run.join(name), FILE_BYTES_MAX).ok()??).ok()
}

fn json_of(run: &Path, name: &str) -> Option<Value> {
    serde_json::from_str(&file(run, name)?).ok()
}

/// The page of a run's report, which a browser shows apart from the console (`guard::REPORT_POLICY`).
pub(crate) fn report(app: &App, fields: &Fields) -> Result<String, Refusal> {
    let wanted = fields.text("file");
    let missing = || Refusal::missing(format!("there is no {wanted} of this run"));
    let (name, _) = PAGES.into_iter().find(|(name, _)| *name == wanted).ok_or_else(missing)?;
    file(&directory(app, fields.text("id"))?, name).ok_or_else(missing)
}

/// The runs, the latest first.
pub(super) fn list(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let lang = who.lang;
    let time = |value: &Value| value.as_i64().map(admin::time);
    let mut runs: Vec<Value> = directories(&app.config.runs)
        .iter()
        .filter_map(|run| {
            let found = json_of(run, "run.json")?;
            Some(json!({
                "run": name(run),
                "scenario": found["scenario"],
                "target": found["target"]["name"],
                "cells": rows(&found["cells"]).len(),
                "started": time(&found["started_ms"]),
                "ended": time(&found["ended_ms"]),
            }))
        })
        .collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run["started"].as_str().map(str::to_owned)));
    let part = super::list::part(&runs, |row| row["run"].as_str().unwrap_or_default(), fields, |_| true);
    let columns = ["run", "scenario", "target", "cells", "started", "ended"];
    let started = app.lab.state();
    let body = html! {
        @if part.rows.is_empty() { (empty(lang, lang.say("Start a run below, or give vostok lab a directory here as --out"))) }
        @else { (columns_table(lang, &part.rows, &columns)) (part.links(lang, "/runs", fields)) }
        @if !started.is_null() { (last_started(who, &started)) }
        @if who.role == Role::Admin { (start_form(who)) }
    };
    let data = json!({"found": part.found(), "runs": part.rows, "started_here": started});
    Ok(Page::new(lang.say("Lab runs"), data, body))
}

/// The run that was started here last: whether it goes on, and the last lines of its output.
fn last_started(who: &Visitor, started: &Value) -> Markup {
    let (lang, goes_on) = (who.lang, started["goes_on"] == true);
    html! {
        h2 { (lang.say("Started here last")) (lang.colon()) (cell_text(&started["run"])) }
        p role="status" {
            @if goes_on { (lang.say("It goes on; load the page again to see how far it is")) }
            @else { (lang.say("It has ended")) (lang.colon()) (cell_text(&started["outcome"])) }
        }
        pre { @for line in rows(&started["words"]) { (cell_text(line)) "\n" } }
        @if goes_on && who.role == Role::Admin {
            form method="post" action="/runs" { (token(who)) button.danger name="what" value="stop" { (lang.say("Stop it")) } }
        }
    }
}

fn start_form(who: &Visitor) -> Markup {
    let lang = who.lang;
    html! {
        h2 { (lang.say("Start a run")) }
        p.small { (lang.say("It starts a cluster of its own on this machine, loads it and removes its data. Not on a machine whose brokers serve others: it takes their processors and disk. Other runs are started with")) " " code { "vostok lab" } }
        form.stacked method="post" action="/runs" {
            (token(who))
            label { span { (lang.say("Scenario")) } select name="kind" {
                @for kind in &KINDS { option value=(kind.name) { (lang.say(kind.text)) } }
            } }
            @for figure in &FIGURES {
                @let [least, usual, largest] = figure.range;
                label { span { (lang.say(figure.text)) } input name=(figure.name) type="number" min=(least) max=(largest) value=(usual) required; }
            }
            div.actions { button name="what" value="start" { (lang.say("Start")) } }
        }
    }
}

/// Starts a run, or stops the run that was started here.
///
/// # Errors
/// [`Refusal`] when the visitor is no administrator, a value is wrong, another run goes on, or the system refuses it.
pub(super) fn change(app: &App, who: &Visitor, form: &Fields) -> Result<String, Refusal> {
    if who.role != Role::Admin {
        return Err(Refusal::forbidden(who.lang.say("Your role does not allow this")));
    }
    if form.text("what") == "stop" {
        app.note(who, "lab run stop", "begun")?;
        app.lab.stop();
        return Ok("/runs".to_owned());
    }
    let arguments = lab::arguments(form)?;
    let run = app.config.runs.join(format!("{}-{}", form.text("kind"), now_ms()));
    app.note(who, &format!("{} --out {}", arguments.join(" "), run.display()), "begun")?;
    app.lab.start(&run, &arguments)?;
    Ok("/runs".to_owned())
}

/// Page of a run: verdict, pages, and cells beside the cells of another run.
pub(super) fn one(app: &App, who: &Visitor, fields: &Fields) -> Result<Page, Refusal> {
    let (lang, id, other) = (who.lang, fields.text("id"), fields.text("with"));
    let run = directory(app, id)?;
    let report = json_of(&run, "report.json");
    let beside = if other.is_empty() { None } else { json_of(&directory(app, other)?, "report.json") };
    let cells = report.as_ref().map(|report| compared(lang, report, beside.as_ref())).unwrap_or_default();
    let columns = [
        "cell",
        "tps",
        "other_tps",
        "ratio",
        "p99_ms",
        "other_p99_ms",
        "consume",
        "failed",
        "refused",
        "invalid",
    ];
    let others = directories(run.parent().unwrap_or(&run));
    let body = html! {
        div.actions { @for (name, text) in PAGES { @if run.join(name).is_file() {
            a.button href=(format!("/report{}", query([("id", id), ("file", name)]))) { (lang.say(text)) }
        } } }
        form.row method="get" action="/run" {
            input type="hidden" name="id" value=(id);
            label { span { (lang.say("Compare with")) } select name="with" {
                option value="" { "-" }
                @for it in others.iter().map(|it| name(it)).filter(|it| it != id) { option value=(it) selected[it == other] { (it) } }
            } }
            button { (lang.say("Compare")) }
        }
        @match &report {
            None => p { (lang.say("No report was written yet. Write it with")) " " code { "vostok lab report " (run.display()) } },
            Some(report) => {
                h2 { (lang.say("Verdict")) }
                (table(lang, &verdict(lang, report)))
                h2 { (lang.say("Cells")) }
                (columns_table(lang, &cells, &columns_with_values(&cells, &columns)))
            }
        }
        @if beside.is_some() {
            p.small { (lang.say("A verdict cell by cell, with intervals, is made by")) " " code { "vostok lab compare " (run.with_file_name(other).display()) " " (run.display()) } }
        }
    };
    let data = json!({"run": json_of(&run, "run.json"), "verdict": report.as_ref().map(|it| it["verdict"].clone()), "cells": cells});
    Ok(Page::new(format!("{}{}{id}", lang.say("Run"), lang.colon()), data, body))
}

/// A text of a report, which is in both languages.
fn text(lang: Lang, value: &Value) -> String {
    match value.get(&lang.code()[..2]) {
        Some(text) => cell_text(text),
        None => cell_text(value),
    }
}

fn verdict(lang: Lang, report: &Value) -> Vec<Value> {
    let lines = rows(&report["verdict"]).iter();
    lines
        .map(|line| json!({"figure": text(lang, &line["name"]), "value": text(lang, &line["text"])}))
        .collect()
}

/// The cells of a report, each beside the cell of the same name in another report.
fn compared(lang: Lang, report: &Value, other: Option<&Value>) -> Vec<Value> {
    let tps = |cell: &Value| cell["figures"]["tps"]["mean"].as_f64();
    let p99 = |cell: &Value| cell["figures"]["latency"]["p99_us"].as_f64().map(|us| us / 1000.0);
    let cells = rows(&report["cells"]).iter().map(|cell| {
        let same = other.and_then(|other| rows(&other["cells"]).iter().find(|it| it["name"] == cell["name"]));
        let other_tps = same.and_then(tps);
        json!({
            "cell": cell["name"],
            "tps": tps(cell),
            "other_tps": other_tps,
            "ratio": tps(cell).zip(other_tps).filter(|(_, other)| *other > 0.0).map(|(one, other)| one / other),
            "p99_ms": p99(cell),
            "other_p99_ms": same.and_then(p99),
            "consume": cell["figures"]["consume_tps"],
            "failed": cell["figures"]["failed"],
            "refused": cell["figures"]["refused"],
            "invalid": rows(&cell["invalid"]).iter().map(|reason| text(lang, reason)).collect::<Vec<_>>().join("; "),
        })
    });
    cells.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_beside_those_of_the_same_name() {
        let cell = |name: &str, tps: f64| json!({"name": name, "figures": {"tps": {"mean": tps}, "latency": {"p99_us": 1500.0}}});
        let one = json!({"cells": [cell("a", 300.0), {"name": "b", "figures": null, "invalid": [{"en": "few repeats", "zh": "次数太少"}]}]});
        let other = json!({"cells": [cell("c", 1.0), cell("a", 200.0)]});
        let found = compared(Lang::Zh, &one, Some(&other));
        assert_eq!((&found[0]["ratio"], &found[0]["other_p99_ms"]), (&json!(1.5), &json!(1.5)));
        assert_eq!((&found[1]["invalid"], &found[1]["tps"]), (&json!("次数太少"), &Value::Null));
    }

    #[test]
    fn verdicts_are_in_the_language_of_the_page() {
        let report = json!({"verdict": [{"name": {"en": "Safe rate", "zh": "安全速率"}, "text": {"en": "none", "zh": "无"}}]});
        assert_eq!(verdict(Lang::Zh, &report), [json!({"figure": "安全速率", "value": "无"})]);
    }
}
