//! What a table was measured with: for each input a digest of its sources and the commit that last
//! changed them.
//!
//! ```text
//! crates/guard/src, … ─▶ items of code, sorted ─▶ XXH64 ─▶ law 3f0c… (afbd7cd83500)
//! ```
//!
//! A table is stale once the digest of one of its inputs differs from the stored one. Comments,
//! tests, layout and the file that an item of Rust stands in are left out of the digest, because
//! they change no figure. Of the statistics (`crates/stats`) only the course of a phase and the
//! random numbers are inputs.

mod code;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;

/// Inputs by name, with the files and folders that they are made of, below the repository's root.
pub const INPUTS: [(&str, &[&str]); 14] = [
    ("law", &["crates/guard/src"]),
    ("tuner", &["crates/tune/src", "crates/stats/src/random.rs"]),
    ("simulator", &["crates/sim/src", "crates/device/src", "crates/stats/src/phase"]),
    ("lab", &["crates/lab/src", "crates/device/src"]),
    ("engines", &["crates/load/src/victim"]),
    ("pace", &["crates/pace/src"]),
    ("device-presets", &["crates/device/presets"]),
    ("setting-presets", &["crates/knobs/src/catalogue/presets.rs"]),
    ("published-figures", &["benches/published/measurements.toml"]),
    ("lab-trials", &["benches/lab/data"]),
    ("settings", &["crates/knobs/src", "crates/plant/src"]),
    ("sensors", &["crates/host/src", "crates/probe/src"]),
    (
        "classic-tools",
        &[
            "crates/compat/src/sysbench",
            "crates/compat/src/disktest",
            "crates/compat/src/dd",
            "crates/load/src/fileio",
        ],
    ),
    ("nfs-script", &["scripts/nfs-2016"]),
];

/// Digits of a commit's name that are kept.
const COMMIT_DIGITS: usize = 12;

/// One state of an input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// XXH64 of the sources, 16 hexadecimal digits.
    pub digest: String,
    /// The commit that last changed the sources, 12 digits; `+` behind it: they had uncommitted
    /// changes; `unknown` without Git.
    pub commit: String,
}

/// What a table was measured with. An input has several states if parts of the table were measured
/// with different ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin(BTreeMap<String, BTreeSet<Stamp>>);

impl Origin {
    /// The named inputs as they are now below `root`, the repository's directory.
    ///
    /// # Errors
    /// A name that is not in [`INPUTS`]; sources that can't be read.
    pub fn now(root: &Path, inputs: &[&str]) -> anyhow::Result<Self> {
        let state = |name: &&str| Ok(((*name).to_owned(), BTreeSet::from([stamp(root, name)?])));
        Ok(Self(inputs.iter().map(state).collect::<anyhow::Result<_>>()?))
    }

    /// What all parts together were measured with; empty, which is unknown, if it is so of any
    /// part.
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for part in parts {
            if part.is_empty() {
                return Self::default();
            }
            for (input, stamps) in &part.0 {
                all.0.entry(input.clone()).or_default().extend(stamps.iter().cloned());
            }
        }
        all
    }

    /// Whether nothing is known of it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The inputs that differ from the sources, with the commits of the figures that do.
    ///
    /// # Errors
    /// An input that is not in [`INPUTS`]; sources that can't be read.
    pub(crate) fn changed(&self, now: &mut Sources) -> anyhow::Result<Vec<(String, String)>> {
        let mut changed = Vec::new();
        for (input, stamps) in &self.0 {
            let now = now.digest(input)?;
            let other = stamps.iter().filter(|stamp| stamp.digest != now);
            let commits: Vec<&str> = other.map(|stamp| stamp.commit.as_str()).collect();
            if !commits.is_empty() {
                changed.push((input.clone(), commits.join(" and ")));
            }
        }
        Ok(changed)
    }
}

/// The sources of the inputs as they are now. Many sections have one input: its digest is worked
/// out once.
pub(crate) struct Sources {
    root: PathBuf,
    digests: BTreeMap<String, String>,
}

impl Sources {
    /// Those below `root`, the repository's directory.
    pub(crate) fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), digests: BTreeMap::new() }
    }

    fn digest(&mut self, input: &str) -> anyhow::Result<String> {
        if let Some(known) = self.digests.get(input) {
            return Ok(known.clone());
        }
        let digest = digest(&self.root, paths(input)?)?;
        self.digests.insert(input.to_owned(), digest.clone());
        Ok(digest)
    }
}

/// `law 9f86d081884c7d65 afbd7cd83500; simulator …`; several states of an input are each listed.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = self
            .0
            .iter()
            .flat_map(|(input, stamps)| stamps.iter().map(move |stamp| (input, stamp)));
        for (i, (input, stamp)) in states.enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{input} {} {}", stamp.digest, stamp.commit)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Origin {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut origin = Self::default();
        for state in text.split("; ").filter(|state| !state.is_empty()) {
            let [input, digest, commit] = state.split(' ').collect::<Vec<_>>()[..] else {
                anyhow::bail!("'{state}' is no input with its digest and commit");
            };
            let stamp = Stamp { digest: digest.to_owned(), commit: commit.to_owned() };
            origin.0.entry(input.to_owned()).or_default().insert(stamp);
        }
        Ok(origin)
    }
}

/// The repository that the current directory is in.
///
/// # Errors
/// The current directory is in none.
pub fn root() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("can't read the current directory")?;
    let is_root = |dir: &&Path| dir.join("Cargo.lock").is_file() && dir.join("crates").is_dir();
    let found = here.ancestors().find(is_root).map(Path::to_owned);
    found.with_context(|| format!("'{}' is not in the repository; run it there", here.display()))
}

/// The origin that a JSON measurement keeps as its `origin`; empty if it keeps none.
#[must_use]
pub fn of_measurement(measurement: &serde_json::Value) -> Origin {
    Origin::deserialize(&measurement["origin"]).unwrap_or_default()
}

fn paths(input: &str) -> anyhow::Result<&'static [&'static str]> {
    let found = INPUTS.iter().find(|(name, _)| *name == input);
    let names = || INPUTS.map(|(name, _)| name).join(", ");
    found
        .map(|(_, paths)| *paths)
        .with_context(|| format!("unknown input '{input}'; use {}", names()))
}

fn stamp(root: &Path, input: &str) -> anyhow::Result<Stamp> {
    let paths = paths(input)?;
    Ok(Stamp { digest: digest(root, paths)?, commit: commit(root, paths) })
}

/// The commit that last changed an input, in full; `None` without Git or history.
///
/// # Errors
/// A name that is not in [`INPUTS`].
pub fn last_commit(root: &Path, input: &str) -> anyhow::Result<Option<String>> {
    Ok(changed_last(root, paths(input)?))
}

fn changed_last(root: &Path, paths: &[&str]) -> Option<String> {
    let text = git(root, &["log", "-1", "--format=%H", "--"], paths)?;
    Some(text.trim().to_owned()).filter(|commit| !commit.is_empty())
}

fn commit(root: &Path, paths: &[&str]) -> String {
    let Some(mut commit) = changed_last(root, paths) else { return "unknown".to_owned() };
    commit.truncate(COMMIT_DIGITS);
    if git(root, &["status", "--porcelain", "--"], paths).is_none_or(|changes| !changes.is_empty())
    {
        commit.push('+');
    }
    commit
}

fn git(root: &Path, command: &[&str], paths: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(command).args(paths).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn digest(root: &Path, paths: &[&str]) -> anyhow::Result<String> {
    let mut files = Vec::new();
    for path in paths {
        collect(root, Path::new(path), &mut files)?;
    }
    let mut parts = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(root.join(file))
            .with_context(|| format!("can't read '{}'", file.display()))?;
        if file.extension().is_some_and(|extension| extension == "rs") {
            let items = code::items(&text);
            parts.extend(items.with_context(|| format!("can't parse '{}'", file.display()))?);
        } else {
            let comment = if file.extension().is_some_and(|e| e == "c") { "//" } else { "#" };
            parts.push(format!("{}\0{}", file.display(), without_comments(&text, comment)));
        }
    }
    parts.sort();
    Ok(format!("{:016x}", XxHash64::oneshot(0, parts.join("\0").as_bytes())))
}

/// All files below `path` that are no tests, relative to `root`. An object file follows from the
/// source beside it.
fn collect(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let there = root.join(path);
    if !there.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in
        std::fs::read_dir(&there).with_context(|| format!("can't read '{}'", path.display()))?
    {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        let is_test = text == "tests" || text.ends_with("tests.rs") || text == "testing.rs";
        if !is_test && !text.starts_with('.') && !text.ends_with(".o") {
            collect(root, &path.join(&name), files)?;
        }
    }
    Ok(())
}

/// A text without comment lines and white space.
fn without_comments(text: &str, comment: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(comment));
    lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository's root with one law.
    fn root(law: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("crates/guard/src/decide")).unwrap();
        std::fs::write(dir.path().join("crates/guard/src/decide/climb.rs"), law).unwrap();
        dir
    }

    fn origin(law: &str) -> Origin {
        Origin::now(root(law).path(), &["law"]).unwrap()
    }

    #[test]
    fn code_changes_a_digest_and_comments_tests_and_layout_do_not() {
        let law = "//! Doc.\nfn step() -> u32 {\n    // why\n    8\n}\n";
        let same = [
            "fn step() -> u32 { 8 }\n",
            "fn step() -> u32 {\n    8\n}\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n",
            "#[cfg(test)]\nmod tests;\n/// Other words.\nfn step() -> u32 {\n    8\n}\n",
        ];
        for text in same {
            assert_eq!(origin(text), origin(law), "{text}");
        }
        for text in ["fn step() -> u32 { 9 }\n", "fn step() -> u32 { 8 }\nfn more() {}\n", ""] {
            assert_ne!(origin(text), origin(law), "{text}");
        }
        let moved = root("mod step;\n");
        let step = "use super::Wait;\npub(super) fn step() -> u32 { 8 }\n";
        std::fs::write(moved.path().join("crates/guard/src/step.rs"), step).unwrap();
        assert_eq!(Origin::now(moved.path(), &["law"]).unwrap(), origin(law));
        let with_tests = root(law);
        std::fs::write(with_tests.path().join("crates/guard/src/climb_tests.rs"), "fn t() {}")
            .unwrap();
        assert_eq!(Origin::now(with_tests.path(), &["law"]).unwrap(), origin(law));
        std::fs::write(with_tests.path().join("crates/guard/src/act.rs"), "fn act() {}").unwrap();
        assert_ne!(Origin::now(with_tests.path(), &["law"]).unwrap(), origin(law));
    }

    #[test]
    fn an_origin_is_written_and_read_and_says_what_has_changed() {
        let dir = root("fn step() {}");
        let stored = Origin::now(dir.path(), &["law"]).unwrap();
        assert_eq!(stored.to_string().parse::<Origin>().unwrap(), stored);
        assert!(stored.changed(&mut Sources::below(dir.path())).unwrap().is_empty());
        let older: Origin = "law 0123456789abcdef 76289a3d179f".parse().unwrap();
        let mixed = Origin::of_parts([&stored, &older]);
        assert!(Origin::of_parts([&stored, &Origin::default()]).is_empty());
        assert_eq!(mixed.to_string().parse::<Origin>().unwrap(), mixed);
        let changed = mixed.changed(&mut Sources::below(dir.path())).unwrap();
        assert_eq!(changed[0].0, "law");
        assert_eq!(changed[0].1, "76289a3d179f");
        let unknown = Origin::now(dir.path(), &["weather"]).unwrap_err().to_string();
        assert!(unknown.contains("unknown input 'weather'; use law, tuner"), "{unknown}");
    }

    #[test]
    fn every_input_has_sources_in_this_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let names: Vec<&str> = INPUTS.iter().map(|(name, _)| *name).collect();
        let origin = Origin::now(&root, &names).unwrap();
        assert_eq!(origin.to_string().matches("; ").count() + 1, INPUTS.len());
        assert!(origin.changed(&mut Sources::below(&root)).unwrap().is_empty());
    }
}
