//! The command line of `floodwall pace`.

use std::ffi::OsString;
use std::path::PathBuf;

use floodwall_model::units::{Rate, UnitError};
use floodwall_pace::Goal;

/// Run a command, or copy files, so that other programs hardly notice
///
/// While no other program waits for the disk, the command is about as fast as without pace. When
/// others wait, pace writes nothing for a moment and measures how long they wait without the
/// command. Then the command gets a share of the disk beside which others wait at most twice as
/// long. Pace needs no privilege.
///
/// Pace writes the files of a command back early, in small pieces. It stops the command for moments
/// while too much of its data is dirty: by a control group of its own, else by SIGSTOP and SIGCONT.
/// With '--strict' its writes wait instead. 'pace cp' and 'pace cat' copy by themselves and stop no
/// process. docs/pace.md tells more.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall pace -- tar xf backup.tar -C /srv
  floodwall pace -- pg_dump -Fd -f /backup/db db
  floodwall pace cp -a /srv/images /backup
  floodwall pace cp --verify disk.img /media/stick
  zcat dump.gz | floodwall pace cat > /srv/dump
  floodwall pace --to rate=50MB/s -- make -j8
  floodwall pace --strict --max 20MB/s -- ./backup
  floodwall pace --to share=50% --max 200MB/s cp big /srv

Exit status: that of the command; 128 + n if signal n ended it; 127 if it is not found, 126 if \
it can't be run, 125 if pace itself fails, 2 for wrong usage. Of cp and cat: 0 done; 1 failed or \
interrupted; 2 wrong usage, and of cp also a missing source or too little space.")]
#[command(args_conflicts_with_subcommands = false, subcommand_negates_reqs = true)]
pub(crate) struct PaceArgs {
    /// The goal: 'victim' (others wait at most twice as long as without the command), 'victim=3',
    /// 'rate=50MB/s', or 'share=50%' (of what the disk takes, while others wait)
    #[arg(long, value_name = "GOAL", default_value = "victim", value_parser = goal)]
    pub(super) to: Goal,
    /// Limit the rate, whatever the goal
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) max: Option<f64>,
    /// Print the rate and the reason for it on stderr, every two seconds
    #[arg(long)]
    pub(super) status: bool,
    /// Print no progress and no summary
    #[arg(long, short, conflicts_with = "status")]
    pub(super) quiet: bool,
    /// Name a directory on the disk to pace. Without this option, pace begins with the disk of the
    /// last argument that names a directory or something new in one, else of the current
    /// directory. It changes to another disk of the arguments, or to that of stdout, if most of
    /// the data goes there
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Make each write of the command wait until its data has room (seccomp), instead of stops.
    /// Programs with set-user-ID (sudo, ping) get no privileges then, and io_uring is refused. It
    /// fails where the kernel or a container forbids it, or where another program intercepts
    /// system calls
    #[arg(long)]
    pub(super) strict: bool,
    #[command(subcommand)]
    pub(super) own: Option<Own>,
    /// The command and its arguments, after '--'
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub(super) command: Vec<OsString>,
}

/// Copies by pace itself.
#[derive(clap::Subcommand, Debug)]
pub(super) enum Own {
    Cp(CpArgs),
    Cat(CatArgs),
}

/// Copy files and directories
///
/// Holes stay holes. Where the filesystem can share blocks (reflink), it does. A file is called
/// NAME.floodwall-part until its data is on the disk. At the end all data is on the disk: no sync
/// is needed.
///
/// Options of pace stand before 'cp': 'floodwall pace --max 50MB/s cp …'.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall pace cp disk.img /backup
  floodwall pace cp -a /srv/images /srv/video /backup
  floodwall pace cp --resume --verify disk.img /media/stick")]
pub(super) struct CpArgs {
    /// Copy directories with all that is in them
    #[arg(long, short, visible_short_alias = 'R')]
    pub(super) recursive: bool,
    /// Copy directories, and keep mode, owner, times, extended attributes, symbolic and hard links
    #[arg(long, short)]
    pub(super) archive: bool,
    /// Go on with the unfinished files of an interrupted copy, and keep those of this one
    #[arg(long)]
    pub(super) resume: bool,
    /// Read each copy back from the disk, and compare it with its source
    #[arg(long)]
    pub(super) verify: bool,
    /// Sources, then the destination
    #[arg(value_name = "PATH", num_args = 2.., required = true)]
    pub(super) paths: Vec<PathBuf>,
}

/// Copy stdin, or files, to stdout
///
/// A file as stdout is written back early, as by 'pace cp'. To a pipe or a terminal the data is
/// only copied. Options of pace stand before 'cat'.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  zcat dump.gz | floodwall pace cat > /srv/dump
  floodwall pace cat part1 part2 > /srv/whole")]
pub(super) struct CatArgs {
    /// Files, one after the other; '-' or no file means stdin
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
}

/// `victim`, `victim=3`, `rate=50MB/s`, `share=50%`.
fn goal(text: &str) -> Result<Goal, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, v)| (name, Some(v)));
    match (name, value) {
        ("victim", None) => Ok(Goal::default()),
        ("victim", Some(times)) => {
            let times: f64 = times.parse().map_err(|_| format!("'{times}' is not a number"))?;
            if times.is_finite() && times > 1.0 {
                Ok(Goal::Victim(times))
            } else {
                Err("how many times as long as alone: above 1, as in victim=3".to_owned())
            }
        }
        ("rate", Some(value)) => Ok(Goal::Rate(rate(value)?)),
        ("share", Some(value)) => share(value).map(Goal::Share),
        _ => Err("give victim, victim=3, rate=50MB/s or share=50%".to_owned()),
    }
}

/// `50MB/s`, in bytes per second.
fn rate(text: &str) -> Result<f64, String> {
    let Rate(rate) = text.parse().map_err(|e: UnitError| e.to_string())?;
    if rate > 0.0 { Ok(rate) } else { Err("a rate of nothing would never end".to_owned()) }
}

/// `50%`, as a fraction.
fn share(text: &str) -> Result<f64, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.parse::<f64>().ok())
        .ok_or_else(|| format!("'{text}' is not a share: give one in percent, such as 50%"))?;
    if percent > 0.0 && percent <= 100.0 {
        Ok(percent / 100.0)
    } else {
        Err("a share is above 0% and at most 100%".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_have_units() {
        assert_eq!(goal("victim"), Ok(Goal::Victim(2.0)));
        assert_eq!(goal("victim=3"), Ok(Goal::Victim(3.0)));
        assert_eq!(goal("rate=50MB/s"), Ok(Goal::Rate(50e6)));
        assert_eq!(goal("share=50%"), Ok(Goal::Share(0.5)));
        for (wrong, why) in [
            ("victim=1", "above 1"),
            ("victim=x", "not a number"),
            ("rate=50", "50"),
            ("rate=50/s", "50"),
            ("rate=0MB/s", "never end"),
            ("share=0.5", "in percent"),
            ("share=120%", "at most 100%"),
            ("fast", "give victim"),
        ] {
            let error = goal(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
