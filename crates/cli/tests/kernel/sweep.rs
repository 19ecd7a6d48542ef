//! `floodwall sim sweep` on a disk that fills up: it stops, keeps its results, and goes on once
//! there is room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::Test;
use crate::disk::run;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a sweep whose disk fills up stops, and goes on where it was",
    needs: &["mount", "umount"],
    body: full,
}];

const SWEEP: &str = r#"
name = "full"
[machine]
device = "sata-ssd"
scenario = "./tiny.toml"
ram = "1GiB"
seed = { from = 1, to = 40, steps = 40, scale = "linear" }
[knobs]
scheduler = ["default", "none"]
"#;

/// Over in a few milliseconds.
const TINY: &str = r#"
name = "tiny"
[[victim]]
kind = "commit"
block = "4KiB"
size = "1MiB"
[timing]
rounds = 1
measure = "1s"
warmup_max = "0s"
settle = "0s"
device_cache = "1B"
"#;

/// A tmpfs of a few pages; dropping it unmounts it.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Result<Self, String> {
        fs::create_dir(at).map_err(|e| e.to_string())?;
        run("mount", &["-t", "tmpfs", "-o", "size=4k", "none", &at.to_string_lossy()])?;
        Ok(Self(at.to_owned()))
    }

    fn grow(&self, kib: u64) -> Result<(), String> {
        run("mount", &["-o", &format!("remount,size={kib}k"), &self.0.to_string_lossy()]).map(drop)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", &self.0.to_string_lossy()]);
    }
}

fn sweep(file: &Path, out: &Path) -> Result<Output, String> {
    Command::new(env!("CARGO_BIN_EXE_floodwall"))
        .args(["sim", "sweep", "--quiet", "--jobs", "2", "-o"])
        .args([out, file])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())
}

fn full() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = dir.path().join("full.toml");
    fs::write(&file, SWEEP).map_err(|e| e.to_string())?;
    fs::write(dir.path().join("tiny.toml"), TINY).map_err(|e| e.to_string())?;
    let whole = dir.path().join("whole.parquet");
    let reference = sweep(&file, &whole)?;
    if !reference.status.success() {
        return Err(String::from_utf8_lossy(&reference.stderr).into_owned());
    }
    let small = Small::mount(&dir.path().join("small"))?;
    let out = small.0.join("out.parquet");
    let journal = small.0.join("out.parquet.journal");
    let (mut stops, mut of_table, mut kept) = (0, 0, 0);
    for kib in (4..).step_by(4) {
        small.grow(kib)?;
        let output = sweep(&file, &out)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            break;
        }
        let fine = output.status.code() == Some(1)
            && said.contains("No space left on device")
            && said.contains("give the same command again")
            && said.contains(&*out.to_string_lossy());
        if !fine || kib > 1024 {
            return Err(format!("at {kib} KiB: {:?} {said}", output.status));
        }
        let names: Vec<_> =
            fs::read_dir(&small.0).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
        if names != ["out.parquet.journal"] {
            return Err(format!("at {kib} KiB there is {names:?}"));
        }
        let lines = fs::read_to_string(&journal).map_err(|e| e.to_string())?.lines().count();
        if lines < kept {
            return Err(format!("{kept} lines became {lines}"));
        }
        kept = lines;
        stops += 1;
        of_table += usize::from(said.contains("the table is not written"));
    }
    // 80 runs take more pages than one, and the table has to fit beside the journal.
    if stops < 2 || of_table == 0 {
        return Err(format!("it filled up {stops} times, {of_table} of them with all runs done"));
    }
    let same = fs::read(&out).map_err(|e| e.to_string())?
        == fs::read(&whole).map_err(|e| e.to_string())?;
    if !same || journal.exists() {
        return Err(format!(
            "the table is the same: {same}; the journal is left: {}",
            journal.exists()
        ));
    }
    Ok(())
}
