//! `floodwall compat`: command lines of classic tools, answered in their own format.
//!
//! ```text
//! words ─▶ the tool's options (crate compat) ─▶ its run, one file a tool ─▶ its format on stdout
//! with --flood: beside ─▶ the same in processes of their own, alone and beside a flood
//! ```
//!
//! A link to the program with a tool's name is that tool, as `floodwall compat` and its name are.

mod beside;
mod dd;
mod device;
mod disktest;
mod fio;
mod iostat;
mod meter;
mod sysbench;
mod words;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::beside::BesideArgs;
use self::meter::Meter;
use crate::exit::{Exit, UsageError};
use crate::{output, signals};

type Run = fn(&CompatArgs, &[OsString]) -> anyhow::Result<Exit>;

/// The tools that there are.
const TOOLS: [(&str, Run); 5] = [
    ("iostat", |args, words| iostat::run(&args.texts(words)?)),
    ("sysbench", |args, words| sysbench::run(&args.texts(words)?, args.meter())),
    ("disktest", |args, words| {
        disktest::run(&words::texts(words)?, args.destructive, args.meter())
    }),
    ("fio", |args, words| fio::run(&words::texts(words)?, args.destructive, args.meter())),
    ("dd", |args, words| dd::run(words, args.destructive, args.meter())),
];
/// The words with which scripts ask a tool for its version, and the first line of its answer. fio's
/// stands with its reports.
const VERSIONS: [(&str, &str, &str); 3] = [
    ("iostat", "-V", "sysstat version 12.6.1"),
    ("sysbench", "--version", "sysbench 1.0.20"),
    ("dd", "--version", "dd (coreutils) 9.1"),
];
/// The command's own name.
const COMMAND: &str = "compat";

/// Answer a classic tool's command line in its own format
///
/// Scripts that read the tool's output go on unchanged with 'floodwall compat' in front. Tools:
/// iostat (sysstat 12.6) with -c -d -x -k -m -t -y -z -p -o JSON, devices, interval and count;
/// sysbench (1.0 and 0.4), its fileio test in the current directory; disktest (LTP 1.2.8 and 1.4)
/// on a file or device; fio (3.33), its job files and command lines with the options that scripts
/// use; dd (GNU 9.1) with if of bs ibs obs count skip seek conv iflag oflag status. An option that
/// is not supported is an error that names it. A link to floodwall with a tool's name is that tool.
///
/// With --flood the tool runs alone and beside a flood, in interleaved rounds, also under each
/// --set. Its output of the last run beside the flood goes to stdout, the figures of all runs go
/// to stderr. docs/compat.md has the rest.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall compat iostat -x 1
  floodwall compat iostat -dm -y sda 5 12
  floodwall compat iostat -xt -o JSON 10 6 > iostat.json
  floodwall compat sysbench fileio --file-num=16 --file-total-size=2G prepare
  floodwall compat sysbench fileio --file-num=16 --file-total-size=2G \\
      --file-test-mode=rndwr --file-fsync-freq=1 --time=60 run
  floodwall compat sysbench fileio --file-num=16 cleanup
  floodwall compat disktest -B 4k -h 1 -I BD -K 4 -p l -P T -T 30 -r /dev/sdX
  floodwall compat disktest -B 4k -I F -K 4 -p r -P T -T 30 -w -N 131072 file
  floodwall compat fio --name=wal --rw=write --fdatasync=1 --bs=2300 --size=22m
  floodwall compat fio --output-format=json jobs.fio > result.json
  floodwall compat dd if=/dev/zero of=flood bs=1M count=4096 conv=fsync
  floodwall compat --destructive dd if=image of=/dev/sdX bs=4M oflag=direct
  floodwall compat --flood seq --set small=vm.dirty_bytes=15MB \\
      sysbench fileio --file-test-mode=rndwr --file-fsync-freq=1 --time=30 run
  floodwall compat --flood files dd if=/dev/zero of=log count=9999 oflag=dsync

Ctrl-C ends it, and completes a JSON document of iostat's.")]
pub(crate) struct CompatArgs {
    /// dd, disktest, fio: write a block device that is mounted or in use
    #[arg(long)]
    destructive: bool,
    #[command(flatten)]
    beside: BesideArgs,
    /// Where a run's counts are written, for the process that started it
    #[arg(long, value_name = "FILE", hide = true)]
    counters: Option<PathBuf>,
    /// The tool, then its command line as it is
    #[arg(value_name = "TOOL", required = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

impl CompatArgs {
    fn meter(&self) -> Meter<'_> {
        Meter::new(self.counters.as_ref())
    }

    /// The words of one run.
    fn run_words(&self) -> Vec<OsString> {
        let destructive = self.destructive.then(|| OsString::from("--destructive"));
        destructive.into_iter().chain(self.words.iter().cloned()).collect()
    }

    /// The words of a tool that writes no device.
    fn texts(&self, words: &[OsString]) -> anyhow::Result<Vec<String>> {
        if self.destructive {
            let refused = "compat: --destructive is for dd, disktest and fio; leave it out";
            return Err(UsageError(refused.into()).into());
        }
        words::texts(words)
    }
}

/// The command line of a process, whose name may be a tool's: `…/dd if=a` is
/// `floodwall compat dd if=a`.
///
/// It can't come back here: the words are replaced once and no program is started, neither `dd` nor
/// this one. `compat` is no tool, so the words that follow it are never replaced again.
pub(crate) fn by_name(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().and_then(|path| Path::new(path).file_name());
    let Some(tool) = name.filter(|name| is_tool(name)).map(OsStr::to_owned) else {
        return arguments;
    };
    arguments.splice(..1, [env!("CARGO_PKG_NAME").into(), COMMAND.into(), tool]);
    arguments
}

fn is_tool(name: &OsStr) -> bool {
    TOOLS.iter().any(|(tool, _)| *tool == name)
}

/// Runs the command.
///
/// # Errors
/// A tool that is not known, and what the tool's own run fails with.
pub(crate) fn run(args: &CompatArgs, origin: Instant) -> anyhow::Result<Exit> {
    let (tool, words) = args.words.split_first().map_or((OsStr::new(""), &[][..]), |(t, w)| (t, w));
    // A run beside a flood, which must not outlive it.
    if args.counters.is_some() && !signals::end_with_parent()? {
        return Ok(Exit::Failed);
    }
    let asked = |(name, word, _): &&(&str, &str, &str)| *name == tool && words == [*word];
    if let Some((.., version)) = VERSIONS.iter().find(asked) {
        return output::result(&format!("{version}\n")).map(|()| Exit::Done);
    }
    match TOOLS.iter().find(|(name, _)| *name == tool) {
        Some(_) if args.beside.has_flood() => {
            beside::run(&args.beside, &args.run_words(), (tool, words), origin)
        }
        Some((_, run)) => {
            args.beside.check_without_flood()?;
            run(args, words)
        }
        None => {
            let (tool, known) = (tool.display(), TOOLS.map(|(name, _)| name).join(", "));
            Err(UsageError(format!("compat: there is no tool '{tool}'; known here: {known}"))
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_link_with_a_tools_name_is_the_tool() {
        for (line, wanted) in [
            ("/usr/lib/floodwall/compat/dd if=a", "floodwall compat dd if=a"),
            ("./disktest -T 1 a", "floodwall compat disktest -T 1 a"),
            ("iostat -x 1", "floodwall compat iostat -x 1"),
            ("./floodwall compat dd", "./floodwall compat dd"),
            ("compat dd", "compat dd"),
            ("vmstat 1", "vmstat 1"),
            ("/dd/floodwall dd", "/dd/floodwall dd"),
        ] {
            assert_eq!(by_name(words(line)), words(wanted));
        }
        assert!(by_name(Vec::new()).is_empty());
    }

    #[test]
    fn names_are_replaced_once() {
        let once = by_name(words("dd dd"));
        assert_eq!(once, words("floodwall compat dd dd"));
        assert_eq!(by_name(once.clone()), once);
        assert!(!is_tool(COMMAND.as_ref()) && !is_tool(env!("CARGO_PKG_NAME").as_ref()));
    }
}
