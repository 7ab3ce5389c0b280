//! Charts with a title, a legend and links to the files that hold their figures.

use super::chart::{Chart, Line, key};
use super::words::says;
use crate::judge::Text;
use maud::{Markup, html};

/// A figure of one chart, or of several charts with the same lines side by side.
#[derive(Debug)]
pub struct Figure<'a> {
    /// Title of the figure.
    pub title: Text,
    /// The files with the figure's data, relative to the run's directory.
    pub files: &'a [String],
    /// The charts; with several charts each has a name.
    pub panels: Vec<(Text, Chart)>,
}

impl Figure<'_> {
    /// Makes a figure of a single chart.
    pub fn single(title: Text, files: &[String], chart: Chart) -> Figure<'_> {
        Figure { title, files, panels: vec![(Text::default(), chart)] }
    }

    /// The figure as HTML; empty when there is nothing to draw.
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

/// Number of charts per row for this number of charts.
pub fn columns(panels: usize) -> usize {
    match panels {
        0..=4 => panels,
        5 | 6 => 3,
        _ => 4,
    }
}

/// The legend of the lines; empty for a single line.
fn legend(lines: &[Line], dots: bool) -> Markup {
    html! {
        @for (index, line) in lines.iter().enumerate().filter(|_| lines.len() > 1) {
            span.legend { (key(index, dots)) (says(&line.name)) }
        }
    }
}

/// Links to data files beside the report. A pattern that stands for many files is text without a link.
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
