//! Where a guest runs: the host's files, its memory, its kernel's modules, and machines that lack
//! something.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use floodwall_testing::ROOT;
use floodwall_testing::process::install;

use crate::bed::{Bed, Who, equal, run, said, text};
use crate::{Once, Test};

pub(crate) const TESTS: &[Test] = &[
    Test { name: "the host's files stay as they are", who: Once::Both, needs: &[], body: files },
    Test { name: "--out reaches the host", who: Once::Both, needs: &[], body: out },
    Test { name: "a guest has no guest", who: Once::Caller, needs: &[], body: nested },
    Test { name: "a machine without linux.uml", who: Once::Caller, needs: &[], body: no_kernel },
    Test { name: "modules of another version", who: Once::Caller, needs: &[], body: other_modules },
    Test {
        name: "memory that is noexec, too small or none",
        who: Once::Caller,
        needs: &[ROOT, "unshare", "mount"],
        body: memory,
    },
];

fn files(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let home = tempfile::tempdir().map_err(text)?;
    let file = home.path().join("file");
    fs::write(&file, "the host's\n").map_err(text)?;
    bed.give(home.path())?;
    bed.give(&file)?;
    let name = format!("floodwall-guest-test-{}", std::process::id());
    let (here, etc, usr) = (home.path().display(), format!("/etc/{name}"), format!("/usr/{name}"));
    // By the guest's user, in places where only root may write.
    let script = format!(
        "echo new > {here}/file && rm -f {here}/file && mkdir {here}/dir && touch {etc} {usr} \
         && rm /etc/passwd && ls {etc} {usr} && umount {here} 2>/dev/null; ls {here}"
    );
    equal("in the guest", bed.prints(&["--raw"], &script)?, format!("{etc}\n{usr}\ndir\n"))?;
    equal("the file", fs::read_to_string(&file).map_err(text)?.as_str(), "the host's\n")?;
    let left: Vec<bool> =
        [etc.as_str(), &usr, &format!("{here}/dir")].map(|p| Path::new(p).exists()).into();
    equal("new files on the host", left, vec![false; 3])?;
    equal("/etc/passwd", Path::new("/etc/passwd").exists(), true)
}

fn out(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let dir = tempfile::tempdir().map_err(text)?;
    bed.give(dir.path())?;
    let here = dir.path().display().to_string();
    let script =
        format!("mkdir {here}/new && head -c 3000000 /dev/zero | tee {here}/new/file | wc -c");
    equal("in the guest", bed.prints(&["--raw", "--out", &here], &script)?, "3000000\n".into())?;
    let written = fs::metadata(dir.path().join("new/file")).map_err(text)?;
    equal("length", written.len(), 3_000_000)?;
    equal("owner", written.uid(), bed.uid())?;
    let mut refused = bed.guest(&["--out", "/no/such/directory"], "true");
    let output = run(&mut refused, &[])?;
    equal("a directory that is not there", output.status.code(), Some(2))
}

fn nested(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let program = bed.program();
    let script = format!("{} lab run null --kernel uml -- true 2>&1; echo $?", program.display());
    let told = bed.prints(&["--raw"], &script)?;
    equal(
        "nested",
        told.as_str(),
        "floodwall: a guest can't have a guest; leave --kernel out in here\n2\n",
    )
}

/// What `command` says on stderr; its status has to be `status`, and `words` have to be in it.
pub(crate) fn refuses(command: &mut Command, status: i32, words: &[&str]) -> Result<(), String> {
    let output = run(command, &[])?;
    let told = said(&output.stderr);
    equal(&told, output.status.code(), Some(status))?;
    match words.iter().find(|word| !told.contains(**word)) {
        Some(word) => Err(format!("'{word}' is not in: {told}")),
        None => Ok(()),
    }
}

fn no_kernel(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let empty = tempfile::tempdir().map_err(text)?;
    let mut command = bed.guest(&["--raw"], "true");
    command.env("PATH", empty.path()).env("HOME", empty.path());
    let words = [
        "apt-get install user-mode-linux",
        "apt-get download",
        "dpkg -x",
        "~/.local/share/floodwall",
    ];
    refuses(&mut command, 4, &words)?;
    bed.nothing_is_left()
}

fn other_modules(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let uml =
        floodwall_guest::Uml::find(std::env::var_os("PATH").as_deref(), None).map_err(text)?;
    let modules = uml.modules.clone().ok_or("no modules")?;
    // The same kernel in a separate place, beside modules of another version.
    let place = tempfile::tempdir().map_err(text)?;
    let (bin, lib) = (place.path().join("bin"), place.path().join("lib/uml/modules"));
    fs::create_dir_all(&bin).map_err(text)?;
    fs::create_dir_all(&lib).map_err(text)?;
    let kernel = bin.join("linux.uml");
    install(&uml.kernel, &kernel)?;
    symlink(&modules, lib.join("5.10.0")).map_err(text)?;
    let named = |bed: &Bed| {
        let mut command = bed.command(&[], &bed.program());
        command.args([
            "lab", "run", "null", "--raw", "--size", "64MiB", "--ram", "640MiB", "--kernel",
        ]);
        command.arg(&kernel).args(["--", "true"]);
        command
    };
    refuses(&mut named(&bed), 4, &["no modules of its version", &uml.version, "user-mode-linux"])?;
    // Modules that call themselves by its version, and are not: the kernel refuses them.
    let broken = lib.join(&uml.version).join("kernel");
    fs::create_dir_all(&broken).map_err(text)?;
    for name in ["overlay", "fuse", "loop"] {
        fs::write(broken.join(format!("{name}.ko")), "\0depends=\0").map_err(text)?;
    }
    refuses(&mut named(&bed), 1, &["can't load the module", "overlay.ko"])?;
    bed.nothing_is_left()
}

fn memory(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    // In a separate mount namespace, after the commands of `hide`.
    let hidden = |hide: &str| {
        let script = format!("{hide} && exec \"$@\"");
        bed.guest_after(&["unshare", "--mount", "sh", "-c", &script, "sh"], &["--raw"], "true")
    };
    let tmp = bed.memory().display();
    let noexec = format!("mount -t tmpfs -o noexec t {tmp} && mount -t tmpfs -o noexec t /dev/shm");
    // The mount on /dev/shm hides the first.
    refuses(&mut hidden(&noexec), 4, &["can't be used", "'/dev/shm' is mounted noexec", "TMPDIR"])?;
    let small = format!("mount -t tmpfs -o size=100m t {tmp}");
    refuses(
        &mut hidden(&small),
        4,
        &["the guest needs 640 MiB", "free some, or give it less with --ram"],
    )?;
    for (ram, status, words) in [
        ("1TiB", 4, "the guest needs 1 TiB of memory"),
        ("100MiB", 2, "100 MiB of memory are too few for a guest"),
    ] {
        let mut command = bed.command(&[], &bed.program());
        command
            .args(["lab", "run", "null", "--raw", "--kernel", "uml", "--ram", ram, "--", "true"]);
        refuses(&mut command, status, &[words, "with --ram"])?;
    }
    bed.nothing_is_left()
}
