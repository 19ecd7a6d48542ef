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

/// The mount tag of the host's files. Those of the directories that may be written are [`writable_tag`]'s.
pub(crate) const HOST_TAG: &str = "host";

/// The mount tag of the directory `number` of those that may be written.
pub(crate) fn writable_tag(number: usize) -> String {
    format!("writable{number}")
}

/// What a kernel is started with, whichever it is.
pub(crate) struct Start<'a> {
    pub(crate) ram: Bytes,
    /// The guest's first process, and its arguments.
    pub(crate) program: &'a Path,
    pub(crate) args: &'a [String],
    /// Directories of the host that the guest may write to.
    pub(crate) writable: &'a [PathBuf],
}

/// User-mode Linux and its arguments.
pub(crate) fn uml(kernel: &Path, start: &Start<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![kernel.into(), format!("mem={}K", start.ram.0 / 1024).into()];
    // No directory for its control socket: a kernel that is killed would leave it behind.
    words.push("uml_dir=/dev/null".into());
    // Its first serial line is our end of the socket; its console goes beside it.
    words.extend(["ssl0=fd:0", "ssl=null", "con=null", "con0=null,fd:1"].map(OsString::from));
    words.extend(["rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"].map(OsString::from));
    words.push(prefixed("init=", start.program));
    words.push("--".into());
    words.extend(start.args.iter().map(OsString::from));
    words
}

/// QEMU and its arguments. The first root filesystem is an open file of the process that becomes QEMU.
pub(crate) fn qemu(
    program: &Path,
    image: &Path,
    first_root: i32,
    is_emulated: bool,
    start: &Start<'_>,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![program.into()];
    // Two processors that are emulated by a thread each hang now and then (QEMU 7.2); one is what UML has, too.
    let accelerator = if is_emulated { "tcg,thread=single" } else { "kvm" };
    words.extend(["-accel", accelerator, "-smp", "1", "-m"].map(OsString::from));
    words.push(format!("{}K", start.ram.0 / 1024).into());
    words.extend(["-no-user-config", "-nodefaults", "-no-reboot", "-display", "none"].map(OsString::from));
    // Its first serial line is our end of the socket; its console, the second, goes beside it.
    words.extend(["-chardev", "socket,id=line,fd=0", "-serial", "chardev:line"].map(OsString::from));
    words.extend(["-chardev", "file,id=console,path=/proc/self/fd/1"].map(OsString::from));
    words.extend(["-serial", "chardev:console"].map(OsString::from));
    share(&mut words, HOST_TAG, Path::new("/"), true);
    for (number, dir) in start.writable.iter().enumerate() {
        share(&mut words, &writable_tag(number), dir, false);
    }
    words.extend(["-kernel".into(), image.into()]);
    words.extend(["-initrd".into(), format!("/proc/self/fd/{first_root}").into()]);
    // Its first words tell that KVM works.
    let console = "earlyprintk=ttyS1,115200 console=ttyS1,115200";
    let mut line = prefixed(&format!("{console} panic=-1 rdinit="), start.program);
    line.push(" --");
    for arg in start.args {
        line.push(" ");
        line.push(arg);
    }
    words.extend(["-append".into(), line]);
    words
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
    OsString::from_vec(bytes.flat_map(|byte| vec![*byte; if *byte == b',' { 2 } else { 1 }]).collect())
}

fn prefixed(prefix: &str, path: &Path) -> OsString {
    let mut word = OsString::from(prefix);
    word.push(path);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_directorys_name_ends_no_option_of_qemu() {
        let (program, dir) = (Path::new("/usr/bin/floodwall"), PathBuf::from("/tmp/a,readonly=off"));
        let args = ["lab-guest".to_owned(), "init".to_owned()];
        let start = Start { ram: Bytes::gib(1), program, args: &args, writable: &[dir] };
        let words = qemu(Path::new("/usr/bin/qemu"), Path::new("/boot/vmlinuz"), 7, true, &start);
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        let writable = words.iter().find(|word| word.starts_with("local,id=writable0")).unwrap();
        assert!(writable.ends_with(",path=/tmp/a,,readonly=off"), "{writable}");
        let host = words.iter().find(|word| word.starts_with("local,id=host")).unwrap();
        assert!(host.contains(",readonly=on,"), "{host}");
        assert!(words.contains(&"/proc/self/fd/7") && words.contains(&"1048576K"), "{words:?}");
        assert!(words.last().unwrap().ends_with(" rdinit=/usr/bin/floodwall -- lab-guest init"));
    }
}
