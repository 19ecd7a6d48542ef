//! Job files: sections of options.
//!
//! ```text
//! text ─▶ lines ─▶ ${VARIABLE}, $ncpus replaced ─▶ [section], option, option=value, include FILE
//! ```

use super::error::OptionError;

/// Job files that include each other, at most.
const NESTED: usize = 16;

/// The machine, as far as the grammar needs it.
pub trait Host {
    /// The text of a job file; `-` is stdin.
    ///
    /// # Errors
    /// The system's error.
    fn read(&mut self, file: &str) -> Result<String, String>;

    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;

    /// `pagesize`, `mb_memory` or `ncpus`.
    fn keyword(&self, name: &str) -> Option<u64>;
}

/// A section of a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    /// The file, for messages.
    pub(super) file: String,
    /// Its lines: a name, and a value if there is one.
    pub(super) lines: Vec<(String, Option<String>)>,
}

/// The sections of a job file and of those that it includes.
pub(super) fn sections(file: &str, host: &mut dyn Host) -> Result<Vec<Section>, OptionError> {
    let mut sections = Vec::new();
    add(file, host, 0, &mut sections)?;
    Ok(sections)
}

fn add(
    file: &str,
    host: &mut dyn Host,
    depth: usize,
    sections: &mut Vec<Section>,
) -> Result<(), OptionError> {
    if depth > NESTED {
        return Err(OptionError::Nested(NESTED));
    }
    let text = host.read(file).map_err(|why| OptionError::File { file: file.to_owned(), why })?;
    for line in text.lines() {
        let line = without_comment(line);
        if line.is_empty() {
            continue;
        }
        let of = |line: &str| (file.to_owned(), line.to_owned());
        if let Some(rest) = line.strip_prefix('[') {
            let Some(name) = rest.strip_suffix(']').filter(|name| !name.is_empty()) else {
                let (file, line) = of(line);
                return Err(OptionError::BadSection { file, line });
            };
            let name = name.to_owned();
            sections.push(Section { name, file: file.to_owned(), lines: Vec::new() });
            continue;
        }
        if let Some(name) = line.strip_prefix("include ") {
            add(&beside(file, name.trim()), host, depth + 1, sections)?;
            continue;
        }
        let Some(section) = sections.last_mut() else {
            let (file, line) = of(line);
            return Err(OptionError::NoSection { file, line });
        };
        section.lines.push(match line.split_once('=') {
            Some((name, value)) => (name.trim().to_owned(), Some(replaced(value.trim(), host))),
            None => (line.to_owned(), None),
        });
    }
    Ok(())
}

/// A comment begins a line, or follows a blank.
fn without_comment(line: &str) -> &str {
    let is_begin = |at: usize| {
        let before = &line[..at];
        before.is_empty() || before.ends_with([' ', '\t'])
    };
    let begin = line.match_indices([';', '#']).map(|(at, _)| at).find(|at| is_begin(*at));
    line[..begin.unwrap_or(line.len())].trim()
}

/// An included file's name, as seen from the one that includes it.
fn beside(file: &str, name: &str) -> String {
    match file.rsplit_once('/') {
        Some((directory, _)) if !name.starts_with('/') => format!("{directory}/{name}"),
        _ => name.to_owned(),
    }
}

/// With variables of the environment and keywords. An unknown variable is empty; unknown keywords
/// stay, as in `$jobname.$filenum`.
fn replaced(value: &str, host: &dyn Host) -> String {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        if let Some((name, after)) = after.strip_prefix('{').and_then(|name| name.split_once('}')) {
            text.push_str(&host.variable(name).unwrap_or_default());
            rest = after;
            continue;
        }
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, after) = after.split_at(end.unwrap_or(after.len()));
        match host.keyword(name) {
            Some(number) => text.push_str(&number.to_string()),
            None => text.extend(["$", name]),
        }
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::super::tests::Files;
    use super::*;

    fn lines(text: &str) -> Result<Vec<Section>, OptionError> {
        sections("a/x.fio", &mut Files(&[("a/x.fio", text), ("a/y.fio", "[y]\nbs=1k")]))
    }

    #[test]
    fn a_job_file_is_sections_of_lines() {
        let text =
            "; c\n# d\n[global]\nbs = 4k ; e\n  thread\n\n[a b]\nname=x;y#z\ninclude y.fio\n";
        let found = lines(text).unwrap();
        let names: Vec<&str> = found.iter().map(|section| section.name.as_str()).collect();
        assert_eq!(names, ["global", "a b", "y"]);
        let line = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        assert_eq!(found[0].lines, [line("bs", Some("4k")), line("thread", None)]);
        assert_eq!(found[1].lines, [line("name", Some("x;y#z"))]);
    }

    #[test]
    fn variables_and_keywords_are_replaced() {
        let found = lines("[a]\nsize=${SIZE}m\nbs=$pagesize\nfilename_format=$jobname.$f\nx=${NO}")
            .unwrap();
        let values: Vec<&str> = found[0].lines.iter().filter_map(|(_, v)| v.as_deref()).collect();
        assert_eq!(values, ["64m", "4096", "$jobname.$f", ""]);
    }

    #[test]
    fn what_is_no_job_file_is_named() {
        let said = |text| lines(text).unwrap_err().to_string();
        assert_eq!(
            said("bs=4k"),
            "fio: a/x.fio: 'bs=4k' is in no section; write [global] or [NAME] before it"
        );
        assert_eq!(said("[a"), "fio: a/x.fio: '[a' is no section; write [NAME]");
        assert!(said("[a]\ninclude z.fio").starts_with("fio: can't read the job file 'a/z.fio': "));
        assert!(said("[a]\ninclude x.fio").contains("more than 16 deep"));
    }
}
