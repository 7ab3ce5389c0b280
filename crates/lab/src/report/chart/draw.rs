//! Draws a chart: bands, grid, lines, and then words where they cover nothing.

use super::words::{Anchor, Area, FONT, Word, Words};
use super::{Axis, COLOURS, Chart, Line, WIDE, short};
use crate::judge::Text;
use maud::{Markup, PreEscaped, html};

/// Pixels left of the plot, for the labels of the vertical axis, and right of it.
const SIDES: (f64, f64) = (66.0, 12.0);

/// Pixels below the plot, for the labels and the name of the horizontal axis.
const BELOW: f64 = 34.0;

/// Height in pixels of a row of words above the plot.
const ROW: f64 = 15.0;

/// Most rows of words for marks above the plot; one row in charts narrower than [`NARROW`].
const ROWS_MAX: usize = 3;

/// Width in pixels below which a chart has little room for words.
const NARROW: f64 = 400.0;

/// Half the width in pixels of a point's shape.
const DOT: f64 = 4.0;

/// A chart whose coordinates are computed.
struct Layout<'a> {
    chart: &'a Chart,
    across: Axis,
    up: Axis,
    size: (f64, f64),
    /// Area of the plot itself.
    plot: Area,
    /// Area of the whole chart.
    whole: Area,
    words: Words,
}

impl Chart {
    /// The chart as SVG; empty when there is nothing to draw.
    pub fn svg(&self) -> Markup {
        if self.is_empty() {
            return html! {};
        }
        Layout::new(self).markup()
    }

    /// The words of the chart with their positions, for tests.
    #[cfg(test)]
    pub fn written(&self) -> Vec<Word> {
        Layout::new(self).words.written().to_vec()
    }
}

impl<'a> Layout<'a> {
    fn new(chart: &'a Chart) -> Self {
        let points: Vec<(f64, f64)> =
            chart.lines.iter().flat_map(|line| chart.shown(line).map(|(_, point)| *point)).collect();
        let across = if chart.levels.is_empty() {
            Axis::new(chart.across_scale, points.iter().map(|point| point.0), chart.range)
        } else {
            Axis::of_levels(&chart.levels)
        };
        let limits = chart.limits.iter().map(|limit| limit.at);
        let heights = points.iter().map(|point| point.1).chain(limits).chain(chart.highest);
        let heights = heights.filter(|height| chart.up_scale.holds(*height));
        let up = Axis::new(chart.up_scale, heights, None);
        let (wide, tall) = if chart.size.0 > 0.0 { chart.size } else { WIDE };
        let rows = usize::from(!chart.bands.is_empty()) + chart.marks.len().min(rows_max(wide));
        // Rows of words above the plot make the chart taller, so that the plot keeps its size.
        let size = (wide, tall + ROW * rows as f64);
        let whole = Area { left: 0.0, top: 0.0, right: size.0, bottom: size.1 };
        let plot = Area {
            left: SIDES.0,
            top: ROW * (1.0 + rows as f64) + 2.0,
            right: size.0 - SIDES.1,
            bottom: size.1 - BELOW,
        };
        let mut layout = Self { chart, across, up, size, plot, whole, words: Words::default() };
        layout.write();
        layout
    }

    fn x(&self, value: f64) -> f64 {
        self.plot.left + self.across.share(value) * (self.plot.right - self.plot.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.plot.bottom - self.up.share(value) * (self.plot.bottom - self.plot.top)
    }

    fn markup(&self) -> Markup {
        let ((wide, tall), plot) = (self.size, &self.plot);
        html! {
            svg.chart.across[wide >= WIDE.0] viewBox=(format!("0 0 {wide} {tall}")) role="img" xmlns="http://www.w3.org/2000/svg"
                data-plot=(format!("{} {} {} {}", plot.left, plot.top, plot.right, plot.bottom))
                data-across=(self.across.described()) data-up=(self.up.described()) {
                (self.bands()) (self.mesh())
                path.axis d=(format!("M{} {}V{}H{}", short(plot.left), short(plot.top), short(plot.bottom), short(plot.right))) {}
                (self.marks())
                @for (index, line) in self.chart.lines.iter().enumerate() { (self.line(index, line)) }
                @for word in self.words.written() { (word.markup()) }
            }
        }
    }

    fn bands(&self) -> Markup {
        let (top, tall) = (short(self.plot.top), short(self.plot.bottom - self.plot.top));
        html! {
            @for band in &self.chart.bands {
                @let (from, to) = (self.x(band.from), self.x(band.to));
                rect.band.(band.class) x=(short(from)) y=(top) width=(short((to - from).max(0.5))) height=(tall) { title { (band.name.en) " · " (band.name.zh) } }
            }
        }
    }

    fn mesh(&self) -> Markup {
        let (left, right) = (short(self.plot.left), short(self.plot.right));
        let ys =
            self.up.ticks().map(|(share, _)| self.plot.bottom - share * (self.plot.bottom - self.plot.top));
        let (top, bottom) = (short(self.plot.top), short(self.plot.bottom));
        let xs =
            self.across.ticks().map(|(share, _)| self.plot.left + share * (self.plot.right - self.plot.left));
        let lines = ys.map(|y| format!("M{left} {}H{right}", short(y)));
        let path: String = lines.chain(xs.map(|x| format!("M{} {top}V{bottom}", short(x)))).collect();
        html! { path.mesh d=(path) {} }
    }

    fn marks(&self) -> Markup {
        let (top, bottom) = (short(self.plot.top), short(self.plot.bottom));
        let (left, right) = (short(self.plot.left), short(self.plot.right));
        html! {
            @for mark in &self.chart.marks {
                path.mark d=(format!("M{} {top}V{bottom}", short(self.x(mark.at)))) { title { (mark.name.en) " · " (mark.name.zh) } }
            }
            @for limit in &self.chart.limits {
                path.limit d=(format!("M{left} {}H{right}", short(self.y(limit.at)))) { title { (limit.name.en) " · " (limit.name.zh) } }
            }
        }
    }

    fn line(&self, index: usize, line: &Line) -> Markup {
        let places: Vec<(usize, (f64, f64))> =
            self.chart.shown(line).map(|(at, (x, y))| (at, (self.x(*x), self.y(*y)))).collect();
        let path: String =
            line.points.split(|point| !point.1.is_finite()).map(|part| self.path(part)).collect();
        html! {
            g.line.(class(index)) data-en=(line.name.en) data-zh=(line.name.zh) {
                path d=(path) {}
                @if self.chart.dots {
                    @for (at, place) in &places {
                        path.dot d=(dot(index, *place)) {
                            @if let Some(label) = line.labels.get(*at) { title { (line.name.en) ": " (label.en) } }
                        }
                    }
                }
            }
        }
    }

    /// The path of a part of a line, interrupted where nothing was measured.
    fn path(&self, part: &[(f64, f64)]) -> String {
        let (across, up) = (self.chart.across_scale, self.chart.up_scale);
        let shown = part.iter().filter(|(x, y)| across.holds(*x) && up.holds(*y));
        let places: Vec<(f64, f64)> = shown.map(|(x, y)| (self.x(*x), self.y(*y))).collect();
        let point = |(x, y): &(f64, f64)| format!("{} {}", short(*x), short(*y));
        let piece =
            |piece: &[(f64, f64)]| format!("M{}", piece.iter().map(point).collect::<Vec<_>>().join("L"));
        pieces(&places).into_iter().filter(|places| !places.is_empty()).map(piece).collect()
    }

    /// Places every word: first those of the axes, then names of bands, marks and limits, then labels of points.
    fn write(&mut self) {
        self.write_axes();
        self.write_bands();
        self.write_marks();
        self.write_limits();
        if self.chart.dots {
            self.write_points();
        }
    }

    fn write_axes(&mut self) {
        let word = |text: String, at, anchor| Word { text: Text::same(text), at, anchor, class: "tick" };
        let plot = self.plot;
        let name =
            Word { text: self.chart.up.clone(), at: (2.0, FONT), anchor: Anchor::Start, class: "name" };
        self.words.write(&self.whole, [name]);
        let middle = (plot.left + plot.right) / 2.0;
        let name = Word {
            text: self.chart.across.clone(),
            at: (middle, self.size.1 - 4.0),
            anchor: Anchor::Middle,
            class: "name",
        };
        self.words.write(&self.whole, [name]);
        for (share, label) in self.across.ticks().collect::<Vec<_>>() {
            let x = plot.left + share * (plot.right - plot.left);
            let ends = [(x, Anchor::Middle), (self.whole.right, Anchor::End)];
            let fits = ends.into_iter().filter(|(_, anchor)| *anchor == Anchor::Middle || share > 0.97);
            let y = plot.bottom + FONT + 2.0;
            self.words.write(&self.whole, fits.map(|(x, anchor)| word(label.clone(), (x, y), anchor)));
        }
        for (share, label) in self.up.ticks().collect::<Vec<_>>() {
            let y = plot.bottom - share * (plot.bottom - plot.top);
            self.words.write(&self.whole, [word(label, (plot.left - 6.0, y + FONT * 0.35), Anchor::End)]);
        }
    }

    /// Writes the names of bands in the row above the plot, where the bands are wide enough.
    fn write_bands(&mut self) {
        for band in self.chart.bands.clone() {
            let (from, to) = (self.x(band.from), self.x(band.to));
            let within = Area { left: from, right: to, ..self.whole };
            let at = ((from + to) / 2.0, self.plot.top - 4.0);
            self.words
                .write(&within, [Word { text: band.name, at, anchor: Anchor::Middle, class: "band-name" }]);
        }
    }

    /// Writes the names of marks in the rows above those of bands. A name without room is only in the tooltip of its
    /// line.
    fn write_marks(&mut self) {
        let first = usize::from(!self.chart.bands.is_empty());
        for mark in self.chart.marks.clone() {
            let (x, top) = (self.x(mark.at), self.plot.top);
            let rows = (first..first + rows_max(self.size.0)).map(|row| top - 4.0 - ROW * row as f64);
            let places = rows.flat_map(|y| {
                [(x + 3.0, Anchor::Start), (x, Anchor::Middle), (x - 3.0, Anchor::End)]
                    .map(|(x, anchor)| ((x, y), anchor))
            });
            let text = mark.name;
            let word = |(at, anchor)| Word { text: text.clone(), at, anchor, class: "mark-name" };
            self.words.write(&self.whole, places.map(word));
        }
    }

    /// Writes the names of limits at their lines, at the end that is free: above the line for the highest limit, below
    /// it for others.
    fn write_limits(&mut self) {
        self.keep_dots();
        let mut limits = self.chart.limits.clone();
        limits.sort_by(|one, other| other.at.total_cmp(&one.at));
        for (place, limit) in limits.into_iter().enumerate() {
            let y = self.y(limit.at);
            let ends = [(self.plot.left + 6.0, Anchor::Start), (self.plot.right - 6.0, Anchor::End)];
            let mut sides = [y - 4.0, y + FONT];
            if place > 0 {
                sides.reverse();
            }
            let places = sides.into_iter().flat_map(|y| ends.map(|(x, anchor)| ((x, y), anchor)));
            let text = limit.name;
            let word = |(at, anchor)| Word { text: text.clone(), at, anchor, class: "limit-name" };
            self.words.write(&self.whole, places.map(word));
        }
    }

    fn keep_dots(&mut self) {
        let chart = self.chart;
        if chart.dots {
            for (_, (x, y)) in chart.lines.iter().flat_map(|line| chart.shown(line)) {
                let place = (self.x(*x), self.y(*y));
                self.words.keep(Area::around(place, DOT));
            }
        }
    }

    /// Writes the labels of points above, below or beside them. A label without room is only in the tooltip of its
    /// point.
    fn write_points(&mut self) {
        let chart = self.chart;
        for (index, line) in chart.lines.iter().enumerate() {
            for (at, (x, y)) in chart.shown(line) {
                let Some(text) = line.labels.get(at) else { continue };
                let (x, y) = (self.x(*x), self.y(*y));
                let (over, under) = (y - DOT - 3.0, y + DOT + FONT);
                let (left, right) = (x - DOT - 3.0, x + DOT + 3.0);
                let places = [
                    ((x, over), Anchor::Middle),
                    ((x, under), Anchor::Middle),
                    ((left, over), Anchor::End),
                    ((right, under), Anchor::Start),
                    ((right, over), Anchor::Start),
                    ((left, under), Anchor::End),
                    ((right, y + FONT * 0.35), Anchor::Start),
                    ((left, y + FONT * 0.35), Anchor::End),
                ];
                let word =
                    |(at, anchor)| Word { text: text.clone(), at, anchor, class: LABELS[index % COLOURS] };
                let within = Area { bottom: self.plot.bottom, ..self.whole };
                self.words.write(&within, places.map(word));
            }
        }
    }
}

/// Number of rows of words for marks in a chart of this width.
fn rows_max(wide: f64) -> usize {
    if wide < NARROW { 1 } else { ROWS_MAX }
}

/// Classes of the labels of points, which have the colour of their line.
const LABELS: [&str; COLOURS] =
    ["label c0", "label c1", "label c2", "label c3", "label c4", "label c5", "label c6"];

/// Classes for the colour and dashes of a line. When there are more lines than colours, the dashes differ.
fn class(index: usize) -> String {
    format!("c{} d{}", index % COLOURS, (index + index / COLOURS) % COLOURS)
}

/// SVG of the shape of a line's point.
fn dot(index: usize, (x, y): (f64, f64)) -> String {
    let (x, y) = (short(x), short(y));
    let shape = match index % COLOURS {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
        1 => "m-3.5 -3.5h7v7h-7z",
        2 => "m0 -5l5 5l-5 5l-5 -5z",
        3 => "m0 -4.5l4.5 8h-9z",
        4 => "m0 4.5l4.5 -8h-9z",
        5 => "m-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
        _ => "m-4.5 -1.5h9v3h-9z",
    };
    format!("M{x} {y}{shape}")
}

/// SVG of the key of a line in a legend.
pub fn key(index: usize, dots: bool) -> Markup {
    html! {
        svg.key viewBox="0 0 30 12" width="30" height="12" aria-hidden="true" {
            g.line.(class(index)) {
                path d="M1 6L29 6" {}
                @if dots { path.dot d=(PreEscaped(dot(index, (15.0, 6.0)))) {} }
            }
        }
    }
}

/// Splits a line where nothing was measured: at steps more than eight times as long as the usual one.
pub(super) fn pieces(places: &[(f64, f64)]) -> Vec<&[(f64, f64)]> {
    let mut steps: Vec<f64> = places.windows(2).map(|pair| (pair[1].0 - pair[0].0).abs()).collect();
    steps.sort_by(f64::total_cmp);
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(0.0);
    if places.len() < 20 || usual == 0.0 {
        return vec![places];
    }
    places.chunk_by(|one, other| (other.0 - one.0).abs() <= 8.0 * usual).collect()
}
