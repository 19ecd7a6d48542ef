//! Documents with generated sections.
//!
//! ```text
//! <!-- league-guard: written by `league guard` -->
//! <!-- measured with: law 9f86d081884c7d65 afbd7cd83500; simulator … -->
//! > **Stale**: …                                     only if an input has changed since
//!                                                    (an empty line)
//! the section
//! <!-- end of league-guard -->
//! ```

use std::path::Path;

use anyhow::Context;

use crate::origin::{Origin, Sources};
use crate::stored;

const WITH: (&str, &str) = ("<!-- measured with: ", " -->");
const STALE: &str = "> **Stale**: ";

/// Puts a section between its marks, which are added at the end of a document that has none.
/// `origin` is what its figures were measured with, an empty one if that was not recorded; `root`
/// the repository's directory.
///
/// # Errors
/// The document or the sources of an input can't be read, or the document can't be written.
pub fn replace_section(
    path: &Path,
    name: &str,
    command: &str,
    section: &str,
    origin: &Origin,
    root: &Path,
) -> anyhow::Result<()> {
    let old = read(path)?;
    let text = headed(section, origin, &mut Sources::below(root))?;
    write(path, &old, &with_section(&old, name, command, &text))
}

/// Marks the stale sections of all documents in the repository's `docs` and returns a line for
/// each.
///
/// # Errors
/// A section without an end; an origin that can't be understood; files and sources that can't be
/// read, or documents that can't be written.
pub fn mark_documents(root: &Path) -> anyhow::Result<Vec<String>> {
    let docs = root.join("docs");
    let entries =
        std::fs::read_dir(&docs).with_context(|| format!("can't read '{}'", docs.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "md"));
    paths.sort();
    let mut lines = Vec::new();
    let mut now = Sources::below(root);
    for path in paths {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        lines.extend(
            mark_stale(&path, &mut now)?.iter().map(|name| format!("docs/{file}: {name} is stale")),
        );
    }
    Ok(lines)
}

/// Marks every section whose inputs have changed since it was measured, and removes the mark from
/// sections whose inputs are the same again. Returns the stale ones' names.
///
/// # Errors
/// As [`replace_section`]; a section without an end; an origin that can't be understood.
fn mark_stale(path: &Path, now: &mut Sources) -> anyhow::Result<Vec<String>> {
    let old = read(path)?;
    let mut new = old.clone();
    let mut stale = Vec::new();
    for Section { name, command, text, origin } in sections(&old)? {
        let text = headed(&text, &origin, now)?;
        if text.contains(STALE) {
            stale.push(name.clone());
        }
        new = with_section(&new, &name, &command, &text);
    }
    write(path, &old, &new)?;
    Ok(stale)
}

/// A generated section of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name in the marks.
    pub name: String,
    /// The command that writes it.
    pub command: String,
    /// The rendered text, without origin and stale mark.
    pub text: String,
    /// The measured inputs; empty if that was not recorded.
    pub origin: Origin,
}

/// All generated sections of a document, in its order.
///
/// # Errors
/// A section without an end; an origin that can't be understood.
pub fn sections(document: &str) -> anyhow::Result<Vec<Section>> {
    let mut sections = Vec::new();
    let mut rest = document;
    while let Some((_, after)) = rest.split_once("<!-- ") {
        rest = after;
        let Some((mark, body)) = after.split_once(" -->\n") else { break };
        let Some((name, command)) = mark.split_once(": written by `") else { continue };
        let command = command
            .strip_suffix('`')
            .with_context(|| format!("the mark of {name} names no command"))?;
        let end = format!("<!-- end of {name} -->\n");
        let (body, after) =
            body.split_once(&end).with_context(|| format!("the section {name} has no end"))?;
        rest = after;
        let (first, others) = body.split_once('\n').unwrap_or((body, ""));
        let stored = first.strip_prefix(WITH.0).and_then(|line| line.strip_suffix(WITH.1));
        let (origin, mut text) = stored.map_or(("", body), |origin| (origin, others));
        if text.starts_with(STALE) {
            text = text.split_once("\n\n").map_or("", |(_, text)| text);
        }
        sections.push(Section {
            name: name.to_owned(),
            command: command.to_owned(),
            text: text.to_owned(),
            origin: origin.parse().with_context(|| format!("the section {name}"))?,
        });
    }
    Ok(sections)
}

/// A section behind its origin, and behind the stale mark if an input has changed since.
fn headed(section: &str, origin: &Origin, now: &mut Sources) -> anyhow::Result<String> {
    if origin.is_empty() {
        return Ok(format!(
            "{STALE}what these figures were measured with was not recorded.\n\n{section}"
        ));
    }
    let head = format!("{}{origin}{}\n", WITH.0, WITH.1);
    let changed: Vec<String> = origin
        .changed(now)?
        .into_iter()
        .map(|(input, commit)| format!("{input} (measured at {commit})"))
        .collect();
    Ok(match changed.join(", ") {
        none if none.is_empty() => head + section,
        list => {
            format!("{head}{STALE}changed since these figures were measured: {list}.\n\n{section}")
        }
    })
}

fn with_section(old: &str, name: &str, command: &str, section: &str) -> String {
    let (begin, end) =
        (format!("<!-- {name}: written by `{command}` -->\n"), format!("<!-- end of {name} -->\n"));
    match (old.find(&begin), old.find(&end)) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{begin}{section}{}", &old[..from], &old[to..])
        }
        _ => format!("{}\n\n{begin}{section}{end}", old.trim_end()),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("can't read '{}'", path.display()))
}

fn write(path: &Path, old: &str, new: &str) -> anyhow::Result<()> {
    if old == new { Ok(()) } else { stored::write_text(path, new) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_everything_else_stays() {
        let first = with_section("# Title\n\ntext\n", "x", "make x", "one\n");
        let second = with_section(&format!("{first}after\n"), "x", "make x", "two\n");
        assert_eq!(
            second,
            "# Title\n\ntext\n\n<!-- x: written by `make x` -->\ntwo\n<!-- end of x -->\nafter\n"
        );
    }

    #[test]
    fn a_section_is_marked_when_its_inputs_change_and_unmarked_when_they_are_back() {
        let dir = tempfile::tempdir().unwrap();
        let law = dir.path().join("crates/guard/src");
        std::fs::create_dir_all(&law).unwrap();
        std::fs::write(law.join("lib.rs"), "fn one() {}").unwrap();
        let document = dir.path().join("league.md");
        std::fs::write(&document, "# Title\n").unwrap();
        let origin = Origin::now(dir.path(), &["law"]).unwrap();
        replace_section(&document, "x", "make x", "| 1 |\n", &origin, dir.path()).unwrap();
        let fresh = std::fs::read_to_string(&document).unwrap();
        assert!(mark_stale(&document, &mut Sources::below(dir.path())).unwrap().is_empty());
        assert_eq!(std::fs::read_to_string(&document).unwrap(), fresh);

        std::fs::write(law.join("lib.rs"), "fn two() {}").unwrap();
        assert_eq!(mark_stale(&document, &mut Sources::below(dir.path())).unwrap(), ["x"]);
        let stale = std::fs::read_to_string(&document).unwrap();
        assert!(
            stale.contains(
                "> **Stale**: changed since these figures were measured: law (measured at "
            )
        );
        mark_stale(&document, &mut Sources::below(dir.path())).unwrap();
        assert_eq!(std::fs::read_to_string(&document).unwrap(), stale, "marked once");
        let section = sections(&stale).unwrap().remove(0);
        let expected = ("x".to_owned(), "make x".to_owned(), "| 1 |\n".to_owned(), origin.clone());
        assert_eq!((section.name, section.command, section.text, section.origin), expected);

        // A table measured with the old law is stale at once, however new the table is.
        replace_section(&document, "x", "make x", "| 1 |\n", &origin, dir.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&document).unwrap(), stale);
        std::fs::write(law.join("lib.rs"), "fn one() {}").unwrap();
        assert!(mark_stale(&document, &mut Sources::below(dir.path())).unwrap().is_empty());
        assert_eq!(std::fs::read_to_string(&document).unwrap(), fresh);
    }

    #[test]
    fn figures_of_unrecorded_origin_are_stale() {
        let dir = tempfile::tempdir().unwrap();
        let document = dir.path().join("league.md");
        std::fs::write(
            &document,
            "a\n\n<!-- x: written by `make x` -->\n| 1 |\n<!-- end of x -->\nb\n",
        )
        .unwrap();
        for _ in 0..2 {
            assert_eq!(mark_stale(&document, &mut Sources::below(dir.path())).unwrap(), ["x"]);
            let text = std::fs::read_to_string(&document).unwrap();
            assert_eq!(
                text,
                "a\n\n<!-- x: written by `make x` -->\n\
                 > **Stale**: what these figures were measured with was not recorded.\n\n| 1 |\n\
                 <!-- end of x -->\nb\n"
            );
        }
    }

    #[test]
    fn every_generated_section_of_the_documents_can_be_read() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut found = Vec::new();
        let mut now = Sources::below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        for entry in std::fs::read_dir(docs).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                let read = sections(&text).unwrap();
                assert_eq!(
                    read.len(),
                    text.matches(": written by `").count(),
                    "{}",
                    path.display()
                );
                for section in read {
                    // Only known inputs.
                    section.origin.changed(&mut now).unwrap();
                    found.push(section.name);
                }
            }
        }
        assert!(found.contains(&"league-cells".to_owned()), "{found:?}");
    }
}
