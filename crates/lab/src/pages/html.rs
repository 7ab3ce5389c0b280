//! The page: its frame and the eleven chapters.

use super::timeline::Timeline;
use super::{environment, latency, matrix, says, verdict, words};
use crate::judge::backlog::phase_name;
use crate::judge::balance::Term;
use crate::judge::conclusion::Conclusion;
use crate::judge::{Language, Text, both, numbers};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = "document.getElementById('switch').onclick=function(){var r=document.documentElement;\
    r.dataset.show=r.dataset.show==='en'?'zh':'en';r.lang=r.dataset.show==='en'?'en':'zh-CN'};\
    function unfold(){var d=location.hash&&document.getElementById(location.hash.slice(1));if(d)d.open=true}\
    addEventListener('hashchange',unfold);unfold();";

/// Chapters that come from elsewhere than the run: a comparison, a plan.
#[derive(Debug, Default)]
pub struct Additions {
    /// Chapter 9.
    pub comparison: Option<Markup>,
    /// Chapter 10.
    pub plan: Option<Markup>,
}

/// The report of a run; it opens in `language` and can be switched.
#[must_use]
pub fn report(run: &Conclusion<'_>, additions: Additions, language: Language) -> String {
    let file = &run.record.file;
    let none = |en: &str, zh: &str| html! { p.none { (words(en, zh)) } };
    let chapters = [
        ("verdict", words("1 Verdict", "1 结论"), verdict_box(run)),
        ("environment", words("2 Environment", "2 环境"), environment::environment(file, "")),
        (
            "matrix",
            words("3 Matrix", "3 矩阵"),
            html! { (matrix::heat_maps(run)) (matrix::left_out(file)) (factors(run)) (matrix::drill_downs(run)) },
        ),
        ("curve", words("4 Rate and latency", "4 TPS 与时延"), latency::curve(run)),
        ("trends", words("5 Trends", "5 趋势"), Timeline::of_run(run).trends()),
        (
            "latency",
            words("6 Latency", "6 时延分布"),
            html! { (latency::percentiles(run)) (latency::over_time(run)) },
        ),
        ("balance", words("7 Byte balance", "7 字节平衡"), balance(run)),
        ("backlog", words("8 Backlog", "8 堆积"), backlog(run)),
        (
            "comparison",
            words("9 Comparison and cost", "9 对比与成本"),
            additions.comparison.unwrap_or_else(|| {
                none("one run alone: vostok lab compare A B", "单次运行：请使用 vostok lab compare A B")
            }),
        ),
        (
            "plan",
            words("10 Plan", "10 规划"),
            additions.plan.unwrap_or_else(|| {
                none(
                    "no target given: vostok lab plan --peak 50k/s --size 500 --run RUN",
                    "未给定目标：vostok lab plan --peak 50k/s --size 500 --run RUN",
                )
            }),
        ),
        ("origin", words("11 Origin", "11 来源与复现"), environment::origin(file, "")),
    ];
    let title = format!("{} · {} · {}", file.scenario, file.target.name, file.id);
    page(&title, language, &chapters)
}

/// A page of chapters: (anchor, title, content).
#[must_use]
pub fn page(title: &str, language: Language, chapters: &[(&str, Markup, Markup)]) -> String {
    let (show, lang) = match language {
        Language::En => ("en", "en"),
        Language::Zh => ("zh", "zh-CN"),
    };
    let page = html! {
        (DOCTYPE)
        html lang=(lang) data-show=(show) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Without one the browser asks its directory for a favicon.
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    button id="switch" type="button" { span.en { "中文" } span.zh { "English" } }
                    nav { @for (anchor, name, _) in chapters { a href={ "#" (anchor) } { (name) } } }
                }
                main { @for (anchor, name, content) in chapters { section id=(anchor) { h2 { (name) } (content) } } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn verdict_box(run: &Conclusion<'_>) -> Markup {
    html! {
        dl.verdict { @for (name, text) in verdict::lines(run) { dt { (says(&name)) } dd { (says(&text)) } } }
        (limits(run))
    }
}

fn limits(run: &Conclusion<'_>) -> Markup {
    let Some(limit) = &run.bottleneck else { return html! {} };
    html! {
        table.uses {
            caption { (words("How full each resource was at the highest rate", "最高 TPS 时各资源使用程度")) }
            @for used in limit.ranked.iter().take(10) {
                tr { td { (says(&used.resource.name())) } td { (used.node) }
                    td { div.bar { i style={ "width:" (format!("{:.0}", used.used.clamp(0.0, 1.0) * 100.0)) "%" } {} } }
                    td.number { (numbers::percent(used.used)) } td { (says(&used.reading)) } }
            }
        }
    }
}

fn factors(run: &Conclusion<'_>) -> Markup {
    html! {
        h3 { (words("What each factor does", "各因素的影响")) }
        @if run.effects.is_empty() && run.sensitive.is_none() { p.none { (words("no cells differ in one factor alone", "没有仅一个因素不同的用例")) } }
        ul {
            @for effect in &run.effects { li { (says(&effect.says)) } }
            @for interaction in &run.interactions { li { (says(&interaction.says)) } }
        }
        @if let Some(found) = &run.sensitive {
            h3 { (words("Settings that do something", "有影响的配置项")) }
            @if found.is_empty() { p.none { (says(&insensitive())) } }
            ul { @for effect in found { li { (says(&effect.says)) } } }
        }
    }
}

/// What is said where no setting that was swept does anything.
#[must_use]
pub(super) fn insensitive() -> Text {
    both!(
        "none of the settings that were swept has an effect that is certain",
        "所扫描的配置项均无可确认的影响"
    )
}

fn balance(run: &Conclusion<'_>) -> Markup {
    let with: Vec<_> = run.cells.iter().filter(|case| !case.balance.is_empty()).collect();
    // Of another cell another machine may be the busiest, whose disk nobody looked at.
    let Some(head) = with.iter().map(|case| &case.balance).max_by_key(|terms| terms.len()) else {
        return html! { p.none { (words("no machine of a broker was observed, or bodies were compressed", "没有 Broker 主机数据，或消息体被压缩")) } };
    };
    html! {
        p { (words("Bodies per second that should be there against bytes found; marked where it is off by more than 10 % beyond 512 bytes of overhead per message.",
            "应有的消息体字节与实测字节；超出 10 %（每条消息另计 512 字节开销）时标红。")) }
        table {
            tr { th { (words("cell", "用例")) } @for term in head { th { (says(&term.name)) } } th { (words("data", "数据")) } }
            @for case in &with {
                tr { td { code { (case.judged.cell.cell.name) } }
                    @for term in head { @match case.balance.iter().find(|own| own.name == term.name) { Some(own) => (balance_term(own)), None => td { "–" } } }
                    td.from { a href={ "cells/" (case.judged.cell.cell.name) "/1/load.csv" } { "load.csv" } } }
            }
        }
        ul { @for ceiling in &run.byte_ceilings { li.bad { (says(&ceiling.says)) } } }
    }
}

fn balance_term(term: &Term) -> Markup {
    html! {
        td class=(if term.off { "bad" } else { "" }) {
            (numbers::bytes(term.expected)) "/s → " (numbers::bytes(term.found)) "/s"
            @if term.expected > 0.0 { small { " (" (format!("{:+.0}", term.beside)) " B/msg)" } }
        }
    }
}

fn backlog(run: &Conclusion<'_>) -> Markup {
    let with: Vec<_> = run.cells.iter().filter_map(|case| Some((case, case.backlog.as_ref()?))).collect();
    let filled =
        run.cells.iter().filter(|case| case.backlog.is_none() && case.factors().more.contains_key("fill"));
    let invalid: Vec<_> =
        filled.filter_map(|case| Some((case, case.judged.outcome.as_ref().err()?))).collect();
    if with.is_empty() && invalid.is_empty() {
        return html! { p.none { (words("no backlog in this run: vostok lab backlog", "本次没有堆积场景：vostok lab backlog")) } };
    }
    html! {
        @for (case, reasons) in invalid {
            h3 { code { (case.judged.cell.cell.name) } " " (words("invalid", "无效")) }
            ul { @for reason in reasons { li.bad { (says(reason)) } } }
        }
        @for (case, backlog) in with {
            h3 { code { (case.judged.cell.cell.name) } }
            p { (says(&backlog.says)) }
            table {
                tr { th { (words("phase", "阶段")) } th { "s" } th { (words("send ms", "发送耗时 ms")) } th { "p99 ms" } th { "p99.9 ms" } th { (words("send TPS", "发送 TPS")) } th { (words("consume TPS", "订阅 TPS")) }
                    th { "LOAD" } th { "IOWAIT %" } th { "PSI io.full %" } th { "NETIN" } th { "NETOUT" } th { (words("disk read", "磁盘读")) } }
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
            }
            (Timeline::of_cell(run.record, case.judged.cell).trends())
        }
    }
}
