//! What `--help` shows: examples of every command that fit the terminal and can be copied.

use clap::{Command, CommandFactory, Parser};

use crate::Cli;
use crate::documents::shell;

/// The narrowest terminal that help is laid out for.
const COLUMNS: usize = 80;
const HEADING: &str = "Examples:";

/// Every visible command with its whole name, the binary's first.
fn commands() -> Vec<(String, Command)> {
    fn walk(name: &str, command: &Command, all: &mut Vec<(String, Command)>) {
        all.push((name.to_owned(), command.clone()));
        let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
        for below in visible.filter(|c| c.get_name() != "help") {
            walk(&format!("{name} {}", below.get_name()), below, all);
        }
    }
    let mut root = Cli::command().term_width(COLUMNS);
    root.build();
    let mut all = Vec::new();
    walk("floodwall", &root, &mut all);
    all
}

/// The lines below `Examples:`, up to the next empty line.
fn examples(command: &Command) -> Vec<String> {
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let text = after.map(ToString::to_string).unwrap_or_default();
    let lines = text.lines().skip_while(|line| *line != HEADING).skip(1);
    lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The same with lines that go on (`\`) joined.
fn whole_examples(command: &Command) -> Vec<String> {
    let text = examples(command).join("\n").replace("\\\n", "");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_line_is_split_as_a_shell_does() {
    let split = |line| shell(line).into_iter().map(|words| words.join("_")).collect::<Vec<_>>();
    assert_eq!(split("a 'b c' d | e - > f g; h && i # j"), ["a_b c_d", "e_-_g", "h", "i"]);
}

#[test]
fn sim_offers_no_option_that_it_refuses() {
    let all = commands();
    let help = |name: &str| {
        let found = all.iter().find(|(other, _)| other == name).map(|(_, command)| command.clone());
        found.unwrap().render_long_help().to_string()
    };
    for option in ["--victim-cmd", "--flood-cmd", "--user", "--size", "--force", "--same-group"] {
        assert!(help("floodwall bench").contains(option), "{option}");
        assert!(!help("floodwall sim").contains(option), "{option}");
    }
}

#[test]
fn every_command_has_examples() {
    let without: Vec<String> = commands()
        .into_iter()
        .filter(|(_, command)| examples(command).is_empty())
        .map(|(name, _)| name)
        .collect();
    assert!(without.is_empty(), "without examples: {without:#?}");
}

#[test]
fn help_fits_80_columns() {
    let mut wide = Vec::new();
    for (name, mut command) in commands() {
        for text in [command.render_help(), command.render_long_help()] {
            let text = text.to_string();
            let lines = text.lines().filter(|line| line.chars().count() > COLUMNS);
            wide.extend(lines.map(|line| format!("{name}: {line}")));
        }
        // A wrapped line can't be copied.
        let lines = examples(&command).into_iter().filter(|line| line.chars().count() > COLUMNS);
        wide.extend(lines.map(|line| format!("{name}, example: {line}")));
    }
    wide.dedup();
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn every_example_is_understood() {
    let mut wrong = Vec::new();
    for (name, command) in commands() {
        for line in whole_examples(&command) {
            let all = shell(&line);
            let own = all.iter().any(|words| words.join(" ").starts_with(&name));
            if !own {
                wrong.push(format!("{name}: not an example of it: {line}"));
            }
            for words in all.iter().filter(|words| words[0] == "floodwall") {
                if let Err(error) = Cli::try_parse_from(words) {
                    wrong.push(format!("{name}: {line}\n{error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
