//! The checked-in BPF object against its source, where the clang is installed that made it.

use std::path::{Path, PathBuf};
use std::process::Command;

use floodwall_testing::lacks;
use floodwall_testing::process::{done, run};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bpf").join(name)
}

/// Why the object can't be compared here: other versions of clang make other bytes.
pub(crate) fn missing() -> Option<String> {
    if let Some(lack) = lacks(&["clang", "llvm-strip"]) {
        return Some(lack);
    }
    let made_by = std::fs::read_to_string(path("probe.bpf.clang")).unwrap_or_default();
    let here = run("clang", &["-dumpversion"]).unwrap_or_default();
    let made_by = made_by.trim();
    (made_by != here)
        .then(|| format!("needs clang {made_by}, which made the object; here is {here}"))
}

pub(crate) fn is_up_to_date() -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let made = directory.path().join("probe.bpf.o");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/bpf-object");
    done(Command::new(script).arg(&made))?;
    let [made, kept] =
        [made, path("probe.bpf.o")].map(|path| std::fs::read(path).unwrap_or_default());
    if made.is_empty() || made != kept {
        return Err("probe.bpf.o is not what its source makes; run scripts/bpf-object".to_owned());
    }
    Ok(())
}
