//! The commands of the documents, for two tests: `src/documents_tests.rs` parses each, and
//! `tests/it/documents.rs` runs the short ones.
//!
//! ```text
//! README.md, docs/**/*.md ─▶ pulldown-cmark ─▶ blocks of code ─▶ shell words ─▶ commands
//!                                            └▶ code in a sentence ──────────┘
//! ```
//!
//! A block with lines that begin with `$ ` is a session: these lines are its commands, and the
//! lines below are their output. In any other block each line is a command or output. Only
//! `floodwall` is looked for, also behind `sudo`, behind `--` and in the script of a `sh -c`.

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The benchmark's table has rows of this program's name.
const WITHOUT_COMMANDS: &str = "docs/agreement.md";

/// One command line of a document.
#[derive(Debug)]
pub(crate) struct Command {
    /// The document, from the repository's root.
    pub(crate) page: String,
    /// From `floodwall` on.
    pub(crate) words: Vec<String>,
    /// The lines below it, if it is one of a session.
    #[allow(dead_code, reason = "one of the two tests reads it")]
    pub(crate) output: String,
    /// Code in a sentence: often only a part of a command.
    #[allow(dead_code, reason = "one of the two tests reads it")]
    pub(crate) is_part: bool,
}

/// All of them.
pub(crate) fn commands() -> Vec<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![PathBuf::from("README.md")];
    markdown(&root, Path::new("docs"), &mut pages);
    pages.sort();
    let mut found = Vec::new();
    for page in pages.iter().filter(|page| *page != Path::new(WITHOUT_COMMANDS)) {
        let text = fs::read_to_string(root.join(page)).unwrap();
        commands_of(&page.to_string_lossy(), &text, &mut found);
    }
    found
}

fn markdown(root: &Path, folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            markdown(root, &path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

fn commands_of(page: &str, text: &str, found: &mut Vec<Command>) {
    let mut block: Option<String> = None;
    let mut add = |script: &str, output: &str, is_part: bool| {
        for words in floodwall_lines(script) {
            let (page, output) = (page.to_owned(), output.to_owned());
            found.push(Command { page, words, output, is_part });
        }
    };
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => block = Some(String::new()),
            Event::Text(text) => {
                if let Some(block) = &mut block {
                    block.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let block = format!("\n{}", block.take().unwrap());
                let mut parts = block.split("\n$ ");
                let before = parts.next().unwrap();
                let session: Vec<&str> = parts.collect();
                if session.is_empty() {
                    add(before, "", false);
                }
                for part in session {
                    let (command, output) = part.split_once('\n').unwrap_or((part, ""));
                    add(command, output, false);
                }
            }
            Event::Code(code) => add(&code, "", true),
            _ => {}
        }
    }
}

/// The commands of a script that call `floodwall`, each from that word on.
fn floodwall_lines(script: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for line in logical_lines(script) {
        for words in shell(&line) {
            let mut rest = words.as_slice();
            while let Some(at) = rest.iter().position(|word| word == "floodwall") {
                if at == 0 || matches!(rest[at - 1].as_str(), "sudo" | "--") {
                    found.push(rest[at..].to_vec());
                }
                rest = &rest[at + 1..];
            }
            for script in words.iter().filter(|word| word.contains("floodwall ")) {
                found.extend(floodwall_lines(script));
            }
        }
    }
    found
}

/// The lines that name `floodwall`, each with those that it goes on in, and without what explains
/// it: two blanks begin that. A line whose quotes stay open is prose.
fn logical_lines(script: &str) -> Vec<String> {
    let mut found = Vec::new();
    let joined = joined(script);
    let mut lines = joined.iter();
    while let Some(line) = lines.next() {
        if !line.contains("floodwall") {
            continue;
        }
        let mut whole = line.trim().to_owned();
        let mut further = lines.clone();
        loop {
            if let Some(command) = without_explanation(&whole) {
                found.push(command.trim_matches(['(', ')']).to_owned());
                lines = further;
                break;
            }
            let Some(next) = further.next() else { break };
            whole = format!("{whole}\n{next}");
        }
    }
    found
}

/// The lines of a script; one that ends with a backslash has the next one at its end, and a single
/// blank for those around that place.
fn joined(script: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in script.lines() {
        let text = line.strip_suffix('\\').unwrap_or(line);
        match lines.last_mut().filter(|_| goes_on) {
            Some(last) => {
                let (before, after) = (last.trim_end(), text.trim_start());
                let is_apart = before.len() < last.len() || after.len() < text.len();
                *last = format!("{before}{}{after}", if is_apart { " " } else { "" });
            }
            None => lines.push(text.to_owned()),
        }
        goes_on = line.ends_with('\\');
    }
    lines
}

/// A line up to two blanks, or its end; `None` if a quote is open there.
fn without_explanation(line: &str) -> Option<&str> {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None if line[at..].starts_with("  ") => return Some(&line[..at]),
            None => {}
        }
    }
    quote.is_none().then_some(line)
}

/// The commands of a line, each as the words that a shell would pass on. Knows quotes, comments,
/// `|`, `;`, `&&` and redirections.
pub(crate) fn shell(line: &str) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<String>> = vec![Vec::new()];
    let (mut word, mut quote, mut skip) = (None::<String>, None::<char>, false);
    let end = |word: &mut Option<String>, skip: &mut bool, commands: &mut Vec<Vec<String>>| {
        if let Some(done) = word.take()
            && !std::mem::take(skip)
            && let Some(last) = commands.last_mut()
        {
            last.push(done);
        }
    };
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ') => end(&mut word, &mut skip, &mut commands),
            (None, '|' | ';' | '&') => {
                end(&mut word, &mut skip, &mut commands);
                commands.push(Vec::new());
            }
            (None, '<' | '>') => {
                end(&mut word, &mut skip, &mut commands);
                skip = true;
            }
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut skip, &mut commands);
    assert_eq!(quote, None, "{line}");
    commands.retain(|words| !words.is_empty());
    // Variables are numbers.
    for word in commands.iter_mut().flatten().filter(|word| word.starts_with('$')) {
        let end = word.find('/').unwrap_or(word.len());
        word.replace_range(..end, "1");
    }
    commands
}
