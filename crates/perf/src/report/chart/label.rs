//! Texts in charts.

use kuva::render::render::{Primitive, TextAnchor};

use super::style::INK;

/// The width of each chart, in its own units: pixels where a page gives it as much room.
pub(super) const WIDTH: f64 = 760.0;

/// The size of labels.
pub(super) const TEXT: u32 = 14;

/// How wide a text is at most, at the size of labels.
pub(super) fn text_width(text: &str) -> f64 {
    0.62 * f64::from(TEXT) * text.chars().count() as f64
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
