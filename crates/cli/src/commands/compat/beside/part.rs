//! What a tool's command line is beside a flood: its figure, its seconds, its directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use floodwall_compat::{dd, disktest, iostat, sysbench};
use floodwall_report::beside::Unit;

use super::super::words::texts;
use super::super::{fio, sysbench as fileio};
use crate::exit::UsageError;

/// A command line that can run beside a flood.
pub(super) struct Part {
    /// The unit of its figure; `None` for a tool that only looks.
    pub(super) unit: Option<Unit>,
    /// How long a run takes, if its options say.
    pub(super) seconds: Option<u64>,
    /// A directory on the disk of its files; `None` if they name none.
    pub(super) directory: Option<PathBuf>,
}

impl Part {
    /// Of a tool's words.
    ///
    /// # Errors
    /// [`UsageError`]: an option that the tool refuses, or a command line that is none for this.
    pub(super) fn of(tool: &OsStr, words: &[OsString]) -> anyhow::Result<Self> {
        match tool.to_str() {
            Some("iostat") => of_iostat(&texts(words)?),
            Some("sysbench") => of_sysbench(&texts(words)?),
            Some("disktest") => of_disktest(&texts(words)?),
            Some("dd") => of_dd(words),
            Some("fio") => of_fio(&texts(words)?),
            _ => Err(refused(format!("{} can't run beside a flood", tool.display()))),
        }
    }
}

fn refused(why: String) -> anyhow::Error {
    UsageError(format!("compat --flood: {why}")).into()
}

fn usage(error: impl ToString) -> anyhow::Error {
    UsageError(error.to_string()).into()
}

fn here() -> Option<PathBuf> {
    Some(PathBuf::from("."))
}

fn of_iostat(words: &[String]) -> anyhow::Result<Part> {
    let options = iostat::Options::parse(words).map_err(usage)?;
    let Some((interval, count)) = options.interval_s.zip(options.count) else {
        return Err(refused("iostat ends by itself only with INTERVAL and COUNT".into()));
    };
    let seconds = u64::from(interval) * u64::from(count);
    Ok(Part { unit: None, seconds: Some(seconds), directory: here() })
}

fn of_sysbench(words: &[String]) -> anyhow::Result<Part> {
    let options = sysbench::Options::parse(words).map_err(usage)?;
    if options.command != sysbench::Command::Run {
        return Err(refused("only sysbench's run; prepare and clean up without a flood".into()));
    }
    fileio::check(&options).map_err(|missing| refused(format!("{missing:#}")))?;
    let seconds = u64::from(options.time_s) + u64::from(options.warmup_s);
    Ok(Part {
        unit: Some(Unit::Requests),
        seconds: (options.time_s > 0).then_some(seconds),
        directory: here(),
    })
}

fn of_disktest(words: &[String]) -> anyhow::Result<Part> {
    let options = disktest::Options::parse(words).map_err(usage)?;
    Ok(Part {
        unit: Some(Unit::Requests),
        seconds: options.time_s.map(u64::from),
        directory: directory_of(Path::new(&options.target)),
    })
}

fn of_dd(words: &[OsString]) -> anyhow::Result<Part> {
    let options = dd::Options::parse(words).map_err(|e| usage(format!("dd: {e}")))?;
    let Some((input, output)) = options.input.as_deref().zip(options.output.as_deref()) else {
        return Err(refused("dd runs several times; name its files with if= and of=".into()));
    };
    let (input, output) = (Path::new(input), Path::new(output));
    let directory = match directory_of(output) {
        // The disk to flood is the one that is written, and the input may be on another.
        None if is_block_device(output) => None,
        directory => directory.or_else(|| directory_of(input)),
    };
    Ok(Part { unit: Some(Unit::Bytes), seconds: None, directory })
}

fn of_fio(words: &[String]) -> anyhow::Result<Part> {
    let (seconds, file) = fio::repeated(words)?;
    Ok(Part { unit: Some(Unit::Requests), seconds, directory: directory_of(&file) })
}

fn is_block_device(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|meta| meta.file_type().is_block_device())
}

/// Where a file is or would be; `None` for a device, whose directory is another disk's.
fn directory_of(file: &Path) -> Option<PathBuf> {
    let kind = std::fs::metadata(file).map(|meta| meta.file_type());
    if kind.is_ok_and(|kind| kind.is_block_device() || kind.is_char_device()) {
        return None;
    }
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    Some(parent.unwrap_or(Path::new(".")).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(line: &str) -> Result<(Option<u64>, Option<String>), String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let part = Part::of(&words[0], &words[1..]).map_err(|e| e.to_string())?;
        let directory = part.directory.map(|path| path.display().to_string());
        Ok((part.seconds, directory))
    }

    #[test]
    fn a_line_says_how_long_it_takes_and_where() {
        let dir = |text: &str| Some(text.to_owned());
        for (line, wanted) in [
            ("iostat -x 2 5", (Some(10), dir("."))),
            ("sysbench fileio --file-test-mode=seqwr --time=30 run", (Some(30), dir("."))),
            ("sysbench --test=fileio --file-test-mode=seqwr run", (None, dir("."))),
            ("disktest -w -T 1m /srv/file", (Some(60), dir("/srv"))),
            ("disktest -r /dev/null", (None, None)),
            ("dd if=/dev/zero of=/srv/x count=9", (None, dir("/srv"))),
            ("dd if=x of=/dev/null", (None, dir("."))),
            (
                "fio --rw=write --size=4k --runtime=3 --name=a --name=b --stonewall",
                (Some(6), dir(".")),
            ),
            ("fio --rw=write --size=4k --name=a --directory=/tmp", (None, dir("/tmp"))),
        ] {
            assert_eq!(part(line), Ok(wanted), "{line}");
        }
    }

    #[test]
    fn what_can_not_run_beside_a_flood_is_refused() {
        for (line, wanted) in [
            ("iostat -x 2", "INTERVAL and COUNT"),
            ("sysbench fileio prepare", "only sysbench's run"),
            ("dd if=x", "if= and of="),
            ("sysbench fileio --no-such run", "no-such"),
            ("sysbench fileio --file-test-mode=rndrw run", "there is no test_file.0; prepare"),
            ("disktest -E 8 x", "'-E' is not supported here"),
            ("fio --name=a --rw=write", "size is missing"),
            ("fio -", "write its jobs to a file"),
            ("fio --name=a --rw=read --size=4k", "run fio without a flood before"),
        ] {
            let said = part(line).unwrap_err();
            assert!(said.contains(wanted), "{said}");
        }
    }
}
