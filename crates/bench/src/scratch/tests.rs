use std::fs;

use super::*;

mod attack;

fn make(dir: &Path) -> Result<Scratch, ScratchError> {
    Scratch::make(&Dir::open(dir).unwrap())
}

#[test]
fn a_living_run_is_not_a_leftover_and_a_dropped_one_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = make(dir.path()).unwrap();
    let path = scratch.path().to_owned();
    assert_eq!(leftovers(dir.path()).unwrap(), []);
    drop(scratch);
    assert!(!path.exists());
}

#[test]
fn a_killed_run_is_found_and_cleaned_with_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = make(dir.path()).unwrap();
    let mut file = File::create(scratch.path().join("victim-0")).unwrap();
    file.write_all(&[7; 100_000]).unwrap();
    file.sync_all().unwrap();
    // The effect of SIGKILL: the lock goes, the files stay.
    rustix::fs::flock(scratch.owner.as_ref().unwrap(), FlockOperation::Unlock).unwrap();
    let found = leftovers(dir.path()).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].bytes >= 100_000, "{found:?}");
    assert_eq!(clean(dir.path()).unwrap(), found);
    assert!(!scratch.path().exists());
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join(format!("{PREFIX}of-somebody"));
    fs::create_dir(&foreign).unwrap();
    File::create(foreign.join("precious")).unwrap();
    let named_alike = dir.path().join("floodwall-bench");
    fs::create_dir(&named_alike).unwrap();
    assert_eq!(clean(dir.path()).unwrap(), []);
    assert!(foreign.join("precious").exists() && named_alike.exists());
}

#[test]
fn a_directory_whose_maker_was_killed_halfway_is_cleaned() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join(format!("{NEW_PREFIX}7-0"));
    let unlocked = dir.path().join(format!("{NEW_PREFIX}7-1"));
    for path in [&empty, &unlocked] {
        fs::create_dir(path).unwrap();
    }
    File::create(unlocked.join(OWNER)).unwrap();
    let paths: Vec<PathBuf> =
        clean(dir.path()).unwrap().into_iter().map(|left| left.path).collect();
    assert_eq!(paths, [empty, unlocked]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_removal_leaves_the_mark() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = make(dir.path()).unwrap();
    let path = scratch.path().to_owned();
    for i in 0..1_000 {
        File::create(path.join(format!("file-{i}"))).unwrap();
    }
    // Seen from outside: as long as anything is there, the mark is.
    let marked = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut orphaned = false;
            while path.exists() {
                let without_mark = !path.join(OWNER).exists();
                let anything =
                    fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some());
                orphaned |= without_mark && anything;
            }
            !orphaned
        });
        scratch.remove().unwrap();
        watcher.join().unwrap()
    });
    assert!(marked);
}

#[test]
fn cleaning_beside_runs_that_start_and_end_takes_nothing_that_lives() {
    use std::sync::atomic::AtomicBool;
    let dir = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cleaners = [(), ()].map(|()| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    clean(dir.path()).unwrap();
                }
            })
        });
        let makers = [(), ()].map(|()| {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let scratch = make(dir.path()).unwrap();
                    let data = scratch.path().join("data");
                    File::create(&data).unwrap();
                    assert!(scratch.path().join(OWNER).exists() && data.exists());
                    scratch.remove().unwrap();
                }
            })
        });
        let made = makers.map(|maker| maker.join().is_ok());
        done.store(true, Ordering::Relaxed);
        assert_eq!(made, [true, true]);
        assert_eq!(cleaners.map(|cleaner| cleaner.join().is_ok()), [true, true]);
    });
    assert_eq!(clean(dir.path()).unwrap(), []);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
