//! Text inside of HTML and SVG.

/// A text as content of an element, or of an attribute between quotation marks.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(letter),
            // Neither HTML nor XML has these.
            control if control.is_control() => escaped.push('\u{fffd}'),
            plain => escaped.push(plain),
        }
    }
    escaped
}

/// An element around markup.
pub(super) fn tag(name: &str, content: &str) -> String {
    format!("<{name}>{content}</{name}>")
}

/// An element with attributes, which are written as they are.
pub(super) fn element(name: &str, attributes: &str, content: &str) -> String {
    format!("<{name} {attributes}>{content}</{name}>")
}

/// A link with a text.
pub(super) fn link(target: &str, text: &str) -> String {
    element("a", &format!("href=\"{}\"", escape(target)), &escape(text))
}

/// Content that is hidden until its summary is opened.
pub(super) fn details(is_open: bool, summary: &str, content: &str) -> String {
    let open = if is_open { " open=\"open\"" } else { "" };
    format!("<details{open}><summary>{}</summary>{content}</details>\n", escape(summary))
}

/// The head of a column.
#[derive(Clone, Debug)]
pub(super) struct Head {
    text: String,
    attributes: &'static str,
}

impl Head {
    /// Of a column of words.
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), attributes: "scope=\"col\"" }
    }

    /// Of a column of numbers.
    pub(super) fn number(text: impl Into<String>) -> Self {
        Self { text: text.into(), attributes: "scope=\"col\" class=\"number\"" }
    }
}

/// A table, which scrolls where it is too wide. The cells are elements: `<td>` or `<th>`.
pub(super) fn table(caption: &str, heads: &[Head], rows: &[Vec<String>]) -> String {
    let head: String = heads.iter().map(|head| element("th", head.attributes, &escape(&head.text))).collect();
    let body: String = rows.iter().map(|row| tag("tr", &row.concat()) + "\n").collect();
    let table = tag("caption", &escape(caption)) + &tag("thead", &tag("tr", &head)) + &tag("tbody", &body);
    let attributes = format!("class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"", escape(caption));
    element("div", &attributes, &tag("table", &table)) + "\n"
}

/// A cell with a number.
pub(super) fn number(text: &str) -> String {
    element("td", "class=\"number\"", &escape(text))
}

/// A cell with words.
pub(super) fn cell(text: &str) -> String {
    tag("td", &escape(text))
}

/// The cell that names a row.
pub(super) fn head(text: &str) -> String {
    element("th", "scope=\"row\"", &escape(text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_ends_an_element_or_an_attribute() {
        assert_eq!(super::escape("<b>&\"'\0"), "&lt;b&gt;&amp;&quot;&#39;\u{fffd}");
    }
}
