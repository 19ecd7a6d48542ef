//! `floodwall compat`: command lines of classic tools, answered in their own format.
//!
//! ```text
//! words ─▶ the tool's options (crate compat) ─▶ its run, one file a tool ─▶ its format on stdout
//! ```

mod iostat;
mod sysbench;

use crate::exit::{Exit, UsageError};

type Run = fn(&[String]) -> anyhow::Result<Exit>;

/// The tools that there are.
const TOOLS: [(&str, Run); 2] = [("iostat", iostat::run), ("sysbench", sysbench::run)];

/// Answer a classic tool's command line in its own format
///
/// Scripts that read the tool's output go on unchanged with 'floodwall compat' in front. Tools:
/// iostat (sysstat 12.6) with -c -d -x -k -m -t -y -z -p -o JSON, devices, interval and count;
/// sysbench (1.0 and 0.4), its fileio test in the current directory. An option that is not
/// supported is an error that names it. docs/compat.md has the rest.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall compat iostat -x 1
  floodwall compat iostat -dm -y sda 5 12
  floodwall compat iostat -xt -o JSON 10 6 > iostat.json
  floodwall compat sysbench fileio --file-num=16 --file-total-size=2G prepare
  floodwall compat sysbench fileio --file-num=16 --file-total-size=2G \\
      --file-test-mode=rndwr --file-fsync-freq=1 --time=60 run
  floodwall compat sysbench fileio --file-num=16 cleanup

Ctrl-C ends it, and completes a JSON document of iostat's.")]
pub(crate) struct CompatArgs {
    /// The tool, then its command line as it is
    #[arg(value_name = "TOOL", required = true, trailing_var_arg = true)]
    words: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// A tool that is not known, and what the tool's own run fails with.
pub(crate) fn run(args: &CompatArgs) -> anyhow::Result<Exit> {
    let (tool, words) = args.words.split_first().map_or(("", &[][..]), |(t, w)| (t.as_str(), w));
    match TOOLS.iter().find(|(name, _)| *name == tool) {
        Some((_, run)) => run(words),
        None => {
            let known = TOOLS.map(|(name, _)| name).join(", ");
            Err(UsageError(format!("compat: there is no tool '{tool}'; known here: {known}"))
                .into())
        }
    }
}
