//! Each `floodwall` in the documents is a command line that the parser understands, with options
//! that exist. `tests/it/documents.rs` runs the short ones.

use clap::Parser;
use clap::error::ErrorKind;

use crate::Cli;
use crate::documents::commands;

/// The kinds of error that show a wrong word, not a missing one.
const WRONG_WORD: [ErrorKind; 2] = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];

#[test]
fn every_command_of_the_documents_is_understood() {
    let commands = commands();
    assert!(commands.iter().filter(|command| !command.is_part).count() > 150, "{commands:#?}");
    let mut wrong = Vec::new();
    for command in &commands {
        let Err(error) = Cli::try_parse_from(&command.words) else { continue };
        let may_be = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            // `floodwall sim --set …` in a sentence names a command and leaves the rest out.
            kind => command.is_part && !WRONG_WORD.contains(&kind),
        };
        if !may_be {
            let (page, line) = (&command.page, command.words.join(" "));
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            wrong.push(format!("{page}: {line}: {first}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
