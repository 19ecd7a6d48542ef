//! Recognises files of Floodwall that are untouched: the first lines hold a marker and a checksum
//! of the rest.
//!
//! ```text
//! # Written by floodwall persist …          marker
//! # floodwall-persist/1 0123456789abcdef    format and checksum (FNV-1a) of everything below
//! vm.dirty_bytes = 67108864
//! ```

use crate::journal::checksum;

/// Begins every file of Floodwall.
const MARK: &str = "# Written by floodwall persist; floodwall unpersist removes it. Edited by hand \
    it is nobody's but yours.\n";
/// Begins the second line.
const FORMAT: &str = "# floodwall-persist/1 ";

/// The origin of a file's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// Floodwall's, unchanged: the text below the first two lines.
    Ours(&'a str),
    /// Floodwall's, but changed since.
    Edited,
    /// Another program's.
    Foreign,
}

/// A file with Floodwall's first lines.
pub(crate) fn sign(body: &str) -> String {
    format!("{MARK}{FORMAT}{:016x}\n{body}", checksum(body.as_bytes()))
}

/// Finds out who wrote a file.
pub(crate) fn inspect(text: &str) -> Content<'_> {
    let Some(rest) = text.strip_prefix(MARK) else {
        // A file with a reworded marker is still Floodwall's if it has the format's line.
        return if text.contains(FORMAT) { Content::Edited } else { Content::Foreign };
    };
    let signed = rest.strip_prefix(FORMAT).and_then(|rest| rest.split_once('\n'));
    match signed {
        Some((sum, body)) if sum == format!("{:016x}", checksum(body.as_bytes())) => {
            Content::Ours(body)
        }
        _ => Content::Edited,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_edited_and_foreign_are_told_apart() {
        let text = sign("vm.dirty_bytes = 1\n");
        assert_eq!(inspect(&text), Content::Ours("vm.dirty_bytes = 1\n"));
        assert_eq!(inspect(&text.replace("= 1", "= 2")), Content::Edited);
        assert_eq!(inspect(&format!("{text}\n")), Content::Edited);
        assert_eq!(inspect(&format!("# mine now\n{text}")), Content::Edited);
        assert_eq!(inspect(&text[..text.len() - 1]), Content::Edited);
        assert_eq!(inspect("vm.dirty_bytes = 1\n"), Content::Foreign);
        assert_eq!(inspect(""), Content::Foreign);
    }
}
