//! A stream over time, in text.

use crate::experiments::links::account::Summary;

const COLUMNS: usize = 72;
const ROWS: usize = 8;

/// Throughput over time, with the moments at which a link was cut and mended.
pub(crate) fn draw(summary: &Summary) -> String {
    let per_column = summary.series.len().div_ceil(COLUMNS).max(1);
    let columns: Vec<f64> =
        summary.series.chunks(per_column).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64).collect();
    let top = columns.iter().copied().fold(1.0, f64::max);
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let label = if row == ROWS - 1 { format!("{:6.3} GB/s ", top / 1e9) } else { " ".repeat(12) };
        let line: String = columns.iter().map(|value| block(value / top * ROWS as f64 - row as f64)).collect();
        text += &format!("{label}|{}\n", line.trim_end());
    }
    text += &format!("{}0 +{}\n", " ".repeat(10), "-".repeat(columns.len()));
    if let Some(cut) = &summary.cut {
        let column = |ms: u64| (ms as usize / 10 / per_column).min(columns.len());
        let (first, second) = (column(cut.cut_ms), column(cut.mended_ms));
        let between = second.saturating_sub(first + "^ cut".len()).max(1);
        text += &format!("{}^ cut{}^ mended\n", " ".repeat(13 + first), " ".repeat(between));
    }
    text
}

/// A character that is full up to this part.
fn block(part: f64) -> char {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    BLOCKS[(part.clamp(0.0, 1.0) * 8.0).round() as usize]
}
