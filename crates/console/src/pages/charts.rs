//! Charts of the past of the cluster, a topic, a group or a broker; `console.js` draws them with uPlot. The server renders the same
//! figures as lines without axes and as a table, for browsers without scripts and for screen readers.

use crate::app::App;
use crate::history::{Kind, Point};
use crate::refusal::Refusal;
use crate::request::Fields;
use crate::view::{Column, Page, Table, decimal, duration, number};
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::Value;

/// The spans of the three resolutions.
const SPANS: [&str; 3] = ["10 minutes", "6 hours", "7 days"];

/// A plot of figures of one unit.
struct Plot {
    title: &'static str,
    unit: Unit,
    /// Name in the data, and label.
    figures: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    PerSecond,
    Seconds,
    Milliseconds,
    Percent,
}

impl Unit {
    /// The unit as `console.js` reads it.
    fn name(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::PerSecond => "/s",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Percent => "%",
        }
    }

    fn text(self, value: f32) -> String {
        let value = f64::from(value);
        match self {
            _ if !value.is_finite() => "–".to_owned(),
            Self::Count => number(value.round() as i64),
            Self::Seconds => duration((value * 1000.0).round() as i64),
            _ => format!("{} {}", decimal(value), self.name()),
        }
    }
}

const RATES: Plot = Plot {
    title: "Messages per second",
    unit: Unit::PerSecond,
    figures: &[("in_tps", "stored"), ("out_tps", "delivered")],
};
const OF_GROUP: [Plot; 3] = [
    Plot { title: "Lag", unit: Unit::Count, figures: &[("lag", "messages")] },
    Plot {
        title: "Lag in time",
        unit: Unit::Seconds,
        figures: &[("lag_seconds", "age of the first message")],
    },
    Plot {
        title: "Consumption",
        unit: Unit::PerSecond,
        figures: &[("consumed_tps", "consumed"), ("retried_tps", "retried")],
    },
];
const OF_BROKER: [Plot; 4] = [
    RATES,
    Plot { title: "Refused requests", unit: Unit::PerSecond, figures: &[("refused_tps", "refused")] },
    Plot {
        title: "Time to store a message",
        unit: Unit::Milliseconds,
        figures: &[("put_p99_ms", "99 % within")],
    },
    Plot { title: "Disk of the commit log", unit: Unit::Percent, figures: &[("disk_percent", "in use")] },
];

impl Kind {
    fn plots(self) -> &'static [Plot] {
        match self {
            Self::Cluster | Self::Topic => &[RATES],
            Self::Group => &OF_GROUP,
            Self::Broker => &OF_BROKER,
        }
    }

    /// The name of the kind in addresses.
    fn name(self) -> &'static str {
        match self {
            Self::Cluster => "",
            Self::Topic => "topic",
            Self::Group => "group",
            Self::Broker => "broker",
        }
    }
}

/// Points of the past of an object, which `ring`, `since` and one of `topic`, `group` and `broker` choose. An object that is asked for is
/// sampled each second for a while.
///
/// # Errors
/// [`Refusal`] when no such broker is known.
pub(super) fn history(app: &App, fields: &Fields) -> Result<Page, Refusal> {
    let number = |name: &str| fields.text(name).parse::<i64>().unwrap_or_default();
    let named = [Kind::Topic, Kind::Group, Kind::Broker]
        .into_iter()
        .find_map(|kind| Some((kind, fields.get(kind.name())?)));
    let (kind, name) = named.unwrap_or((Kind::Cluster, ""));
    let object =
        opened(app, kind, name).ok_or_else(|| Refusal::missing(format!("no broker {name} is known")))?;
    let ring = usize::try_from(number("ring")).unwrap_or_default();
    let points = app.live.history((kind, &object), ring, number("since"));
    let data: Vec<Value> = points.iter().map(|point| point.data(kind)).collect();
    Ok(Page::new("History", data.into(), html! {}))
}

/// The name of an object in the history, from now on sampled each second; `None` for a broker that is not known.
fn opened(app: &App, kind: Kind, name: &str) -> Option<String> {
    app.live.watch();
    let object = if kind == Kind::Broker { app.live.broker_address(name)? } else { name.to_owned() };
    if kind != Kind::Cluster {
        app.live.open(kind, &object);
    }
    Some(object)
}

/// Time that a sparkline shows, ms.
const SPARK_MS: i64 = 30 * 60_000;

/// The first figure of an object in the last half hour as a line for a row of a list; empty without two samples.
pub(super) fn spark(app: &App, object: (Kind, &str)) -> Markup {
    sparkline(&app.live.history(object, 1, crate::answers::now_ms() - SPARK_MS))
}

fn sparkline(past: &[Point]) -> Markup {
    let known = past.iter().map(|point| point.values[0]).filter(|value| value.is_finite());
    let (count, most) = known.fold((0, 0.0_f32), |(count, most), value| (count + 1, most.max(value)));
    html! {
        @if count > 1 {
            svg.spark viewBox="0 0 800 160" preserveAspectRatio="none" aria-hidden="true" { polyline points=(line(past, 0, most)) {} } " "
        }
    }
}

/// The charts of an object, with its figures as a table.
pub(super) fn charts(app: &App, lang: Lang, (kind, name): (Kind, &str)) -> Markup {
    let object = opened(app, kind, name).unwrap_or_default();
    let pasts = [0, 1, 2].map(|ring| app.live.history((kind, &object), ring, 0));
    shown(lang, (kind, name), &pasts)
}

fn shown(lang: Lang, (kind, name): (Kind, &str), pasts: &[Vec<Point>; 3]) -> Markup {
    // The last ten minutes have few points after a start.
    let drawn = pasts.iter().position(|past| past.len() > 1).unwrap_or_default();
    html! {
        section.charts data-kind=(kind.name()) data-name=(name) {
            div.tabs role="group" aria-label=(lang.say("Time")) hidden data-keep {
                @for (ring, span) in SPANS.iter().enumerate() {
                    button type="button" data-ring=(ring) aria-pressed=(if ring == 0 { "true" } else { "false" }) { (lang.say(span)) }
                }
            }
            div.plots { @for plot in kind.plots() { (figure(lang, plot, kind, (drawn, &pasts[drawn]))) } }
            (figures(lang, kind, pasts))
        }
        link rel="stylesheet" href=(crate::assets::CHART_STYLE);
        script src=(crate::assets::CHART_SCRIPT) defer {}
    }
}

/// Markup of a plot: title, legend with the last values, and lines without axes, which `console.js` replaces by a chart.
fn figure(lang: Lang, plot: &Plot, kind: Kind, (drawn, past): (usize, &[Point])) -> Markup {
    let title = lang.say(plot.title);
    let places = plot.figures.iter().map(|(name, _)| place(kind, name));
    let values = |point: &Point| {
        places.clone().map(|place| point.values[place]).filter(|value| value.is_finite()).fold(0.0, f32::max)
    };
    let most = past.iter().map(values).fold(0.0, f32::max);
    html! {
        figure.plot data-unit=(plot.unit.name()) data-keep {
            figcaption {
                strong { (title) }
                @for (number, (name, label)) in plot.figures.iter().enumerate() {
                    span.figure data-figure=(name) {
                        span.mark.out[number > 0] aria-hidden="true" {} (lang.say(label)) " "
                        output { (last(past, place(kind, name)).map_or_else(|| "–".to_owned(), |value| plot.unit.text(value))) }
                    }
                }
                time.at {}
            }
            div.canvas {
                svg viewBox="0 0 800 160" preserveAspectRatio="none" role="img" aria-label=(title) {
                    @for (number, (name, _)) in plot.figures.iter().enumerate() {
                        polyline.out[number > 0] points=(line(past, place(kind, name), most)) {}
                    }
                }
                p.small { "0 – " (plot.unit.text(most)) " · " (lang.say(SPANS[drawn])) }
            }
        }
    }
}

/// The place of a figure in the points of a kind.
fn place(kind: Kind, name: &str) -> usize {
    kind.figures().iter().position(|figure| *figure == name).expect("plots have figures of their kind")
}

fn last(past: &[Point], place: usize) -> Option<f32> {
    past.iter().rev().map(|point| point.values[place]).find(|value| value.is_finite())
}

/// The coordinates of a line; unknown values have none.
fn line(past: &[Point], place: usize, most: f32) -> String {
    let (Some(first), Some(last)) = (past.first(), past.last()) else { return String::new() };
    let span = (last.at_ms - first.at_ms).max(1) as f64;
    let known = past.iter().filter(|point| point.values[place].is_finite());
    let points = known.map(|point| {
        let x = 800.0 * (point.at_ms - first.at_ms) as f64 / span;
        format!("{x:.0},{:.0}", 156.0 - 150.0 * f64::from(point.values[place] / most.max(f32::MIN_POSITIVE)))
    });
    points.collect::<Vec<_>>().join(" ")
}

/// The figures of all plots in words: now, and mean and most of each span.
fn figures(lang: Lang, kind: Kind, pasts: &[Vec<Point>; 3]) -> Markup {
    let summary = |past: &[Point], place: usize| {
        let known: Vec<f32> =
            past.iter().map(|point| point.values[place]).filter(|value| value.is_finite()).collect();
        let sum: f64 = known.iter().copied().map(f64::from).sum();
        (!known.is_empty())
            .then(|| ((sum / known.len() as f64) as f32, known.iter().copied().fold(0.0, f32::max)))
    };
    let text = |unit: Unit, value: Option<f32>| html! { (value.map_or_else(|| "–".to_owned(), |value| unit.text(value))) };
    let spans = SPANS
        .iter()
        .flat_map(|span| ["mean", "most"].map(|name| format!("{}, {}", lang.say(span), lang.say(name))));
    let columns = Column::all(lang, ["Figure", "#now"]);
    let columns: Vec<Column> = columns.into_iter().chain(spans.map(|name| Column::number(&name))).collect();
    let rows = kind.plots().iter().flat_map(|plot| plot.figures.iter().map(move |figure| (plot, figure)));
    let rows = rows.map(|(plot, (name, label))| {
        let place = place(kind, name);
        let now = pasts.iter().find_map(|past| last(past, place));
        let means = pasts.iter().flat_map(|past| {
            let (mean, most) = summary(past, place).unzip();
            [text(plot.unit, mean), text(plot.unit, most)]
        });
        let first = html! { (lang.say(plot.title)) (lang.colon()) (lang.say(label)) };
        [first, text(plot.unit, now)].into_iter().chain(means).collect()
    });
    html! { details { summary { (lang.say("Figures as a table")) } (Table::new(columns).rows(rows)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 4] = [Kind::Cluster, Kind::Topic, Kind::Group, Kind::Broker];

    #[test]
    fn every_figure_of_the_past_is_in_a_plot_with_words_of_both_languages() {
        for kind in KINDS {
            let plotted: Vec<&str> =
                kind.plots().iter().flat_map(|plot| plot.figures).map(|(name, _)| *name).collect();
            assert_eq!(plotted, kind.figures());
            for plot in kind.plots() {
                let labels = plot.figures.iter().map(|(_, label)| *label);
                for text in labels.chain([plot.title]) {
                    assert!(!Lang::Zh.say(text).is_ascii(), "{text} has no Chinese text");
                }
            }
        }
        assert!(SPANS.iter().all(|span| !Lang::Zh.say(span).is_ascii()));
    }

    #[test]
    fn a_sparkline_needs_two_samples() {
        let point = |at_ms, value| Point { at_ms, values: vec![value, f32::NAN] };
        let text = sparkline(&[point(0, 5.0), point(10_000, 10.0), point(20_000, f32::NAN)]).into_string();
        assert!(text.contains("points=\"0,81 400,6\""), "{text}");
        assert_eq!(sparkline(&[point(0, 5.0), point(10_000, f32::NAN)]).into_string(), "");
    }

    #[test]
    fn a_chart_is_read_without_scripts() {
        let point = |at_ms, lag, seconds| Point { at_ms, values: vec![lag, seconds, 2.0, f32::NAN] };
        let past = vec![point(1000, 1234.0, 60.0), point(2000, 10.0, f32::NAN)];
        let text = shown(Lang::En, (Kind::Group, "<g>"), &[past, vec![], vec![]]).into_string();
        let parts = [
            "data-kind=\"group\" data-name=\"&lt;g&gt;\"",
            "Lag: messages</td><td class=\"number\" data-label=\"now\">10</td>",
            "data-label=\"10 minutes, mean\">622</td>",
            "points=\"0,6 800,155\"",
            // Unknown values are not drawn.
            "points=\"0,6\"",
            "Consumption: retried</td><td class=\"number\" data-label=\"now\">–</td>",
        ];
        for part in parts {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
