//! What `floodwall sim sweep` takes.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use clap::Args;

use super::shard::Shard;

/// Many simulated cells into one file: a grid, or a random sample of one, over machines, scenarios
/// and settings.
///
/// Runs on all cores and writes JSON Lines, a row a cell. A row is appended once its cell and its
/// machine's default run are done, so that the same command goes on after an interruption. DuckDB
/// and pyarrow read the files of all shards together.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall sim sweep limits.toml --dry-run
  floodwall sim sweep limits.toml -o limits.jsonl
  floodwall sim sweep limits.toml --shard $SLURM_ARRAY_TASK_ID/16

docs/sweeps.md describes FILE.toml and the columns, says how to merge the files of shards, and has \
complete files for Slurm and Kubernetes.")]
pub(crate) struct SweepArgs {
    /// The sweep.
    #[arg(value_name = "FILE.toml")]
    pub(super) file: PathBuf,
    /// The rows; FILE.jsonl here if not given, or FILE-K-of-N.jsonl for a shard.
    #[arg(short, long, value_name = "OUT.jsonl")]
    out: Option<PathBuf>,
    /// Threads; all cores that this process may use if not given.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Only the K-th of N parts, counted from 1: for the jobs of an array.
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    pub(super) shard: Shard,
    /// Say how many cells there are and about how long they take, and exit.
    #[arg(long, conflicts_with = "list")]
    pub(super) dry_run: bool,
    /// Print the cells, one a line, and exit.
    #[arg(long)]
    pub(super) list: bool,
    /// No progress on stderr.
    #[arg(long)]
    pub(super) quiet: bool,
}

impl SweepArgs {
    /// Threads to use.
    pub(super) fn jobs(&self) -> usize {
        self.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
    }

    /// Where the rows go.
    pub(super) fn out(&self) -> PathBuf {
        if let Some(out) = &self.out {
            return out.clone();
        }
        let stem = self.file.file_stem().unwrap_or(OsStr::new("sweep")).to_string_lossy();
        PathBuf::from(match self.shard {
            Shard::WHOLE => format!("{stem}.jsonl"),
            Shard { number, of } => format!("{stem}-{number}-of-{of}.jsonl"),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        sweep: SweepArgs,
    }

    #[test]
    fn a_part_is_named_after_its_sweep_and_its_shard() {
        let out = |args: &[&str]| {
            let args = std::iter::once(&"sweep").chain(args);
            Only::try_parse_from(args).unwrap().sweep.out().display().to_string()
        };
        assert_eq!(out(&["/srv/limits.toml"]), "limits.jsonl");
        assert_eq!(out(&["limits.toml", "--shard", "3/16"]), "limits-3-of-16.jsonl");
        assert_eq!(out(&["limits.toml", "-o", "/srv/x.jsonl"]), "/srv/x.jsonl");
    }
}
