//! What `floodwall sim sweep` takes.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use clap::{Args, Subcommand};
use floodwall_sim::sweep::Shard;

/// Many simulated cells into one Parquet file: a grid, or a random sample of one, over machines,
/// scenarios and settings.
///
/// Runs on all cores. What is done is kept in a journal beside the output, so that the same command
/// goes on after an interruption; the table does not depend on the number of threads or shards.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  floodwall sim sweep limits.toml --dry-run
  floodwall sim sweep limits.toml -o limits.parquet
  floodwall sim sweep limits.toml --shard $SLURM_ARRAY_TASK_ID/16
  floodwall sim sweep merge limits-*-of-16.parquet -o limits.parquet

docs/sweeps.md describes FILE.toml and the columns, and has complete files for Slurm and \
Kubernetes.")]
pub(crate) struct SweepArgs {
    /// Puts the tables of all shards together.
    #[command(subcommand)]
    pub(crate) command: Option<SweepCommand>,
    /// The sweep.
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: Option<PathBuf>,
    /// The table; FILE.parquet here if not given, or FILE-K-of-N.parquet for a shard.
    #[arg(short, long, value_name = "OUT.parquet")]
    out: Option<PathBuf>,
    /// Threads; all cores that this process may use if not given.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Only the K-th of N parts, counted from 1: for the jobs of an array.
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    pub(crate) shard: Shard,
    /// Say how many cells there are and about how long they take, and exit.
    #[arg(long, conflicts_with = "list")]
    pub(crate) dry_run: bool,
    /// Print the cells, one a line, and exit.
    #[arg(long)]
    pub(crate) list: bool,
    /// No progress on stderr.
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SweepCommand {
    Merge(MergeArgs),
}

/// Put the tables of all shards together: the bytes of a sweep that was never split.
#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// The tables of the shards, in any order.
    #[arg(required = true, value_name = "PART.parquet")]
    pub(crate) parts: Vec<PathBuf>,
    /// The whole table.
    #[arg(short, long, value_name = "OUT.parquet")]
    pub(crate) out: PathBuf,
}

impl SweepArgs {
    /// Threads to use.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
    }

    /// Where the table of a sweep's file goes.
    pub(crate) fn out(&self, file: &Path) -> PathBuf {
        if let Some(out) = &self.out {
            return out.clone();
        }
        let stem = file.file_stem().unwrap_or(OsStr::new("sweep")).to_string_lossy();
        PathBuf::from(match self.shard {
            Shard::WHOLE => format!("{stem}.parquet"),
            shard => {
                let (number, of) = shard.parts();
                format!("{stem}-{number}-of-{of}.parquet")
            }
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

    fn out(args: &[&str]) -> String {
        let args = Only::try_parse_from(std::iter::once(&"sweep").chain(args)).unwrap().sweep;
        args.out(args.file.as_deref().unwrap()).display().to_string()
    }

    #[test]
    fn a_table_is_named_after_its_sweep_and_its_shard() {
        assert_eq!(out(&["/srv/limits.toml"]), "limits.parquet");
        assert_eq!(out(&["limits.toml", "--shard", "3/16"]), "limits-3-of-16.parquet");
        assert_eq!(out(&["limits.toml", "-o", "/srv/x.parquet"]), "/srv/x.parquet");
    }

    #[test]
    fn a_shard_that_is_none_is_refused() {
        let error = Only::try_parse_from(["sweep", "x.toml", "--shard", "0/4"])
            .err()
            .map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("for an index that begins at 0, add 1")));
    }
}
