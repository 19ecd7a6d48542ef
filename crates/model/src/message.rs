//! Pieces of messages for people: an error with its causes, the first of many names.

use std::borrow::Borrow;
use std::error::Error;
use std::iter::successors;

/// An error with its causes in one line; a cause that the message before it quotes already is not
/// said twice.
#[must_use]
pub fn line(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    for cause in successors(Some(error), |&error| error.source()).map(ToString::to_string) {
        if !line.contains(&cause) {
            let separator = if line.is_empty() { "" } else { ": " };
            line.push_str(separator);
            line.push_str(&cause);
        }
    }
    line
}

/// `a, b and 3 more`.
#[must_use]
pub fn first_of<S: Borrow<str>>(all: &[S], most: usize) -> String {
    let shown = all.len().min(most);
    let mut text = all[..shown].join(", ");
    if shown < all.len() {
        text.push_str(&format!(" and {} more", all.len() - shown));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Wrapped(&'static str, std::io::Error);

    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::other("no room");
        assert_eq!(line(&Wrapped("can't write", cause())), "can't write: no room");
        assert_eq!(line(&Wrapped("can't write: no room", cause())), "can't write: no room");
    }
}
