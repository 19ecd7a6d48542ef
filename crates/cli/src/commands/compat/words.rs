//! The words of a command line as text.

use std::ffi::OsString;

use crate::exit::UsageError;

/// The words of a tool that takes no other names than UTF-8.
///
/// # Errors
/// A word that is not UTF-8.
pub(super) fn texts(words: &[OsString]) -> anyhow::Result<Vec<String>> {
    let text = |word: &OsString| {
        let word = word.clone().into_string();
        word.map_err(|word| {
            UsageError(format!("compat: '{}' is not UTF-8; write it so", word.display())).into()
        })
    };
    words.iter().map(text).collect()
}
