//! Floodwall on other kernels: Debian's, from 5.10 to the newest, each booted in QEMU, and one
//! table.
//!
//! ```text
//! build (static) ────┐
//! Debian's packages ─┴▶ first root + disk ─▶ QEMU ─▶ init (this program) ─▶ checks
//!                    ─▶ lines ─▶ table, docs/kernels.md
//! ```
//!
//! Behaviour is asserted, never time: the processor is emulated. A kernel that can't be
//! had is left out with the reason. Needs no root.

mod build;
mod data;
mod guest;
mod kernels;
mod qemu;
mod said;
mod table;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use published::origin::{self, Origin};

use crate::data::KernelData;
use crate::kernels::{SOURCES, Source};
use crate::said::Outcome;

/// The sources on which a check's outcome depends besides the kernel.
const INPUTS: [&str; 4] = ["law", "lab", "settings", "sensors"];

/// Boot kernels, check floodwall in each, and write docs/kernels.md.
#[derive(Parser)]
struct Args {
    /// Kernels to check: 5.10, 6.1, 6.12, 7; all if none is named
    kernels: Vec<String>,
    /// Only these checks, such as status,knobs; the document is left as it is
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where packages are kept; floodwall/matrix in the user's cache if absent
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Where what a kernel's run told is kept
    #[arg(long, default_value = "benches/matrix/data")]
    data: PathBuf,
    /// The document whose sections are written anew
    #[arg(long, default_value = "docs/kernels.md")]
    out: PathBuf,
    /// Minutes that one boot may take
    #[arg(long, default_value_t = 30)]
    minutes: u64,
}

fn main() -> anyhow::Result<ExitCode> {
    if rustix::process::getpid().is_init() {
        return guest::init().map(|()| ExitCode::SUCCESS);
    }
    if std::env::args().nth(1).as_deref() == Some(guest::CHECKS) {
        return guest::check().map(|()| ExitCode::SUCCESS);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = words.as_slice()
        && first == guest::WORKER
    {
        return guest::work(rest).map(|()| ExitCode::SUCCESS);
    }
    let args = Args::parse();
    processes::interrupt::install()?;
    run(&args)
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let unknown =
        args.kernels.iter().find(|name| SOURCES.iter().all(|source| source.name != **name));
    if let Some(name) = unknown {
        let known: Vec<&str> = SOURCES.iter().map(|source| source.name).collect();
        anyhow::bail!("unknown kernel '{name}'; use {}", known.join(", "));
    }
    let root = origin::root()?;
    let cache = args.cache.clone().map_or_else(default_cache, Ok)?;
    std::fs::create_dir_all(&cache).with_context(|| format!("can't make '{}'", cache.display()))?;
    let built = build::build(&root)?;
    let mut all = Vec::new();
    for source in SOURCES {
        if !args.kernels.is_empty() && !args.kernels.iter().any(|name| name == source.name) {
            continue;
        }
        let data = check(&source, args, &built, &root, &cache)?;
        if args.only.is_empty() && data.kernel.is_some() {
            data.write(&args.data)?;
        }
        all.push((source.name.to_owned(), data));
    }
    println!("{}", table::results(&all));
    if args.only.is_empty() {
        table::write_document(&args.data, &args.out, &root)?;
    }
    let failed =
        all.iter().flat_map(|(_, data)| &data.checks).any(|check| check.outcome.is_failure());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Boots one kernel twice: the second boot finds what the first has kept.
fn check(
    source: &Source,
    args: &Args,
    built: &tree::Built,
    root: &Path,
    cache: &Path,
) -> anyhow::Result<KernelData> {
    let origin = Origin::now(root, &INPUTS)?;
    let mut data = KernelData { name: source.name.to_owned(), origin, ..KernelData::default() };
    let kernel = match kernels::fetch(source, cache) {
        Ok(kernel) => kernel,
        Err(why) => {
            processes::interrupt::check()?;
            data.left_out = Some(format!("{why:#}"));
            return Ok(data);
        }
    };
    let dir = tempfile::tempdir_in(cache)?;
    let [disk, first_root, console] =
        ["disk", "first-root", "console.log"].map(|name| dir.path().join(name));
    tree::write_disk(built, root, &disk)?;
    tree::write_first_root(built, &kernel, &first_root)?;
    let only = match args.only.as_slice() {
        [] => String::new(),
        names => format!("{}{}", guest::ONLY, names.join(",")),
    };
    let mut boots = vec![only.clone()];
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    if guest::OF_SECOND_BOOT.into_iter().any(wanted) {
        boots.push(format!("{} {only}", guest::SECOND_BOOT));
    }
    for words in boots {
        let boot = qemu::Boot {
            image: &kernel.image,
            first_root: &first_root,
            disk: &disk,
            console: &console,
            words: &words,
            limit: Duration::from_secs(args.minutes * 60),
        };
        let booted = qemu::boot(&boot, &mut |said| {
            if let Some(line) = data.take(said) {
                eprintln!("{}: {line}", source.name);
            }
        });
        if let Err(why) = booted {
            processes::interrupt::check()?;
            data.cut_short(Outcome::Failed(format!("{why:#}")));
            break;
        }
    }
    Ok(data)
}

/// Outside the repository, as other programs' caches are.
fn default_cache() -> anyhow::Result<PathBuf> {
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = own
        .or_else(home)
        .context("neither XDG_CACHE_HOME nor HOME is set; name a directory with --cache")?;
    Ok(cache.join("floodwall/matrix"))
}
