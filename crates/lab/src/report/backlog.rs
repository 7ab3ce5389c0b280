//! The chapter about backlogs: their phases in order, and the trends of each backlog.

use super::timeline::{Timeline, figures};
use super::{says, words};
use crate::judge::backlog::{Backlog, Stage};
use crate::judge::conclusion::{Case, Conclusion};
use crate::judge::{Text, both, numbers};
use crate::sentences::{Sentence, phase_name};
use maud::{Markup, html};

/// The chapter about the backlogs of a run; `None` when it has none.
pub fn backlogs(run: &Conclusion<'_>) -> Option<Markup> {
    let with: Vec<_> = run.cells.iter().filter_map(|case| Some((case, case.backlog.as_ref()?))).collect();
    let filled = run.cells.iter().filter(|case| case.backlog.is_none() && case.factors().is_backlog());
    let invalid: Vec<_> =
        filled.filter_map(|case| Some((case, case.judged.outcome.as_ref().err()?))).collect();
    (!with.is_empty() || !invalid.is_empty()).then(|| {
        html! {
            @for (case, reasons) in invalid {
                h3 { code { (case.judged.cell.cell.name) } " " span.bad { (words("invalid", "无效")) } }
                ul { @for reason in reasons { li.bad { (says(&reason.sentence())) } } }
            }
            @for (case, backlog) in with { (one(run, case, backlog)) }
        }
    })
}

fn one(run: &Conclusion<'_>, case: &Case<'_>, backlog: &Backlog) -> Markup {
    let steps = [(Text::default(), Timeline::of_cell(run.record, case.judged.cell))];
    html! {
        h3 { code { (case.judged.cell.cell.name) } }
        ol.phases {
            @for stage in &backlog.stages { li class=(stage.name) { (phase(backlog, stage)) } }
        }
        (figures(&steps, |step| step.essentials().into_iter().take(1).collect()))
        (table(backlog))
        (figures(&steps, |step| step.trends().into_iter().skip(1).collect()))
    }
}

/// Row of a phase: its length, and the figures of producers and consumers in it.
fn phase(backlog: &Backlog, stage: &Stage) -> Markup {
    let rate = |value: f64| if value > 0.0 { numbers::count(value) } else { "–".to_owned() };
    html! {
        h4 { (says(&phase_name(&stage.name))) " · " (numbers::short(stage.seconds)) " s" }
        dl {
            dt { (words("sent", "发送")) } dd { (rate(stage.send_tps.mean)) " msg/s" }
            @if let Some(ratio) = &stage.producers {
                @let [value, low, high] = ratio.changes();
                @let is_worse = ratio.high < 1.0;
                dt { (words("against before", "相比堆积前")) }
                dd class=(if is_worse { "bad" } else { "" }) { b { (value) } " (" (low) " … " (high) ")" }
            }
            @if stage.send_p99_ms > 0.0 { dt { "p99" } dd { (numbers::short(stage.send_p99_ms)) " ms" } }
            dt { (words("consumed", "消费")) } dd { (rate(stage.consume_tps)) " msg/s" }
            @if let Some(read) = stage.disk_read.filter(|read| *read > 0.0) {
                dt { (words("read from disk", "磁盘读")) } dd { (numbers::bytes(read)) "/s" }
            }
            @if let Some(says_so) = outcome(backlog, stage) { dt { (words("outcome", "结果")) } dd { b { (says(&says_so)) } } }
            @if let Some(stability) = stage.stability.as_ref().filter(|stability| stability.fluctuates) {
                dt { (words("unsteady", "波动")) } dd { (says(&stability.sentence())) }
            }
        }
    }
}

/// End of the drain; `None` for other phases.
fn outcome(backlog: &Backlog, stage: &Stage) -> Option<Text> {
    (stage.name == "drain").then(|| {
        let cold = backlog.drain.cold_ratio.map(|ratio| numbers::percent(ratio.min(1.0)));
        let cold = cold.map(|share| both!("backlog.share-from-disk", share));
        let ended = match backlog.drain.met {
            Some(true) => both!("backlog.drained"),
            Some(false) => both!("backlog.not-drained"),
            None => both!("backlog.ended-early"),
        };
        let parts: Vec<Text> = [Some(ended), cold].into_iter().flatten().collect();
        Text::joined(&parts).unwrap_or_default()
    })
}

fn table(backlog: &Backlog) -> Markup {
    html! {
        div.wide { table {
            thead { tr { th { (words("phase", "阶段")) } th { "s" } th { (words("send ms", "发送耗时 ms")) } th { "p99 ms" } th { "p99.9 ms" } th { (words("send TPS", "发送 TPS")) } th { (words("consume TPS", "订阅 TPS")) }
                th { "LOAD" } th { "IOWAIT %" } th { "PSI io.full %" } th { "NETIN" } th { "NETOUT" } th { (words("disk read", "磁盘读")) } } }
            @for stage in &backlog.stages {
                tr { td { (says(&phase_name(&stage.name))) } td { (numbers::short(stage.seconds)) } td { (numbers::short(stage.send_ms)) }
                    td { (numbers::short(stage.send_p99_ms)) } td { (numbers::short(stage.send_p999_ms)) } td { (numbers::count(stage.send_tps.mean)) }
                    td { (numbers::count(stage.consume_tps)) }
                    @if let Some(host) = &stage.host {
                        td { (numbers::short(host.load1)) } td { (numbers::short(host.iowait * 100.0)) } td { (numbers::short(host.io_pressure)) }
                        td { (numbers::bytes(host.net_in)) "/s" } td { (numbers::bytes(host.net_out)) "/s" }
                    } @else { td.none colspan="5" { (words("not observed", "未观察")) } }
                    td { @match stage.disk_read { Some(bytes) => { (numbers::bytes(bytes)) "/s" } None => "–" } } }
            }
        } }
    }
}
