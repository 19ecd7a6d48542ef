//! The words of a command line, sorted into letters with values and others, as getopt(3) does.

use super::error::OptionError;

/// Letters that are supported and take a value …
const VALUES: &str = "BDhIKLMNpPsStTa";
/// … and those that do not.
const FLAGS: &str = "rwcqQz";
/// Chooses the version whose lines are printed; the tool has no such option.
const DIALECT: &str = "--dialect=";
/// The tool's other options, and what to do without them.
const OTHERS: [(char, &str); 12] = [
    ('A', "leave it out; the first error ends the run"),
    ('C', "-T SECONDS, and a loop of the shell around it"),
    ('d', "floodwall compat dd if=TARGET, or od"),
    ('E', "leave it out; data is not checked"),
    ('f', "-c, the bytes 0 to 255"),
    ('F', "a command for each target"),
    ('m', "leave it out; data is not checked"),
    ('n', "-c, the bytes 0 to 255"),
    ('o', "-s FIRST-SECTOR"),
    ('R', "leave it out; the first error ends the run"),
    ('v', "floodwall --version"),
    ('?', "floodwall compat --help"),
];

/// The words, sorted.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Letters in order; without a value for a flag.
    pub(super) options: Vec<(char, Option<String>)>,
    /// The value of `--dialect=`.
    pub(super) dialect: Option<String>,
    /// Words that are no options.
    pub(super) others: Vec<String>,
    /// All words but the others, as they were written.
    pub(super) echo: Vec<String>,
}

impl Words {
    pub(super) fn split<S: AsRef<str>>(words: &[S]) -> Result<Self, OptionError> {
        let mut sorted = Self::default();
        let mut words = words.iter().map(AsRef::as_ref);
        while let Some(word) = words.next() {
            if let Some(dialect) = word.strip_prefix(DIALECT) {
                sorted.dialect = Some(dialect.to_owned());
                continue;
            }
            if word == "--" {
                sorted.others.extend(words.by_ref().map(str::to_owned));
                break;
            }
            let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                sorted.others.push(word.to_owned());
                continue;
            };
            sorted.echo.push(word.to_owned());
            let mut letters = letters.chars();
            while let Some(letter) = letters.next() {
                if FLAGS.contains(letter) {
                    sorted.options.push((letter, None));
                    continue;
                }
                if !VALUES.contains(letter) {
                    return Err(refused(word, letter));
                }
                let joined = letters.as_str();
                let value = match joined {
                    "" => words.next().inspect(|value| sorted.echo.push((*value).to_owned())),
                    joined => Some(joined),
                };
                let Some(value) = value else {
                    let (option, value) = (letter, String::new());
                    return Err(OptionError::Value { option, value, wanted: "a value" });
                };
                sorted.options.push((letter, Some(value.to_owned())));
                break;
            }
        }
        Ok(sorted)
    }
}

/// A letter that is not supported, with the nearest that is.
fn refused(word: &str, letter: char) -> OptionError {
    if word.starts_with("--") {
        let (option, nearest) = (word.to_owned(), "--dialect=1.2 or --dialect=1.4".to_owned());
        return OptionError::Unknown { option, nearest };
    }
    if let Some((_, nearest)) = OTHERS.iter().find(|(other, _)| *other == letter) {
        return OptionError::Unsupported {
            what: format!("-{letter}"),
            nearest: (*nearest).to_owned(),
        };
    }
    // Of a letter only its case can be mistaken.
    let other = [letter.to_ascii_lowercase(), letter.to_ascii_uppercase()];
    let near = other.into_iter().find(|c| VALUES.contains(*c) || FLAGS.contains(*c));
    let nearest = near.map_or_else(
        || "docs/compat.md lists those supported".to_owned(),
        |near| format!("-{near}"),
    );
    OptionError::Unknown { option: format!("-{letter}"), nearest }
}
