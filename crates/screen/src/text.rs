//! Text in cells: widths, cuts and lines.
//!
//! A character may be two cells wide or none, so lengths are asked of ratatui.

use std::borrow::Cow;

use ratatui::buffer::CellWidth;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// How many cells a text takes.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// A text that fits so many cells; one that is longer ends with `mark`.
pub(crate) fn cut<'a>(text: &'a str, cells: usize, mark: &str) -> Cow<'a, str> {
    if width(text) <= cells {
        return Cow::Borrowed(text);
    }
    let room = cells.saturating_sub(width(mark));
    let mut out = String::with_capacity(cells + mark.len());
    let mut used = 0;
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        used += usize::from(grapheme.symbol.cell_width());
        if used > room {
            break;
        }
        out.push_str(grapheme.symbol);
    }
    if cells >= width(mark) {
        out.push_str(mark);
    }
    Cow::Owned(out)
}

/// A text of several lines, broken between words so that each fits so many cells. A line keeps its
/// indent. Tabs are eight cells wide.
pub(crate) fn wrapped(text: &str, cells: usize) -> Vec<String> {
    let cells = cells.max(1);
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.replace('\t', "        ");
        if width(&line) <= cells {
            lines.push(line);
            continue;
        }
        let indent: String = line.chars().take_while(|c| *c == ' ').take(cells / 2).collect();
        let mut current = String::new();
        for word in line.split_whitespace() {
            let is_first = current.is_empty();
            let wanted = width(&current) + width(word) + usize::from(!is_first);
            if !is_first && wanted > cells {
                lines.push(std::mem::take(&mut current));
            }
            match current.is_empty() {
                true => current.push_str(&indent),
                false => current.push(' '),
            }
            current.push_str(word);
            while width(&current) > cells {
                let head = cut(&current, cells, "").into_owned();
                if head.is_empty() {
                    break;
                }
                current.drain(..head.len());
                lines.push(head);
            }
        }
        lines.push(current);
    }
    lines
}

/// A blank at which no line breaks: between a number and its unit. It is drawn as a blank.
const GLUE: char = '\u{a0}';

/// A figure that no line breaks.
pub(crate) fn glued(figure: &str) -> String {
    figure.replace(' ', "\u{a0}")
}

/// Styled text broken between words, at most `rows` lines. The last one ends with `mark` if there
/// is more.
pub(crate) fn paragraph(
    spans: &[Span<'static>],
    cells: usize,
    rows: usize,
    mark: &str,
) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = vec![Line::default()];
    let mut used = 0;
    for word in words(spans) {
        let long: usize = word.iter().map(|(part, _)| width(part)).sum();
        if used > 0 && used + 1 + long > cells {
            if lines.len() >= rows {
                mark_end(&mut lines, used, cells, mark);
                return lines;
            }
            lines.push(Line::default());
            used = 0;
        }
        let Some(line) = lines.last_mut() else { break };
        if used > 0 {
            line.push_span(Span::raw(" "));
            used += 1;
        }
        for (part, style) in word {
            let shown = cut(part, cells.saturating_sub(used), mark).replace(GLUE, " ");
            used += width(&shown);
            line.push_span(Span::styled(shown, style));
        }
    }
    lines
}

/// Puts the mark behind the last line, in the place of its end if there is no room.
fn mark_end(lines: &mut [Line<'static>], used: usize, cells: usize, mark: &str) {
    let Some(line) = lines.last_mut() else { return };
    if used + width(mark) > cells
        && let Some(last) = line.spans.last_mut()
    {
        let keep = width(&last.content).saturating_sub(width(mark));
        last.content = cut(&last.content, keep, "").into_owned().into();
    }
    line.push_span(Span::raw(mark.to_owned()));
}

/// The words of a text. A word may reach from one span into the next.
fn words<'a>(spans: &'a [Span<'static>]) -> Vec<Vec<(&'a str, Style)>> {
    let mut words = Vec::new();
    let mut word = Vec::new();
    for span in spans {
        for (at, part) in span.content.split(' ').enumerate() {
            if at > 0 && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            if !part.is_empty() {
                word.push((part, span.style));
            }
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_counts_cells() {
        assert_eq!(cut("postgres", 8, "…"), "postgres");
        assert_eq!(cut("postgres", 5, "…"), "post…");
        assert_eq!(cut("日本語", 5, "…"), "日本…");
        assert_eq!(cut("日本語", 4, "…"), "日…");
        assert_eq!(cut("abc", 0, "…"), "");
    }

    #[test]
    fn lines_break_between_words_and_keep_their_indent() {
        assert_eq!(
            wrapped("  a long line of words\n\nend", 12),
            ["  a long", "  line of", "  words", "", "end"]
        );
        assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrapped("日本", 1), ["日本"], "a cell too few for any of it");
    }

    #[test]
    fn a_paragraph_ends_with_a_mark_where_there_is_more() {
        let spans = ["cp (1) dirties ".into(), Span::raw("400 MB/s on sda"), Span::raw(", often")];
        let shown = |cells, rows| {
            let lines = paragraph(&spans, cells, rows, "…");
            lines.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(shown(40, 1), ["cp (1) dirties 400 MB/s on sda, often"]);
        assert_eq!(shown(30, 2), ["cp (1) dirties 400 MB/s on", "sda, often"], "no comma begins");
        assert_eq!(shown(16, 1), ["cp (1) dirties…"]);
        assert_eq!(shown(14, 1), ["cp (1) dirtie…"]);
        assert_eq!(shown(0, 1).len(), 1);
        let glued = paragraph(&[Span::raw(format!("at {}", glued("4 MB/s")))], 5, 9, "…");
        assert_eq!(glued[1].to_string(), "4 MB…", "a figure stays together");
    }
}
