//! Tables and paragraphs that wrap. Widths are in characters. Names in them come from processes,
//! mount points and files: unsafe characters are escaped here.

use floodwall_model::printable::printable;

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// Where its text stands.
    pub align: Align,
    /// Longer cells are wrapped.
    pub max_width: usize,
}

/// Between two columns.
const GAP: &str = "  ";

/// Lays a table out, one string a line, without blanks at line ends.
#[must_use]
pub fn table(columns: &[Column], rows: &[Vec<String>]) -> Vec<String> {
    let heading: Vec<String> = columns.iter().map(|c| c.title.to_owned()).collect();
    let all: Vec<Vec<Vec<String>>> = std::iter::once(&heading)
        .chain(rows)
        .map(|row| {
            columns.iter().zip(row).map(|(column, cell)| wrap(cell, column.max_width)).collect()
        })
        .collect();
    let width = |i: usize| {
        all.iter()
            .filter_map(|row| row.get(i))
            .flatten()
            .map(|line| line.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut lines = Vec::new();
    for row in &all {
        let height = row.iter().map(Vec::len).max().unwrap_or(0);
        for n in 0..height {
            let cells = row.iter().zip(columns).zip(&widths).map(|((cell, column), width)| {
                let text = cell.get(n).map_or("", String::as_str);
                match column.align {
                    Align::Left => format!("{text:<width$}"),
                    Align::Right => format!("{text:>width$}"),
                }
            });
            lines.push(cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned());
        }
    }
    lines
}

/// Escapes unsafe characters and breaks the text at blanks; a word longer than a line is broken
/// where the line ends. At least one line.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let text = printable(text);
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length <= width {
            if let Some(line) = lines.last_mut() {
                line.push(' ');
                line.push_str(word);
            }
            used += 1 + length;
            continue;
        }
        if used > 0 {
            lines.push(String::new());
            used = 0;
        }
        for character in word.chars() {
            if used == width {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(character);
            }
            used += 1;
        }
    }
    lines
}

/// A paragraph: a label at its left, every further line indented to the same column.
pub(super) fn paragraph(label: &str, indent: usize, text: &str, width: usize) -> Vec<String> {
    let label = printable(label);
    wrap(text, width.saturating_sub(indent).max(20))
        .into_iter()
        .enumerate()
        .map(|(i, line)| {
            format!("{:<indent$}{line}", if i == 0 { &*label } else { "" }).trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cells_wrap_and_figures_stand_right() {
        let columns = [
            Column { title: "NAME", align: Align::Left, max_width: 8 },
            Column { title: "N", align: Align::Right, max_width: 10 },
        ];
        let rows = [vec!["a b".into(), "1".into()], vec!["server:/exports".into(), "100".into()]];
        insta::assert_snapshot!(table(&columns, &rows).join("\n"), @"
        NAME        N
        a b         1
        server:/  100
        exports
        ");
    }

    #[test]
    fn names_do_nothing_to_a_terminal() {
        let columns = [Column { title: "NAME", align: Align::Left, max_width: 40 }];
        let name = "\u{1b}]0;root\u{7}\n\u{9b}2J\u{202e}";
        let safe = r"\u{1b}]0;root\u{7}\u{a}\u{9b}2J\u{202e}";
        assert_eq!(table(&columns, &[vec![name.into()]]), ["NAME", safe]);
        assert_eq!(paragraph("\u{1b}", 8, name, 80), [format!(r"\u{{1b}}  {safe}")]);
    }

    #[test]
    fn words_are_kept_whole_where_they_fit() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("abcdefg h", 3), ["abc", "def", "g h"]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_long_and_nothing_is_lost(text in "[a-zäß ]{0,60}", width in 1usize..30) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|l| l.chars().count() <= width));
            let letters = |s: &str| s.replace(' ', "");
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
