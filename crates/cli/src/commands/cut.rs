//! A page cut to the screen, so that what is watched does not scroll.

/// Clears the screen and goes home (ECMA-48 ED and CUP).
pub(super) const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// The page cut to the screen, in the place of the last one.
pub(super) fn redrawn(page: &str, height: usize, width: usize) -> String {
    format!("{CLEAR}{}", to_screen(page, height, width))
}

/// The page's first lines, as many as the screen holds, and how many are hidden. Lines that are too
/// long lose their ends. Escape sequences of colours take no room.
fn to_screen(page: &str, height: usize, width: usize) -> String {
    let lines: Vec<&str> = page.trim_end().lines().collect();
    let mut shown: Vec<String> = lines.iter().map(|line| cut(line, width)).collect();
    if lines.len() > height {
        let kept = height.saturating_sub(1);
        shown.truncate(kept);
        let hidden = lines.len() - kept;
        shown.push(cut(&format!("{hidden} more lines do not fit on the screen"), width));
    }
    // A line end after the last line would scroll the first one away.
    shown.join("\n")
}

/// A line's beginning.
fn cut(line: &str, width: usize) -> String {
    let mut out = String::with_capacity(line.len());
    let (mut used, mut in_escape) = (0, false);
    for character in line.chars() {
        if in_escape || character == '\u{1b}' {
            // Of those that Floodwall writes, each ends with this letter.
            in_escape = character != 'm';
        } else if used == width {
            continue;
        } else {
            used += 1;
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_those_that_are_hidden() {
        let page = "one\ntwo\nthree\nfour\n";
        assert_eq!(to_screen(page, 4, 80), "one\ntwo\nthree\nfour");
        assert_eq!(to_screen(page, 3, 80), "one\ntwo\n2 more lines do not fit on the screen");
        assert_eq!(to_screen(page, 3, 6), "one\ntwo\n2 more");
    }

    #[test]
    fn a_line_is_cut_where_the_screen_ends_and_its_colour_too() {
        assert_eq!(cut("\u{1b}[31m!!\u{1b}[0m  sda", 4), "\u{1b}[31m!!\u{1b}[0m  ");
        assert_eq!(cut("\u{1b}[31msda1\u{1b}[0m", 3), "\u{1b}[31msda\u{1b}[0m");
    }
}
