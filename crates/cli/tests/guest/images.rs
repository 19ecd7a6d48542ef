//! `--kernel FILE` with a kernel's image, which QEMU boots: Debian's own, emulated where there is no KVM.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use floodwall_guest::Image;

use crate::bed::{Bed, Who, end_of, equal, run, said, signal, text, until};
use crate::place::refuses;
use crate::{Once, Test};

/// Among what a test needs: a kernel's image with its modules.
pub(crate) const IMAGE: &str = "a kernel's image";
const NEEDS: &[&str] = &["qemu-system-x86_64", "ldd", IMAGE];

pub(crate) const TESTS: &[Test] = &[
    Test { name: "an image runs a command", who: Once::Both, needs: NEEDS, body: runs },
    Test {
        name: "an image has settings, tracepoints and a guard",
        who: Once::Caller,
        needs: &["qemu-system-x86_64", "ldd", IMAGE, "mkfs.ext4"],
        body: guards,
    },
    Test { name: "an image that is interrupted", who: Once::Caller, needs: NEEDS, body: interrupted },
    Test { name: "an image that can't be used", who: Once::Caller, needs: NEEDS, body: refused },
];

/// An image that `make install-test` has unpacked, or one of this machine's own.
pub(crate) fn image() -> Option<Image> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernel/boot");
    let entries =
        [unpacked, "/boot".into()].into_iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten());
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut images = files.filter_map(|file| Image::at(&file).ok()?);
    images.find(|image| image.modules.as_ref().is_some_and(|dir| dir.join("kernel/net/9p").is_dir()))
}

/// Why there is no image that this user can boot.
pub(crate) fn lacks_image(who: Who) -> Option<String> {
    let Some(image) = image() else { return Some(format!("needs {IMAGE}")) };
    let is_hidden = |dir: &Path| fs::metadata(dir).is_ok_and(|dir| dir.mode() & 1 == 0);
    let hidden = image.file.ancestors().skip(1).find(|dir| is_hidden(dir))?;
    (who == Who::Ordinary)
        .then(|| format!("needs {IMAGE} that everybody may read, not below {}", hidden.display()))
}

/// `lab run` of a device that takes no time behind an image, with a directory that it may write to.
fn guest(bed: &Bed, image: &Path, options: &[&str], script: &str) -> Command {
    let mut command = bed.command(&[], &bed.program());
    command.args(["lab", "run", "null", "--size", "320MiB", "--ram", "1GiB", "--kernel"]).arg(image);
    command.arg("--out").arg(bed.memory()).args(options).args(["--", "sh", "-c", script]);
    command
}

/// Virtual machines that may write to the test's directory.
fn machines(bed: &Bed) -> usize {
    let ours = format!("path={}", bed.memory().display());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.starts_with(b"/") && said(line).contains(&ours)).count()
}

fn nothing_is_left(bed: &Bed) -> Result<(), String> {
    until("the virtual machine has ended", || machines(bed) == 0)?;
    bed.nothing_is_left()
}

fn ours() -> Result<Image, String> {
    image().ok_or_else(|| "the image is gone".to_owned())
}

fn runs(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let image = ours()?;
    let name = format!("/etc/floodwall-image-test-{}", std::process::id());
    let here = bed.memory().display();
    let script = format!(
        "cat; uname -r; cat /sys/fs/cgroup/cgroup.controllers; echo $FLOODWALL_GUEST; touch {name} && ls {name}
         head -c 3000000 /dev/zero > {here}/file; echo no >&2; exit 7"
    );
    let output = run(&mut guest(&bed, &image.file, &["--raw"], &script), b"input\n")?;
    let told = format!("{}{}", said(&output.stdout), said(&output.stderr));
    equal(&told, output.status.code(), Some(7))?;
    let stdout = said(&output.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    let [input, release, controllers, kind, made] = lines[..] else { return Err(told) };
    equal(
        "input, release, kind, a new file",
        [input, release, kind, made],
        ["input", &image.release, "qemu", &name],
    )?;
    let has = |name: &str| controllers.split(' ').any(|controller| controller == name);
    equal("io and memory", has("io") && has("memory"), true)?;
    equal("stderr", said(&output.stderr).ends_with("no\n"), true)?;
    equal("the new file on the host", Path::new(&name).exists(), false)?;
    let file = bed.memory().join("file");
    let written = fs::metadata(&file).map_err(text)?;
    equal("length and owner", (written.len(), written.uid()), (3_000_000, bed.uid()))?;
    fs::remove_file(&file).map_err(text)?;
    nothing_is_left(&bed)
}

fn guards(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let script = "device=${FLOODWALL_LAB_DEVICE#/dev/}
        floodwall apply --yes vm.dirty_bytes=16MiB $device.nr_requests=64 >/dev/null; echo apply $?
        cat /proc/sys/vm/dirty_bytes
        floodwall rollback >/dev/null; echo rollback $?
        cat /proc/sys/vm/dirty_ratio
        floodwall probe --count 1 --interval 500ms 2>&1; echo probe $?
        floodwall guard --device $device 2>&1 & guard=$!
        sleep 15; kill $guard; wait $guard; echo guard $?
        floodwall status >/dev/null; echo status $?";
    let output = run(&mut guest(&bed, &ours()?.file, &[], script), &[])?;
    let told = said(&output.stdout);
    let wanted =
        ["apply 0\n16777216\nrollback 0\n20\n", "tracepoints", "probe 0\n", "guard 0\n", "status 0\n"];
    let mut rest = told.as_str();
    for words in wanted {
        let Some((_, after)) = rest.split_once(words) else {
            return Err(format!("'{words}' is missing: {told}{}", said(&output.stderr)));
        };
        rest = after;
    }
    nothing_is_left(&bed)
}

fn interrupted(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let here = bed.memory().join("ready");
    let script = format!("touch {}; sleep 1000", here.display());
    let mut child = guest(&bed, &ours()?.file, &["--raw"], &script).spawn().map_err(text)?;
    let ready = until("the command runs", || here.exists());
    signal(child.id() as i32, rustix::process::Signal::TERM);
    let ended = end_of(&mut child);
    ready?;
    equal("exit status", ended?.code(), Some(143))?;
    fs::remove_file(&here).map_err(text)?;
    nothing_is_left(&bed)?;
    // A host that is killed takes its virtual machine with it.
    let mut child = guest(&bed, &ours()?.file, &["--raw"], "sleep 1000").spawn().map_err(text)?;
    let ready = until("a virtual machine runs", || machines(&bed) > 0);
    std::thread::sleep(Duration::from_secs(1));
    signal(child.id() as i32, rustix::process::Signal::KILL);
    end_of(&mut child)?;
    ready?;
    nothing_is_left(&bed)
}

fn refused(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let image = ours()?;
    let place = tempfile::tempdir().map_err(text)?;
    let mut command = guest(&bed, &image.file, &["--raw"], "true");
    refuses(command.env("PATH", place.path()), 4, &["apt-get install qemu-system-x86"])?;
    let file = |name: &str| -> PathBuf { place.path().join(name) };
    fs::write(file("text"), "#!/bin/sh\n").map_err(text)?;
    refuses(&mut guest(&bed, &file("text"), &["--raw"], "true"), 2, &["/text'", "/boot/vmlinuz"])?;
    // Far from its modules, and Debian's kernel has the drivers of a virtual machine in modules.
    fs::copy(&image.file, file("vmlinuz")).map_err(text)?;
    let words = ["can't mount the host's files with 9p", "does the kernel have both?"];
    refuses(&mut guest(&bed, &file("vmlinuz"), &["--raw"], "true"), 1, &words)?;
    nothing_is_left(&bed)
}
