//! Line charts as SVG. Colours come from the page's style sheet, so a chart follows the light and the dark mode. Lines
//! also differ in their dashes and the shapes of their points. Words never overlap: see [`words`].

mod axis;
mod draw;
pub mod words;

pub use axis::{Axis, Scale};
pub use draw::key;

use crate::judge::Text;

/// Number of colours in the style sheet, which lines take in turn.
pub const COLOURS: usize = 7;

/// Most points of a line; neighbouring points beyond that are merged.
pub const POINTS_MAX: usize = 300;

/// Value of a point at which a line is interrupted.
const GAP: f64 = f64::NAN;

/// Width and height in pixels of a chart across the whole page.
pub const WIDE: (f64, f64) = (1_100.0, 210.0);

/// A line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Name of the line in the legend.
    pub name: Text,
    /// Points of the line, from left to right. A point whose value is not a number interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// Labels of the points; empty for lines with many points.
    pub labels: Vec<Text>,
}

/// A part of the horizontal axis, such as a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Begin of the part on the axis.
    pub from: f64,
    /// End of the part on the axis.
    pub to: f64,
    /// Class in the style sheet.
    pub class: &'static str,
    /// Name of the part.
    pub name: Text,
}

/// A value on one of the axes that is marked by a line across the chart, with a label.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The value on the axis.
    pub at: f64,
    /// Label of the mark.
    pub name: Text,
}

/// A chart with its axes, lines and marks.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Name of the horizontal axis, with its unit.
    pub across: Text,
    /// Name of the vertical axis, with its unit.
    pub up: Text,
    /// Scale of the horizontal axis.
    pub across_scale: Scale,
    /// Scale of the vertical axis.
    pub up_scale: Scale,
    /// Lines of the chart.
    pub lines: Vec<Line>,
    /// Whether points are drawn, for figures measured at a few levels.
    pub dots: bool,
    /// Ticks of a horizontal axis with a few levels, such as threads, in order.
    pub levels: Vec<(f64, String)>,
    /// Parts of the horizontal axis, such as phases.
    pub bands: Vec<Band>,
    /// Marked times or loads on the horizontal axis.
    pub marks: Vec<Mark>,
    /// Marked values on the vertical axis, to compare lines with.
    pub limits: Vec<Mark>,
    /// Ends of the horizontal axis, to align charts below each other; `None` for the range of the points.
    pub range: Option<(f64, f64)>,
    /// Largest value of the vertical axis, to compare charts beside each other; `None` for the largest point.
    pub highest: Option<f64>,
    /// Width and height in pixels; 0 for [`WIDE`].
    pub size: (f64, f64),
}

impl Chart {
    /// The points of a line that both axes can show, with their indices.
    fn shown<'a>(&self, line: &'a Line) -> impl Iterator<Item = (usize, &'a (f64, f64))> + use<'a> {
        let (across, up) = (self.across_scale, self.up_scale);
        line.points.iter().enumerate().filter(move |(_, (x, y))| across.holds(*x) && up.holds(*y))
    }

    /// Whether the chart has nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| self.shown(line).next().is_none())
    }
}

/// Writes a coordinate with one decimal digit.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Joins the parts of a line with a gap between each two, and merges neighbouring points of a part until there are about
/// [`POINTS_MAX`] in all. `join` is [`average`] or [`largest`], for example.
pub fn thinned(parts: &[Vec<(f64, f64)>], join: impl Fn(&[(f64, f64)]) -> f64) -> Vec<(f64, f64)> {
    let each = parts.iter().map(Vec::len).sum::<usize>().div_ceil(POINTS_MAX).max(1);
    let mut line: Vec<(f64, f64)> = Vec::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let gap = line.last().map(|last| (last.0, GAP));
        line.extend(gap);
        line.extend(part.chunks(each).map(|chunk| (chunk[0].0, join(chunk))));
    }
    line
}

/// Mean of the values of some points.
pub fn average(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.1).sum::<f64>() / points.len().max(1) as f64
}

/// Largest of the values of some points.
pub fn largest(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.1).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
