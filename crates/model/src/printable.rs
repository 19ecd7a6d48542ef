//! Text that is safe to show: names come from other processes, files and disks, and reach the
//! terminal of root.
//!
//! ```text
//! name, message ─▶ printable ─▶ one line        a cell of a table, a line of a log
//! page of text  ─▶ lines     ─▶ the same lines  what a command prints
//! JSON          ─▶ json      ─▶ the same value  what a command prints with --json
//! word          ─▶ shell_word ─▶ a word that a shell reads as it is
//! sign          ─▶ ascii_sign ─▶ the same in ASCII, for a terminal without UTF-8
//! ```
//!
//! Unsafe characters are written as escapes (`\u{1b}`), so that a name with such a character
//! differs from the name without it.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal or a browser obeys or hides a character instead of showing it. These are
/// controls (`Cc`, ESC and the C1 set included), line and paragraph separators, interlinear
/// annotations. Further `Default_Ignorable_Code_Point` of the Unicode Character Database
/// (bidirectional overrides, zero-width characters, tags, variation selectors).
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A text as one line without unsafe characters; line feeds and tabs are escaped as well.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false, |c, out| out.extend(c.escape_unicode()))
}

/// The same for a text of several lines: line feeds and tabs stay.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t'), |c, out| out.extend(c.escape_unicode()))
}

/// JSON of the same value without unsafe characters. Outside strings valid JSON has only blanks,
/// tabs and line ends of them, which stay; inside strings they become `\u202e`.
#[must_use]
pub fn json(json: &str) -> Cow<'_, str> {
    let escape = |c: char, out: &mut String| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String does not fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    };
    replaced(json, |c| matches!(c, '\t' | '\n' | '\r'), escape)
}

/// A word of a command line, quoted for a shell where it needs that.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What stands for a sign that Floodwall prints, in ASCII; `None` for all other characters.
#[must_use]
pub const fn ascii_sign(character: char) -> Option<&'static str> {
    Some(match character {
        '–' | '−' | '─' => "-",
        '×' => "x",
        '·' => "*",
        'µ' => "u",
        '²' => "^2",
        '³' => "^3",
        '→' => "->",
        '≥' => ">=",
        '≤' => "<=",
        '±' => "+-",
        '≈' => "~",
        '…' => "...",
        '│' => "|",
        _ => return None,
    })
}

fn replaced(
    text: &str,
    stays: fn(char) -> bool,
    escape: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    let is_replaced = |c: char| is_unsafe(c) && !stays(c);
    if !text.contains(is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_replaced(c) { escape(c, &mut out) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts in which every second character is likely to do something to a terminal.
    fn text() -> impl Strategy<Value = String> {
        let nasty = prop_oneof![
            proptest::char::range('\0', '\u{9f}'),
            proptest::char::range('\u{2000}', '\u{206f}'),
            proptest::char::range('\u{e0000}', '\u{e01ef}'),
            proptest::sample::select(vec!['\u{61c}', '\u{ad}', '\u{feff}', '\u{fe0f}', '\u{fff9}']),
        ];
        proptest::collection::vec(prop_oneof![nasty, any::<char>()], 0..40)
            .prop_map(|chars| chars.into_iter().collect())
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let (title, colour) = ("\u{1b}]0;root\u{7}", "\u{9b}31m");
        assert_eq!(printable(title), r"\u{1b}]0;root\u{7}");
        assert_eq!(printable(colour), r"\u{9b}31m");
        assert_eq!(printable("cp\u{202e}gpj\u{200b}\n"), r"cp\u{202e}gpj\u{200b}\u{a}");
        assert_eq!(printable("a\u{2060}b\u{e0041}"), r"a\u{2060}b\u{e0041}", "invisible");
        assert_eq!(lines("a\r\n\tb\n"), "a\\u{d}\n\tb\n");
        // Letters, accents, figures and blanks of any script stay, also those that Floodwall's own
        // texts use.
        let shown = "Größe 5\u{a0}MiB – „a“ → 日本 ελ e\u{301} 🙂";
        assert!(matches!(printable(shown), Cow::Borrowed(same) if same == shown));
    }

    #[test]
    fn words_are_safe_in_a_shell() {
        assert_eq!(
            shell_word("unit:a@1-main.service:sda.io.max=wbps=5MB"),
            "unit:a@1-main.service:sda.io.max=wbps=5MB"
        );
        assert_eq!(shell_word(r"dev-x\x2dy.service"), r"'dev-x\x2dy.service'");
        assert_eq!(shell_word("/mnt/my disk's"), r"'/mnt/my disk'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    proptest! {
        #[test]
        fn nothing_unsafe_gets_through(text in text()) {
            prop_assert!(!printable(&text).contains(is_unsafe));
            prop_assert!(!lines(&text).contains(|c| is_unsafe(c) && !matches!(c, '\n' | '\t')));
            let once = printable(&text);
            prop_assert_eq!(printable(&once), once.as_ref());
            let safe: String = text.chars().filter(|c| !is_unsafe(*c)).collect();
            prop_assert_eq!(printable(&safe), safe.as_str(), "safe text stays what it is");
        }

        #[test]
        fn json_keeps_its_value(text in text()) {
            let written = serde_json::to_string_pretty(&[&text]).unwrap();
            let shown = json(&written);
            prop_assert!(!shown.contains(|c| is_unsafe(c) && c != '\n'));
            let read: Vec<String> = serde_json::from_str(&shown).unwrap();
            prop_assert_eq!(&read[0], &text);
        }
    }
}
