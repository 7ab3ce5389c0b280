//! Line charts as SVG. Colours come from the page's style sheet, so that a chart follows light and dark; lines differ in
//! their dashes and the shapes of their points as well. Words keep clear of each other: see [`words`].

mod axis;
mod draw;
pub mod words;

pub use axis::{Axis, Scale};
pub use draw::key;

use crate::judge::Text;

/// Colours of the style sheet that lines take in turn.
pub const COLOURS: usize = 7;

/// Most points of a line; more are joined.
pub const POINTS_MAX: usize = 300;

/// Width and height of a chart over the whole page, pixels.
pub const WIDE: (f64, f64) = (1_100.0, 210.0);

/// A line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// What it shows, for the legend.
    pub name: Text,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
    /// What is written beside each point; empty for lines of many points.
    pub labels: Vec<Text>,
}

/// A part of the horizontal axis, such as a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Class in the style sheet.
    pub class: &'static str,
    /// What it is called.
    pub name: Text,
}

/// A value of one of the axes with a line across the chart, and what is written at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The value.
    pub at: f64,
    /// What is there.
    pub name: Text,
}

/// One chart.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// What the horizontal axis counts, with its unit.
    pub across: Text,
    /// What the vertical axis counts, with its unit.
    pub up: Text,
    /// How the horizontal axis runs.
    pub across_scale: Scale,
    /// How the vertical axis runs.
    pub up_scale: Scale,
    /// The lines.
    pub lines: Vec<Line>,
    /// Whether each point is shown, as of what was measured at a few levels.
    pub dots: bool,
    /// Ticks of the horizontal axis where it is one of few levels, such as threads, in order.
    pub levels: Vec<(f64, String)>,
    /// Parts of the horizontal axis.
    pub bands: Vec<Band>,
    /// Moments or loads at which something happened.
    pub marks: Vec<Mark>,
    /// Values of the vertical axis to compare with.
    pub limits: Vec<Mark>,
    /// Ends of the horizontal axis, so that charts below each other are aligned.
    pub range: Option<(f64, f64)>,
    /// Largest value of the vertical axis, so that charts beside each other can be compared.
    pub highest: Option<f64>,
    /// Width and height, pixels; 0 as [`WIDE`].
    pub size: (f64, f64),
}

impl Chart {
    /// The points that the axes have a place for.
    fn shown<'a>(&self, line: &'a Line) -> impl Iterator<Item = (usize, &'a (f64, f64))> + use<'a> {
        let (across, up) = (self.across_scale, self.up_scale);
        line.points.iter().enumerate().filter(move |(_, (x, y))| across.holds(*x) && up.holds(*y))
    }

    /// Whether there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| self.shown(line).next().is_none())
    }
}

/// A coordinate with one digit behind the point.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Joins neighbouring points until there are no more than [`POINTS_MAX`]: by means, or by the largest.
#[must_use]
pub fn thinned(points: &[(f64, f64)], join: impl Fn(&[(f64, f64)]) -> f64) -> Vec<(f64, f64)> {
    let each = points.len().div_ceil(POINTS_MAX).max(1);
    points.chunks(each).map(|chunk| (chunk[0].0, join(chunk))).collect()
}

/// The mean of some points.
#[must_use]
pub fn average(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.1).sum::<f64>() / points.len().max(1) as f64
}

/// The largest of some points.
#[must_use]
pub fn largest(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.1).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
