//! The effect of every varied number: charts of rate and bytes over threads, size and queues.

use super::chart::{Chart, Line};
use super::figure::Figure;
use super::words::says;
use crate::archive::Factors;
use crate::judge::conclusion::{Case, Conclusion};
use crate::judge::factor::{Factor, ladders};
use crate::judge::figures::Figures;
use crate::judge::{Text, both, numbers};
use crate::sentences::Sentence;
use maud::{Markup, html};

/// Most lines of a chart; further lines go into another chart.
const LINES_MAX: usize = 5;

/// Width and height in pixels of the charts, two in a row.
const HALF: (f64, f64) = (545.0, 280.0);

/// A factor, and the valid cells that differ in it only.
struct Series<'a> {
    cells: Vec<&'a Case<'a>>,
    name: Text,
}

/// The charts of rate and of bytes over each factor that varies.
pub fn curves(run: &Conclusion<'_>) -> Markup {
    html! {
        @for factor in [Factor::Threads, Factor::Rate, Factor::Size, Factor::Queues] {
            @for (part, series) in series(run, &factor).chunks(LINES_MAX).enumerate() { (pair(&factor, series, part)) }
        }
    }
}

fn series<'a>(run: &'a Conclusion<'a>, factor: &Factor) -> Vec<Series<'a>> {
    let valid: Vec<&Case<'_>> =
        run.cells.iter().filter(|case| case.judged.figures().is_some() && case.backlog.is_none()).collect();
    let factors: Vec<&Factors> = valid.iter().map(|case| case.factors()).collect();
    let others: Vec<Factor> = Factor::varied(&factors).into_iter().filter(|other| other != factor).collect();
    let found = ladders(&factors, factor).into_iter().filter(|ladder| ladder.len() > 1);
    let series = found.map(|ladder| {
        let first = valid[ladder[0]].factors();
        let levels = others.iter().map(|other| {
            let (name, level) = (other.name(), other.level(first));
            // The name of the factor without its unit.
            let [en, zh] = [&name.en, &name.zh].map(|name| name.split([',', ' ']).next().unwrap_or_default());
            both!("curves.level", en, level, zh)
        });
        let name = Text::joined(&levels.collect::<Vec<_>>()).unwrap_or_else(|| both!("curves.all-cells"));
        Series { cells: ladder.into_iter().map(|place| valid[place]).collect(), name }
    });
    series.collect()
}

fn pair(factor: &Factor, series: &[Series<'_>], part: usize) -> Markup {
    let factors = series.iter().flat_map(|series| &series.cells).map(|case| case.factors());
    let mut levels: Vec<(f64, String)> =
        factors.filter_map(|of| Some((factor.number(of)?, factor.level(of)))).collect();
    levels.sort_by(|one, other| one.0.total_cmp(&other.0));
    levels.dedup();
    let chart = |up: &str, value: fn(&Figures) -> f64, shown: fn(f64) -> String| {
        let lines = series.iter().map(|series| line(factor, series, (value, shown))).collect();
        let across = factor.name();
        Chart {
            across,
            up: Text::same(up),
            lines,
            dots: true,
            levels: levels.clone(),
            size: HALF,
            ..Chart::default()
        }
    };
    let name = factor.name();
    let more = if part > 0 { format!(" ({})", part + 1) } else { String::new() };
    let files = ["cells/*/*/load.csv".to_owned()];
    html! {
        div.halves {
            (Figure::single(both!("curves.rate-over-more", name, more), &files, chart("msg/s", |figures| figures.tps.mean, numbers::count)).markup())
            (Figure::single(both!("curves.bodies-sent-over-more", name, more), &files, chart("MB/s", |figures| figures.payload_bytes / 1e6, numbers::short)).markup())
        }
    }
}

type Shown = (fn(&Figures) -> f64, fn(f64) -> String);

fn line(factor: &Factor, series: &Series<'_>, (value, shown): Shown) -> Line {
    let point = |case: &&Case<'_>| Some((factor.number(case.factors())?, value(case.judged.figures()?)));
    let points: Vec<(f64, f64)> = series.cells.iter().filter_map(point).collect();
    let labels = points.iter().map(|(_, y)| Text::same(shown(*y))).collect();
    Line { name: series.name.clone(), points, labels }
}

/// The effects of all factors, as the rules found them.
pub fn effects(run: &Conclusion<'_>) -> Markup {
    html! {
        @if !run.effects.is_empty() || !run.interactions.is_empty() {
            h3 { (super::words("What each factor does", "各因素的影响")) }
            ul {
                @for effect in &run.effects { li { (says(&effect.sentence())) } }
                @for interaction in &run.interactions { li { (says(&interaction.sentence())) } }
            }
        }
        @if let Some(found) = &run.sensitive {
            h3 { (super::words("Settings that do something", "有影响的配置项")) }
            @if found.is_empty() { p.none { (says(&insensitive())) } }
            ul { @for effect in found { li { (says(&effect.sentence())) } } }
        }
    }
}

/// The sentence for a sweep in which no setting has an effect.
pub(super) fn insensitive() -> Text {
    both!("curves.none-settings-swept-effect")
}
