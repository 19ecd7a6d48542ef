//! Errors of the command line in the words of all other errors: the fault, its subject and a
//! remedy, in one line.

use std::error::Error;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options of other commands, and what a command has in their place.
const INSTEAD: [(&str, &str, &str); 1] =
    [("floodwall watch", "--from", "a recording is --dir, a moment is --begin")];

/// An error of the parser in one line. `arguments` are those of the process, its name first; `all`
/// has all commands.
pub(crate) fn explain(error: &clap::Error, arguments: &[String], all: Command) -> String {
    let command = command(arguments, all.clone());
    let more = |what: &str| format!(" ({command} --help {what})");
    let argument = argument(error);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let near = meant(error, ContextKind::SuggestedSubcommand);
            let name = text(error, ContextKind::InvalidSubcommand);
            format!("there is no command '{name}'{near}{}", more("lists all"))
        }
        // A value such as `-5s` looks like an option to the parser, which names its first letter.
        ErrorKind::UnknownArgument if is_number(&argument) => {
            let whole = arguments.iter().find(|given| given.starts_with(&argument));
            let whole = whole.unwrap_or(&argument);
            format!("'{whole}' is negative; no option takes a value below zero")
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let asked = (command.as_str(), argument.as_str());
            if let Some(before) = stands_before(&argument, arguments, &all) {
                return before;
            }
            let near = match INSTEAD.iter().find(|(of, option, _)| (*of, *option) == asked) {
                Some((.., instead)) => format!("; {instead}"),
                None => meant(error, ContextKind::SuggestedArg),
            };
            format!("there is no option '{argument}'{near}{}", more("lists all"))
        }
        ErrorKind::UnknownArgument if takes_a_command(&command, &all) => {
            format!("a command stands after '--': {command} -- {argument} …")
        }
        ErrorKind::UnknownArgument => {
            format!("'{argument}' is one argument too many{}", more("has examples"))
        }
        ErrorKind::InvalidValue if text(error, ContextKind::InvalidValue).is_empty() => {
            format!("{argument}: its value is missing{}", more("has examples"))
        }
        ErrorKind::InvalidValue => {
            let value = text(error, ContextKind::InvalidValue);
            let near = meant(error, ContextKind::SuggestedValue);
            let known = texts(error, ContextKind::ValidValue).join(", ");
            format!("{argument}: unknown value '{value}'{near}; known here: {known}")
        }
        ErrorKind::ValueValidation => {
            let value = text(error, ContextKind::InvalidValue);
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{argument}: {}", plain(&value, &why))
        }
        ErrorKind::MissingRequiredArgument => {
            let names: Vec<String> = texts(error, ContextKind::InvalidArg)
                .iter()
                .map(|name| without_marks(name))
                .collect();
            let of = command.trim_start_matches("floodwall").trim_start();
            let are = if names.len() > 1 { "are" } else { "is" };
            format!("{of}: {} {are} missing{}", names.join(" and "), more("has examples"))
        }
        ErrorKind::ArgumentConflict => {
            let others = texts(error, ContextKind::PriorArg);
            let others: Vec<&str> = others.iter().map(|other| name(other)).collect();
            format!("{argument} can't go with {}; leave one out", others.join(" and "))
        }
        ErrorKind::TooManyValues => {
            let value = text(error, ContextKind::InvalidValue);
            format!("{argument}: it takes no value, and '{value}' is given; leave it out")
        }
        _ => {
            let said = error.render().to_string();
            let first = said.lines().next().unwrap_or_default();
            format!("{}{}", first.trim_start_matches("error: "), more("has examples"))
        }
    }
}

/// The command of a command line: `floodwall lab run`.
fn command(arguments: &[String], all: Command) -> String {
    let mut command = all;
    let mut name = "floodwall".to_owned();
    for given in arguments.iter().skip(1).filter(|given| !given.starts_with('-')) {
        let Some(below) = command.find_subcommand(given) else { break };
        name = format!("{name} {}", below.get_name());
        command = below.clone();
    }
    name
}

/// Where an option of a command stands that was given after the name of a subcommand.
fn stands_before(option: &str, arguments: &[String], all: &Command) -> Option<String> {
    let has = |command: &Command| {
        command.get_arguments().any(|argument| {
            let (long, short) = (argument.get_long(), argument.get_short());
            option.strip_prefix("--").is_some_and(|name| long == Some(name))
                || option.strip_prefix('-').is_some_and(|name| {
                    short.is_some_and(|short| name.chars().eq(std::iter::once(short)))
                })
        })
    };
    let (mut command, mut name) = (all, "floodwall".to_owned());
    for given in arguments.iter().skip(1).take_while(|given| *given != "--") {
        let Some(below) = command.find_subcommand(given) else { continue };
        if has(command) {
            let below = below.get_name();
            return Some(format!(
                "'{option}' stands before '{below}': {name} {option} … {below} …"
            ));
        }
        name = format!("{name} {}", below.get_name());
        command = below;
    }
    None
}

/// Whether a command runs another one, which stands after `--`.
fn takes_a_command(name: &str, all: &Command) -> bool {
    let mut words = name.split(' ').skip(1);
    let command = words.try_fold(all, |command, word| command.find_subcommand(word));
    command.is_some_and(|command| command.get_positionals().any(clap::Arg::is_last_set))
}

fn is_number(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> String {
    texts(error, kind).into_iter().next().unwrap_or_default()
}

/// The argument that an error is about, without its value: `--rounds`, `SETTING`.
fn argument(error: &clap::Error) -> String {
    name(&text(error, ContextKind::InvalidArg)).to_owned()
}

fn name(argument: &str) -> &str {
    let first = argument.split([' ', '=']).next().unwrap_or_default();
    first.trim_end_matches("...").trim_matches(['<', '>', '[', ']'])
}

/// `--device <PRESET|FILE.toml>` as `--device PRESET|FILE.toml`, and of several options any one.
fn without_marks(argument: &str) -> String {
    argument.replace("...", "").replace(['<', '>'], "").replace("|--", " or --")
}

fn meant(error: &clap::Error, kind: ContextKind) -> String {
    match texts(error, kind).as_slice() {
        [] => String::new(),
        near => format!("; did you mean '{}'?", near.join("' or '")),
    }
}

/// Why a value is wrong, without the words of the standard library's parsers and of clap's ranges.
fn plain(value: &str, why: &str) -> String {
    match why {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            format!("'{value}' is not a whole number")
        }
        "invalid float literal" | "cannot parse float from empty string" => {
            format!("'{value}' is not a number")
        }
        _ if why.starts_with("number too ") => format!("'{value}' is out of range"),
        _ => match why.split_once(" is not in ").and_then(|(_, range)| range.split_once("..")) {
            Some((least, most)) => match most.strip_prefix('=') {
                Some(most) => format!("'{value}' is out of range: give {least} to {most}"),
                None => format!("'{value}' is out of range: give {least} or more"),
            },
            None => why.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::Cli;

    fn said(line: &str) -> String {
        let arguments: Vec<String> =
            format!("floodwall {line}").split(' ').map(str::to_owned).collect();
        let error = match Cli::try_parse_from(&arguments) {
            Ok(_) => panic!("'{line}' is understood"),
            Err(error) => error,
        };
        explain(&error, &arguments, Cli::command())
    }

    #[test]
    fn what_is_mistyped_is_answered_with_what_it_may_be() {
        for (line, expected) in [
            (
                "benhc",
                "there is no command 'benhc'; did you mean 'bench'? (floodwall --help lists all)",
            ),
            (
                "lab shwo",
                "there is no command 'shwo'; did you mean 'show'? (floodwall lab --help lists all)",
            ),
            (
                "bench --quik .",
                "there is no option '--quik'; did you mean '--quick'? (floodwall bench --help \
                 lists all)",
            ),
            ("bench -z", "there is no option '-z' (floodwall bench --help lists all)"),
            (
                "watch --from 03:10",
                "there is no option '--from'; a recording is --dir, a moment is --begin \
                 (floodwall watch --help lists all)",
            ),
            ("pace cp --max 1 a b", "'--max' stands before 'cp': floodwall pace --max … cp …"),
            ("pace --to share=50% cat -q", "'-q' stands before 'cat': floodwall pace -q … cat …"),
            ("pace cp --quux", "there is no option '--quux' (floodwall pace cp --help lists all)"),
            (
                "probe --source perff",
                "--source: unknown value 'perff'; did you mean 'perf'?; known here: auto, bpf, \
                 perf, proc",
            ),
        ] {
            assert_eq!(said(line), expected);
        }
    }

    #[test]
    fn a_wrong_value_is_told_in_plain_words() {
        for (line, expected) in [
            ("bench --rounds x .", "--rounds: 'x' is not a whole number"),
            ("rollback --to 99999999999999999999", "--to: '99999999999999999999' is out of range"),
            ("probe --count 0", "--count: '0' is out of range: give 1 or more"),
            ("lab seeks a --out b --marks 1", "--marks: '1' is out of range: give 100 to 1000000"),
            (
                "bench --measure 5 .",
                "--measure: '5' is not a duration: write a number and a unit, such as 250ms, 30s \
                 or 5m",
            ),
            ("bench --rounds -1 .", "'-1' is negative; no option takes a value below zero"),
            ("tune --time", "--time: its value is missing (floodwall tune --help has examples)"),
            ("bench --quick=3 .", "--quick: it takes no value, and '3' is given; leave it out"),
        ] {
            assert_eq!(said(line), expected);
        }
    }

    #[test]
    fn what_is_missing_or_too_much_is_named() {
        for (line, expected) in [
            ("check", "check: PROGRAM and DIR are missing (floodwall check --help has examples)"),
            ("apply", "apply: SETTING is missing (floodwall apply --help has examples)"),
            (
                "sim",
                "sim: --device PRESET|FILE.toml is missing (floodwall sim --help has \
                 examples)",
            ),
            ("pace tar xf x", "a command stands after '--': floodwall pace -- tar …"),
            (
                "unpersist extra",
                "'extra' is one argument too many (floodwall unpersist --help has examples)",
            ),
            ("bench --json --markdown", "--json can't go with --markdown; leave one out"),
            ("lab down a --all", "NAME can't go with --all; leave one out"),
        ] {
            assert_eq!(said(line), expected);
        }
    }
}
