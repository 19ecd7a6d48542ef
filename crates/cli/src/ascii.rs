//! Text for a terminal whose locale is not UTF-8.
//!
//! ```text
//! LC_ALL, else LC_CTYPE, else LANG ─▶ is UTF-8? ─ yes ─▶ the text as it is
//!                                          └───── no ──▶ the signs that Floodwall prints, in ASCII
//! ```
//!
//! The locale alone decides, for a pipe as for a terminal. JSON, Markdown and files are UTF-8
//! always. Other signs of names stay as they are: the terminal gets the bytes that the filesystem
//! has.

use std::borrow::Cow;
use std::env;
use std::iter::repeat_n;

use floodwall_model::printable::ascii_sign;

/// Between two columns of a table there are as many blanks at least.
const GAP: usize = 2;

/// A text for people in the user's locale.
pub(crate) fn localised(text: &str) -> Cow<'_, str> {
    if is_utf8() { Cow::Borrowed(text) } else { ascii(text) }
}

/// Whether the user's locale is UTF-8.
pub(crate) fn is_utf8() -> bool {
    let set = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    names_utf8([set("LC_ALL"), set("LC_CTYPE"), set("LANG")])
}

/// Whether a locale is UTF-8: the first variable that is not empty decides (XBD 8.2). Without one
/// the locale is `C`.
fn names_utf8(variables: [Option<String>; 3]) -> bool {
    let locale = variables.into_iter().flatten().find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// A text with signs in ASCII. Where a sign grows, blanks of its cell go, so that the columns of a
/// table stay in line.
pub(crate) fn ascii(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| ascii_sign(character).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    // Characters that the line has grown by.
    let mut grown = 0;
    let mut blanks: usize = 0;
    for character in text.chars() {
        if character == ' ' {
            blanks += 1;
            continue;
        }
        let shown = ascii_sign(character);
        let growth = shown.map_or(0, |shown| shown.len() - 1);
        // A cell on the right of its column begins with the sign: blanks before it go.
        let due = if shown.is_some() { grown + growth } else { grown };
        let is_at_start = out.is_empty() || out.ends_with('\n');
        let taken = if is_at_start { 0 } else { due.min(blanks.saturating_sub(GAP)) };
        out.extend(repeat_n(' ', blanks - taken));
        blanks = 0;
        match shown {
            Some(shown) => out.push_str(shown),
            None => out.push(character),
        }
        grown = if character == '\n' { 0 } else { grown + growth - taken };
    }
    out.extend(repeat_n(' ', blanks));
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_not_empty_names_the_locale() {
        let utf8 = |all: &str, ctype: &str, lang: &str| {
            names_utf8([all, ctype, lang].map(|value| Some(value.to_owned())))
        };
        assert!(utf8("", "", "en_US.UTF-8") && utf8("", "de_DE.utf8@euro", "C"));
        assert!(!utf8("C", "C.UTF-8", "C.UTF-8") && !utf8("", "de_DE.ISO-8859-1", "C.UTF-8"));
        assert!(!utf8("POSIX", "", "") && !names_utf8([None, None, None]));
        assert!(names_utf8([None, None, Some("C.UTF-8".to_owned())]));
    }

    #[test]
    fn signs_become_ascii_and_names_stay() {
        let text = "8 × 128 KiB → 1 MiB, ≥ 12 s, 3–5 µs, −2, /srv/données";
        let plain = "8 x 128 KiB -> 1 MiB, >= 12 s, 3-5 us, -2, /srv/données";
        assert_eq!(ascii(text), plain);
        assert!(matches!(ascii("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn columns_stay_in_line() {
        let table = "\
PATH         STALL  NOW
md0 → sda      3 s    –
sda         ≥ 12 s  1 s
";
        assert_eq!(
            ascii(table),
            "\
PATH         STALL  NOW
md0 -> sda     3 s    -
sda        >= 12 s  1 s
"
        );
        assert_eq!(ascii("    → a\n  b"), "    -> a\n  b", "an indent stays");
    }
}
