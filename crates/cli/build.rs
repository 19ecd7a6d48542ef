//! What `floodwall --version` tells of the build: the commit, the target, the features.
//!
//! ```text
//! FLOODWALL_COMMIT, else .cargo_vcs_info.json, else git ─▶ BUILD_COMMIT ─▶ main
//! ```

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Of a commit's name.
const HEX_DIGITS: usize = 12;

fn main() -> std::io::Result<()> {
    let mut directives = vec!["cargo:rerun-if-changed=build.rs".to_owned()];
    let commit = commit(&mut directives);
    let get = |name: &str| std::env::var(name).unwrap_or_default();
    let linked = match get("CARGO_CFG_TARGET_FEATURE").split(',').any(|f| f == "crt-static") {
        true => "static",
        false => "dynamic",
    };
    let features = match get("CARGO_CFG_FEATURE") {
        none if none.is_empty() => "all (none is optional)".to_owned(),
        some => some,
    };
    let (target, profile) = (get("TARGET"), get("PROFILE"));
    let build = format!("{target}, {linked}, {profile}");
    for (name, value) in [("COMMIT", commit), ("SUMMARY", build), ("FEATURES", features)] {
        directives.push(format!("cargo:rustc-env=BUILD_{name}={value}"));
    }
    writeln!(std::io::stdout(), "{}", directives.join("\n"))
}

/// The commit, or the reason for its absence.
fn commit(directives: &mut Vec<String>) -> String {
    directives.push("cargo:rerun-if-env-changed=FLOODWALL_COMMIT".to_owned());
    if let Ok(given) = std::env::var("FLOODWALL_COMMIT")
        && !given.trim().is_empty()
    {
        return given.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    // Beside the manifest of a crate from a registry.
    if let Ok(packed) = std::fs::read_to_string(".cargo_vcs_info.json") {
        let hex = packed.split('"').find(|word| {
            word.len() >= HEX_DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        if let Some(found) = hex.and_then(|word| word.get(..HEX_DIGITS)) {
            return found.to_owned();
        }
    }
    // A development build would be compiled again after every commit.
    if std::env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return "unknown (a development build)".to_owned();
    }
    let unknown = || "unknown (not built in a git repository)".to_owned();
    // A repository around an unpacked source archive is another project's.
    let log = git(&["rev-parse", "--show-prefix", "--git-path", "logs/HEAD"]);
    let Some((prefix, log)) = log.as_deref().and_then(|text| text.split_once('\n')) else {
        return unknown();
    };
    if prefix != "crates/cli/" {
        return unknown();
    }
    // It grows with every commit and checkout.
    if Path::new(log).exists() {
        directives.push(format!("cargo:rerun-if-changed={log}"));
    }
    let abbreviated = format!("--abbrev={HEX_DIGITS}");
    let exact = ["describe", "--always", "--exclude=*", "--dirty=+changes", &abbreviated];
    git(&exact).unwrap_or_else(unknown)
}

/// What a git command prints.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
