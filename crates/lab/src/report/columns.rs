//! `cells.csv`: first the columns of the earlier report 003 (docs/lab.md), so that old and new reports can be compared, then all others.
//!
//! Units: sizes in bytes, times in milliseconds, network in megabytes per second, iowait in percent. An invalid cell
//! has no figures; its reasons are in `note`.

use super::{environment, matrix};
use crate::judge::backlog::Stage;
use crate::judge::conclusion::{Case, Conclusion};
use crate::judge::figures::{Figures, Means, broker_host_names};
use crate::judge::numbers::short;
use crate::judge::{Language, Text, both};
use crate::sentences::{Sentence, phase_name};

/// The columns of the earlier report 003 (docs/lab.md).
const SEED_COLUMNS: &str =
    "case,disk,flush,queues,size,compress,send ms,send TPS,consume TPS,load,iowait,netin,netout,note";

/// The columns that the earlier report 003 did not have (docs/lab.md).
const MORE_COLUMNS: &str = "cell,valid,threads,rate,groups,replication,TPS low,TPS high,MB/s,p50 ms,p99 ms,p99.9 ms,max ms,\
    e2e p99 ms,failed,refused,cpu %,cpu us/msg,disk MB/s";

/// The names of all columns.
pub fn names() -> Vec<&'static str> {
    SEED_COLUMNS.split(',').chain(MORE_COLUMNS.split(',')).collect()
}

/// Rows of the table: a row for each cell, and for each phase of a backlog. A field that was not measured is empty.
pub fn rows(run: &Conclusion<'_>, language: Language) -> Vec<Vec<String>> {
    run.cells.iter().flat_map(|case| case_rows(run, case, language)).collect()
}

/// The rows of all cells except the probes of a search.
pub fn rows_without_probes(run: &Conclusion<'_>, language: Language) -> Vec<Vec<String>> {
    let cells = run.cells.iter().filter(|case| !case.is_probe());
    cells.flat_map(|case| case_rows(run, case, language)).collect()
}

/// The table as CSV. It is for programs, so it is in English whatever the language of the report is.
///
/// # Panics
/// Never: writing into memory does not fail.
pub fn csv(run: &Conclusion<'_>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.write_record(names());
    written.expect("memory takes all");
    for row in rows(run, Language::En) {
        writer.write_record(row).expect("memory takes all");
    }
    String::from_utf8(writer.into_inner().expect("memory takes all")).expect("made of texts")
}

fn case_rows(run: &Conclusion<'_>, case: &Case<'_>, language: Language) -> Vec<Vec<String>> {
    let number = case.judged.cell.cell.number.to_string();
    let mut rows = Vec::new();
    match &case.judged.outcome {
        Ok(figures) => {
            let note = note(case, language);
            rows.push(row(run, case, (&number, &seed_figures(figures), &note), &more_figures(figures)))
        }
        Err(reasons) => {
            let name = match case.is_probe() {
                true => both!("columns.probe"),
                false => both!("columns.invalid"),
            };
            let reasons: Vec<String> =
                reasons.iter().map(|reason| reason.sentence().get(language).to_owned()).collect();
            let colon = if language == Language::Zh { "：" } else { ": " };
            let note = format!("{}{colon}{}", name.get(language), reasons.join(between(language)));
            rows.push(row(run, case, (&number, &Default::default(), &note), &[]));
        }
    }
    for stage in case.backlog.iter().flat_map(|backlog| &backlog.stages) {
        let name = format!("{number} {}", phase_name(&stage.name).get(language));
        rows.push(row(
            run,
            case,
            (&name, &stage_figures(stage), &format!("{} s", short(stage.seconds))),
            &more_stage_figures(stage),
        ));
    }
    rows
}

type SeedFigures = [String; 7];

fn row(
    run: &Conclusion<'_>,
    case: &Case<'_>,
    (number, figures, note): (&str, &SeedFigures, &str),
    more: &[String],
) -> Vec<String> {
    let of = case.factors();
    let file = &run.record.file;
    let host =
        broker_host_names(file).first().and_then(|name| file.hosts.iter().find(|host| host.name == *name));
    let mut row = vec![
        number.to_owned(),
        host.map(environment::disk).unwrap_or_default(),
        file.flush(of).to_owned(),
        of.queues.to_string(),
        of.size.to_string(),
        of.compression.clone(),
    ];
    row.extend(figures.iter().cloned());
    row.push(note.to_owned());
    row.extend([
        case.judged.cell.cell.name.clone(),
        case.judged.figures().is_some().to_string(),
        of.threads.to_string(),
        of.rate.map(|rate| rate.to_string()).unwrap_or_default(),
        of.groups.to_string(),
        file.replication(of).to_owned(),
    ]);
    row.extend(more.iter().cloned());
    row.resize(names().len(), String::new());
    row
}

fn plain(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

fn seed_figures(figures: &Figures) -> SeedFigures {
    let send_ms = known_ms(figures.latency.mean_us);
    let [load, iowait, net_in, net_out] = host_figures(figures.host.as_ref());
    [send_ms, plain(figures.tps.mean, 0), plain(figures.consume_tps, 0), load, iowait, net_in, net_out]
}

fn stage_figures(stage: &Stage) -> SeedFigures {
    let send_ms = known_ms(stage.send_ms * 1_000.0);
    let [load, iowait, net_in, net_out] = host_figures(stage.host.as_ref());
    [send_ms, plain(stage.send_tps.mean, 0), plain(stage.consume_tps, 0), load, iowait, net_in, net_out]
}

/// The first columns of [`more_figures`], for a phase of a backlog.
fn more_stage_figures(stage: &Stage) -> [String; 6] {
    let none = String::new;
    let [p99, p999] = [stage.send_p99_ms, stage.send_p999_ms].map(|ms| known_ms(ms * 1_000.0));
    [plain(stage.send_tps.low, 0), plain(stage.send_tps.high, 0), none(), none(), p99, p999]
}

/// Microseconds as milliseconds; empty for 0, because one-way sends have no latency.
fn known_ms(micros: f64) -> String {
    if micros > 0.0 { plain(micros / 1_000.0, 3) } else { String::new() }
}

fn host_figures(host: Option<&Means>) -> [String; 4] {
    let of = |value: fn(&Means) -> f64| host.map(|host| plain(value(host), 2)).unwrap_or_default();
    [
        of(|host| host.load1),
        of(|host| host.iowait * 100.0),
        of(|host| host.net_in / 1e6),
        of(|host| host.net_out / 1e6),
    ]
}

fn more_figures(figures: &Figures) -> [String; 13] {
    let (latency, host) = (&figures.latency, figures.host.as_ref());
    let ms = known_ms;
    [
        plain(figures.tps.low, 0),
        plain(figures.tps.high, 0),
        plain(figures.payload_bytes / 1e6, 2),
        ms(latency.p50_us),
        ms(latency.p99_us),
        ms(latency.p999_us),
        ms(latency.max_us),
        ms(figures.end_to_end_p99_us.unwrap_or_default()),
        figures.failed.to_string(),
        figures.refused.to_string(),
        host.map(|host| plain(host.cpu * 100.0, 1)).unwrap_or_default(),
        figures.cpu_us_per_message.map(|micros| plain(micros, 2)).unwrap_or_default(),
        host.map(|host| plain(host.disk_written / 1e6, 2)).unwrap_or_default(),
    ]
}

/// The separator between reasons.
fn between(language: Language) -> &'static str {
    if language == Language::Zh { "；" } else { "; " }
}

/// The note of a cell: that it was ended early, lost messages, fluctuation, and guards that broke.
fn note(case: &Case<'_>, language: Language) -> String {
    let mut notes: Vec<Text> =
        case.judged.cell.cell.interrupted.then(matrix::ended_early).into_iter().collect();
    if let Some(soak) = &case.soak {
        notes.extend(soak.broken.iter().map(Sentence::sentence));
        notes.extend(soak.undecided.iter().map(Sentence::sentence));
    }
    let unsteady = case.stability.iter().filter(|stability| stability.fluctuates);
    notes.extend(unsteady.map(Sentence::sentence));
    notes.extend(case.guards.iter().filter(|guard| guard.is_broken()).map(Sentence::sentence));
    notes.iter().map(|text| text.get(language)).collect::<Vec<_>>().join(between(language))
}
