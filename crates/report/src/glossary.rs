//! The words of the manual: docs/glossary.md, parsed by its headings.
//!
//! A heading has a word and, behind commas, its other names. The part below it is the word's page.

/// The document.
const GLOSSARY: &str = include_str!("../../../docs/glossary.md");

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The heading: the word, and its other names behind commas.
    heading: &'static str,
    /// What stands below the heading, as Markdown.
    body: &'static str,
}

/// All words, as the document has them: by name.
pub fn words() -> impl Iterator<Item = Word> {
    GLOSSARY.split("\n## ").skip(1).map(|part| {
        let (heading, body) = part.split_once('\n').unwrap_or((part, ""));
        Word { heading: heading.trim(), body: body.trim() }
    })
}

/// A word by any of its names. Case, blanks, hyphens and the plural do not matter.
#[must_use]
pub fn find(name: &str) -> Option<Word> {
    let wanted = plain(name);
    words().find(|word| word.names().any(|name| plain(name) == wanted))
}

/// The name that a mistyped one may have meant.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    let wanted = plain(name);
    let names: Vec<(String, &str)> =
        words().flat_map(|word| word.names()).map(|name| (plain(name), name)).collect();
    let near = floodwall_model::toml_text::nearest(&wanted, names.iter().map(|(key, _)| &**key))?;
    names.iter().find(|(key, _)| key == near).map(|(_, name)| *name)
}

impl Word {
    /// The word and its other names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.heading.split(',').map(str::trim)
    }

    /// The word itself.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.names().next().unwrap_or(self.heading)
    }

    /// The first sentence, which says what it is.
    #[must_use]
    pub fn does(&self) -> String {
        let paragraph = self.body.split("\n\n").next().unwrap_or_default().replace('\n', " ");
        let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
        paragraph.get(..end).unwrap_or(&paragraph).trim_end_matches('.').to_owned()
    }

    /// Its page, as Markdown.
    #[must_use]
    pub fn page(&self) -> String {
        format!("# {}\n\n{}\n", self.heading, self.body)
    }
}

/// A name without what does not matter: case, blanks, hyphens, the plural.
fn plain(name: &str) -> String {
    let letters: String =
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    match letters.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => match letters.strip_suffix('s') {
            // `process`, `fs`: no plural.
            Some(stem) if stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']) => stem.to_owned(),
            _ => letters,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_has_the_form_that_the_command_reads() {
        let mut seen = BTreeSet::new();
        let mut names: Vec<String> = Vec::new();
        for word in words() {
            for name in word.names() {
                assert!(!name.is_empty() && seen.insert(plain(name)), "{name}: twice, or empty");
            }
            names.push(word.name().to_lowercase());
            let paragraphs: Vec<&str> = word.body.split("\n\n").collect();
            assert!(paragraphs.len() >= 2, "{}: one paragraph says what it is", word.name());
            let seen_in = paragraphs.last().unwrap();
            assert!(seen_in.starts_with("Seen in: "), "{}: {seen_in}", word.name());
            assert!(word.does().len() < 200, "{}: {}", word.name(), word.does());
        }
        assert!(names.len() > 30 && names.is_sorted(), "{names:?}");
        assert!(GLOSSARY.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn case_blanks_hyphens_and_plural_do_not_matter() {
        let found = |name| find(name).map(|word| word.name());
        for name in ["drain time", "drain-time", "Drain Times", "DRAINTIME", "drain_time"] {
            assert_eq!(found(name), Some("drain time"), "{name}");
        }
        assert_eq!(found("victims"), Some("victim"));
        assert_eq!(found("priorities"), found("priority"));
        assert_eq!([found("no-such-word"), found(""), found("s")], [None; 3]);
    }

    #[test]
    fn a_mistyped_word_has_a_near_one() {
        assert_eq!([nearest("victm"), nearest("frontire")], [Some("victim"), Some("frontier")]);
        assert_eq!(nearest("xyzzy"), None);
    }
}
