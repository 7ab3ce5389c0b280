//! A chart with its title, its legend and the file its figures come from.

use super::chart::{COLOURS, Chart};
use super::words::{says, words};
use crate::judge::Text;
use maud::{Markup, PreEscaped, html};

/// A chart in a page.
#[derive(Debug)]
pub struct Figure<'a> {
    /// What it shows.
    pub title: Text,
    /// What each line is, in the chart's order; none for a single line.
    pub legend: Vec<Text>,
    /// Files its figures come from, relative to the run.
    pub files: &'a [String],
    /// The chart.
    pub chart: Chart,
}

impl Figure<'_> {
    /// The figure, or a line saying that there is nothing to show.
    #[must_use]
    pub fn markup(&self) -> Markup {
        let svg = self.chart.svg();
        html! {
            figure {
                figcaption {
                    b { (says(&self.title)) }
                    @if !svg.is_empty() { (legend(&self.legend)) }
                    (sources(self.files))
                }
                @if svg.is_empty() { p.none { (words("not measured in this run", "本次未测量")) } }
                @else { (PreEscaped(svg)) }
            }
        }
    }
}

fn legend(names: &[Text]) -> Markup {
    html! {
        @for (name, colour) in names.iter().zip(COLOURS.iter().cycle()) {
            span.key { i style={ "background:" (colour) } {} (says(name)) }
        }
    }
}

/// Links to data files beside the report; what stands for many files is named alone.
#[must_use]
pub fn sources(files: &[String]) -> Markup {
    html! {
        span.from {
            @for file in files {
                @if file.contains('*') { (file) } @else { a href=(file) { (file) } }
                " "
            }
        }
    }
}
