//! What a load or a removal may touch: nothing beyond symlinks, mounts and other users'
//! directories.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use floodwall_load::Dir;
use floodwall_load::dir::TreeError;
use floodwall_model::Bytes;
use floodwall_model::scenario::{Data, parse_victim};
use floodwall_testing::{ROOT, Trial, lacks, tests};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::support::*;

pub(crate) fn tests() -> Vec<Trial> {
    let mut all = tests![
        no_load_writes_through_a_symlink,
        a_symlink_is_opened_neither_as_a_file_nor_as_a_directory,
        a_tree_is_removed_and_its_symlinks_are_not_followed,
        directories_nested_without_end_are_an_error,
    ];
    all.extend(tests![|| lacks(&[ROOT]) =>
        in_another_users_directory_only_that_users_are_entered,
        at_another_users_top_only_that_users_are_entered,
    ]);
    all.extend(tests![lacks_mounts => mounts_are_not_entered]);
    all
}

fn no_load_writes_through_a_symlink() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = |name: &str| symlink(outside.path().join("hit"), dir.path().join(name)).unwrap();
    link(".preflight");
    check_victim(dir.path(), &parse_victim("commit,size=1MiB").unwrap()).unwrap_err();
    fs::remove_file(dir.path().join(".preflight")).unwrap();
    link("burst");
    burst(dir.path(), Bytes(1), Data::Zero, 1, &AtomicBool::new(false)).unwrap_err();

    // A flood's names are known: a link where its directory or a file of it will be.
    let lap = "files,size=16KiB,file_size=4KiB,block=4KiB";
    let files = flood(dir.path(), &format!("{lap},name=one"));
    symlink(outside.path(), dir.path().join("one/stream-0000/00000")).unwrap();
    let running = files.start(1, proc_root()).unwrap();
    wait_for("the refusal", || running.failure().is_some());
    drop(running);
    let files = flood(dir.path(), &format!("{lap},name=two"));
    fs::create_dir(dir.path().join("two/stream-0000/00000")).unwrap();
    link("two/stream-0000/00000/001");
    let running = files.start(1, proc_root()).unwrap();
    wait_for("the refusal", || running.failure().is_some());
    drop(running);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

fn a_symlink_is_opened_neither_as_a_file_nor_as_a_directory() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    File::create(outside.path().join("precious")).unwrap();
    symlink(outside.path().join("precious"), dir.path().join("file")).unwrap();
    symlink(outside.path(), dir.path().join("dir")).unwrap();
    let dir = Dir::open(dir.path()).unwrap();
    for flags in [OFlags::RDONLY, OFlags::WRONLY | OFlags::TRUNC, OFlags::RDWR | OFlags::CREATE] {
        assert_eq!(dir.file("file", flags).unwrap_err(), Errno::LOOP, "{flags:?}");
    }
    assert_eq!(dir.open_dir("dir").unwrap_err(), Errno::NOTDIR);
}

fn a_tree_is_removed_and_its_symlinks_are_not_followed() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    File::create(outside.path().join("precious")).unwrap();
    let deep = dir.path().join("a/b/c");
    fs::create_dir_all(&deep).unwrap();
    symlink(outside.path(), deep.join("link")).unwrap();
    symlink(outside.path().join("precious"), dir.path().join("a/file")).unwrap();
    File::create(deep.join("data")).unwrap();
    let top = open(dir.path());
    assert_eq!(top.remove_contents(Some("a")), Ok(()));
    assert!(deep.join("data").exists());
    top.remove_tree("a").unwrap();
    top.remove_tree("a").unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(outside.path().join("precious").exists());
}

fn directories_nested_without_end_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let top = open(dir.path());
    let mut innermost = top.make_dir("d").unwrap();
    for _ in 0..450 {
        innermost = innermost.make_dir("d").unwrap();
    }
    File::create(dir.path().join("beside")).unwrap();
    assert!(matches!(top.remove_contents(None), Err(TreeError::Deep { .. })));
    assert!(!dir.path().join("beside").exists(), "the rest is removed");
}

/// A user that owns nothing.
const SOMEBODY: u32 = 54_321;

/// An owner can move a directory of another user that lies in one of his into what root removes.
fn in_another_users_directory_only_that_users_are_entered() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = dir.path().join("theirs");
    fs::create_dir_all(theirs.join("own")).unwrap();
    fs::create_dir(theirs.join("roots")).unwrap();
    for place in ["file", "own/file", "roots/precious"] {
        File::create(theirs.join(place)).unwrap();
    }
    for place in ["", "own"] {
        chown(theirs.join(place), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    }
    let top = open(dir.path());
    let error = top.remove_contents(None).unwrap_err();
    let path = theirs.join("roots");
    assert_eq!(error, TreeError::Owner { path, owner: 0, parent: SOMEBODY });
    assert!(theirs.join("roots/precious").exists());
    assert!(!theirs.join("file").exists() && !theirs.join("own").exists());
    // In root's directories, those of all users are entered.
    chown(theirs.join("roots"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    top.remove_contents(None).unwrap();
}

/// A user can give a directory the name and the mark of a scratch directory, while other users'
/// directories lie in it.
fn at_another_users_top_only_that_users_are_entered() {
    let dir = tempfile::tempdir().unwrap();
    let fake = dir.path().join("fake");
    for (name, owner) in [("own", SOMEBODY), ("roots", 0), ("thirds", SOMEBODY + 1)] {
        fs::create_dir_all(fake.join(name)).unwrap();
        let mut file = File::create(fake.join(name).join("precious")).unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        chown(fake.join(name), Some(owner), Some(owner)).unwrap();
    }
    chown(&fake, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let top = open(&fake);
    assert!(
        (100_000..250_000).contains(&top.disk_usage()),
        "what would be removed: {}",
        top.disk_usage()
    );
    let error = top.remove_contents(None).unwrap_err();
    assert!(matches!(error, TreeError::Owner { parent: SOMEBODY, .. }), "{error}");
    for name in ["roots", "thirds"] {
        assert!(matches!(top.remove_tree(name), Err(TreeError::Owner { .. })), "{name}");
        assert!(fake.join(name).join("precious").exists(), "{name}");
    }
    assert!(!fake.join("own").exists());
}

/// Something mounted, till it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Makes the directory `at` and mounts there what `args` say.
    fn make(args: &[&str], at: PathBuf) -> Result<Self, String> {
        fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount").args(args).arg(&at).output().unwrap();
        let why = || String::from_utf8_lossy(&mounted.stderr).trim().to_owned();
        if mounted.status.success() { Ok(Self(at)) } else { Err(why()) }
    }

    fn tmpfs(at: PathBuf) -> Result<Self, String> {
        Self::make(&["-t", "tmpfs", "floodwall-test"], at)
    }

    fn bound(from: &Path, at: PathBuf) -> Result<Self, String> {
        Self::make(&["--bind", &from.display().to_string()], at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Why nothing can be mounted: an ordinary user, or a container.
fn lacks_mounts() -> Option<String> {
    let try_both = || {
        let dir = tempfile::tempdir().unwrap();
        let tmpfs = Mounted::tmpfs(dir.path().join("tmpfs"))?;
        Mounted::bound(&tmpfs.0, dir.path().join("bound")).map(drop)
    };
    lacks(&[ROOT, "mount", "umount"])
        .or_else(|| try_both().err().map(|why: String| format!("can't mount: {why}")))
}

fn mounts_are_not_entered() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    File::create(outside.path().join("precious")).unwrap();
    let tmpfs = Mounted::tmpfs(dir.path().join("tmpfs")).unwrap();
    File::create(tmpfs.0.join("precious")).unwrap();
    // The same filesystem, and so the same device number.
    let bound = Mounted::bound(outside.path(), dir.path().join("bound")).unwrap();
    let top = open(dir.path());
    let error = top.remove_contents(None).unwrap_err();
    assert!(matches!(error, TreeError::Mount { .. }), "{error}");
    assert!(tmpfs.0.join("precious").exists() && outside.path().join("precious").exists());
    drop((tmpfs, bound));
    top.remove_contents(None).unwrap();
}
