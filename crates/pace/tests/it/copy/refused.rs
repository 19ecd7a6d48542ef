//! Requests that are refused, and the messages.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use floodwall_model::Bytes;
use floodwall_pace::copy::{Options, Request, plan};
use floodwall_testing::disk::Mount;
use floodwall_testing::{LOOP, ROOT, Trial, equal, lacks, said, tests};

use super::{ARCHIVE, DEEP, MIB, PLAIN, directory, names, noise};

pub(super) fn tests() -> Vec<Trial> {
    let mut all = tests![refusals_say_what_and_what_to_do, a_hole_needs_no_space];
    all.extend(tests![|| lacks(&[ROOT]) => what_does_not_fit_is_refused]);
    all.extend(tests![|| lacks(&[ROOT, LOOP]) => block_devices_are_refused]);
    all
}

/// The refusal, without the directory's path.
fn refusal(dir: &Path, sources: &[&str], destination: &str, options: Options) -> String {
    let sources = sources.iter().map(|name| dir.join(name)).collect();
    let destination = dir.join(destination);
    match plan(&Request { sources, destination, options }) {
        Ok(_) => "not refused".to_owned(),
        Err(error) => error.to_string().replace(&format!("{}/", dir.display()), ""),
    }
}

fn refusals_say_what_and_what_to_do() -> Result<(), String> {
    let dir = directory(&[("a", b"1"), ("b/a", b"2"), ("d/e/f", b"3"), ("g/d", b"4")]);
    symlink("missing", dir.path().join("dangling")).unwrap();
    symlink("a", dir.path().join("link")).unwrap();
    let before = names(dir.path());
    for (sources, destination, options, wanted) in [
        (
            &["a", "b/a"][..],
            "c",
            PLAIN,
            "c is not a directory; several sources need one to be copied into",
        ),
        (
            &["a", "b/a"],
            "link",
            PLAIN,
            "link is not a directory; several sources need one to be copied into",
        ),
        (&["a"], "c/", PLAIN, "there is no directory c; make it first (mkdir -p)"),
        (&["a"], "c/d", PLAIN, "there is no directory c; make it first (mkdir -p)"),
        (
            &["d"],
            "c",
            PLAIN,
            "d is a directory; copy it with -r, or with -a to keep its attributes",
        ),
        (&["a"], "a", PLAIN, "a and a are the same file; choose another destination"),
        (&["a"], "link", PLAIN, "a and a are the same file; choose another destination"),
        (&["a"], ".", PLAIN, "a and ./a are the same file; choose another destination"),
        (
            &["d"],
            "d/e",
            DEEP,
            "can't copy the directory d into itself (d/e); choose a destination outside of it",
        ),
        (
            &["d/."],
            "d",
            ARCHIVE,
            "can't copy the directory d/. into itself (d); choose a destination outside of it",
        ),
        (
            &["a", "b/a"],
            "d",
            PLAIN,
            "two sources would both become d/a; copy them to different directories",
        ),
        (
            &["d"],
            "g",
            DEEP,
            "can't replace g/d, a regular file, with d, a directory; remove it, or choose another \
             destination",
        ),
        (
            &["a"],
            "dangling",
            PLAIN,
            "dangling is a symlink to a file that does not exist; remove it, or name the file",
        ),
        (&["missing"], "c", PLAIN, "can't open missing: No such file or directory (os error 2)"),
        (&["a/"], "c", PLAIN, "can't open a/: Not a directory (os error 20)"),
    ] {
        let found = refusal(dir.path(), sources, destination, options);
        equal(found.as_str(), wanted).map_err(said(&format!("{sources:?} {destination}")))?;
    }
    // A new directory may be named with a slash.
    equal(refusal(dir.path(), &["d"], "new/", DEEP).as_str(), "not refused")?;
    equal(names(dir.path()), before)
}

fn a_hole_needs_no_space() -> Result<(), String> {
    let dir = directory(&[]);
    File::create(dir.path().join("sparse")).unwrap().set_len(1 << 42).unwrap();
    equal(refusal(dir.path(), &["sparse"], "c", PLAIN).as_str(), "not refused")
}

fn what_does_not_fit_is_refused() -> Result<(), String> {
    let dir = directory(&[("a", &noise(3 * MIB))]);
    let small = dir.path().join("small");
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=2m", "none"], &small)?;
    // A filesystem may count its own blocks of a file as well.
    let file = File::open(dir.path().join("a")).map_err(said("the source"))?;
    file.sync_all().map_err(said("sync"))?;
    let needed = Bytes(file.metadata().map_err(said("the source"))?.blocks() * 512);
    let wanted = format!(
        "small has 2 MiB free and the copy needs {needed}; free space there, or choose another disk"
    );
    equal(refusal(dir.path(), &["a"], "small", PLAIN), wanted)?;
    equal(names(&small).len(), 0)
}

fn block_devices_are_refused() -> Result<(), String> {
    let image = tempfile::tempdir().map_err(said("a directory"))?;
    let device = floodwall_testing::disk::Loop::over(&image.path().join("image"), 8)?;
    let dir = directory(&[("a", b"1")]);
    let request = Request {
        sources: vec![dir.path().join("a")],
        destination: device.node().into(),
        options: PLAIN,
    };
    let refused = plan(&request).map(|_| ()).map_err(|error| error.to_string());
    let wanted = format!(
        "{} is a block device, which a copy never overwrites; name a file or a directory on a \
         filesystem",
        device.node()
    );
    equal(refused, Err(wanted))
}
