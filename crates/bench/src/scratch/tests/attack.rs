//! The owner of the directory renames everything in it and puts symlinks in its place, at every
//! step of the main thread. Nothing outside may change.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use floodwall_load::dir::steps::on_each_step;
use floodwall_model::Bytes;
use floodwall_model::scenario::{Data, parse_flood, parse_victim};
use tempfile::TempDir;

use super::*;

/// Names that a run uses: what an attacker would give the files to be hit.
const NAMES: [&str; 12] = [
    OWNER,
    ".probe",
    "burst",
    "commit",
    "scan",
    "files",
    "seq",
    "data-00000",
    "stream-0000",
    "seq-0000",
    "00000",
    "000",
];

fn write(path: &Path, text: &str) {
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// A directory with valuable contents that looks like a scratch directory that may be removed.
fn precious() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("files/stream-0000/00000")).unwrap();
    fs::create_dir(dir.path().join("commit")).unwrap();
    for place in ["", "commit", "files", "files/stream-0000", "files/stream-0000/00000"] {
        let place = dir.path().join(place);
        for name in NAMES.iter().filter(|name| !place.join(name).exists()) {
            write(&place.join(name), &format!("{MAGIC}\n{}\n", place.join(name).display()));
        }
    }
    dir
}

/// Every file below with its contents, and every directory, with inode and time of the last change.
fn contents(dir: &Path) -> BTreeMap<PathBuf, (u64, i64, Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(path) = todo.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        if stat.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let bytes = stat.is_file().then(|| fs::read(&path).unwrap());
        found.insert(path, (stat.ino(), stat.ctime_nsec(), bytes));
    }
    found
}

/// The attack by the owner of `dir`.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Puts a symlink in place of each of our directories.
    Symlink,
    /// Puts a directory of symlinks there, one for each name that a run uses.
    Decoy,
    /// Does the first, and puts the bench's directory back at the next step.
    Flicker,
    /// Puts a symlink in place of `dir` itself.
    Parent,
}

struct Attacker {
    dir: PathBuf,
    outside: PathBuf,
    moved: Vec<(PathBuf, PathBuf)>,
    swaps: usize,
}

impl Attacker {
    fn swap(&mut self, attack: Attack) {
        if let Attack::Parent = attack {
            let aside = self.dir.with_extension("aside");
            if fs::rename(&self.dir, &aside).is_ok() {
                symlink(&self.outside, &self.dir).unwrap();
                self.swaps += 1;
            }
            return;
        }
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let ours = entry.file_name().to_string_lossy().starts_with(".floodwall-");
            if !ours || entry.file_type().map_or(true, |t| t.is_symlink()) {
                continue;
            }
            self.swaps += 1;
            let aside = self.dir.join(format!("aside-{}", self.swaps));
            if fs::rename(entry.path(), &aside).is_err() {
                continue;
            }
            let placed = if let Attack::Decoy = attack {
                fs::create_dir(entry.path()).map(|()| {
                    for name in NAMES {
                        symlink(self.outside.join(name), entry.path().join(name)).unwrap();
                    }
                })
            } else {
                symlink(&self.outside, entry.path())
            };
            if placed.is_ok() {
                self.moved.push((entry.path(), aside));
            }
        }
    }

    fn put_back(&mut self) {
        for (path, aside) in self.moved.drain(..) {
            let _ = fs::remove_file(&path);
            let _ = fs::rename(aside, path);
        }
    }
}

/// Everything that a run does in its directory. Errors are what an attack may cause.
fn run(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let stop = AtomicBool::new(false);
    let scratch = Scratch::make(&Dir::open_resolved(dir)?)?;
    let place = scratch.dir();
    for spec in [
        "commit,block=4KiB,size=8KiB,name=commit",
        "scan,block=4KiB,size=8KiB,access=cached,name=scan",
    ] {
        let victim = parse_victim(spec).unwrap();
        let victim = floodwall_load::prepare_victim(place, &victim, None, 1, &mut |_| {}, &stop)?;
        drop(victim.start(1, Path::new("/proc"))?);
    }
    for spec in [
        "files,file_size=4KiB,size=16KiB,block=4KiB,name=files",
        "seq,size=16KiB,block=4KiB,name=seq",
    ] {
        let flood = parse_flood(spec).unwrap();
        let flood = floodwall_load::prepare_flood(place, &flood, None, 1, &mut |_| {}, &stop)?;
        let mut running = flood.start(1, Path::new("/proc"))?;
        let mut ops = 0;
        while ops < 8 && running.failure().is_none() {
            ops += running.sample().ops;
        }
        let _ = running.finish();
        flood.discard()?;
    }
    floodwall_load::burst(place, Bytes(4096), Data::Zero, 1, &stop)?;
    scratch.remove()?;
    // The attacker's directory may look like a killed run's.
    clean(dir)?;
    Ok(())
}

/// Runs with an attack at the given step, or with none; returns the steps taken and the swaps made.
fn attacked(at: usize, attack: Attack, outside: &Path) -> (usize, usize) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    let shared = std::rc::Rc::new(std::cell::RefCell::new((
        0,
        Attacker { dir: home.clone(), outside: outside.to_owned(), moved: Vec::new(), swaps: 0 },
    )));
    let act = {
        let shared = std::rc::Rc::clone(&shared);
        move || {
            let (step, attacker) = &mut *shared.borrow_mut();
            if *step == at {
                attacker.swap(attack);
            } else if let Attack::Flicker = attack {
                attacker.put_back();
            }
            *step += 1;
        }
    };
    on_each_step(Some(Box::new(act)));
    let ran = run(&home);
    on_each_step(None);
    let (steps, attacker) = &*shared.borrow();
    assert!(attacker.swaps > 0 || ran.is_ok(), "without an attack a run succeeds: {ran:?}");
    (*steps, attacker.swaps)
}

#[test]
fn whatever_the_owner_of_the_directory_renames_nothing_outside_changes() {
    let outside = precious();
    let before = contents(outside.path());
    let (steps, none) = attacked(usize::MAX, Attack::Symlink, outside.path());
    assert!(steps > 30 && none == 0, "{steps} steps");
    // The last two differ from the first only in what comes after: every third step has to do.
    let attacks =
        [(Attack::Symlink, 1), (Attack::Decoy, 1), (Attack::Flicker, 3), (Attack::Parent, 3)];
    for (attack, every) in attacks {
        let mut swaps = 0;
        for at in (0..steps).step_by(every) {
            swaps += attacked(at, attack, outside.path()).1;
            assert!(contents(outside.path()) == before, "{attack:?} at step {at} of {steps}");
        }
        assert!(swaps > steps / every / 2, "{attack:?}: only {swaps} swaps in {steps} steps");
    }
}

#[test]
fn an_owner_who_never_stops_renaming_hits_nothing_outside() {
    let outside = precious();
    let before = contents(outside.path());
    let dir = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    let swaps = std::thread::scope(|scope| {
        let racer = scope.spawn(|| {
            let (dir, outside) = (dir.path().to_owned(), outside.path().to_owned());
            let mut attacker = Attacker { dir, outside, moved: Vec::new(), swaps: 0 };
            let begin = Instant::now();
            while !done.load(Ordering::Relaxed) && begin.elapsed().as_secs() < 120 {
                attacker.swap(Attack::Symlink);
                attacker.put_back();
            }
            attacker.swaps
        });
        for _ in 0..50 {
            let _ = run(dir.path());
        }
        done.store(true, Ordering::Relaxed);
        racer.join().unwrap()
    });
    assert!(contents(outside.path()) == before);
    assert!(swaps > 0);
}

/// The one that is put there belongs to us, as root's belong to root.
#[test]
fn an_open_directory_in_place_of_the_new_one_is_not_taken() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().to_owned();
    on_each_step(Some(Box::new(move || {
        for new in fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path()) {
            let is_new = new.file_name().unwrap().to_string_lossy().starts_with(NEW_PREFIX);
            let aside = home.join("aside");
            if is_new && !aside.exists() {
                fs::rename(&new, aside).unwrap();
                fs::create_dir(&new).unwrap();
                fs::set_permissions(&new, fs::Permissions::from_mode(0o777)).unwrap();
            }
        }
    })));
    let made = make(dir.path());
    on_each_step(None);
    assert!(matches!(made, Err(ScratchError::Replaced { .. })), "{made:?}");
}

#[test]
fn a_filesystem_that_keeps_no_modes_will_do() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let dir = Dir::open(dir.path()).unwrap();
    let owner = mark(&dir).unwrap();
    assert!(!is_own(&dir, &owner).unwrap());
    owner.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
    assert!(is_own(&dir, &owner).unwrap(), "as every file of a vfat has it");
}

#[test]
fn a_moved_scratch_directory_is_emptied_and_the_rest_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = make(dir.path()).unwrap();
    File::create(scratch.path().join("data")).unwrap();
    let aside = dir.path().join("aside");
    fs::rename(scratch.path(), &aside).unwrap();
    let error = scratch.remove().unwrap_err();
    assert!(matches!(error, ScratchError::Moved { .. }), "{error}");
    assert!(error.to_string().contains("remove the empty directory by hand"), "{error}");
    assert_eq!(fs::read_dir(aside).unwrap().count(), 0);
}

#[test]
fn a_symlink_to_a_left_scratch_directory_is_not_cleaned() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(&elsewhere.path().join(OWNER), &format!("{MAGIC}\npid 1\n"));
    symlink(elsewhere.path(), dir.path().join(format!("{PREFIX}1-0"))).unwrap();
    // A mark that is a link to another's file is no mark.
    let linked = dir.path().join(format!("{PREFIX}1-1"));
    fs::create_dir(&linked).unwrap();
    fs::hard_link(elsewhere.path().join(OWNER), linked.join(OWNER)).unwrap();
    assert_eq!(clean(dir.path()).unwrap(), []);
    assert!(elsewhere.path().join(OWNER).exists() && linked.join(OWNER).exists());
}
