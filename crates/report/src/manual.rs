//! A page of the manual, laid out for a terminal: findings, knobs and words are kept as Markdown.
//!
//! ```text
//! Markdown ─▶ pulldown-cmark ─▶ events ─▶ blocks of painted characters ─▶ wrapped lines
//! ```
//!
//! Paragraphs, list items and table cells are wrapped to the width. Code blocks are not, because
//! people copy them; neither is code in a paragraph that fits into a line, nor a longer word.

mod line;
#[cfg(test)]
mod tests;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use self::line::{Line, Paint, painted, push, wrap};
use crate::status::Style;

/// Columns that a code block stands to the right.
const CODE_INDENT: usize = 4;
/// Between two columns of a table.
const GAP: usize = 2;
/// A column of a table is not made narrower than this.
const LEAST_COLUMN: usize = 8;

/// A page of Markdown as text, every line ended.
#[must_use]
pub fn render(markdown: &str, style: Style) -> String {
    let mut page = Page { style, ..Page::default() };
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        page.event(event);
    }
    page.flush();
    page.out
}

/// The page so far, and the block that is being read.
#[derive(Debug, Default)]
struct Page {
    style: Style,
    out: String,
    /// The text of the block.
    text: Line,
    paint: Paint,
    /// One for each list around the block: the next number, or none for bullets.
    lists: Vec<Option<u64>>,
    /// What stands before the next line in place of the innermost list's indent.
    marker: Option<String>,
    /// Blocks stand apart; items of a list do not.
    apart: bool,
    code: bool,
    /// Links around the text, with the text behind it.
    links: Vec<(String, usize)>,
    rows: Vec<Vec<Line>>,
}

impl Page {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => self.code_block(&text),
            Event::Code(text) => push(&mut self.text, &text, Paint::Code),
            Event::Text(text) | Event::InlineHtml(text) | Event::Html(text) => {
                push(&mut self.text, &text, self.paint);
            }
            Event::SoftBreak => push(&mut self.text, " ", self.paint),
            Event::HardBreak => self.flush(),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.begin();
                self.paint = Paint::Bold;
            }
            Tag::Paragraph => self.begin(),
            Tag::CodeBlock(_) => {
                self.begin();
                self.blank_line();
                self.code = true;
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.apart = true;
                    self.blank_line();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.apart = false;
                if let Some(list) = self.lists.last_mut() {
                    self.marker = Some(list.map_or_else(|| "- ".into(), |n| format!("{n}. ")));
                    *list = list.map(|n| n + 1);
                }
            }
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.text.len()));
            }
            Tag::Table(_) => {
                self.begin();
                self.blank_line();
            }
            Tag::TableHead | Tag::TableRow => self.rows.push(Vec::new()),
            Tag::TableCell if self.rows.len() == 1 => self.paint = Paint::Bold,
            Tag::Strong => self.paint = Paint::Bold,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.paint = Paint::Plain;
                self.flush();
                self.apart = true;
            }
            TagEnd::Paragraph => {
                self.flush();
                self.apart = true;
            }
            TagEnd::CodeBlock => {
                self.code = false;
                self.apart = true;
            }
            TagEnd::Item => self.flush(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.apart = self.lists.is_empty();
            }
            TagEnd::Link => self.link(),
            TagEnd::TableCell => {
                self.paint = Paint::Plain;
                let cell = std::mem::take(&mut self.text);
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                self.table();
                self.apart = true;
            }
            TagEnd::Strong => self.paint = Paint::Plain,
            _ => {}
        }
    }

    /// Ends what stands open; the next block is apart from it.
    fn begin(&mut self) {
        self.flush();
        if self.lists.is_empty() {
            self.apart = true;
        }
    }

    /// The address of a link, unless it is the text or a file beside the page.
    fn link(&mut self) {
        let Some((url, from)) = self.links.pop() else { return };
        let text: String = self.text.iter().skip(from).map(|(c, _)| *c).collect();
        if url.contains("://") && text != url {
            push(&mut self.text, &format!(" ({url})"), Paint::Plain);
        }
    }

    /// What stands at the left of a block's first line, and of the others.
    fn margins(&mut self) -> (String, String) {
        let depth = self.lists.len();
        let marker = self.marker.take();
        let outer = "  ".repeat(depth.saturating_sub(1));
        let own = match (self.lists.last(), &marker) {
            (None, _) => 0,
            (_, Some(marker)) => marker.chars().count(),
            (Some(Some(_)), None) => 3,
            (Some(None), None) => 2,
        };
        let rest = format!("{outer}{}", " ".repeat(own));
        (marker.map_or_else(|| rest.clone(), |marker| outer + &marker), rest)
    }

    fn blank_line(&mut self) {
        if std::mem::take(&mut self.apart) && !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Writes the block's text as a paragraph.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() {
            return;
        }
        self.blank_line();
        let (first, rest) = self.margins();
        let width = self.style.width.saturating_sub(rest.chars().count());
        for (i, line) in wrap(&text, width).iter().enumerate() {
            let margin = if i == 0 { &first } else { &rest };
            self.line(&format!("{margin}{}", painted(line, self.style.color)));
        }
    }

    fn code_block(&mut self, text: &str) {
        let margin = self.margins().1 + &" ".repeat(CODE_INDENT);
        for line in text.lines() {
            let mut code = Line::new();
            push(&mut code, line, Paint::Plain);
            self.line(&format!("{margin}{}", painted(&code, self.style.color)));
        }
    }

    /// Writes the table; the widest column is made narrower until it fits.
    fn table(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let natural = |i: usize| rows.iter().filter_map(|row| row.get(i)).map(Vec::len).max();
        let mut widths: Vec<usize> = (0..columns).map(|i| natural(i).unwrap_or(0)).collect();
        let gaps = GAP * columns.saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > self.style.width {
            match widths.iter_mut().max() {
                Some(widest) if *widest > LEAST_COLUMN => *widest -= 1,
                _ => break,
            }
        }
        for (i, row) in rows.iter().enumerate() {
            let cells: Vec<Vec<Line>> =
                row.iter().zip(&widths).map(|(cell, width)| wrap(cell, *width)).collect();
            for n in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let mut text = String::new();
                for (cell, width) in cells.iter().zip(&widths) {
                    let part = cell.get(n).cloned().unwrap_or_default();
                    let blanks = (width + GAP).saturating_sub(part.len());
                    text.push_str(&painted(&part, self.style.color));
                    text.push_str(&" ".repeat(blanks));
                }
                self.line(&text);
            }
            if i == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                self.line(&rule.join(&" ".repeat(GAP)));
            }
        }
    }
}
