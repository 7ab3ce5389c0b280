//! Line charts as SVG, in units every language reads: titles and legends are beside them in the page.

use crate::judge::numbers;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Pixels of a chart; pages scale it to their width.
const SIZE: (u32, u32) = (1_000, 220);

/// Colours that can be told apart, also by the colour-blind (Okabe and Ito).
pub const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Most points of a line; more are joined into means.
pub const POINTS_MAX: usize = 500;

/// How one axis runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Scale {
    /// From 0, evenly.
    #[default]
    Linear,
    /// By powers of ten.
    Log,
    /// Shares close to 1: 0, 90 %, 99 %, 99.9 %.
    Nines,
}

/// One chart.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// What the horizontal axis counts, with its unit.
    pub across: &'static str,
    /// What the vertical axis counts, with its unit.
    pub up: &'static str,
    /// How the horizontal axis runs.
    pub across_scale: Scale,
    /// How the vertical axis runs.
    pub up_scale: Scale,
    /// The lines, in the order of [`COLOURS`].
    pub lines: Vec<Vec<(f64, f64)>>,
    /// Whether each point is shown.
    pub dots: bool,
    /// Moments that something happened, and a letter for it.
    pub marks: Vec<(f64, String)>,
    /// Ends of the horizontal axis, so that charts below each other are aligned.
    pub range: Option<(f64, f64)>,
    /// Height over the ordinary one.
    pub taller: f64,
}

impl Chart {
    /// Draws it; nothing where there is nothing to draw.
    #[must_use]
    pub fn svg(&self) -> String {
        let points: Vec<(f64, f64)> =
            self.lines.iter().flatten().copied().filter(|point| self.can_show(*point)).collect();
        if points.is_empty() {
            return String::new();
        }
        let mut svg = String::new();
        self.draw(&mut svg, &points).expect("writing into a string does not fail");
        svg
    }

    fn can_show(&self, (x, y): (f64, f64)) -> bool {
        let positive = |scale, value: f64| value.is_finite() && (scale != Scale::Log || value > 0.0);
        positive(self.across_scale, x) && positive(self.up_scale, y)
    }

    fn draw(&self, svg: &mut String, points: &[(f64, f64)]) -> Result<(), Box<dyn std::error::Error>> {
        let height = (f64::from(SIZE.1) * self.taller.max(1.0)) as u32;
        let area = SVGBackend::with_string(svg, (SIZE.0, height)).into_drawing_area();
        let across = Axis::new(self.across_scale, points.iter().map(|point| point.0), self.range);
        let up = Axis::new(self.up_scale, points.iter().map(|point| point.1), None);
        let mut chart = ChartBuilder::on(&area)
            .margin(6)
            .margin_right(18)
            .set_label_area_size(LabelAreaPosition::Left, 78)
            .set_label_area_size(LabelAreaPosition::Bottom, 38)
            .build_cartesian_2d(across.clone(), up.clone())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(228, 228, 228))
            .axis_style(RGBColor(120, 120, 120))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 13))
            .x_desc(self.across)
            .y_desc(self.up)
            .draw()?;
        let grey = RGBColor(150, 90, 90);
        for (at, letter) in &self.marks {
            let x = across.scale.place(*at);
            chart.draw_series(LineSeries::new([(x, up.first), (x, up.last)], grey.mix(0.5)))?;
            let style =
                ("sans-serif", 12).into_text_style(&area).color(&grey).pos(Pos::new(HPos::Left, VPos::Top));
            chart.draw_series([Text::new(letter.clone(), (x, up.last), style)])?;
        }
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let colour = colour_of(colour);
            let places = line.iter().filter(|point| self.can_show(**point));
            let places: Vec<(f64, f64)> =
                places.map(|(x, y)| (across.scale.place(*x), up.scale.place(*y))).collect();
            for piece in pieces(&places) {
                chart.draw_series(LineSeries::new(piece.iter().copied(), colour.stroke_width(2)))?;
            }
            if self.dots {
                chart.draw_series(places.iter().map(|place| Circle::new(*place, 4, colour.filled())))?;
            }
        }
        area.present()?;
        Ok(())
    }
}

fn colour_of(hex: &str) -> RGBColor {
    let part =
        |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("the colours are constant and valid");
    RGBColor(part(1), part(3), part(5))
}

/// Splits a line where nothing was measured: at steps eight times longer than the usual one.
fn pieces(places: &[(f64, f64)]) -> Vec<&[(f64, f64)]> {
    let mut steps: Vec<f64> = places.windows(2).map(|pair| (pair[1].0 - pair[0].0).abs()).collect();
    steps.sort_by(f64::total_cmp);
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(0.0);
    if places.len() < 20 || usual == 0.0 {
        return vec![places];
    }
    places.chunk_by(|one, other| (other.0 - one.0).abs() <= 8.0 * usual).collect()
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.log10(),
            Self::Nines => -(1.0 - value.min(0.999_999)).log10(),
        }
    }
}

#[derive(Clone)]
struct Axis {
    scale: Scale,
    first: f64,
    last: f64,
    ticks: Vec<f64>,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, range: Option<(f64, f64)>) -> Self {
        let places = values.map(|value| scale.place(value));
        let (low, high) = places
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| (low.min(place), high.max(place)));
        let (first, last) = match (scale, range) {
            (_, Some(range)) => range,
            (Scale::Log, None) => ((low - 0.02).floor(), (high + 0.02).ceil()),
            (Scale::Nines, None) => (0.0, high.max(1.0)),
            (Scale::Linear, None) => (low.min(0.0), if high > 0.0 { high * 1.08 } else { 1.0 }),
        };
        let last = if last > first { last } else { first + 1.0 };
        Self { scale, first, last, ticks: ticks(scale, (first, last)) }
    }

    fn label(&self, place: f64) -> String {
        match self.scale {
            Scale::Linear if place.abs() < 1e-9 => "0".to_owned(),
            Scale::Linear if self.last >= 1_000.0 => numbers::count(place),
            Scale::Linear => trimmed(place),
            Scale::Log => trimmed(10_f64.powf(place)),
            Scale::Nines => format!("{} %", trimmed(100.0 * (1.0 - 10_f64.powf(-place)))),
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (place - self.first) / (self.last - self.first);
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.first..self.last
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(place: &f64) -> String {
        trimmed(*place)
    }

    fn format_ext(&self, place: &f64) -> String {
        self.label(*place)
    }
}

fn trimmed(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        return numbers::count(value);
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn ticks(scale: Scale, (first, last): (f64, f64)) -> Vec<f64> {
    if scale != Scale::Linear {
        let (low, high) = (first.ceil() as i32, last.floor() as i32);
        let decades = (low..=high).map(f64::from);
        if scale == Scale::Nines || high - low > 3 {
            return decades.collect();
        }
        let steps = decades.flat_map(|decade| [1.0_f64, 2.0, 5.0].map(|times| decade + times.log10()));
        return steps.filter(|tick| *tick <= last + 1e-9).collect();
    }
    let rough = (last - first) / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|times| times * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let low = (first / step).ceil() as i64;
    let high = (last / step).floor() as i64;
    (low..=high).map(|tick| tick as f64 * step).collect()
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
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_units_and_ticks() {
        let line = vec![(0.0, 0.0), (1.0, 30_000.0), (2.0, 61_000.0)];
        let chart = Chart { across: "t, min", up: "msg/s", lines: vec![line], ..Chart::default() };
        let svg = chart.svg();
        for text in ["t, min", "msg/s", "20,000", "60,000"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
    }

    #[test]
    fn nothing_to_draw_draws_nothing() {
        assert_eq!(Chart::default().svg(), "");
        let chart = Chart { up_scale: Scale::Log, lines: vec![vec![(1.0, 0.0)]], ..Chart::default() };
        assert_eq!(chart.svg(), "");
    }

    #[test]
    fn scales_are_labelled_in_their_own_words() {
        let chart = Chart {
            across_scale: Scale::Nines,
            up_scale: Scale::Log,
            lines: vec![vec![(0.0, 0.2), (0.99, 3.0), (0.9999, 120.0)]],
            ..Chart::default()
        };
        let svg = chart.svg();
        for text in ["90 %", "99.9 %", "0.1", "100"] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }

    #[test]
    fn long_lines_are_thinned() {
        let line: Vec<(f64, f64)> = (0..28_800).map(|second| (f64::from(second), 1.0)).collect();
        assert!(thinned(&line, average).len() <= POINTS_MAX);
    }

    #[test]
    fn gaps_are_not_bridged() {
        let mut line: Vec<(f64, f64)> = (0..30).map(|second| (f64::from(second), 1.0)).collect();
        line.extend((100..130).map(|second| (f64::from(second), 1.0)));
        assert_eq!(pieces(&line).len(), 2);
    }
}
