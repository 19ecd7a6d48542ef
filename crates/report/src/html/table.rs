//! A table of the page. Every column sorts, by mouse and keyboard; numbers sort as numbers.

use std::fmt::Write;

use super::markup::escaped;
use crate::numbers::UNKNOWN;

/// A cell: its text, and its sort key.
pub(super) struct Cell {
    pub(super) text: String,
    /// Below the text, smaller.
    pub(super) small: String,
    /// Shown when the text is clicked.
    pub(super) more: String,
    pub(super) sort: Option<f64>,
}

impl Cell {
    /// Words.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), small: String::new(), more: String::new(), sort: None }
    }

    /// A figure: its text, and what it is sorted by. An unknown one stays below.
    pub(super) fn number(text: Option<String>, sort: Option<f64>) -> Self {
        Self {
            text: text.unwrap_or_else(|| UNKNOWN.into()),
            small: String::new(),
            more: String::new(),
            sort: Some(sort.filter(|v| v.is_finite()).unwrap_or(f64::NAN)),
        }
    }
}

/// A table that every heading sorts; the first cell of a row is its heading.
pub(super) fn table(
    out: &mut String,
    id: &str,
    caption: &str,
    columns: &[&str],
    rows: &[Vec<Cell>],
) {
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{id}-c\">\n\
         <table class=\"sortable\" id=\"{id}\">\n<caption id=\"{id}-c\">{}</caption>\n<thead><tr>",
        escaped(caption)
    );
    for column in columns {
        let _ = write!(
            out,
            "<th scope=\"col\" aria-sort=\"none\"><button type=\"button\">{}</button></th>",
            escaped(column)
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let small = if cell.small.is_empty() {
                String::new()
            } else {
                format!("<small>{}</small>", escaped(&cell.small))
            };
            let sort = match cell.sort {
                None => String::new(),
                // An unknown value has no place in the order: it stays below.
                Some(v) if v.is_nan() => " class=\"n\" data-v=\"\"".into(),
                Some(v) => format!(" class=\"n\" data-v=\"{v}\""),
            };
            let (open, close) = if i == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
            let text = match cell.more.as_str() {
                "" => escaped(&cell.text),
                more => format!(
                    "<details><summary>{}</summary><code>{}</code></details>",
                    escaped(&cell.text),
                    escaped(more)
                ),
            };
            let _ = write!(out, "<{open}{sort}>{text}{small}</{close}>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}
