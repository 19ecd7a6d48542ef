//! Names that need care: symlinks at the destination, names of part files, long ones.

use std::fs;
use std::os::unix::fs::symlink;

use floodwall_pace::copy::{CopyError, PART_SUFFIX};
use floodwall_testing::{Trial, ensure, equal, said, tests};

use super::{ARCHIVE, DEEP, MIB, PLAIN, RESUME, copy, copy_with, directory, names, noise};

pub(super) fn tests() -> Vec<Trial> {
    tests![
        symlinks_at_the_destination_are_not_followed,
        a_destination_that_is_a_symlink_is_followed,
        names_of_part_files_are_copied,
        a_part_file_and_its_file_are_copied_in_any_order,
        a_part_file_is_not_copied_to_its_own_name,
        long_names_are_copied,
        what_cannot_be_copied_leaves_the_rest,
        what_the_destination_refuses_leaves_the_rest,
        a_failure_below_a_directory_is_named,
        a_directorys_entries_go_into_another,
        dev_null_is_written_in_place,
    ]
}

fn symlinks_at_the_destination_are_not_followed() -> Result<(), String> {
    let outside = directory(&[("file", b"outside")]);
    let dir = directory(&[("from/file", b"x"), ("from/inner/file", b"y")]);
    let to = directory(&[]);
    let copied = to.path().join("from");
    fs::create_dir(&copied).unwrap();
    symlink(outside.path().join("file"), copied.join("file")).unwrap();
    symlink(outside.path(), copied.join("inner")).unwrap();
    symlink(outside.path().join("new"), copied.join(format!("file{PART_SUFFIX}"))).unwrap();
    let ended = copy(&[&dir.path().join("from")], to.path(), DEEP);
    ensure(matches!(ended, Err(CopyError::Partly { failed: 1, .. })), format!("{ended:?}"))?;
    ensure(copied.join("file").symlink_metadata().unwrap().is_file(), "still a symlink")?;
    equal(names(outside.path()), vec!["file".to_owned()])?;
    equal(fs::read_to_string(outside.path().join("file")).unwrap(), "outside".to_owned())
}

fn a_destination_that_is_a_symlink_is_followed() -> Result<(), String> {
    let dir = directory(&[("from", b"new"), ("inner/to", b"old")]);
    symlink("inner/to", dir.path().join("link")).unwrap();
    copy(&[&dir.path().join("from")], dir.path().join("link"), PLAIN).map_err(said("copy"))?;
    ensure(dir.path().join("link").symlink_metadata().unwrap().is_symlink(), "no link any more")?;
    equal(fs::read_to_string(dir.path().join("inner/to")).unwrap(), "new".to_owned())
}

fn names_of_part_files_are_copied() -> Result<(), String> {
    let part = |n: usize| format!("from/a{}", PART_SUFFIX.repeat(n));
    let files = [0, 1, 2].map(|n| (part(n), n.to_string()));
    let files = files.each_ref().map(|(name, content)| (name.as_str(), content.as_bytes()));
    let dir = directory(&files);
    for options in [DEEP, ARCHIVE] {
        let to = directory(&[]);
        copy(&[&dir.path().join("from")], to.path(), options).map_err(said("copy"))?;
        equal(names(to.path()), names(dir.path()))?;
        for (name, content) in files {
            equal(fs::read(to.path().join(name)).unwrap(), content.to_vec())?;
        }
    }
    Ok(())
}

fn a_part_file_and_its_file_are_copied_in_any_order() -> Result<(), String> {
    let part = format!("a{PART_SUFFIX}");
    let dir = directory(&[("x/a", b"1"), (&format!("y/{part}"), b"2")]);
    let (a, other) = (dir.path().join("x/a"), dir.path().join("y").join(&part));
    for (first, second) in [(&a, &other), (&other, &a)] {
        let to = directory(&[]);
        let summary = copy(&[first, second], to.path(), PLAIN).map_err(said("copy"))?;
        equal(summary.files, 2)?;
        equal(fs::read_to_string(to.path().join("a")).unwrap(), "1".to_owned())?;
        equal(fs::read_to_string(to.path().join(&part)).unwrap(), "2".to_owned())?;
    }
    // The entries of one directory after those of another.
    let to = directory(&[]);
    let ended = copy(&[&dir.path().join("y/."), &dir.path().join("x/.")], to.path(), DEEP);
    let Err(CopyError::Partly { failed: 1, first, .. }) = ended else {
        return Err(format!("{ended:?}"));
    };
    equal(*first, CopyError::Twice { destination: to.path().join(&part) })?;
    equal(names(to.path()), vec![part.clone()])?;
    equal(fs::read_to_string(to.path().join(&part)).unwrap(), "2".to_owned())
}

fn a_part_file_is_not_copied_to_its_own_name() -> Result<(), String> {
    let content = noise(3 * MIB + 9);
    let dir = directory(&[(&format!("to{PART_SUFFIX}"), &content)]);
    let part = dir.path().join(format!("to{PART_SUFFIX}"));
    let same = || CopyError::Same { source_path: part.clone(), destination: part.clone() };
    for options in [PLAIN, RESUME, ARCHIVE] {
        equal(copy(&[&part], dir.path().join("to"), options), Err(same()))?;
        ensure(fs::read(&part).unwrap() == content, "the source was changed")?;
    }
    fs::remove_file(&part).map_err(said("remove"))?;
    symlink("target", &part).map_err(said("a symlink"))?;
    equal(copy(&[&part], dir.path().join("to"), ARCHIVE), Err(same()))?;
    equal(names(dir.path()), vec![format!("to{PART_SUFFIX}")])
}

fn long_names_are_copied() -> Result<(), String> {
    let name = format!("from/{}", "é".repeat(127));
    let dir = directory(&[(&name, b"x")]);
    let to = directory(&[]);
    copy(&[&dir.path().join("from")], to.path(), DEEP).map_err(said("copy"))?;
    equal(names(to.path()), names(dir.path()))
}

fn what_cannot_be_copied_leaves_the_rest() -> Result<(), String> {
    let dir = directory(&[("from/a", b"1"), ("from/b", b"2"), ("from/c/d", b"3")]);
    let to = directory(&[("from/b/in the way", b"")]);
    let ended = copy(&[&dir.path().join("from")], to.path(), DEEP);
    let Err(CopyError::Partly { failed: 1, first, .. }) = ended else {
        return Err(format!("{ended:?}"));
    };
    ensure(matches!(*first, CopyError::Kinds { .. }), format!("{first:?}"))?;
    equal(fs::read_to_string(to.path().join("from/a")).unwrap(), "1".to_owned())?;
    equal(fs::read_to_string(to.path().join("from/c/d")).unwrap(), "3".to_owned())
}

/// Also if there is one file alone, or none.
fn a_failure_below_a_directory_is_named() -> Result<(), String> {
    let dir = directory(&[("from/b", b"1")]);
    let to = directory(&[("from/b/in the way", b"")]);
    let mut named = 0;
    let ended = copy_with(&[&dir.path().join("from")], to.path(), DEEP, &mut |progress, _| {
        named += u32::from(progress.failure.is_some());
    });
    ensure(matches!(ended, Err(CopyError::Partly { failed: 1, .. })), format!("{ended:?}"))?;
    equal(named, 1)
}

fn what_the_destination_refuses_leaves_the_rest() -> Result<(), String> {
    let dir = directory(&[("from/a", b"1"), ("from/b", b"2"), ("from/c/d", b"3")]);
    // A directory can't be replaced by an unfinished copy.
    let to = directory(&[(&format!("from/b{PART_SUFFIX}/in the way"), b"")]);
    let ended = copy(&[&dir.path().join("from")], to.path(), DEEP);
    let Err(CopyError::Partly { failed: 1, first, .. }) = ended else {
        return Err(format!("{ended:?}"));
    };
    ensure(matches!(*first, CopyError::Io { .. }), format!("{first:?}"))?;
    equal(fs::read_to_string(to.path().join("from/a")).unwrap(), "1".to_owned())?;
    equal(fs::read_to_string(to.path().join("from/c/d")).unwrap(), "3".to_owned())
}

fn a_directorys_entries_go_into_another() -> Result<(), String> {
    let dir = directory(&[("one/a", b"1"), ("two/b", b"2")]);
    let to = directory(&[]);
    let sources = ["one/.", "two/."].map(|name| dir.path().join(name));
    copy(&[&sources[0], &sources[1]], to.path(), DEEP).map_err(said("copy"))?;
    equal(names(to.path()), ["a", "b"].map(str::to_owned).to_vec())
}

fn dev_null_is_written_in_place() -> Result<(), String> {
    use std::os::unix::fs::FileTypeExt;
    let dir = directory(&[("from", &noise(100_000))]);
    let summary = copy(&[&dir.path().join("from")], "/dev/null", PLAIN).map_err(said("copy"))?;
    equal((summary.bytes, summary.files), (100_000, 1))?;
    let null = fs::metadata("/dev/null").unwrap();
    ensure(null.file_type().is_char_device(), "/dev/null is a device no more")
}
