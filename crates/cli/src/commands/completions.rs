//! `floodwall completions`: what a shell completes, from the definitions that the command line is
//! parsed by.

use clap::builder::{Resettable, Str};
use clap::{Arg, Command};
use clap_complete::{Shell, generate};

use crate::exit::Exit;
use crate::output;

/// Print what a shell needs to complete commands and options
///
/// The packages install these files for bash, zsh and fish.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall completions bash > /etc/bash_completion.d/floodwall
  floodwall completions fish > ~/.config/fish/completions/floodwall.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Runs the command.
///
/// # Errors
/// If stdout can't be written.
pub(crate) fn run(args: &CompletionsArgs, all: &Command) -> anyhow::Result<Exit> {
    let text = completions(args.shell, all);
    output::result_with(|out| Ok(out.write_all(&text)?))?;
    Ok(Exit::Done)
}

fn completions(shell: Shell, all: &Command) -> Vec<u8> {
    let mut text = Vec::new();
    generate(shell, &mut visible(all), "floodwall", &mut text);
    text
}

/// The same without hidden commands and options: clap_complete would offer them.
fn visible(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    Command::new(command.get_name().to_owned())
        .about(Resettable::from(command.get_about().cloned()))
        .version(Resettable::from(command.get_version().map(owned)))
        .disable_help_subcommand(true)
        .args(arguments.map(completed))
        .subcommands(below.map(visible))
}

/// An argument without its relations: groups, conflicts and requirements may name hidden arguments,
/// which clap looks for. Nothing is parsed with these definitions.
fn completed(argument: &Arg) -> Arg {
    Arg::new(argument.get_id().to_string())
        .short(argument.get_short())
        .long(Resettable::from(argument.get_long().map(owned)))
        .help(Resettable::from(argument.get_help().cloned()))
        .action(argument.get_action().clone())
        .num_args(Resettable::from(argument.get_num_args()))
        .value_names(argument.get_value_names().unwrap_or_default().to_vec())
        .value_parser(argument.get_value_parser().clone())
        .value_hint(argument.get_value_hint())
        .last(argument.is_last_set())
        .global(argument.is_global_set())
}

fn owned(text: &str) -> Str {
    Str::from(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn every_shell_gets_the_visible_commands_and_options_alone() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completions(shell, &Cli::command())).unwrap();
            for shown in ["unpersist", "nagios", "ext4"] {
                assert!(text.contains(shown), "{shell}: {shown}");
            }
            for hidden in ["guard-worker", "pace-keeper", "counters"] {
                assert!(!text.contains(hidden), "{shell}: {hidden}");
            }
        }
    }
}
