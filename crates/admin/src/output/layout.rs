//! Which columns of a table a terminal has room for, and how wide the columns are.

use super::cells::{Cell, Level};
use ratatui::text::Span;

/// Columns between two columns of a table.
const GAP: usize = 2;
/// Least width to which a column of text is narrowed.
const TEXT_MIN: usize = 16;
/// Names of columns that are left out first.
const LEAST: &str = "since rocketmq unit flag sys_flag language offset_id store_host born_host body_hex log_offset \
    consume_from_where in_sync_epoch master_epoch owner_unknown lag_is_bound in_yesterday \
    out_yesterday in_today out_today version last_updated born_time inflight client_ip properties \
    reconsume_times hours out_day in_day";
/// Names of columns that stay as long as others can go.
const MOST: &str = "error failures finding lag_seconds diff diff_total lag status state alive in_sync value severity \
    meaning";

/// A column: name, title and cells.
pub(super) struct Column {
    pub name: String,
    pub title: String,
    pub cells: Vec<Cell>,
}

impl Column {
    fn natural(&self) -> usize {
        self.cells.iter().map(|cell| width(&cell.text)).max().unwrap_or_default().max(width(&self.title))
    }

    fn is_number(&self) -> bool {
        self.cells.iter().all(|cell| cell.is_number || cell.text.is_empty()) && !self.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.text.is_empty())
    }

    fn is_wrong(&self) -> bool {
        self.cells.iter().any(|cell| cell.level != Level::Plain)
    }

    /// Rank of the column at index `place` of a table. Columns with low ranks are left out first.
    fn rank(&self, place: usize) -> (u8, usize) {
        let least = LEAST.split(' ').position(|name| name == self.name);
        match least {
            _ if place == 0 => (4, 0),
            _ if self.is_wrong() => (3, 0),
            Some(position) => (0, position),
            None if MOST.split(' ').any(|name| name == self.name) => (2, usize::MAX - place),
            None => (1, usize::MAX - place),
        }
    }
}

/// Number of columns of a terminal that a text takes: two for a Chinese letter.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Places and widths of the columns that fit into `room`, and the names of the others. Texts are narrowed before columns are left out.
pub(super) fn fit(columns: &[Column], room: usize) -> (Vec<(usize, usize)>, Vec<String>) {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let mut left_out = Vec::new();
    let total = |kept: &[usize], width: &dyn Fn(usize) -> usize| {
        kept.iter().map(|place| width(*place)).sum::<usize>() + GAP * kept.len().saturating_sub(1)
    };
    let natural: Vec<usize> = columns.iter().map(Column::natural).collect();
    let least = |place: usize| match columns[place].is_number() {
        true => natural[place],
        false => natural[place].min(TEXT_MIN),
    };
    if total(&kept, &|place| natural[place]) > room {
        kept.retain(|place| *place == 0 || !columns[*place].is_empty());
    }
    while kept.len() > 1 && total(&kept, &least) > room {
        let rank = |index: &usize| columns[kept[*index]].rank(kept[*index]);
        let index = (0..kept.len()).min_by_key(rank).expect("more than one");
        left_out.push(columns[kept.remove(index)].name.clone());
    }
    let mut widths: Vec<usize> = kept.iter().map(|place| natural[*place]).collect();
    let mut excess = total(&kept, &|place| natural[place]).saturating_sub(room);
    while excess > 0 {
        let widest = (0..kept.len())
            .filter(|index| widths[*index] > least(kept[*index]))
            .max_by_key(|index| widths[*index]);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
        excess -= 1;
    }
    (kept.into_iter().zip(widths).collect(), left_out)
}

/// The lines of a text in a column, broken at a space or a sign where there is one in the last half of a line.
pub(super) fn wrap(text: &str, room: usize) -> Vec<String> {
    let room = room.max(2);
    let mut lines = vec![String::new()];
    for letter in text.chars() {
        let line = lines.last_mut().expect("not empty");
        if width(line) + width(letter.encode_utf8(&mut [0; 4])) > room {
            let end = line
                .rfind([' ', ',', ';', '/', '-'])
                .map(|at| at + 1)
                .filter(|at| width(&line[..*at]) * 2 > room);
            let rest = line.split_off(end.unwrap_or(line.len()));
            line.truncate(line.trim_end().len());
            lines.push(rest);
        }
        let line = lines.last_mut().expect("not empty");
        if letter != ' ' || !line.is_empty() {
            line.push(letter);
        }
    }
    lines
}

/// The lines of a table with columns of these places and widths.
pub(super) fn lines(
    columns: &[Column],
    shown: &[(usize, usize)],
    paint: impl Fn(&str, Level) -> String,
) -> Vec<String> {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let mut out = vec![head(columns, shown)];
    for row in 0..rows {
        let cells: Vec<(Vec<String>, &Cell, usize)> = shown
            .iter()
            .map(|(place, width)| {
                (wrap(&columns[*place].cells[row].text, *width), &columns[*place].cells[row], *width)
            })
            .collect();
        let height = cells.iter().map(|(lines, ..)| lines.len()).max().unwrap_or(1);
        for line in 0..height {
            let parts = cells.iter().enumerate().map(|(index, (lines, cell, room))| {
                let text = lines.get(line).map_or("", String::as_str);
                let pad = " ".repeat(room.saturating_sub(width(text)));
                let painted = paint(text, cell.level);
                match (cell.is_number, index + 1 == cells.len()) {
                    (true, _) => format!("{pad}{painted}"),
                    (false, true) => painted,
                    (false, false) => format!("{painted}{pad}"),
                }
            });
            out.push(parts.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned());
        }
    }
    out
}

fn head(columns: &[Column], shown: &[(usize, usize)]) -> String {
    let title = |(place, room): &(usize, usize)| {
        let column = &columns[*place];
        let pad = " ".repeat(room.saturating_sub(width(&column.title)));
        let (before, after) = if column.is_number() { (pad.as_str(), "") } else { ("", pad.as_str()) };
        format!("{before}{}{after}", column.title)
    };
    shown.iter().map(title).collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, texts: &[&str]) -> Column {
        let cell = |text: &&str| {
            let is_number = text.parse::<i64>().is_ok();
            Cell { text: (*text).to_owned(), is_number, level: Level::Plain }
        };
        Column { name: name.to_owned(), title: name.to_uppercase(), cells: texts.iter().map(cell).collect() }
    }

    fn shown(columns: &[Column], room: usize) -> (Vec<String>, Vec<String>) {
        let (shown, left_out) = fit(columns, room);
        (lines(columns, &shown, |text, _| text.to_owned()), left_out)
    }

    #[test]
    fn a_table_that_fits_is_whole() {
        let columns = [column("topic", &["One", "Two"]), column("messages", &["5", "12345"])];
        let (lines, left_out) = shown(&columns, 80);
        assert_eq!(lines, ["TOPIC  MESSAGES", "One           5", "Two       12345"]);
        assert!(left_out.is_empty());
    }

    #[test]
    fn a_narrow_terminal_wraps_texts_and_then_leaves_columns_out() {
        let text = "a long text, which has many words and wraps into several lines";
        let columns = [
            column("topic", &["One"]),
            column("language", &["JAVA"]),
            column("flag", &["0"]),
            column("messages", &["5"]),
            column("meaning", &[text]),
        ];
        for room in [30, 45, 60, 79, 120] {
            let (lines, left_out) = shown(&columns, room);
            assert!(lines.iter().all(|line| width(line) <= room), "{room}: {lines:#?}");
            assert!(lines[0].starts_with("TOPIC") && lines[0].contains("MEANING"), "{room}: {lines:#?}");
            assert_eq!(left_out.is_empty(), room >= 60, "{room}: {left_out:?}");
        }
        let (_, left_out) = shown(&columns, 35);
        assert_eq!(left_out, ["flag", "language"], "the least important columns go first");
    }

    #[test]
    fn an_empty_column_goes_before_others_are_narrowed() {
        let columns = [column("topic", &["One"]), column("error", &[""]), column("tags", &["a123456789"])];
        assert_eq!(shown(&columns, 18), (vec!["TOPIC  TAGS".into(), "One    a123456789".into()], vec![]));
    }

    #[test]
    fn chinese_letters_take_two_columns() {
        assert_eq!(width("主题 a"), 6);
        assert_eq!(wrap("消费组消费组", 6), ["消费组", "消费组"]);
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("", 8), [""]);
    }
}
