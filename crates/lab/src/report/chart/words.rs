//! Words in a chart that do not overlap: the room that they take, and where they are placed.

use crate::judge::Text;
use maud::{Markup, html};

/// Font size in pixels.
pub const FONT: f64 = 12.0;

/// Pixels between two words in a line.
const GAP: f64 = 4.0;

/// The side of its position to which a text extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text extends to the right.
    Start,
    /// The text extends to both sides.
    Middle,
    /// The text extends to the left.
    End,
}

/// A rectangle of the chart, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "corners")]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    /// Whether two rectangles overlap.
    pub fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Whether this rectangle contains the other one.
    pub fn holds(&self, other: &Self) -> bool {
        self.left <= other.left
            && other.right <= self.right
            && self.top <= other.top
            && other.bottom <= self.bottom
    }

    /// The square around a point with sides of twice `half`.
    pub fn around((x, y): (f64, f64), half: f64) -> Self {
        Self { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }
}

/// A text with its position; `y` is its base line.
#[derive(Clone, Debug)]
pub struct Word {
    /// The text in both languages.
    pub text: Text,
    /// Position in pixels.
    pub at: (f64, f64),
    /// Side of the position to which the text extends.
    pub anchor: Anchor,
    /// Class in the style sheet.
    pub class: &'static str,
}

impl Word {
    /// The area of the text in the wider of the two languages.
    pub fn area(&self) -> Area {
        let wide = width(&self.text.en).max(width(&self.text.zh));
        let (x, y) = self.at;
        let left = match self.anchor {
            Anchor::Start => x,
            Anchor::Middle => x - wide / 2.0,
            Anchor::End => x - wide,
        };
        Area { left, top: y - FONT * 0.82, right: left + wide, bottom: y + FONT * 0.22 }
    }

    /// The text as SVG.
    pub fn markup(&self) -> Markup {
        let anchor = match self.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (super::short(self.at.0), super::short(self.at.1));
        let Text { en, zh } = &self.text;
        html! {
            @if en == zh { text.(self.class) x=(x) y=(y) text-anchor=(anchor) { (en) } }
            @else {
                text.(self.class).en x=(x) y=(y) text-anchor=(anchor) { (en) }
                text.(self.class).zh x=(x) y=(y) text-anchor=(anchor) { (zh) }
            }
        }
    }
}

/// Estimated width of a text in pixels: letters of a sans-serif font, and full squares for Chinese.
pub fn width(text: &str) -> f64 {
    let of = |letter: char| match letter {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' => 0.34,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        letter if letter.is_ascii_uppercase() => 0.75,
        letter if letter.is_ascii_digit() => 0.64,
        letter if letter.is_ascii() => 0.62,
        'µ' | '–' | '±' | '×' => 0.65,
        _ => 1.05,
    };
    text.chars().map(of).sum::<f64>() * FONT
}

/// The words written so far, and other areas that must not be covered.
#[derive(Debug, Default)]
pub struct Words {
    taken: Vec<Area>,
    words: Vec<Word>,
}

impl Words {
    /// Keeps an area free of words.
    pub fn keep(&mut self, area: Area) {
        self.taken.push(area);
    }

    /// Writes a word at the first of its positions that is free and within the bounds; returns false when there is
    /// none.
    pub fn write(&mut self, within: &Area, places: impl IntoIterator<Item = Word>) -> bool {
        let is_free = |word: &Word| {
            let area = word.area();
            within.holds(&area) && !self.taken.iter().any(|other| other.meets(&area))
        };
        let Some(word) = places.into_iter().find(is_free).filter(|word| !word.text.en.is_empty()) else {
            return false;
        };
        let area = word.area();
        self.taken.push(Area { left: area.left - GAP, right: area.right + GAP, ..area });
        self.words.push(word);
        true
    }

    /// The words written so far.
    pub fn written(&self) -> &[Word] {
        &self.words
    }
}
