//! Tables of typed rows, whose columns sort by links. On a narrow screen each row is a card with the names of its columns.

use crate::request::Fields;
use crate::words::Lang;
use maud::{Markup, Render, html};

/// A column of a table.
pub(crate) struct Column {
    label: String,
    is_number: bool,
    /// Link that sorts by the column, and whether the rows are sorted by it, falling or rising.
    sort: Option<(String, Option<&'static str>)>,
}

impl Column {
    /// A column of texts.
    pub fn text(label: &str) -> Self {
        Self { label: label.to_owned(), is_number: false, sort: None }
    }

    /// A column of figures, at the right.
    pub fn number(label: &str) -> Self {
        Self { is_number: true, ..Self::text(label) }
    }

    /// Columns with these titles; `#` before a title stands for a column of figures.
    pub fn all<const N: usize>(lang: Lang, titles: [&str; N]) -> [Self; N] {
        titles.map(|title| match title.strip_prefix('#') {
            Some(title) => Self::number(lang.say(title)),
            None => Self::text(lang.say(title)),
        })
    }

    /// Makes the title a link to `path` that sorts by `key`; a second click turns the order around. `fields` has the order of the
    /// page in `sort`, as `key` or `-key`; without it the page is sorted by `usual`.
    pub fn sorted(self, (path, fields): (&str, &Fields), key: &str, usual: &str) -> Self {
        let present = fields.get("sort").unwrap_or(usual);
        let falling = format!("-{key}");
        let order = match present {
            _ if present == key => Some("ascending"),
            _ if present == falling => Some("descending"),
            _ => None,
        };
        // Figures are of interest from the largest on, names from the first.
        let next = match (order, self.is_number) {
            (Some("descending"), _) | (None, false) => key.to_owned(),
            _ => falling,
        };
        Self { sort: Some((format!("{path}{}", fields.first_with("sort", &next)), order)), ..self }
    }
}

/// A cell that knows the name of its column, for narrow screens.
pub(crate) fn labelled(label: &str, is_number: bool, cell: impl Render) -> Markup {
    html! { td class=[is_number.then_some("number")] data-label=(label) { (cell) } }
}

/// A table of typed rows.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Markup>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub fn row(mut self, cells: impl Into<Vec<Markup>>) -> Self {
        self.rows.push(cells.into());
        self
    }

    /// Adds rows.
    pub fn rows(self, rows: impl IntoIterator<Item = Vec<Markup>>) -> Self {
        rows.into_iter().fold(self, Self::row)
    }

    /// The table, or another markup if the table has no rows.
    pub fn or(self, empty: Markup) -> Markup {
        if self.rows.is_empty() { empty } else { self.render() }
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        let label = self.columns.first().map_or("", |column| &column.label);
        html! {
            div.scroll tabindex="0" role="group" aria-label=(label) {
                table {
                    thead { tr { @for Column { label, is_number, sort } in &self.columns {
                        th.number[*is_number] scope="col" aria-sort=[sort.as_ref().and_then(|it| it.1)] {
                            @match sort {
                                Some((link, order)) => a href=(link) { (label) @match order { Some("ascending") => " ↑", Some(_) => " ↓", None => {} } },
                                None => (label),
                            }
                        }
                    } } }
                    tbody { @for row in &self.rows {
                        tr { @for (column, cell) in self.columns.iter().zip(row) { (labelled(&column.label, column.is_number, cell)) } }
                    } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_sort_and_turn_the_order_around() {
        let link = |query: &str, column: Column| {
            let fields = Fields::parse(query);
            column.sorted(("/topics", &fields), "in", "-in").sort.unwrap()
        };
        let number = |query: &str| link(query, Column::number("In"));
        assert_eq!(number("q=a"), ("/topics?q=a&sort=in".to_owned(), Some("descending")));
        assert_eq!(number("page=3&after=x&sort=in").0, "/topics?sort=-in", "the first page");
        assert_eq!(number("sort=in"), ("/topics?sort=-in".to_owned(), Some("ascending")));
        assert_eq!(number("sort=name"), ("/topics?sort=-in".to_owned(), None));
        assert_eq!(link("sort=name", Column::text("In")), ("/topics?sort=in".to_owned(), None));
    }

    #[test]
    fn cells_know_their_columns_and_texts_are_escaped() {
        let table = Table::new([Column::text("Name"), Column::number("In")]);
        let text = table.row([html! { ("<b>") }, html! { "1" }]).render().into_string();
        assert!(
            text.contains(
                "<td data-label=\"Name\">&lt;b&gt;</td><td class=\"number\" data-label=\"In\">1</td>"
            ),
            "{text}"
        );
        assert_eq!(Table::new([]).or(html! { "none" }).into_string(), "none");
    }
}
