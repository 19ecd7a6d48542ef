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
pub struct Column<'a> {
    /// Its heading.
    pub title: &'a str,
    /// Where its text stands.
    pub align: Align,
    /// Longer cells are wrapped.
    pub max_width: usize,
    /// Where a table is too wide, the columns of the highest rank go first, of equal ones the last.
    /// A column of rank 0 stays.
    pub rank: u8,
}

impl<'a> Column<'a> {
    /// A column of words.
    #[must_use]
    pub const fn words(title: &'a str, max_width: usize) -> Self {
        Self { title, align: Align::Left, max_width, rank: 0 }
    }

    /// A column of figures.
    #[must_use]
    pub const fn figures(title: &'a str, max_width: usize) -> Self {
        Self { title, align: Align::Right, max_width, rank: 0 }
    }

    /// The same with a rank.
    #[must_use]
    pub const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// Between two columns.
const GAP: &str = "  ";
/// A column of words is not made narrower than this so that a table fits.
const NARROWEST: usize = 8;

/// Lays a table out in so many columns of the screen, one string a line, without blanks at line
/// ends. Where it is too wide, columns go by their rank, then columns of words are wrapped; figures
/// that are still too wide stand out.
#[must_use]
pub fn table(columns: &[Column<'_>], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let heading: Vec<String> = columns.iter().map(|c| c.title.to_owned()).collect();
    let cells: Vec<&Vec<String>> = std::iter::once(&heading).chain(rows).collect();
    let mut shown: Vec<Shown<'_>> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            // A row may be shorter than the heading.
            let cells = cells.iter().map(|row| row.get(index).map_or("", String::as_str));
            Shown::of(*column, cells)
        })
        .collect();
    fit(&mut shown, width);
    let mut lines = Vec::new();
    for row in 0..cells.len() {
        let height = shown.iter().filter_map(|s| s.cells.get(row)).map(Vec::len).max().unwrap_or(0);
        for n in 0..height {
            let line = shown.iter().map(|column| column.line(row, n)).collect::<Vec<_>>();
            lines.push(line.join(GAP).trim_end().to_owned());
        }
    }
    lines
}

/// A column that is shown.
struct Shown<'a> {
    column: Column<'a>,
    /// The lines of each cell, the heading's first.
    cells: Vec<Vec<String>>,
    width: usize,
}

impl<'a> Shown<'a> {
    fn of<'c>(column: Column<'a>, cells: impl Iterator<Item = &'c str>) -> Self {
        let cells: Vec<Vec<String>> = cells.map(|cell| wrap(cell, column.max_width)).collect();
        let width = cells.iter().flatten().map(|line| line.chars().count()).max().unwrap_or(0);
        Self { column, cells, width }
    }

    /// A line of a cell.
    fn line(&self, row: usize, n: usize) -> String {
        let text = self.cells.get(row).and_then(|cell| cell.get(n)).map_or("", String::as_str);
        let width = self.width;
        match self.column.align {
            Align::Left => format!("{text:<width$}"),
            Align::Right => format!("{text:>width$}"),
        }
    }

    /// The same in fewer columns of the screen.
    fn narrower(&self, width: usize) -> Self {
        let cells: Vec<String> = self.cells.iter().map(|cell| cell.join(" ")).collect();
        Self::of(Column { max_width: width, ..self.column }, cells.iter().map(String::as_str))
    }
}

/// Takes columns away and narrows the others until they fit.
fn fit(shown: &mut Vec<Shown<'_>>, width: usize) {
    let excess = |shown: &[Shown<'_>]| {
        let gaps = GAP.len() * shown.len().saturating_sub(1);
        (shown.iter().map(|column| column.width).sum::<usize>() + gaps).saturating_sub(width)
    };
    while excess(shown) > 0 {
        let droppable = shown.iter().enumerate().filter(|(_, one)| one.column.rank > 0);
        let Some((last, _)) = droppable.max_by_key(|(_, one)| one.column.rank) else { break };
        shown.remove(last);
    }
    while let over @ 1.. = excess(shown) {
        let words = shown.iter_mut().filter(|one| one.column.align == Align::Left);
        let widest = words.max_by_key(|one| one.width).filter(|one| one.width > NARROWEST);
        let Some(widest) = widest else { break };
        let before = widest.width;
        *widest = widest.narrower(before.saturating_sub(over).max(NARROWEST));
        if widest.width >= before {
            break;
        }
    }
}

/// How much further in a line goes on.
const HANGING: usize = 4;

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

/// The lines of a text, broken at blanks where they are too wide. A broken line goes on further in.
/// Unsafe characters are escaped.
#[must_use]
pub fn fold(text: &str, width: usize) -> String {
    let folded = text.lines().flat_map(|line| {
        if line.chars().count() <= width {
            return vec![printable(line).into_owned()];
        }
        let rest = line.trim_start_matches(' ');
        let indent = line.len() - rest.len();
        let lines = wrap(rest, width.saturating_sub(indent + HANGING).max(20));
        let further = |n| if n == 0 { indent } else { indent + HANGING };
        lines.iter().enumerate().map(|(n, line)| format!("{:1$}{line}", "", further(n))).collect()
    });
    folded.map(|line| line + "\n").collect()
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
        let columns = [Column::words("NAME", 8), Column::figures("N", 10)];
        let rows = [vec!["a b".into(), "1".into()], vec!["server:/exports".into(), "100".into()]];
        insta::assert_snapshot!(table(&columns, &rows, 80).join("\n"), @"
        NAME        N
        a b         1
        server:/  100
        exports
        ");
    }

    #[test]
    fn columns_go_by_rank_then_words_are_wrapped() {
        let columns = [
            Column::words("NAME", 40),
            Column::figures("A", 10).rank(1),
            Column::figures("B", 10).rank(2),
            Column::figures("C", 10).rank(2),
        ];
        let cells = ["scheduler mq-deadline", "1111", "2222", "3333"].map(str::to_owned).to_vec();
        let at = |width| {
            let lines = table(&columns, std::slice::from_ref(&cells), width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
            lines.join("|")
        };
        let whole =
            "NAME                      A     B     C|scheduler mq-deadline  1111  2222  3333";
        assert_eq!(at(39), whole);
        assert_eq!(at(38), "NAME                      A     B|scheduler mq-deadline  1111  2222");
        assert_eq!(at(32), "NAME                      A|scheduler mq-deadline  1111");
        assert_eq!(at(26), "NAME|scheduler mq-deadline");
        assert_eq!(at(12), "NAME|scheduler|mq-deadline");
    }

    #[test]
    fn names_do_nothing_to_a_terminal() {
        let columns = [Column::words("NAME", 40)];
        let name = "\u{1b}]0;root\u{7}\n\u{9b}2J\u{202e}";
        let safe = r"\u{1b}]0;root\u{7}\u{a}\u{9b}2J\u{202e}";
        assert_eq!(table(&columns, &[vec![name.into()]], 80), ["NAME", safe]);
        assert_eq!(paragraph("\u{1b}", 8, name, 80), [format!(r"\u{{1b}}  {safe}")]);
    }

    #[test]
    fn a_line_that_is_too_wide_goes_on_further_in() {
        let text = "change 1, stands\n  by: root, floodwall apply vm.dirty_bytes=15MB\n\n";
        assert_eq!(fold(text, 80), text);
        insta::assert_snapshot!(fold(text, 34), @"
        change 1, stands
          by: root, floodwall apply
              vm.dirty_bytes=15MB
        ");
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
