//! Tables that line up.

use std::fmt;

/// Which edge of a column its cells touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under headings; each column is as wide as its widest cell.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    fold: Option<(usize, usize)>,
}

impl Table {
    /// An empty table with these headings.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter().map(|(heading, align)| ((*heading).to_owned(), *align)).collect();
        Self { columns, rows: Vec::new(), fold: None }
    }

    /// The same, which is [`folded`](Self::folded) where it is shown.
    #[must_use]
    pub fn fold(self, keys: usize, width: usize) -> Self {
        Self { fold: Some((keys, width)), ..self }
    }

    /// Adds a row; cells that are missing stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<_> = cells.into_iter().collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        self.columns.iter().enumerate().map(|(at, (heading, _))| width(at).max(heading.chars().count())).collect()
    }

    /// As it is where it fits into `width`, and else in parts, one below the other, each with the first `keys` columns
    /// and as many others as fit. A part has at least one column of its own, however wide.
    pub fn folded(&self, keys: usize, width: Option<usize>) -> String {
        let widths = self.widths();
        let taken = |columns: &[usize]| columns.iter().map(|column| widths[*column] + GAP.len()).sum::<usize>();
        let head: Vec<_> = (0..keys.min(widths.len())).collect();
        let mut parts = vec![head.clone()];
        for column in head.len()..widths.len() {
            let part = &parts[parts.len() - 1];
            let is_full = width.is_some_and(|most| taken(part) + taken(&[column]) > most);
            if is_full && part.len() > head.len() {
                parts.push(head.clone());
            }
            parts.last_mut().expect("there is one").push(column);
        }
        parts.iter().map(|part| self.part(part, &widths)).collect()
    }

    /// Some of the columns.
    fn part(&self, columns: &[usize], widths: &[usize]) -> String {
        let mut text = String::new();
        let headings: Vec<_> = self.columns.iter().map(|(heading, _)| heading.as_str()).collect();
        if columns.iter().any(|column| !headings[*column].is_empty()) {
            text.push_str(&self.line(&headings, columns, widths));
        }
        for row in &self.rows {
            let cells: Vec<_> = row.iter().map(String::as_str).collect();
            text.push_str(&self.line(&cells, columns, widths));
        }
        text
    }

    fn line(&self, cells: &[&str], columns: &[usize], widths: &[usize]) -> String {
        let mut line = String::new();
        for column in columns {
            let (cell, width) = (cells[*column], widths[*column]);
            line.push_str(GAP);
            match self.columns[*column].1 {
                Align::Left => line.push_str(&format!("{cell:<width$}")),
                Align::Right => line.push_str(&format!("{cell:>width$}")),
            }
        }
        format!("{}\n", line.trim_end())
    }
}

/// Before each column.
const GAP: &str = "  ";

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, width) = self.fold.map_or((0, None), |(keys, width)| (keys, Some(width)));
        f.write_str(&self.folded(keys, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_goes_on_below() {
        let mut table = Table::new(&[("rail", Align::Right), ("out", Align::Right), ("from", Align::Left)]);
        table.row(["0".into(), "12".into(), "10.0.0.1:7".into()]);
        table.row(["1".into(), "3".into(), "10.0.0.2:7".into()]);
        let whole = "  rail  out  from\n     0   12  10.0.0.1:7\n     1    3  10.0.0.2:7\n";
        assert_eq!(table.folded(1, None), whole);
        assert_eq!(table.folded(1, Some(23)), whole);
        let parts = "  rail  out\n     0   12\n     1    3\n  rail  from\n     0  10.0.0.1:7\n     1  10.0.0.2:7\n";
        assert_eq!(table.folded(1, Some(22)), parts);
        assert_eq!(table.folded(1, Some(1)), parts, "no column is left out");
    }

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
