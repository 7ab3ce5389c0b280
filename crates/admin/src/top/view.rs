//! State that the keys change: the screen, the filter, the order of rows, the row that is marked.

use ratatui::crossterm::event::KeyCode;

use super::sample::Sample;
use super::screen::{Cell, Screen};
use crate::Lang;

/// Rows by which the page keys move.
const PAGE: usize = 15;

/// Input that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Filter,
    Command(String),
}

/// Order of rows: by which column, and whether against the column's usual direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub column: usize,
    pub is_reversed: bool,
}

/// Visible part of a sample.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub screen: Screen,
    /// Only rows with this in one of their texts are shown.
    pub filter: String,
    /// The marked row, counted from the first one shown.
    pub marked: usize,
    pub input: Option<Input>,
    pub is_help: bool,
    /// Whether new samples are not shown.
    pub is_paused: bool,
    /// Error of the last command; empty without one.
    pub notice: String,
    sorts: [Sort; Screen::ALL.len()],
    /// Language of titles and help.
    pub lang: Lang,
}

impl View {
    pub fn new(lang: Lang) -> Self {
        let sorts = Screen::ALL.map(|screen| Sort { column: screen.first_sort(), is_reversed: false });
        Self {
            screen: Screen::Overview,
            filter: String::new(),
            marked: 0,
            input: None,
            is_help: false,
            is_paused: false,
            notice: String::new(),
            sorts,
            lang,
        }
    }

    pub fn sort(&self) -> Sort {
        self.sorts[self.screen as usize]
    }

    /// The rows that are shown, in their order.
    pub fn rows(&self, sample: &Sample) -> Vec<Vec<Cell>> {
        let mut rows = self.screen.rows(sample);
        let part = self.filter.to_lowercase();
        rows.retain(|row| row.iter().any(|cell| cell.contains(&part)));
        let Sort { column, is_reversed } = self.sort();
        let is_falling = self.screen.columns()[column].is_number != is_reversed;
        rows.sort_by(|one, other| {
            let order = one[column].order(&other[column]);
            if is_falling { order.reverse() } else { order }
        });
        rows
    }

    /// Handles a key. Returns true when the program is to end.
    pub fn key(&mut self, key: KeyCode, sample: &Sample) -> bool {
        if self.input.is_some() {
            return self.type_key(key);
        }
        self.notice.clear();
        if std::mem::take(&mut self.is_help) {
            return key == KeyCode::Char('q');
        }
        match key {
            KeyCode::Char('q') => return true,
            KeyCode::Char('?') => self.is_help = true,
            KeyCode::Char('/') => self.input = Some(Input::Filter),
            KeyCode::Char(':') => self.input = Some(Input::Command(String::new())),
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('r') => self.sorts[self.screen as usize].is_reversed ^= true,
            KeyCode::Char('<') | KeyCode::Left => self.sort_by_next(false),
            KeyCode::Char('>') | KeyCode::Right => self.sort_by_next(true),
            KeyCode::Char(digit @ '1'..='5') => self.show(Screen::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => self.show(Screen::ALL[(self.screen as usize + 1) % Screen::ALL.len()]),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Enter => self.open(sample),
            _ => self.move_mark(key, self.rows(sample).len()),
        }
        false
    }

    /// Shows another screen.
    fn show(&mut self, screen: Screen) {
        self.screen = screen;
        self.marked = 0;
    }

    fn sort_by_next(&mut self, is_right: bool) {
        let count = self.screen.columns().len();
        let step = if is_right { 1 } else { count - 1 };
        let sort = &mut self.sorts[self.screen as usize];
        *sort = Sort { column: (sort.column + step) % count, is_reversed: false };
    }

    fn move_mark(&mut self, key: KeyCode, count: usize) {
        let last = count.saturating_sub(1);
        self.marked = match key {
            KeyCode::Up | KeyCode::Char('k') => self.marked.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.marked + 1,
            KeyCode::PageUp => self.marked.saturating_sub(PAGE),
            KeyCode::PageDown => self.marked + PAGE,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => self.marked,
        }
        .min(last);
    }

    /// Shows the queues of the marked topic or group.
    fn open(&mut self, sample: &Sample) {
        if !matches!(self.screen, Screen::Topics | Screen::Groups) {
            return;
        }
        if let Some(Cell::Text(name)) = self.rows(sample).get(self.marked).and_then(|row| row.first()) {
            self.filter.clone_from(name);
            self.show(Screen::Queues);
        }
    }

    /// A key while a filter or a command is typed.
    fn type_key(&mut self, key: KeyCode) -> bool {
        let text = match &mut self.input {
            Some(Input::Command(text)) => text,
            _ => &mut self.filter,
        };
        match key {
            KeyCode::Char(letter) => text.push(letter),
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Esc => {
                text.clear();
                self.input = None;
            }
            KeyCode::Enter => {
                if let Some(Input::Command(command)) = self.input.take() {
                    return self.command(command.trim());
                }
            }
            _ => {}
        }
        self.marked = 0;
        false
    }

    /// Performs a command. Returns true when the program is to end.
    fn command(&mut self, command: &str) -> bool {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        let is_begin = |name: &str| !word.is_empty() && name.starts_with(word);
        if let Some(screen) = Screen::ALL.into_iter().find(|screen| is_begin(screen.name())) {
            self.show(screen);
            return false;
        }
        match word {
            "quit" | "q" => return true,
            "help" => self.is_help = true,
            "filter" => rest.trim().clone_into(&mut self.filter),
            "sort" => {
                let title = rest.trim().to_uppercase();
                let found = self.screen.columns().iter().position(|column| column.title == title);
                match found {
                    Some(column) => self.sorts[self.screen as usize] = Sort { column, is_reversed: false },
                    None => self.notice = format!("no column {title}"),
                }
            }
            "" => {}
            _ => self.notice = format!("no command {word}"),
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{History, tests::look};
    use super::*;

    fn sample() -> Sample {
        let mut history = History::default();
        history.take(look(1000, 300));
        history.take(look(2000, 600))
    }

    /// The view after these keys; `\n` is Enter, `\t` Tab, `\x1b` Escape, `\x08` Backspace.
    fn after(keys: &str) -> View {
        let (mut view, sample) = (View::new(Lang::En), sample());
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                letter => KeyCode::Char(letter),
            };
            assert!(!view.key(code, &sample), "{keys} ends the program at {key}");
        }
        view
    }

    fn names(keys: &str) -> String {
        let rows = after(keys).rows(&sample());
        let names = rows.iter().map(|row| row[0].show());
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rows_are_sorted_and_filtered() {
        assert_eq!(names("2"), "Audit Orders Never", "by rate, what is not known last");
        assert_eq!(names("2r"), "Never Audit Orders");
        assert_eq!(names("2<<<"), "Audit Never Orders", "by name");
        assert_eq!(names("2:sort lag\n"), "Orders Audit Never");
        assert_eq!(names("2/ord\n"), "Orders");
        assert_eq!(names("2/ord\x08\x08\x08r\n"), "Orders Never", "those with an r");
        assert_eq!(names("2/ord\n\x1b"), "Audit Orders Never");
        assert_eq!(names("3"), "Billing Idle Mail");
    }

    #[test]
    fn keys_and_commands_choose_the_screen() {
        assert_eq!(after("\t\t").screen, Screen::Groups);
        assert_eq!(after(":cl\n").screen, Screen::Clients);
        assert_eq!(after("5:overview\n").screen, Screen::Overview);
        assert_eq!(after(":fly\n").notice, "no command fly");
        assert_eq!(after(":sort fly\n").notice, "no column FLY");
        assert!(after("?").is_help && !after("??").is_help);
        for keys in ["q", "?q"] {
            let mut view = View::new(Lang::En);
            let end = keys.chars().map(|key| view.key(KeyCode::Char(key), &sample())).last();
            assert_eq!(end, Some(true), "{keys}");
        }
    }

    #[test]
    fn enter_shows_the_queues_of_the_marked_row() {
        let view = after("3\n");
        assert_eq!((view.screen, view.filter.as_str()), (Screen::Queues, "Billing"));
        assert_eq!(view.rows(&sample()).len(), 2);
        let view = after("2j\n");
        assert_eq!((view.filter.as_str(), view.rows(&sample()).len()), ("Orders", 3));
        assert_eq!(after("2jjjjj").marked, 2, "the last one");
    }
}
