//! Owner, mode, times, extended attributes, links and special files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use floodwall_testing::{ROOT, Trial, ensure, equal, lacks, said, tests};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, mknodat, setxattr};

use super::{ARCHIVE, DEEP, PLAIN, copy, directory, names};

const XATTR: &str = "user.floodwall";

pub(super) fn tests() -> Vec<Trial> {
    let mut all = tests![
        a_new_file_has_the_sources_mode_without_the_umask,
        an_archive_keeps_mode_and_times,
        an_archive_keeps_hard_links,
        no_link_is_made_to_a_file_that_replaced_the_first_copy,
        symlinks_and_fifos_are_copied_as_such,
    ];
    all.extend(tests![lacks_xattrs => an_archive_keeps_extended_attributes]);
    all.extend(tests![|| lacks(&[ROOT]) => an_archive_keeps_the_owner_and_setuid]);
    all
}

fn lacks_xattrs() -> Option<String> {
    let file = tempfile::NamedTempFile::new().ok()?;
    let set = setxattr(file.path(), XATTR, b"x", XattrFlags::empty());
    set.err().map(|errno| format!("needs user.* attributes on the temporary directory: {errno}"))
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn a_new_file_has_the_sources_mode_without_the_umask() -> Result<(), String> {
    let dir = directory(&[("from/run", b"x"), ("from/secret", b"x"), ("umask", b"")]);
    let from = dir.path().join("from");
    chmod(&from.join("run"), 0o4777);
    chmod(&from.join("secret"), 0o440);
    chmod(&from, 0o555);
    // The mode of a new file that was made with all bits shows the umask.
    let umask = {
        use std::os::unix::fs::OpenOptionsExt;
        let path = dir.path().join("all");
        fs::File::options().write(true).create_new(true).mode(0o777).open(&path).unwrap();
        !mode(&path) & 0o777
    };
    let to = dir.path().join("to");
    copy(&[&from], &to, DEEP).map_err(said("copy"))?;
    equal(mode(&to.join("run")), 0o777 & !umask)?;
    equal(mode(&to.join("secret")), 0o440 & !umask)?;
    let copied = mode(&to);
    chmod(&from, 0o755);
    chmod(&to, 0o755);
    equal(copied, 0o555 & !umask)
}

fn an_archive_keeps_mode_and_times() -> Result<(), String> {
    let dir = directory(&[("from/inner/file", b"x")]);
    let from = dir.path().join("from");
    chmod(&from.join("inner/file"), 0o604);
    chmod(&from.join("inner"), 0o750);
    let at = UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    for (name, seconds) in [("inner/file", 0), ("inner", 10), ("", 20)] {
        let times = fs::FileTimes::new()
            .set_accessed(at + Duration::from_secs(seconds))
            .set_modified(at + Duration::from_secs(seconds + 1));
        fs::File::open(from.join(name)).unwrap().set_times(times).unwrap();
    }
    let to = dir.path().join("to");
    copy(&[&from], &to, ARCHIVE).map_err(said("copy"))?;
    equal(mode(&to.join("inner/file")), 0o604)?;
    equal(mode(&to.join("inner")), 0o750)?;
    for (name, seconds) in [("inner/file", 1), ("inner", 11), ("", 21)] {
        let found = to.join(name).metadata().unwrap();
        let wanted = (1_234_567_890 + seconds, 123_456_789);
        equal((found.mtime(), found.mtime_nsec()), wanted).map_err(said(name))?;
    }
    // The directories' access time may have changed when they were listed.
    let found = to.join("inner/file").metadata().unwrap();
    equal((found.atime(), found.atime_nsec()), (1_234_567_890, 123_456_789))
}

fn an_archive_keeps_hard_links() -> Result<(), String> {
    let dir = directory(&[("from/a/one", b"x"), ("from/other", b"y")]);
    let from = dir.path().join("from");
    fs::create_dir(from.join("b")).unwrap();
    fs::hard_link(from.join("a/one"), from.join("b/two")).unwrap();
    fs::hard_link(from.join("a/one"), from.join("three")).unwrap();
    let same = |to: &Path| {
        let inode = |name: &str| to.join(name).metadata().unwrap().ino();
        let inodes = ["a/one", "b/two", "three"].map(inode);
        (inodes[0] == inodes[1], inodes[0] == inodes[2], inode("other") == inodes[0])
    };
    let to = dir.path().join("to");
    // The second time the links exist already.
    for _ in 0..2 {
        copy(&[&from.join(".")], make(&to), ARCHIVE).map_err(said("copy"))?;
        equal(same(&to), (true, true, false))?;
        equal(names(&to), names(&from))?;
    }
    let to = dir.path().join("apart");
    copy(&[&from], &to, DEEP).map_err(said("copy"))?;
    equal(same(&to), (false, false, false))
}

fn no_link_is_made_to_a_file_that_replaced_the_first_copy() -> Result<(), String> {
    let dir = directory(&[("a/one", b"old"), ("b/one", b"new"), ("c/three", b"")]);
    fs::hard_link(dir.path().join("a/one"), dir.path().join("c/two")).unwrap();
    let sources = ["a/.", "b/.", "c/."].map(|name| dir.path().join(name));
    let to = directory(&[]);
    let sources: Vec<&Path> = sources.iter().map(AsRef::as_ref).collect();
    copy(&sources, to.path(), ARCHIVE).map_err(said("copy"))?;
    equal(fs::read_to_string(to.path().join("one")).unwrap(), "new".to_owned())?;
    equal(fs::read_to_string(to.path().join("two")).unwrap(), "old".to_owned())?;
    equal(names(to.path()), ["one", "three", "two"].map(str::to_owned).to_vec())
}

/// A directory that exists.
fn make(path: &Path) -> &Path {
    fs::create_dir_all(path).unwrap();
    path
}

fn symlinks_and_fifos_are_copied_as_such() -> Result<(), String> {
    let dir = directory(&[("from/file", b"x"), ("to/from/link", b"old")]);
    let from = dir.path().join("from");
    symlink("file", from.join("link")).unwrap();
    symlink("missing", from.join("dangling")).unwrap();
    mknodat(CWD, from.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    for options in [DEEP, ARCHIVE] {
        let to = dir.path().join("to");
        copy(&[&from], &to, options).map_err(said("copy"))?;
        equal(names(&to.join("from")), names(&from))?;
        let target = |name: &str| fs::read_link(to.join("from").join(name)).unwrap();
        equal(target("link"), "file".into())?;
        equal(target("dangling"), "missing".into())?;
        let fifo = to.join("from/fifo").symlink_metadata().unwrap();
        equal(fifo.mode() & 0o170_000, 0o010_000)?;
    }
    // Named by itself and not recursively, a symlink is followed, and gives the copy its name.
    let to = directory(&[]);
    copy(&[&from.join("link")], to.path(), PLAIN).map_err(said("copy"))?;
    let copied = to.path().join("link");
    ensure(copied.symlink_metadata().unwrap().is_file(), "a link was copied")?;
    equal(fs::read_to_string(copied).unwrap(), "x".to_owned())
}

fn an_archive_keeps_extended_attributes() -> Result<(), String> {
    let dir = directory(&[("from/file", b"x")]);
    let from = dir.path().join("from");
    setxattr(from.join("file"), XATTR, b"of the file", XattrFlags::empty()).unwrap();
    setxattr(&from, XATTR, b"of the directory", XattrFlags::empty()).unwrap();
    let to = dir.path().join("to");
    let summary = copy(&[&from], &to, ARCHIVE).map_err(said("copy"))?;
    equal(summary.unkept.len(), 0)?;
    let value = |path: &Path| {
        let mut value = vec![0u8; 100];
        let len = getxattr(path, XATTR, &mut value[..]).unwrap();
        value.truncate(len);
        String::from_utf8(value).unwrap()
    };
    equal(value(&to.join("file")), "of the file".to_owned())?;
    equal(value(&to), "of the directory".to_owned())
}

fn an_archive_keeps_the_owner_and_setuid() -> Result<(), String> {
    let dir = directory(&[("from", b"x")]);
    let from = dir.path().join("from");
    symlink("from", dir.path().join("link")).unwrap();
    rustix::fs::chownat(
        CWD,
        dir.path().join("link"),
        Some(rustix::fs::Uid::from_raw(1234)),
        None,
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    )
    .unwrap();
    chown(&from, Some(1234), Some(4321)).unwrap();
    chmod(&from, 0o6755);
    let to = directory(&[]);
    copy(&[&from, &dir.path().join("link")], to.path(), ARCHIVE).map_err(said("copy"))?;
    let copied = to.path().join("from");
    let found = copied.metadata().unwrap();
    equal((found.uid(), found.gid(), mode(&copied)), (1234, 4321, 0o6755))?;
    equal(to.path().join("link").symlink_metadata().unwrap().uid(), 1234)?;
    let plain = to.path().join("plain");
    copy(&[&from], &plain, PLAIN).map_err(said("copy"))?;
    let found = plain.metadata().unwrap();
    equal((found.uid(), found.mode() & 0o7000), (0, 0))
}
