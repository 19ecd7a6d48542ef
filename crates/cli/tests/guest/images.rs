//! `--kernel FILE` with a kernel's image, which QEMU boots: Debian's own, emulated where there is
//! no KVM.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use floodwall_guest::Image;
use floodwall_testing::process::{install, script};
use floodwall_testing::{IMAGE, image};

use crate::bed::{Bed, Who, end_of, equal, in_order, run, said, signal, text, until};
use crate::place::refuses;
use crate::{KVM, Once, Test};

const NEEDS: &[&str] = &["qemu-system-x86_64", "ldd", IMAGE];
/// Emulated, an unoptimised guard can't keep up with a flood's events. `make bench` runs an
/// optimised one.
const FAST: &[&str] = if cfg!(debug_assertions) {
    &["qemu-system-x86_64", "ldd", IMAGE, "mkfs.ext4", KVM]
} else {
    &["qemu-system-x86_64", "ldd", IMAGE, "mkfs.ext4"]
};

pub(crate) const TESTS: &[Test] = &[
    Test { name: "an image runs a command", who: Once::Both, needs: NEEDS, body: runs },
    Test {
        name: "an image has settings, tracepoints and a guard",
        who: Once::Caller,
        needs: &["qemu-system-x86_64", "ldd", IMAGE, "mkfs.ext4"],
        body: guards,
    },
    Test {
        name: "a guard in an image paces a flood in a control group",
        who: Once::Caller,
        needs: FAST,
        body: paces,
    },
    Test {
        name: "an image that is interrupted",
        who: Once::Caller,
        needs: NEEDS,
        body: interrupted,
    },
    Test { name: "an image that can't be used", who: Once::Caller, needs: NEEDS, body: refused },
    Test {
        name: "an image without KVM",
        who: Once::Caller,
        needs: &["qemu-system-x86_64", "ldd", IMAGE, "modprobe", "depmod"],
        body: without_kvm,
    },
];

/// Why the user can't boot the image.
pub(crate) fn is_hidden(who: Who) -> Option<String> {
    let image = fs::canonicalize(image()).ok()?;
    let is_hidden = |(depth, path): &(usize, &Path)| {
        let needed = if *depth == 0 { 0o004 } else { 0o001 };
        fs::metadata(path).is_ok_and(|meta| meta.mode() & needed == 0)
    };
    let (_, hidden) = image.ancestors().enumerate().find(is_hidden)?;
    (who == Who::Ordinary)
        .then(|| format!("everybody has to be able to read '{}'", hidden.display()))
}

/// Why KVM can't run an image here: `/dev/kvm` may be there and boot nothing.
pub(crate) fn lacks_kvm() -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodwall"));
    command.args(["lab", "run", "null", "--size", "64MiB", "--raw", "--kernel"]);
    let output = command.arg(image()).args(["--", "true"]).output().ok()?;
    said(&output.stderr).contains("without KVM").then(|| "needs a KVM that boots an image".into())
}

/// `lab run` of a device that takes no time behind an image, with a directory that it may write to.
fn guest(bed: &Bed, image: &Path, options: &[&str], script: &str) -> Command {
    guest_with(bed, &["null", "--size", "320MiB", "--ram", "1GiB"], image, options, script)
}

/// The same of a device.
fn guest_with(bed: &Bed, device: &[&str], image: &Path, options: &[&str], script: &str) -> Command {
    let mut command = bed.command(&[], &bed.program());
    command.args(["lab", "run"]).args(device).arg("--kernel").arg(image);
    command.arg("--out").arg(bed.memory()).args(options).args(["--", "sh", "-c", script]);
    command
}

/// Virtual machines that may write to the test's directory.
fn machines(bed: &Bed) -> usize {
    let ours = format!("path={}", bed.memory().display());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let is_machine = |line: &Vec<u8>| {
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        program.ends_with(b"/qemu-system-x86_64") && said(line).contains(&ours)
    };
    lines.filter(is_machine).count()
}

fn nothing_is_left(bed: &Bed) -> Result<(), String> {
    until("the virtual machine has ended", || machines(bed) == 0)?;
    bed.nothing_is_left()
}

/// What a script prints in an image. It has to succeed and to leave nothing behind.
pub(crate) fn prints(bed: &Bed, script: &str) -> Result<String, String> {
    let output = run(&mut guest(bed, &ours()?.file, &[], script), &[])?;
    let told = said(&output.stdout);
    if !output.status.success() {
        return Err(format!("{}: {told}{}", output.status, said(&output.stderr)));
    }
    nothing_is_left(bed)?;
    Ok(told)
}

fn ours() -> Result<Image, String> {
    Image::at(&image()).map_err(text)?.ok_or_else(|| format!("'{}' is no image", image().display()))
}

fn runs(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let image = ours()?;
    let name = format!("/etc/floodwall-image-test-{}", std::process::id());
    let here = bed.memory().display();
    let script = format!(
        "cat; uname -r; cat /sys/fs/cgroup/cgroup.controllers; echo $FLOODWALL_GUEST; touch {name} \
         && ls {name}
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
    let words = [
        "apply 0\n16777216\nrollback 0\n20\n",
        "tracepoints",
        "probe 0\n",
        "guard 0\n",
        "status 0\n",
    ];
    in_order(&said(&output.stdout), &words).map_err(|e| format!("{e}{}", said(&output.stderr)))?;
    nothing_is_left(&bed)
}

/// A database commits in one control group, a copy writes in another. Before Linux 6.10 debugfs
/// leaves out what control groups dirtied. Before 6.5 no tracepoint names the sender of a request
/// under the elevator `none`. The guard has to see both, and `apply` has to see the database.
fn paces(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let script = "device=${FLOODWALL_LAB_DEVICE#/dev/}; groups=/sys/fs/cgroup
        mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
        dd if=/dev/zero of=db bs=1M count=16 conv=fsync 2>/dev/null
        limits() { echo max=$(cat $groups/flood/io.max) high=$(cat $groups/flood/memory.high); }
        is_paced() { limits | grep -q 'wbps=[0-9].* high=[0-9]'; }
        is_free() { [ \"$(limits)\" = 'max= high=max' ]; }
        await() {
            n=0
            until $1; do
                sleep 0.5; n=$((n + 1))
                [ $n -lt 240 ] || {
                    echo \"never $1: $(limits)\"
                    floodwall guard history; cat /run/guard.log; exit 1
                }
            done
        }
        answers() { floodwall guard status >/dev/null 2>&1; }
        # A guard that its watchdog has ended starts again, and tells nothing meanwhile.
        tells_its_pace() { floodwall guard status 2>&1 | grep 'pace '; }
        guard() {
            floodwall guard --device $device --p99 300ms 2>/run/guard.log & guard=$!
            await answers
        }
        copy() {
            sh -c 'echo $$ > /sys/fs/cgroup/flood/cgroup.procs; exec dd if=/dev/zero of=big bs=1M' \
            2>/dev/null &
            copy=$!
        }
        sh -c 'echo $$ > /sys/fs/cgroup/victim/cgroup.procs
            exec dd if=/dev/zero of=db bs=4k count=1000000 oflag=dsync conv=notrunc' 2>/dev/null &
        db=$!
        commits() { [ \"$(sed -n 's/^syscw: //p' /proc/$db/io)\" -ge 10 ]; }
        await commits
        floodwall apply --yes victim:$device.io.max=wbps=40MB 2>&1; echo apply $?
        guard
        copy; await is_paced; echo paced; await tells_its_pace
        kill $copy; await is_free; echo free
        copy; await is_paced; echo paced again
        kill -KILL $guard $(pgrep -P $guard); sleep 1; floodwall guard restore; echo restored $?
        limits; cat $groups/victim/io.max
        kill $copy $db; echo end";
    let device = ["usb-stick", "--fs", "ext4", "--size", "4GiB", "--ram", "2GiB"];
    let output = run(&mut guest_with(&bed, &device, &ours()?.file, &[], script), &[])?;
    let words = [
        "dd (",
        "--allow-victims",
        "apply 2\n",
        "paced\n",
        "pace ",
        "free\n",
        "paced again\n",
        "restored 0\n",
        "max= high=max\nend\n",
    ];
    in_order(&said(&output.stdout), &words).map_err(|e| format!("{e}{}", said(&output.stderr)))?;
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
    // While it boots: nothing is ready yet.
    let mut command = guest(&bed, &ours()?.file, &["--raw"], "sleep 1000");
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().map_err(text)?;
    let boots = until("a virtual machine boots", || machines(&bed) > 0);
    signal(child.id() as i32, rustix::process::Signal::TERM);
    let ended = end_of(&mut child);
    boots?;
    equal("exit status while it boots", ended?.code(), Some(1))?;
    let mut told = String::new();
    child.stderr.take().ok_or("no stderr")?.read_to_string(&mut told).map_err(text)?;
    equal("its last line", told.lines().last(), Some("floodwall: interrupted"))?;
    nothing_is_left(&bed)?;
    // A floodwall that is killed takes its virtual machine with it.
    let mut child = guest(&bed, &ours()?.file, &["--raw"], "sleep 1000").spawn().map_err(text)?;
    let boots = until("a virtual machine boots", || machines(&bed) > 0);
    signal(child.id() as i32, rustix::process::Signal::KILL);
    end_of(&mut child)?;
    boots?;
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
    // Its modules are nowhere, and Debian's kernel has the drivers of a virtual machine in modules.
    let mut bytes = fs::read(&image.file).map_err(text)?;
    let offset =
        bytes.get(0x20e..0x210).and_then(|two| Some(u16::from_le_bytes(two.try_into().ok()?)));
    let at = 0x200 + usize::from(offset.ok_or("a short image")?);
    bytes.get_mut(at..at + 4).ok_or("a short image")?.copy_from_slice(b"0.0 ");
    fs::write(file("vmlinuz"), &bytes).map_err(text)?;
    let words = ["can't mount the host's files with 9p", "does the kernel have both?"];
    refuses(&mut guest(&bed, &file("vmlinuz"), &["--raw"], "true"), 1, &words)?;
    // No word of a kernel's command line.
    let spaced = file("a floodwall");
    install(bed.program(), &spaced)?;
    let mut command = bed.command(&[], &spaced);
    command.args(["lab", "run", "null", "--raw", "--kernel"]).arg(&image.file).args(["--", "true"]);
    refuses(&mut command, 2, &["a floodwall'", "run floodwall from another place"])?;
    nothing_is_left(&bed)
}

/// A QEMU that has no KVM: the guest is emulated, and that is said.
fn without_kvm(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let place = tempfile::tempdir().map_err(text)?;
    let qemu = place.path().join("qemu-system-x86_64");
    let path = std::env::var("PATH").map_err(text)?;
    let emulates = format!(
        "#!/bin/sh\nPATH={path}\ncase \"$*\" in *'-accel kvm'*) echo no KVM >&2; exit 1;; esac\n\
         exec qemu-system-x86_64 \"$@\"\n"
    );
    script(&qemu, &emulates)?;
    // The line before the last output may still be on its way when the kernel powers off.
    let mut command =
        guest(&bed, &ours()?.file, &["--raw"], "seq 100000; modprobe dm_mod && echo yes");
    command.env("PATH", format!("{}:{path}", place.path().display()));
    let output = run(&mut command, &[])?;
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    equal(&stderr, output.status.code(), Some(0))?;
    equal("said of KVM", stderr.matches("without KVM the processor is emulated").count(), 1)?;
    equal("lines", stdout.lines().count(), 100_001)?;
    equal("the end", stdout.ends_with("\n100000\nyes\n"), true)?;
    nothing_is_left(&bed)
}
