//! Names in messages, as the original writes them in the locale C: only printable ASCII.
//!
//! ```text
//! a file, always quoted      'x'   "it's"   'a'$'\n''b'    (a word of a shell)
//! a file, where it needs it   x     the same
//! an operand                 'x'   'it\'s'  'a\nb'
//! ```

/// A file's name in quotes, as a shell reads it.
#[must_use]
pub fn file(name: &[u8]) -> String {
    let has_quote = name.contains(&b'\'');
    if has_quote && name.iter().all(|byte| is_plain_in_double_quotes(*byte)) {
        return format!("\"{}\"", String::from_utf8_lossy(name));
    }
    let (mut text, mut escapes) = ("'".to_owned(), false);
    for byte in name {
        let is_printable = matches!(byte, b' '..=b'~');
        match (is_printable, escapes) {
            (false, false) => text += "'$'",
            (true, true) => text += "''",
            _ => {}
        }
        escapes = !is_printable;
        match byte {
            b'\'' => text += "'\\''",
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text += &escape(*byte),
        }
    }
    text + "'"
}

/// A file's name, in quotes if a shell needs them.
#[must_use]
pub fn file_if_needed(name: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"#%+,-./@]_{}~".contains(byte);
    let is_special = matches!(name, [] | [b'#' | b'~', ..] | [b'{' | b'}']);
    if name.iter().all(is_plain) && !is_special {
        return String::from_utf8_lossy(name).into_owned();
    }
    file(name)
}

/// A word of the command line.
#[must_use]
pub fn word(word: &[u8]) -> String {
    let mut text = "'".to_owned();
    for byte in word {
        match byte {
            b'\'' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text += &escape(*byte),
        }
    }
    text + "'"
}

/// Whether a byte stands for itself between double quotes.
fn is_plain_in_double_quotes(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" %'+,-./:@]_".contains(&byte)
}

fn escape(byte: u8) -> String {
    match byte {
        7 => "\\a".to_owned(),
        8 => "\\b".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        11 => "\\v".to_owned(),
        12 => "\\f".to_owned(),
        b'\r' => "\\r".to_owned(),
        other => format!("\\{other:03o}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_a_shell() {
        for (name, wanted) in [
            (&b"a"[..], "'a'"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"it's", "\"it's\""),
            (b"it's $x", r"'it'\''s $x'"),
            (b"new\nline", r"'new'$'\n''line'"),
            (b"\xc3\xa9", r"''$'\303\251'"),
            (b"\x01x", r"''$'\001''x'"),
            (b"\x7f", r"''$'\177'"),
            (b"a\nb'c", r"'a'$'\n''b'\''c'"),
            (b"\\", r"'\'"),
        ] {
            assert_eq!(file(name), wanted);
        }
        for (name, wanted) in [
            (&b"a"[..], "a"),
            (b"/dev/loop0", "/dev/loop0"),
            (b"standard input", "'standard input'"),
            (b"a~", "a~"),
            (b"~a", "'~a'"),
            (b"{a", "{a"),
            (b"{", "'{'"),
            (b"a=b", "'a=b'"),
            (b"a:b", "'a:b'"),
        ] {
            assert_eq!(file_if_needed(name), wanted);
        }
        assert_eq!(word(b"it's"), r"'it\'s'");
        assert_eq!(word(b"a\nb\\\x01"), r"'a\nb\\\001'");
    }
}
