//! The tables: one at the end of a run, and those of docs/kernels.md, from the stored data.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use published::document::replace_section;
use published::origin::Origin;

use crate::data::KernelData;
use crate::kernels::SOURCES;
use crate::said::Outcome;

/// The command that writes the document.
pub(crate) const COMMAND: &str = "make matrix";
/// The document's sections.
pub(crate) const CHECKS: &str = "kernels-checks";
pub(crate) const CAPABILITIES: &str = "kernels-capabilities";

/// Kernel × check, and below it why a check failed or was left out.
pub(crate) fn results(all: &[(String, KernelData)]) -> String {
    let mut text = checks(all.iter().map(|(_, data)| data));
    for (name, data) in all {
        if let Some(why) = &data.left_out {
            let _ = writeln!(text, "{name}: left out: {why}");
        }
        for check in &data.checks {
            let (word, why) = check.outcome.words();
            let _ = writeln!(text, "{name} {}: {word}: {why}", check.check);
        }
    }
    text
}

/// The table kernel × check.
pub(crate) fn checks<'a>(all: impl Iterator<Item = &'a KernelData> + Clone) -> String {
    let mut names: Vec<&str> = Vec::new();
    for check in all.clone().flat_map(|data| &data.checks) {
        if !names.contains(&check.check.as_str()) {
            names.push(&check.check);
        }
    }
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head = ["kernel".to_owned()].into_iter().chain(names.iter().map(|name| (*name).to_owned()));
    let mut text = row(&head.collect::<Vec<_>>());
    text += &row(&vec!["---".to_owned(); names.len() + 1]);
    for data in all {
        let cell = |name: &&str| match data.checks.iter().find(|check| check.check == **name) {
            Some(check) => check.outcome.words().0.to_owned(),
            None => "not run".to_owned(),
        };
        let first = data.kernel.clone().unwrap_or_else(|| data.name.clone());
        text += &row(&[first].into_iter().chain(names.iter().map(cell)).collect::<Vec<_>>());
    }
    text
}

/// The table capability × kernel.
pub(crate) fn capabilities(all: &[KernelData]) -> String {
    let names: BTreeSet<&String> = all.iter().flat_map(|data| data.has.keys()).collect();
    let releases = all.iter().map(|data| data.kernel.clone().unwrap_or_else(|| data.name.clone()));
    let mut text = format!("| | {} |\n", releases.collect::<Vec<_>>().join(" | "));
    text += &format!("|---{}|\n", "|---".repeat(all.len()));
    for name in names {
        let cells = all.iter().map(|data| data.has.get(name).map_or("?", String::as_str));
        let _ = writeln!(text, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    text
}

/// The stored data, the oldest kernel first.
///
/// # Errors
/// A file that can't be understood.
pub(crate) fn stored(dir: &Path) -> anyhow::Result<Vec<KernelData>> {
    let mut all = Vec::new();
    for source in SOURCES {
        all.extend(KernelData::read(dir, source.name)?);
    }
    Ok(all)
}

/// Writes the document's sections from the stored data.
///
/// # Errors
/// Files that can't be read or written.
pub(crate) fn write_document(data: &Path, out: &Path, root: &Path) -> anyhow::Result<()> {
    let all = stored(data)?;
    let origin = origin(&all);
    for (name, section) in [(CHECKS, checks(all.iter())), (CAPABILITIES, capabilities(&all))] {
        replace_section(out, name, COMMAND, &section, &origin, root)?;
    }
    Ok(())
}

/// What all of them were checked with.
fn origin(all: &[KernelData]) -> Origin {
    Origin::of_parts(all.iter().map(|data| &data.origin))
}

impl Outcome {
    /// For tables: how it ended, and the rest.
    pub(crate) fn words(&self) -> (&'static str, &str) {
        match self {
            Self::Passed(what) => ("passed", what),
            Self::Failed(why) => ("failed", why),
            Self::LeftOut(why) => ("left out", why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::said::Said;
    use published::document::sections;

    #[test]
    fn the_documents_tables_follow_from_the_stored_runs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let all = stored(&root.join("benches/matrix/data")).unwrap();
        let document = std::fs::read_to_string(root.join("docs/kernels.md")).unwrap();
        let document = sections(&document).unwrap();
        if all.is_empty() {
            assert!(document.is_empty(), "docs/kernels.md has tables, and nothing is stored");
            return;
        }
        for (name, rendered) in [(CHECKS, checks(all.iter())), (CAPABILITIES, capabilities(&all))] {
            let section = document.iter().find(|section| section.name == name);
            let section =
                section.unwrap_or_else(|| panic!("docs/kernels.md has no section {name}"));
            assert_eq!(section.text, rendered, "{name}: '{COMMAND}' writes it anew");
            assert_eq!(section.origin, origin(&all), "{name}");
        }
    }

    #[test]
    fn a_guest_that_ends_early_fails_in_the_check_that_ran_and_has_not_run_the_others() {
        let whole = [
            Said::Begun("status".into()),
            ended("status"),
            Said::Begun("guard".into()),
            ended("guard"),
        ];
        let run = |name: &str, said: &[Said]| {
            let mut data = KernelData { name: name.to_owned(), ..KernelData::default() };
            said.iter().for_each(|said| drop(data.take(said.clone())));
            data
        };
        let mut cut = run("7", &whole[..3]);
        cut.cut_short(Outcome::Failed("the guest ended".into()));
        let mut silent = run("8", &[]);
        silent.cut_short(Outcome::Failed("the guest ended".into()));
        let all = [run("6.1", &whole), cut, silent];
        assert_eq!(
            checks(all.iter()),
            "| kernel | status | guard | boot |\n| --- | --- | --- | --- |\n\
             | 6.1 | passed | passed | not run |\n| 7 | passed | failed | not run |\n\
             | 8 | not run | not run | failed |\n"
        );
    }

    fn ended(check: &str) -> Said {
        Said::Ended {
            check: check.to_owned(),
            outcome: Outcome::Passed(String::new()),
            seconds: 1.0,
        }
    }
}
