//! Texts in charts.

use kuva::render::render::{Primitive, TextAnchor};

use super::style::INK;

/// The width of each chart, in its own units: pixels where a page gives it as much room.
pub(super) const WIDTH: f64 = 760.0;

/// The size of labels.
pub(super) const TEXT: u32 = 14;

/// How wide a text is at most, at the size of labels.
pub(super) fn text_width(text: &str) -> f64 {
    width_at(TEXT, text)
}

fn width_at(size: u32, text: &str) -> f64 {
    0.62 * f64::from(size) * text.chars().count() as f64
}

/// A text in lines of at most this width each, broken between words; a longer word has a line of its own.
pub(super) fn lines(content: &str, size: u32, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in content.split_whitespace() {
        let line = lines.last_mut().expect("there is always one");
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if line.is_empty() || width_at(size, &longer) <= width {
            *line = longer;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A text at a place.
pub(super) fn text(x: f64, y: f64, content: &str, anchor: TextAnchor) -> Primitive {
    let (content, color) = (plain(content), Some(INK.into()));
    Primitive::Text { x, y, content, size: TEXT, anchor, rotate: None, bold: false, color }
}

/// `kuva` reads text between two dollars as mathematics.
pub(super) fn plain(text: &str) -> String {
    text.replace('$', "\\$")
}

/// A title that begins at a place.
pub(super) fn titled(x: f64, y: f64, content: &str, size: u32) -> Primitive {
    let (content, color) = (plain(content), Some(INK.into()));
    Primitive::Text { x, y, content, size, anchor: TextAnchor::Start, rotate: None, bold: true, color }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_keep_every_word() {
        let long = "added CPU by others, queue posted, receive some bits of the tag, which the same";
        let width = WIDTH - 24.0;
        let broken = lines(long, 17, width);
        assert!(broken.len() == 2 && broken.iter().all(|line| width_at(17, line) <= width), "{broken:?}");
        assert_eq!(broken.join(" "), long);
        assert_eq!(lines("short", 17, width), ["short"]);
        assert_eq!(lines("", 17, width), [""]);
        assert_eq!(lines("a wordwithoutend b", 17, 40.0), ["a", "wordwithoutend", "b"]);
    }
}
