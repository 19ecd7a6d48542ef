//! `floodwall sim sweep` on a disk that fills up: it stops, keeps its results, and goes on once
//! there is room.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use floodwall_testing::disk::Mount;
use floodwall_testing::ensure;
use floodwall_testing::process::{output, told};

use crate::{FLOODWALL, Test};

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

fn sweep(file: &Path, out: &Path) -> Result<Output, String> {
    let mut command = Command::new(FLOODWALL);
    output(command.args(["sim", "sweep", "--quiet", "--jobs", "2", "-o"]).args([out, file]))
}

fn full() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = dir.path().join("full.toml");
    fs::write(&file, SWEEP).map_err(|e| e.to_string())?;
    fs::write(dir.path().join("tiny.toml"), TINY).map_err(|e| e.to_string())?;
    let whole = dir.path().join("whole.parquet");
    let reference = sweep(&file, &whole)?;
    ensure(reference.status.success(), || told(&reference))?;
    // A tmpfs of a few pages.
    let small = Mount::new(&["-t", "tmpfs", "-o", "size=4k", "none"], &dir.path().join("small"))?;
    let out = small.path().join("out.parquet");
    let journal = small.path().join("out.parquet.journal");
    let (mut stops, mut of_table, mut kept) = (0, 0, 0);
    for kib in (4..).step_by(4) {
        small.remount(&format!("size={kib}k"))?;
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
        let names: Vec<_> = fs::read_dir(small.path())
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name())
            .collect();
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
