//! Draws a sample as the view shows it.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Row, Table, TableState};

use super::sample::Sample;
use super::screen::{Cell, Column, Screen};
use super::view::{Input, View};
use crate::text::span;
use crate::{Health, Lang};

pub(crate) const HELP: &str = "\
 1 to 5, Tab   overview, topics, groups, queues, clients
 / TEXT        only rows with this text; Esc shows all again
 < >           sort by the column to the left or right
 r             sort the other way round
 up down j k   mark a row; PageUp, PageDown, Home, End too
 Enter         the queues of the marked topic or group
 p             pause
 : COMMAND     a screen's name, sort COLUMN, filter TEXT, help, quit
 q             end

 Rates are messages per second between the last two looks; those of
 groups means of ten seconds, since groups commit every five. BEHIND
 says how long ago the last consumed message was stored, where messages
 are left. A dash: not known yet; topics without groups and members of
 groups are asked a few at a time.";

pub(crate) const HINTS: &str =
    " / filter   < > sort   r reverse   Enter queues   : command   ? help   q quit";

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, sample: &Sample, view: &View) {
    let lines = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)];
    let [head, tabs, body, foot] = Layout::vertical(lines).areas(frame.area());
    frame.render_widget(Paragraph::new(title(sample, view)).style(bold()), head);
    frame.render_widget(Paragraph::new(screens(view)), tabs);
    if view.is_help {
        frame.render_widget(Clear, body);
        frame.render_widget(Paragraph::new(view.lang.say(HELP)), body);
    } else {
        table(frame, body, sample, view);
    }
    frame.render_widget(Paragraph::new(footer(sample, view)).style(reversed()), foot);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn title(sample: &Sample, view: &View) -> String {
    if sample.time.is_empty() {
        return format!(" vostok top   {}", view.lang.say("asking the cluster ..."));
    }
    let rate = |rate| Cell::Rate(Some(rate)).show();
    let (put, got) = (rate(sample.in_tps), rate(sample.out_tps));
    let lag = Cell::Count(Some(sample.lag)).show();
    let say = |english| view.lang.say(english);
    let paused = if view.is_paused { format!("   {}", say("paused")) } else { String::new() };
    let health = health_text(&sample.health, sample.at_ms, view.lang);
    // 80 columns have room for the time of day.
    let time = sample.time.get(11..19).unwrap_or_default();
    let (into, out, behind) = (say("in"), say("out"), say("lag"));
    format!(" vostok top   {health}   {into} {put}/s   {out} {got}/s   {behind} {lag}   {time}Z{paused}")
}

/// Health of the cluster in one word, with the age of the verdict.
fn health_text(health: &Health, now_ms: i64, lang: Lang) -> String {
    match health.taken_at_ms {
        0 => lang.say("health unknown").to_owned(),
        taken_ms => {
            let age = span((now_ms - taken_ms).max(0) / 1000);
            format!("{} ({})", health.level.name(lang), lang.pick(format!("{age} ago"), format!("{age}前")))
        }
    }
}

fn screens(view: &View) -> Line<'static> {
    let tab = |(number, screen): (usize, Screen)| {
        let style = if screen == view.screen { reversed() } else { Style::new() };
        [Span::styled(format!(" {} {} ", number + 1, view.lang.say(screen.name())), style), Span::raw(" ")]
    };
    Screen::ALL.into_iter().enumerate().flat_map(tab).collect::<Vec<_>>().into()
}

fn table(frame: &mut Frame<'_>, area: Rect, sample: &Sample, view: &View) {
    let (columns, rows, sort) = (view.screen.columns(), view.rows(sample), view.sort());
    let width = |column: &Column| match column.width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    };
    let heads = columns.iter().enumerate().map(|(index, column)| {
        let style = if index == sort.column { bold().add_modifier(Modifier::UNDERLINED) } else { bold() };
        aligned(column, view.lang.say(column.title).to_owned()).style(style)
    });
    let marked = view.marked.min(rows.len().saturating_sub(1));
    // Only rows around the marked one can be seen; text is made for those alone.
    let from = marked.saturating_sub(area.height.into());
    let seen = rows.iter().skip(from).take(2 * usize::from(area.height));
    let seen =
        seen.map(|row| Row::new(row.iter().zip(columns).map(|(cell, column)| aligned(column, cell.show()))));
    let table = Table::new(seen, columns.iter().map(width))
        .header(Row::new(heads))
        .column_spacing(1)
        .row_highlight_style(reversed());
    let mut state = TableState::new().with_selected((!rows.is_empty()).then_some(marked - from));
    frame.render_stateful_widget(table, area, &mut state);
}

fn aligned(column: &Column, text: String) -> Line<'static> {
    Line::from(text).alignment(if column.is_number { Alignment::Right } else { Alignment::Left })
}

fn footer(sample: &Sample, view: &View) -> String {
    match &view.input {
        Some(Input::Filter) => return format!(" /{}", view.filter),
        Some(Input::Command(text)) => return format!(" :{text}"),
        None => {}
    }
    let errors = sample.brokers.iter().filter_map(|row| row.error.as_ref()).chain(&sample.errors);
    if !view.notice.is_empty() {
        format!(" {}", view.notice)
    } else if let Some(error) = errors.into_iter().next() {
        format!(" {error}")
    } else if !view.filter.is_empty() {
        let (only, all) = (view.lang.say("only rows with"), view.lang.say("Esc shows all"));
        format!(" {only} {:?}; {all}", view.filter)
    } else {
        view.lang.say(HINTS).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use crate::Level;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::super::sample::{History, tests::look};
    use super::*;

    /// The lines of a terminal of 80x24 after these keys.
    fn lines(keys: &str, sample: &Sample) -> Vec<String> {
        let mut view = View::new(crate::Lang::En);
        keys.chars().for_each(|key| _ = view.key(KeyCode::Char(key), sample));
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, sample, &view)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |row| (0..80).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        (0..24).map(|row| line(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn health_is_shown_with_its_age() {
        let health = Health { level: Level::Warning, critical: 0, warnings: 2, taken_at_ms: 1000 };
        assert_eq!(health_text(&health, 6999, Lang::En), "warning (5s ago)");
        assert_eq!(health_text(&Health::default(), 6999, Lang::En), "health unknown");
    }

    fn sample() -> Sample {
        let mut history = History::default();
        history.take(look(1000, 300));
        history.take(look(2000, 900))
    }

    #[test]
    fn the_overview_shows_brokers_and_what_is_wrong() {
        let found = lines("", &sample());
        assert!(found[0].ends_with("in 600/s   out 0.0/s   lag 300   00:00:02Z"), "{}", found[0]);
        assert_eq!(found[1], " 1 overview   2 topics   3 groups   4 queues   5 clients");
        assert_eq!(
            found[2],
            "BROKER        ID ADDRESS               VERSION      IN/S    OUT/S    TODAY  DISK"
        );
        assert_eq!(
            found[3],
            "broker-a       0 10.0.0.1:10911        V5_5_0        600      0.0      900   25%"
        );
        assert!(found[4].starts_with("broker-a       1 10.0.0.2:10911        no answ"), "{}", found[4]);
        assert_eq!(found[23], " no answer");
    }

    #[test]
    fn topics_groups_queues_and_clients_fit() {
        let mut sample = sample();
        sample.brokers.pop();
        let topics = lines("2", &sample);
        assert_eq!(
            topics[2],
            "TOPIC                QUEUES  MESSAGES     IN/S    OUT/S  GROUPS      LAG  BEHIND"
        );
        assert_eq!(
            topics[3],
            "Audit                     1      1800     1200        -       0        0       -"
        );
        assert_eq!(
            topics[4],
            "Orders                    2      1800     1200     1600       2      300      5m"
        );
        assert_eq!(topics[23], HINTS);
        let groups = lines("3", &sample);
        assert_eq!(
            groups[3],
            "Billing                                      1       1     1000      300      5m"
        );
        let queues = lines("4", &sample);
        let words: Vec<_> = queues[3].split_whitespace().collect();
        assert_eq!(words, ["Orders", "broker-a", "0", "Billing", "600", "400", "300", "5m"]);
        let clients = lines("5", &sample);
        assert!(clients[3].starts_with("consumer Billing"), "{}", clients[3]);
        let help = lines("?", &sample);
        assert!(help[2].contains("overview, topics") && help.iter().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn what_is_typed_is_seen() {
        let found = lines("2/ord", &sample());
        assert_eq!((found[3].split(' ').next(), found[4].as_str()), (Some("Orders"), ""));
        assert_eq!(found[23], " /ord");
        assert_eq!(lines(":so", &sample())[23], " :so");
    }

    #[test]
    fn before_the_first_answer_and_in_a_long_table_there_is_a_picture() {
        assert_eq!(lines("", &Sample::default())[0], " vostok top   asking the cluster ...");
        let mut many = sample();
        let row = many.topics[0].clone();
        many.topics = (0..1000)
            .map(|number| super::super::sample::TopicRow { topic: format!("T{number:03}"), ..row.clone() })
            .collect();
        let down = "j".repeat(500);
        let found = lines(&format!("2{down}"), &many);
        assert!(found.iter().any(|line| line.starts_with("T500")), "{found:?}");
    }
}
