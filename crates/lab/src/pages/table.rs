//! `cells.csv`: the columns of seed 003 first, so that old reports can be laid beside new ones, then the rest.
//!
//! Sizes are bytes, times milliseconds, network megabytes per second, iowait percent. An invalid cell has its reasons
//! in `note` and no figures.

use super::environment;
use crate::judge::backlog::Stage;
use crate::judge::conclusion::{Case, Conclusion};
use crate::judge::figures::{Figures, broker_host_names};
use crate::judge::numbers::short;

/// The columns of seed 003.
pub const SEED_COLUMNS: [&str; 14] = [
    "case",
    "disk",
    "flush",
    "queues",
    "size",
    "compress",
    "send ms",
    "send TPS",
    "consume TPS",
    "load",
    "iowait",
    "netin",
    "netout",
    "note",
];

/// What seed 003 did not have.
const MORE_COLUMNS: [&str; 19] = [
    "cell",
    "valid",
    "threads",
    "rate",
    "groups",
    "replication",
    "TPS low",
    "TPS high",
    "MB/s",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "max ms",
    "e2e p99 ms",
    "failed",
    "refused",
    "cpu %",
    "cpu us/msg",
    "disk MB/s",
];

/// All columns.
#[must_use]
pub fn columns() -> Vec<&'static str> {
    SEED_COLUMNS.into_iter().chain(MORE_COLUMNS).collect()
}

/// One row for each cell, and for each phase of a backlog.
#[must_use]
pub fn rows(run: &Conclusion<'_>) -> Vec<Vec<String>> {
    run.cells.iter().flat_map(|case| case_rows(run, case)).collect()
}

/// The table as CSV.
///
/// # Panics
/// Never: writing into memory does not fail.
#[must_use]
pub fn csv(run: &Conclusion<'_>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.write_record(columns());
    written.expect("memory takes all");
    for row in rows(run) {
        writer.write_record(row).expect("memory takes all");
    }
    String::from_utf8(writer.into_inner().expect("memory takes all")).expect("made of texts")
}

fn case_rows(run: &Conclusion<'_>, case: &Case<'_>) -> Vec<Vec<String>> {
    let number = case.judged.cell.cell.number.to_string();
    let mut rows = Vec::new();
    match &case.judged.outcome {
        Ok(figures) => {
            rows.push(row(run, case, (&number, &seed_figures(figures), &note(case)), &more_figures(figures)))
        }
        Err(reasons) => {
            let reasons: Vec<&str> = reasons.iter().map(|reason| reason.en.as_str()).collect();
            rows.push(row(
                run,
                case,
                (&number, &Default::default(), &format!("invalid: {}", reasons.join("; "))),
                &[],
            ));
        }
    }
    for stage in case.backlog.iter().flat_map(|backlog| &backlog.stages) {
        let name = format!("{number} {}", stage.name);
        rows.push(row(
            run,
            case,
            (&name, &stage_figures(stage), &format!("{} s", short(stage.seconds))),
            &[],
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
    let broker = file.target.brokers.first();
    let said = |key: &str| broker.and_then(|broker| broker.settings.get(key)).cloned().unwrap_or_default();
    let or = |text: &String, key: &str| if text.is_empty() { said(key) } else { text.clone() };
    let mut row = vec![
        number.to_owned(),
        host.map(environment::disk).unwrap_or_default(),
        or(&of.flush, "flushDiskType"),
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
        or(&of.replication, "brokerRole"),
    ]);
    row.extend(more.iter().cloned());
    row.resize(SEED_COLUMNS.len() + MORE_COLUMNS.len(), String::new());
    row
}

fn plain(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

fn seed_figures(figures: &Figures) -> SeedFigures {
    let host = figures.host.clone().unwrap_or_default();
    [
        plain(figures.latency.mean_us / 1_000.0, 3),
        plain(figures.tps.mean, 0),
        plain(figures.consume_tps, 0),
        plain(host.load1, 2),
        plain(host.iowait * 100.0, 2),
        plain(host.net_in / 1e6, 2),
        plain(host.net_out / 1e6, 2),
    ]
}

fn stage_figures(stage: &Stage) -> SeedFigures {
    [
        plain(stage.send_ms, 3),
        plain(stage.send_tps.mean, 0),
        plain(stage.consume_tps, 0),
        plain(stage.load1, 2),
        plain(stage.iowait * 100.0, 2),
        plain(stage.net_in / 1e6, 2),
        plain(stage.net_out / 1e6, 2),
    ]
}

fn more_figures(figures: &Figures) -> [String; 13] {
    let (latency, host) = (&figures.latency, figures.host.clone().unwrap_or_default());
    let ms = |micros: f64| plain(micros / 1_000.0, 3);
    [
        plain(figures.tps.low, 0),
        plain(figures.tps.high, 0),
        plain(figures.payload_bytes / 1e6, 2),
        ms(latency.p50_us),
        ms(latency.p99_us),
        ms(latency.p999_us),
        ms(latency.max_us),
        ms(figures.end_to_end_p99_us),
        figures.failed.to_string(),
        figures.refused.to_string(),
        plain(host.cpu * 100.0, 1),
        figures.cpu_us_per_message.map(|micros| plain(micros, 2)).unwrap_or_default(),
        plain(host.disk_written / 1e6, 2),
    ]
}

/// What is worth a remark: fluctuation, and guards that broke.
fn note(case: &Case<'_>) -> String {
    let unsteady = case
        .stability
        .iter()
        .filter(|stability| stability.fluctuates)
        .map(|stability| stability.says.en.as_str());
    let broken = case.guards.iter().filter(|guard| !guard.holds()).map(|guard| guard.reading.en.as_str());
    unsteady.chain(broken).collect::<Vec<_>>().join("; ")
}
