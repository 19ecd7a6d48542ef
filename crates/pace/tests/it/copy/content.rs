//! The content of copies.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use floodwall_testing::disk::Disk;
use floodwall_testing::{LOOP, ROOT, Trial, ensure, equal, lacks, said, tests};
use proptest::collection::vec;
use proptest::test_runner::{Config, TestRunner};

use super::{DEEP, MIB, PLAIN, copy, copy_with, directory, names, noise};
use floodwall_pace::copy::Options;

pub(super) fn tests() -> Vec<Trial> {
    let mut all = tests![
        sparse_files_are_equal_and_stay_sparse,
        a_file_that_is_shortened_has_no_more_zeros,
        a_tree_of_many_files_is_equal,
        files_of_the_kernel_are_read_to_their_end,
        progress_ends_with_everything,
        a_file_in_place_is_replaced_and_keeps_its_mode,
    ];
    all.extend(tests![|| lacks(&[ROOT, LOOP, "mkfs.xfs"]) => a_reflink_shares_its_blocks]);
    all
}

fn sparse_files_are_equal_and_stay_sparse() -> Result<(), String> {
    // Lengths of data and hole, by turns; some larger than a block that is copied at once.
    let length = proptest::prop_oneof![1usize..5000, 4096usize..3 * MIB];
    let segments = vec((length.clone(), length), 0..5);
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let ran = TestRunner::new(config).run(&(segments, 0..2usize), |(segments, tail)| {
        let dir = directory(&[]);
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let file = File::create(&from).unwrap();
        let mut at = 0;
        for (data, hole) in &segments {
            file.write_all_at(&noise(*data), at as u64).unwrap();
            at += data + hole;
        }
        file.set_len(at as u64 + tail as u64 * 10_000).unwrap();
        let options = Options { verify: tail == 0, ..PLAIN };
        let summary = copy(&[&from], &to, options).unwrap();
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
        let (from, to) = (from.metadata().unwrap(), to.metadata().unwrap());
        // Allocation is in blocks, and a filesystem may allocate ahead.
        assert!(to.blocks() <= from.blocks() + 256, "{} of {}", to.blocks(), from.blocks());
        assert_eq!(summary.bytes + summary.hole_bytes, from.len());
        assert_eq!(summary.verified, u64::from(options.verify));
        Ok(())
    });
    ran.map_err(said("a sparse file"))
}

fn a_file_that_is_shortened_has_no_more_zeros() -> Result<(), String> {
    let dir = directory(&[("from", &noise(3 * MIB))]);
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let file = File::options().write(true).open(&from).map_err(said("the source"))?;
    file.set_len(10 * MIB as u64).map_err(said("a hole"))?;
    copy_with(&[&from], &to, PLAIN, &mut |progress, _| {
        if progress.bytes_done == MIB as u64 {
            file.set_len(5 * MIB as u64).unwrap();
        }
    })
    .map_err(said("copy"))?;
    equal(to.metadata().unwrap().len(), 5 * MIB as u64)?;
    ensure(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "they differ")
}

fn a_tree_of_many_files_is_equal() -> Result<(), String> {
    // So many files and directories are not synced one by one.
    let dir = directory(&[]);
    for i in 0..300 {
        let path = dir.path().join(format!("from/d{}/e{}/f{i}", i % 100, i % 7));
        super::put(&path, &noise(i * 37));
    }
    super::put(&dir.path().join("from/large"), &noise(3 * MIB + 5));
    fs::create_dir(dir.path().join("from/empty")).map_err(said("a directory"))?;
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let summary = copy(&[&from], &to, DEEP).map_err(said("copy"))?;
    equal(summary.files, 301)?;
    equal(names(&to), names(&from))?;
    for name in names(&from).iter().filter(|name| from.join(name).is_file()) {
        let same = fs::read(from.join(name)).unwrap() == fs::read(to.join(name)).unwrap();
        ensure(same, || format!("{name} differs"))?;
    }
    // The next copy goes into the directory, which exists now.
    copy(&[&from], &to, DEEP).map_err(said("copy again"))?;
    equal(names(&to.join("from")), names(&from))
}

fn files_of_the_kernel_are_read_to_their_end() -> Result<(), String> {
    let dir = directory(&[]);
    copy(&[Path::new("/proc/version")], dir.path(), PLAIN).map_err(said("copy"))?;
    let copied = fs::read_to_string(dir.path().join("version")).map_err(said("the copy"))?;
    equal(copied, fs::read_to_string("/proc/version").unwrap())
}

fn progress_ends_with_everything() -> Result<(), String> {
    let dir = directory(&[("a", &noise(2 * MIB + 7)), ("b", b"x"), ("c", b"")]);
    let sources = ["a", "b", "c"].map(|name| dir.path().join(name));
    let sources: Vec<&Path> = sources.iter().map(AsRef::as_ref).collect();
    let to = directory(&[]);
    let mut last = None;
    let options = Options { verify: true, ..PLAIN };
    copy_with(&sources, to.path(), options, &mut |progress, _| {
        let now = (progress.bytes_done, progress.files_done);
        assert!(last.is_none_or(|last| last <= now), "{last:?}, then {now:?}");
        assert_eq!(progress.bytes_total, Some(2 * (2 * MIB as u64 + 8)));
        assert_eq!(progress.files_total, 3);
        last = Some(now);
    })
    .map_err(said("copy"))?;
    equal(last, Some((2 * (2 * MIB as u64 + 8), 3)))
}

fn a_file_in_place_is_replaced_and_keeps_its_mode() -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let dir = directory(&[("from", b"new"), ("to", b"old, and longer")]);
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::set_permissions(&to, fs::Permissions::from_mode(0o640)).map_err(said("chmod"))?;
    fs::hard_link(&to, dir.path().join("other")).map_err(said("link"))?;
    copy(&[&from], &to, PLAIN).map_err(said("copy"))?;
    equal(fs::read_to_string(&to).unwrap(), "new".to_owned())?;
    equal(to.metadata().unwrap().mode() & 0o7777, 0o640)?;
    equal(fs::read_to_string(dir.path().join("other")).unwrap(), "old, and longer".to_owned())?;
    equal(names(dir.path()), ["from", "other", "to"].map(str::to_owned).to_vec())
}

fn a_reflink_shares_its_blocks() -> Result<(), String> {
    let disk = Disk::new("xfs", 512)?;
    let (from, to) = (disk.path().join("from"), disk.path().join("to"));
    super::put(&from, &noise(3 * MIB));
    let summary = copy(&[&from], &to, Options { verify: true, ..PLAIN }).map_err(said("copy"))?;
    equal((summary.reflinked, summary.bytes, summary.verified), (1, 0, 1))?;
    ensure(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "they differ")
}
