//! Small parsers that several kernel files share.

/// The value after `key` in a file of lines `key value …` or `key: value kB`. It is `None` if the
/// key is absent or its value is not a number.
#[must_use]
pub fn number_after(text: &str, key: &str) -> Option<u64> {
    word_after(text, key)?.parse().ok()
}

/// The same for a set of bits in hexadecimal digits, such as `SigPnd` of proc_pid_status(5).
#[must_use]
pub fn bits_after(text: &str, key: &str) -> Option<u64> {
    u64::from_str_radix(word_after(text, key)?, 16).ok()
}

fn word_after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let rest = rest.strip_prefix(':').or_else(|| rest.strip_prefix(char::is_whitespace))?;
        rest.split_whitespace().next()
    })
}

/// The words of a text, each a blank after the one before.
pub(crate) fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Undoes the octal escapes of /proc/self/mountinfo (`\040` for a space; fs/proc_namespace.c
/// `mangle`).
pub(crate) fn unescape_octal(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if first == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_matched_whole() {
        let text = "nr_dirty 3\nnr_dirty_threshold 77\nDirty:      12 kB\n";
        assert_eq!(number_after(text, "nr_dirty"), Some(3));
        assert_eq!(number_after(text, "nr_dirty_threshold"), Some(77));
        assert_eq!(number_after(text, "Dirty"), Some(12));
        assert_eq!(number_after(text, "nr_written"), None);
        assert_eq!(number_after("Dirty: lots\n", "Dirty"), None);
        assert_eq!(bits_after("SigPnd:\t0000000000004102\n", "SigPnd"), Some(0x4102));
        assert_eq!(bits_after("SigPnd:\tx\n", "SigPnd"), None);
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape_octal(r"/mnt/my\040disk"), "/mnt/my disk");
        assert_eq!(unescape_octal(r"back\134slash\04"), r"back\slash\04");
        assert_eq!(unescape_octal(r"\303\244"), "ä");
    }
}
