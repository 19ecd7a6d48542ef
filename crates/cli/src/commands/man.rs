//! `floodwall man`: manual pages, made from the definitions that the command line is parsed by.
//!
//! ```text
//! Cli's definition ─▶ clap_mangen: name, synopsis, options ─┬▶ roff ─▶ stdout, or a file a command
//! examples and notes after a command's help ────────────────┘
//! ```

use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use floodwall_model::toml_text;

use crate::exit::{Exit, UsageError};
use crate::output;

const EXAMPLES: &str = "Examples:\n";

/// Print a command's manual page
///
/// It is the page of floodwall, or of the command that is named, in the format that man(1) reads.
/// With --dir the pages of all commands become files, as the packages install them.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall man | man -l -
  floodwall man lab up > floodwall-lab-up.1
  floodwall man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write a file for every command into this directory; files of these names are replaced
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
    /// The command, such as tune or lab up; without it floodwall itself
    command: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// [`UsageError`] for a command that there is not; a file that can't be written.
pub(crate) fn run(args: &ManArgs, all: Command) -> anyhow::Result<Exit> {
    let root = built(all);
    if let Some(directory) = &args.dir {
        for (file, page) in pages(&root)? {
            output::write_file(&directory.join(file), |out| Ok(out.write_all(&page)?))?;
        }
        return Ok(Exit::Done);
    }
    let page = page(named(&root, &args.command)?)?;
    output::result_with(|out| Ok(out.write_all(&page)?))?;
    Ok(Exit::Done)
}

/// With the whole name in each command, and without the pages of `help`.
fn built(all: Command) -> Command {
    let mut root = all.disable_help_subcommand(true);
    root.build();
    root
}

fn named<'a>(root: &'a Command, words: &[String]) -> Result<&'a Command, UsageError> {
    words.iter().try_fold(root, |above, word| {
        let visible = || above.get_subcommands().filter(|below| !below.is_hide_set());
        visible().find(|below| below.get_name() == word).ok_or_else(|| {
            let near = toml_text::nearest(word, visible().map(Command::get_name));
            let name = above.get_bin_name().unwrap_or("floodwall");
            let hint = match near {
                Some(near) => format!("did you mean {near}?"),
                None => format!("{name} --help lists them"),
            };
            UsageError(format!("'{name}' has no command '{word}'; {hint}"))
        })
    })
}

/// The pages of a command and of all below it, with their files' names.
fn pages(command: &Command) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut all = vec![(Man::new(command.clone()).get_filename(), page(command)?)];
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        all.extend(pages(below)?);
    }
    Ok(all)
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let source = format!("floodwall {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("Floodwall");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    if let Some(text) = after {
        after_help(&text.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

/// Examples and notes. clap_mangen itself would fill them like prose: a line that can be copied
/// stays a line.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::default();
    let mut has_notes = false;
    for paragraph in text.split("\n\n") {
        let lines = match paragraph.strip_prefix(EXAMPLES) {
            Some(lines) => {
                roff.control("SH", ["EXAMPLES"]);
                lines
            }
            None if has_notes => {
                roff.control("PP", []);
                paragraph
            }
            None => {
                has_notes = true;
                roff.control("SH", ["NOTES"]);
                paragraph
            }
        };
        // A paragraph of several lines is laid out by its author.
        let is_laid_out = lines.contains('\n') || lines.starts_with(' ');
        if is_laid_out {
            roff.control("nf", []);
        }
        for line in lines.lines() {
            roff.text([roman(line)]);
        }
        if is_laid_out {
            roff.control("fi", []);
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    fn written() -> Vec<(String, String)> {
        let pages = pages(&built(Cli::command())).unwrap();
        pages.into_iter().map(|(file, page)| (file, String::from_utf8(page).unwrap())).collect()
    }

    #[test]
    fn every_visible_command_has_a_page_with_its_examples() {
        let all = written();
        for (file, page) in &all {
            let name = file.strip_suffix(".1").unwrap().replace('-', "\\-");
            assert!(page.contains(&format!(".SH NAME\n{name} \\- ")), "{file}: {page}");
            let examples =
                page.split(".SH EXAMPLES\n.nf\n").nth(1).unwrap_or_else(|| panic!("{page}"));
            assert!(examples.starts_with("  "), "{file}: {examples}");
            assert!(!page.contains("SH EXTRA"), "{file}");
        }
        let has = |file: &str| all.iter().any(|(other, _)| other == file);
        assert!(has("floodwall.1") && has("floodwall-lab-up.1") && has("floodwall-man.1"));
        assert!(!has("floodwall-guard-worker.1") && !has("floodwall-help.1"));
    }

    #[test]
    fn prose_is_filled_and_tables_are_not() {
        let text = after_help("Examples:\n  one\n  two\n\nProse.\n\nTable:\n  a b").to_roff();
        let wanted = [
            ".SH EXAMPLES\n.nf\n  one\n  two\n.fi",
            ".SH NOTES\nProse.",
            ".PP\n.nf\nTable:\n  a b\n.fi",
        ];
        assert_eq!(text.trim(), wanted.join("\n"));
    }

    #[test]
    fn a_misspelt_command_is_refused_with_the_nearest() {
        let root = built(Cli::command());
        let say = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            named(&root, &words).map(|c| c.get_bin_name().unwrap().to_owned())
        };
        assert_eq!(say(&["lab", "up"]).unwrap(), "floodwall lab up");
        let wrong = say(&["lab", "dwon"]).unwrap_err().to_string();
        assert_eq!(wrong, "'floodwall lab' has no command 'dwon'; did you mean down?");
        assert!(say(&["guard-worker"]).is_err());
    }
}
