//! Charts with a title, a legend and the files their figures come from.

use super::chart::{Chart, Line, key};
use super::words::says;
use crate::judge::Text;
use maud::{Markup, html};

/// One chart, or several of the same lines beside each other.
#[derive(Debug)]
pub struct Figure<'a> {
    /// What it shows.
    pub title: Text,
    /// Files its figures come from, relative to the run.
    pub files: &'a [String],
    /// The charts, each with what it is about where there are several.
    pub panels: Vec<(Text, Chart)>,
}

impl Figure<'_> {
    /// A single chart.
    #[must_use]
    pub fn single(title: Text, files: &[String], chart: Chart) -> Figure<'_> {
        Figure { title, files, panels: vec![(Text::default(), chart)] }
    }

    /// The figure; nothing where there is nothing to draw.
    #[must_use]
    pub fn markup(&self) -> Markup {
        let panels: Vec<&(Text, Chart)> = self.panels.iter().filter(|(_, chart)| !chart.is_empty()).collect();
        let Some((_, first)) = panels.first() else { return html! {} };
        html! {
            figure {
                figcaption { b { (says(&self.title)) } (legend(&first.lines, first.dots)) (sources(self.files)) }
                div.panels.{ "of" (columns(panels.len())) } {
                    @for (name, chart) in panels {
                        div { @if !name.en.is_empty() { p.panel { (says(name)) } } (chart.svg()) }
                    }
                }
            }
        }
    }
}

/// How many of so many charts stand in a row.
#[must_use]
pub fn columns(panels: usize) -> usize {
    match panels {
        0..=4 => panels,
        5 | 6 => 3,
        _ => 4,
    }
}

/// What each line is, where there are several.
fn legend(lines: &[Line], dots: bool) -> Markup {
    html! {
        @for (index, line) in lines.iter().enumerate().filter(|_| lines.len() > 1) {
            span.legend { (key(index, dots)) (says(&line.name)) }
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
