//! Tables as `mqadmin` prints them.

use std::fmt::{Display, Write as _};

/// A table: a line of titles, and a line for each row.
pub(crate) struct Table {
    /// Columns such as `{#Topic:<64}`: title, `<` for left or `>` for right, and width. A precision such as `.2` cuts texts
    /// and rounds figures, not titles. Text between columns is printed in each line.
    layout: &'static str,
    /// The lines so far.
    pub text: String,
}

impl Table {
    /// A table without rows.
    pub fn new(layout: &'static str) -> Self {
        let mut table = Self { layout, text: String::new() };
        table.titles();
        table
    }

    /// Adds a line of titles.
    pub fn titles(&mut self) {
        for (title, is_right, width, _, behind) in columns(self.layout) {
            self.add(&title, (is_right, width, usize::MAX), behind);
        }
        self.text.push('\n');
    }

    /// Adds a row. Each column has a cell.
    pub fn row(&mut self, cells: &[&dyn Display]) {
        for ((_, is_right, width, precision, behind), cell) in columns(self.layout).zip(cells) {
            self.add(cell, (is_right, width, precision), behind);
        }
        self.text.push('\n');
    }

    fn add(&mut self, cell: &dyn Display, (is_right, width, precision): (bool, usize, usize), behind: &str) {
        // Writing to a string does not fail.
        let _ = match (is_right, precision) {
            (true, usize::MAX) => write!(self.text, "{cell:>width$}"),
            (true, _) => write!(self.text, "{cell:>width$.precision$}"),
            (false, usize::MAX) => write!(self.text, "{cell:<width$}"),
            (false, _) => write!(self.text, "{cell:<width$.precision$}"),
        };
        self.text.push_str(behind);
    }
}

/// Title, alignment, width and precision of each column, and the text after the column.
fn columns(layout: &'static str) -> impl Iterator<Item = (&'static str, bool, usize, usize, &'static str)> {
    layout.split('{').filter_map(|part| {
        let (column, behind) = part.split_once('}')?;
        let (title, form) = column.rsplit_once(':')?;
        let (width, precision) = form[1..].split_once('.').unwrap_or((&form[1..], ""));
        let precision = precision.parse().unwrap_or(usize::MAX);
        Some((title, form.starts_with('>'), width.parse().ok()?, precision, behind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_rows_have_one_layout() {
        let mut table = Table::new("{#Long title:<4.4}  {#Count:>8}{#TPS:>7.2} {#Last:<0}");
        table.row(&[&"a long text", &7, &1.234, &"x"]);
        table.row(&[&"a", &"", &"", &""]);
        let blank = " ".repeat(21);
        let rows = format!("#Long title    #Count   #TPS #Last\na lo         7   1.23 x\na{blank}\n");
        assert_eq!(table.text, rows);
    }
}
