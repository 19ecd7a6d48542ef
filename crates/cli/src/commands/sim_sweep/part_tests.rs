use std::fs;

use super::super::testing::sweep;
use super::*;

const TEXT: &str = "[machine]\ndevice = \"null\"\nseed = [1, 2, 3]\n";

fn origin(shard: &str) -> Origin {
    let [sweep, build, shard] = ["3f0c", "0.1.0+9b1e", shard].map(str::to_owned);
    Origin { sweep, of_cells: 3, build, shard }
}

fn append(part: &mut Part, cells: &[u64]) {
    let (sweep, origin) = (sweep(TEXT), origin("1/1"));
    let row = |cell: &u64| {
        let figures = Figures::impossible(format!("why\n{cell}"));
        Row::new(&sweep, &origin, *cell, "default".into(), figures)
    };
    part.append(cells.iter().map(row).collect()).unwrap();
}

fn cells(path: &Path) -> Vec<u64> {
    let part = Part::open(path, &origin("1/1")).unwrap();
    let mut cells: Vec<u64> = part.cells.iter().copied().collect();
    cells.sort_unstable();
    cells
}

fn refused(path: &Path, origin: &Origin) -> String {
    let before = fs::read(path).unwrap();
    let error = Part::open(path, origin).unwrap_err();
    assert!(error.is::<UsageError>(), "{error:#}");
    assert_eq!(fs::read(path).unwrap(), before, "a refused file stays as it is");
    error.to_string()
}

#[test]
fn rows_that_are_appended_are_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("part");
    let mut part = Part::open(&path, &origin("1/1")).unwrap();
    append(&mut part, &[0, 2]);
    append(&mut part, &[1]);
    drop(part);
    assert_eq!(cells(&path), [0, 1, 2]);
    let part = Part::open(&path, &origin("1/1")).unwrap();
    assert_eq!((part.unable, part.reason.as_deref()), (3, Some("why\n0")));
    let text = fs::read_to_string(&path).unwrap();
    let row: Json = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    for (column, value) in [
        ("cell", Json::from(0)),
        ("sweep", "3f0c".into()),
        ("of_cells", 3.into()),
        ("build", "0.1.0+9b1e".into()),
        ("shard", "1/1".into()),
        ("device", "null".into()),
        ("ram_bytes", (24u64 << 30).into()),
        ("hz", Json::Null),
        ("seed", 1.into()),
        ("setting", "default".into()),
        ("victim_kept", Json::Null),
        ("error", "why\n0".into()),
    ] {
        assert_eq!(row[column], value, "{column}");
    }
}

#[test]
fn an_origin_names_the_sweep_the_build_and_the_shard() {
    let sweep = sweep(TEXT);
    let origin = Origin::of(&sweep, "1/2".parse().unwrap()).unwrap();
    assert!(origin.build.starts_with(concat!(env!("CARGO_PKG_VERSION"), "+")), "{origin:?}");
    assert_eq!(Origin { sweep: sweep.digest(), of_cells: 3, ..origin.clone() }, origin);
    assert_eq!(origin.shard, "1/2");
}

#[test]
fn every_prefix_of_a_part_can_be_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("part");
    let mut part = Part::open(&path, &origin("1/1")).unwrap();
    append(&mut part, &[0, 1]);
    drop(part);
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let mut part = Part::open(&path, &origin("1/1")).unwrap();
        let kept = whole[..length].iter().filter(|b| **b == b'\n').count();
        assert_eq!(part.cells.len(), kept, "{length}");
        append(&mut part, &[2]);
        drop(part);
        assert_eq!(cells(&path).len(), kept + 1, "{length}");
    }
    // A lost machine may leave zeros where the last rows were to be.
    fs::write(&path, [&whole[..], &[0; 5000], b"\n\0\0"].concat()).unwrap();
    assert_eq!(cells(&path), [0, 1]);
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn what_is_not_this_shards_part_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("part");
    let mut part = Part::open(&path, &origin("1/1")).unwrap();
    append(&mut part, &[0, 1]);
    drop(part);
    let own = origin("1/1");
    for (other, said) in [
        (Origin { sweep: "0".into(), ..own.clone() }, "has rows of another sweep: its file,"),
        (Origin { build: "0.0.9+0".into(), ..own.clone() }, "and this is 0.0.9+0: go on with that"),
        (origin("1/2"), "is of shard 1/1, not 1/2: give that to go on,"),
    ] {
        let message = refused(&path, &other);
        assert!(message.starts_with(&format!("'{}' ", path.display())), "{message}");
        assert!(message.contains(said), "{message}");
        let remedy = "remove the part to begin anew, or name another file with -o";
        assert!(message.ends_with(remedy) && !message.contains('\n'), "{message}");
    }
    // Also if only a later row is foreign: two parts in one file.
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.clone() + &whole.replace("1/1", "2/2")).unwrap();
    assert!(refused(&path, &own).contains("is of shard 2/2, not 1/1"));
    // A row that was damaged by hand costs no other.
    fs::write(&path, whole.replacen("device", "\"", 1)).unwrap();
    assert!(refused(&path, &own).contains("is damaged: remove its line 1 to go on"));
    for foreign in ["mine", "{\"a\":1}\n", "\n", "[1, 2]\n", "{\"cell\":1,\"x\":2}\n"] {
        fs::write(&path, foreign).unwrap();
        assert!(refused(&path, &own).contains("holds no sweep; remove it, or name another file"));
    }
}

#[test]
fn only_one_writes_at_a_time_and_only_to_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("part"), dir.path().join("link"));
    let held = Part::open(&path, &origin("1/1")).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for path in [&path, &link] {
        assert!(refused(path, &origin("1/1")).contains("is written by another sweep now; wait"));
    }
    drop(held);
    assert_eq!(cells(&path), [0; 0]);
    let error = Part::open(Path::new("/dev/null"), &origin("1/1")).unwrap_err();
    assert!(error.to_string().contains("'/dev/null' is not a regular file"), "{error}");
}
