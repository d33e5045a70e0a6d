//! Tables that line up.

use std::fmt;

/// Which edge of a column its cells touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under headings; each column is as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these headings.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter().map(|(heading, align)| ((*heading).to_owned(), *align)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; cells that are missing stay empty.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<_> = cells.into_iter().collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        self.columns.iter().enumerate().map(|(at, (heading, _))| width(at).max(heading.chars().count())).collect()
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.iter().zip(widths).zip(&self.columns) {
            line.push_str("  ");
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}")),
                Align::Right => line.push_str(&format!("{cell:>width$}")),
            }
        }
        line.trim_end().to_owned()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let headings: Vec<_> = self.columns.iter().map(|(heading, _)| heading.as_str()).collect();
        if headings.iter().any(|heading| !heading.is_empty()) {
            writeln!(f, "{}", self.line(&headings, &widths))?;
        }
        for row in &self.rows {
            let cells: Vec<_> = row.iter().map(String::as_str).collect();
            writeln!(f, "{}", self.line(&cells, &widths))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("size", Align::Right), ("name", Align::Left), ("us", Align::Right)]);
        table.row(["8".into(), "sockets".into(), "3.80".into()]);
        table.row(["1024".into(), "µ".into(), "12.00".into()]);
        table.row(["1".into()]);
        let text = table.to_string();
        assert_eq!(text, "  size  name        us\n     8  sockets   3.80\n  1024  µ        12.00\n     1\n");
    }
}
