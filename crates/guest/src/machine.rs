//! How each kind of kernel is started: the words of its command line.
//!
//! ```text
//! both    stdin: the serial line's end · stdout, stderr: the console
//! UML     a program; the host's files through hostfs
//! image   QEMU; a first root filesystem, then the host's files through 9p
//! ```

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use floodwall_model::Bytes;

/// QEMU's stdout as the next serial line.
const CONSOLE: [&str; 4] =
    ["-chardev", "file,id=console,path=/proc/self/fd/1", "-serial", "chardev:console"];

/// The mount tag of the host's files. Those of the directories that may be written are
/// [`writable_tag`]'s.
pub(crate) const HOST_TAG: &str = "host";

/// The mount tag of the directory `number` of those that may be written.
pub(crate) fn writable_tag(number: usize) -> String {
    format!("writable{number}")
}

/// What a kernel is started with, whichever it is.
pub(crate) struct Start<'a> {
    pub(crate) ram: Bytes,
    /// The guest's first process, and its arguments.
    pub(crate) program: &'a str,
    pub(crate) args: &'a [String],
    /// Directories of the host that the guest may write to.
    pub(crate) writable: &'a [PathBuf],
}

/// User-mode Linux and its arguments.
pub(crate) fn uml(kernel: &Path, start: &Start<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        vec![kernel.into(), format!("mem={}K", start.ram.0 / 1024).into()];
    // No directory for its control socket: a kernel that is killed would leave it behind.
    words.push("uml_dir=/dev/null".into());
    // Its first serial line is this side's end of the socket; its console goes beside it.
    words.extend(["ssl0=fd:0", "ssl=null", "con=null", "con0=null,fd:1"].map(OsString::from));
    words.extend(
        ["rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"].map(OsString::from),
    );
    words.push(format!("init={}", start.program).into());
    words.push("--".into());
    words.extend(start.args.iter().map(OsString::from));
    words
}

/// A virtual machine.
pub(crate) struct Qemu<'a> {
    pub(crate) program: &'a Path,
    pub(crate) image: &'a Path,
    pub(crate) is_emulated: bool,
}

impl Qemu<'_> {
    /// QEMU and its arguments. The first root filesystem is an open file of the process that
    /// becomes QEMU.
    pub(crate) fn words(&self, start: &Start<'_>, first_root: i32) -> Vec<OsString> {
        let mut words = self.machine(start.ram);
        // Its first serial line is this side's end of the socket; its console, the second, goes
        // beside it.
        words.extend(
            ["-chardev", "socket,id=line,fd=0", "-serial", "chardev:line"].map(OsString::from),
        );
        words.extend(CONSOLE.map(OsString::from));
        share(&mut words, HOST_TAG, Path::new("/"), true);
        for (number, dir) in start.writable.iter().enumerate() {
            share(&mut words, &writable_tag(number), dir, false);
        }
        words.extend(["-initrd".into(), format!("/proc/self/fd/{first_root}").into()]);
        let (program, args) = (start.program, start.args.join(" "));
        let line = format!("console=ttyS1,115200 panic=-1 rdinit={program} -- {args}");
        words.extend(["-append".into(), line.into()]);
        words
    }

    /// The same machine without anything to run: its kernel says its banner, then panics. Some
    /// kernels keep the banner from the console by default (`CONFIG_CONSOLE_LOGLEVEL_DEFAULT`).
    pub(crate) fn bare_words(&self) -> Vec<OsString> {
        let mut words = self.machine(Bytes::mib(512));
        words.extend(CONSOLE.map(OsString::from));
        words.extend(
            ["-append", "earlyprintk=ttyS0,115200 ignore_loglevel panic=-1"].map(OsString::from),
        );
        words
    }

    fn machine(&self, ram: Bytes) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.program.into()];
        // Two processors that are emulated by a thread each hang now and then (QEMU 7.2); one is
        // what UML has, too. The guest runs the host's programs, which may need more than QEMU's
        // default processor has. Five levels of page tables would only cost time.
        let [accelerator, processor] =
            if self.is_emulated { ["tcg,thread=single", "max,la57=off"] } else { ["kvm", "host"] };
        words.extend(
            ["-accel", accelerator, "-cpu", processor, "-smp", "1", "-m"].map(OsString::from),
        );
        words.push(format!("{}K", ram.0 / 1024).into());
        words.extend(
            ["-no-user-config", "-nodefaults", "-no-reboot", "-display", "none"]
                .map(OsString::from),
        );
        words.extend(["-kernel".into(), self.image.into()]);
        words
    }
}

/// Adds a directory of the host. Its files have their owners of the host in the guest.
fn share(words: &mut Vec<OsString>, tag: &str, dir: &Path, is_read_only: bool) {
    let mut fsdev = OsString::from(format!("local,id={tag},security_model=none,multidevs=remap,"));
    fsdev.push(if is_read_only { "readonly=on," } else { "" });
    fsdev.push("path=");
    fsdev.push(doubled_commas(dir.as_os_str()));
    words.extend(["-fsdev".into(), fsdev]);
    words.extend(["-device".into(), format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}").into()]);
}

/// A value among QEMU's comma-separated ones.
fn doubled_commas(value: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = value.as_bytes().iter();
    OsString::from_vec(
        bytes.flat_map(|byte| vec![*byte; if *byte == b',' { 2 } else { 1 }]).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_directorys_name_ends_no_option_of_qemu() {
        let (program, dir) = ("/usr/bin/floodwall", PathBuf::from("/tmp/a,readonly=off"));
        let args = ["lab-guest".to_owned(), "init".to_owned()];
        let start = Start { ram: Bytes::gib(1), program, args: &args, writable: &[dir] };
        let (program, image) = (Path::new("/usr/bin/qemu"), Path::new("/boot/vmlinuz"));
        let words = Qemu { program, image, is_emulated: true }.words(&start, 7);
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        let writable = words.iter().find(|word| word.starts_with("local,id=writable0")).unwrap();
        assert!(writable.ends_with(",path=/tmp/a,,readonly=off"), "{writable}");
        let host = words.iter().find(|word| word.starts_with("local,id=host")).unwrap();
        assert!(host.contains(",readonly=on,"), "{host}");
        assert!(words.contains(&"/proc/self/fd/7") && words.contains(&"1048576K"), "{words:?}");
        assert!(words.last().unwrap().ends_with(" rdinit=/usr/bin/floodwall -- lab-guest init"));
    }
}
