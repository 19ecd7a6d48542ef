//! A userspace block server that a dirty limit can hang: that floodwall refuses such a limit, and
//! that it was right to.
//!
//! ```text
//! dd ─▶ ext4 on loop D ─▶ FUSE file ─▶ server (this binary)
//!                                        └─▶ buffered write() ─▶ ext4 on loop B ─▶ file in memory
//! ```
//!
//! The hang stops every writer of the machine. A separate process, [`Rescue`], ends it, even if
//! this one is killed. The mounts and loop devices of a killed test stay. Nothing is printed while
//! the machine hangs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use floodwall_testing::disk::Disk;
use floodwall_testing::process::{output, run, told};
use floodwall_testing::{ensure, said, until};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::{FLOODWALL, FUSE, SHM_GIB, Test};

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a limit that hangs a userspace block server is refused",
    needs: &[FUSE, SHM_GIB, "mkfs.ext4", "losetup", "dd", "timeout"],
    body: refused_and_rightly_so,
}];

/// The argument behind which this binary is the server.
pub(crate) const CHILD: &str = "serve-a-disk";
/// How long the machine may hang.
const PATIENCE: Duration = Duration::from_secs(20);
/// The server hangs if it has written nothing for so long: a page takes microseconds.
const HUNG: Duration = Duration::from_secs(4);
/// Where the disk is that the server writes to, and its size.
const SHM: &str = "/dev/shm";
const DISK_MIB: u64 = 1024;
/// What the server serves.
const DISK_BYTES: u64 = 700 << 20;
const FILE: INodeNo = INodeNo(2);
const LIMITS: [&str; 4] =
    ["dirty_background_ratio", "dirty_background_bytes", "dirty_ratio", "dirty_bytes"];

/// A directory with one file, which is read from and written to another one through the page
/// cache. The process has not set `PR_SET_IO_FLUSHER`.
struct Mirror(File);

impl Mirror {
    fn attributes(inode: INodeNo) -> FileAttr {
        let file = inode == FILE;
        let then = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: inode,
            size: if file { DISK_BYTES } else { 0 },
            blocks: 0,
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Mirror {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let refused = |_| std::io::Error::other("the kernel's FUSE refuses requests of 1 MiB");
        config.set_max_write(1 << 20).map_err(refused)?;
        config
            .set_max_background(512)
            .map_err(|_| std::io::Error::other("512 requests at once"))?;
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES)
            .map_err(|_| std::io::Error::other("asynchronous direct I/O"))
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "disk" {
            reply.entry(&PATIENCE, &Self::attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&PATIENCE, &Self::attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(
            FileHandle(0),
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
        );
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut data = vec![0; size.min(DISK_BYTES.saturating_sub(offset) as u32) as usize];
        match self.0.read_exact_at(&mut data, offset) {
            Ok(()) => reply.data(&data),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.write_all_at(data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.0.sync_data() {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }
}

/// Why a test can't run here that needs [`SHM_GIB`]: its disk may grow to that size.
pub(crate) fn missing() -> Option<String> {
    let free = rustix::fs::statvfs(SHM).map_or(0, |shm| shm.f_bavail * shm.f_frsize);
    (free < DISK_MIB << 20).then(|| format!("needs {SHM_GIB}"))
}

/// Serves a file until it is unmounted, or the process that started it is gone.
pub(crate) fn serve(mountpoint: &Path, file: &Path) -> std::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let file = File::options().read(true).write(true).open(file)?;
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("floodwall-test".into())];
    config.n_threads = Some(2);
    Session::new(Mirror(file), mountpoint, &config)?.run()
}

/// A process that puts the limits of the machine back when this is dropped, when the test's process
/// is gone, or after [`PATIENCE`]. After twice as long it kills the server, which aborts the FUSE
/// connection (fs/fuse/dev.c `fuse_dev_release`). That needs no fusectl to be mounted.
struct Rescue(Child);

impl Rescue {
    /// `cat` ends with the pipe, whose other end the test holds. While it holds it, the server's
    /// number is no other process's: the test has not waited for it.
    const SCRIPT: &str = r#"
        server=$1 patience=$2 in_time=
        shift 2
        timeout "$patience" cat && in_time=yes
        while [ $# -gt 1 ]; do echo "$2" > "/proc/sys/vm/$1"; shift 2; done
        [ "$in_time" ] || timeout "$patience" cat || kill -KILL "$server"
    "#;

    fn arm(server: &Child) -> Result<Self, String> {
        let mut command = Command::new("sh");
        command.args(["-c", Self::SCRIPT, "sh"]);
        command.args([server.id().to_string(), PATIENCE.as_secs().to_string()]);
        for name in LIMITS {
            let value = fs::read_to_string(format!("/proc/sys/vm/{name}")).map_err(said(name))?;
            // Its counterpart is in force.
            if value.trim() != "0" {
                command.args([name, value.trim()]);
            }
        }
        // Its own group: an interrupt from the keyboard ends the test, and then this must go on.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Self).map_err(said("sh"))
    }
}

impl Drop for Rescue {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A filesystem on a loop device on the server's file. Dropping it takes everything down, in order.
struct Served {
    server: Child,
    dir: tempfile::TempDir,
    device: Option<String>,
    writers: Vec<Child>,
    // Last: the server's file is on it.
    below: Disk,
}

impl Served {
    fn make() -> Result<Self, String> {
        // A loop device's worker may dirty any number of pages in memory.
        let below = Disk::new_in(Path::new(SHM), "ext4", DISK_MIB)?;
        let backing = below.path().join("backing");
        File::create(&backing)
            .and_then(|f| f.set_len(DISK_BYTES))
            .map_err(said("the server's file"))?;
        let dir = tempfile::tempdir().map_err(said("a directory"))?;
        for name in ["fuse", "mnt"] {
            fs::create_dir(dir.path().join(name)).map_err(said("a directory"))?;
        }
        let server = Command::new(std::env::current_exe().map_err(said("this binary"))?)
            .args([CHILD.as_ref(), dir.path().join("fuse").as_os_str(), backing.as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(said("the server"))?;
        let mut served = Self { server, dir, device: None, writers: Vec::new(), below };
        let file = served.dir.path().join("fuse/disk");
        until(Duration::from_secs(10), "the server serves a file", || file.exists())?;
        let arguments = ["--find", "--show", "--direct-io=on", &file.to_string_lossy()];
        let device = run("losetup", &arguments)?;
        served.device = Some(device.clone());
        run(
            "mkfs.ext4",
            &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", &device],
        )?;
        run("mount", &[&device, &served.mountpoint().to_string_lossy()])?;
        Ok(served)
    }

    fn mountpoint(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// The loop device's name, `loop7`.
    fn name(&self) -> &str {
        self.device.as_deref().unwrap_or_default().trim_start_matches("/dev/")
    }

    /// Starts to write so many MiB of a file.
    fn write(&mut self, name: &str, mib: u64) -> Result<&mut Child, String> {
        let file = format!("of={}", self.mountpoint().join(name).display());
        let writer = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", &format!("count={mib}"), "conv=fdatasync", &file])
            .stderr(Stdio::null())
            .spawn()
            .map_err(said("dd"))?;
        self.writers.push(writer);
        self.writers.last_mut().ok_or_else(|| "no writer".to_owned())
    }

    /// Sectors that the device has completed writing, and requests that wait for it.
    fn progress(&self) -> Result<(u64, u64), String> {
        let text =
            fs::read_to_string(format!("/sys/block/{}/stat", self.name())).map_err(said("stat"))?;
        let field = |n: usize| text.split_whitespace().nth(n).and_then(|t| t.parse().ok());
        field(6).zip(field(8)).ok_or_else(|| format!("not understood: {text}"))
    }

    /// Whether the device completes nothing for [`HUNG`] while something waits for it, before the
    /// writers or the time are at their end.
    fn hangs(&mut self, end: Instant) -> Result<bool, String> {
        let (mut last, mut since) = (self.progress()?.0, Instant::now());
        while Instant::now() < end && !self.writers.iter_mut().all(has_ended) {
            thread::sleep(Duration::from_millis(100));
            let (written, waiting) = self.progress()?;
            if written != last || waiting == 0 {
                (last, since) = (written, Instant::now());
            } else if since.elapsed() >= HUNG {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        for writer in &mut self.writers {
            let _ = writer.kill();
            let _ = writer.wait();
        }
        let _ = run("umount", &[&self.mountpoint().to_string_lossy()]);
        if let Some(device) = &self.device {
            let _ = run("losetup", &["-d", device]);
        }
        let _ = run("umount", &[&self.dir.path().join("fuse").to_string_lossy()]);
        if until(Duration::from_secs(10), "its end", || has_ended(&mut self.server)).is_err() {
            let _ = self.server.kill();
            let _ = self.server.wait();
        }
    }
}

fn has_ended(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(Some(_)))
}

fn has_succeeded(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(Some(status)) if status.success())
}

fn floodwall(arguments: &[&str]) -> Result<Output, String> {
    output(Command::new(FLOODWALL).args(arguments))
}

const LOW: [&str; 2] = ["vm.dirty_bytes=16MiB", "vm.dirty_background_bytes=8MiB"];

fn refused_and_rightly_so() -> Result<(), String> {
    let journal = tempfile::tempdir().map_err(said("a journal"))?;
    let journal = journal.path().join("journal");
    let journal = ["--journal", &journal.to_string_lossy()].map(str::to_owned);
    let apply = |arguments: &[&str]| {
        let all = [&["apply", "--yes", &journal[0], &journal[1]], arguments].concat();
        floodwall(&all)
    };
    let mut served = Served::make()?;
    let rescue = Rescue::arm(&served.server)?;

    // 1. Refused, by name, and nothing is changed.
    let before = fs::read_to_string("/proc/sys/vm/dirty_bytes").map_err(said("dirty_bytes"))?;
    let refused = apply(&LOW)?;
    let words =
        [served.name(), &format!("pid {}", served.server.id()), "PR_SET_IO_FLUSHER", "backing"];
    for word in words.into_iter().chain(["--allow-userspace-servers"]) {
        ensure(told(&refused).contains(word), || {
            format!("'{word}' is not in: {}", told(&refused))
        })?;
    }
    ensure(refused.status.code() == Some(2), "it is a refusal")?;
    let after = fs::read_to_string("/proc/sys/vm/dirty_bytes").map_err(said("dirty_bytes"))?;
    ensure(before == after, "nothing was changed")?;
    let status = floodwall(&["status", "--seconds", "0.1", "--json"])?;
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    ensure(status.contains("FW045"), "status has the finding")?;
    let persisted = floodwall(&["persist", "--dry-run", LOW[0], LOW[1]])?;
    ensure(persisted.status.code() == Some(2), "persist refuses it too")?;

    // 2. So writers come to their end.
    let writer = served.write("a", 200)?;
    until(PATIENCE, "a writer's end under the limits in force", || has_succeeded(writer))?;
    drop(rescue);

    // 3. A strict limit of the device that the server writes to hangs nothing.
    let rescue = Rescue::arm(&served.server)?;
    let number = served.below.id;
    let strict = format!("/sys/class/bdi/{number}");
    if Path::new(&strict).join("strict_limit").exists() {
        let device = fs::read_to_string(format!("/sys/dev/block/{number}/uevent"))
            .map_err(said("uevent"))?;
        let device =
            device.lines().find_map(|line| line.strip_prefix("DEVNAME=")).unwrap_or_default();
        // A thousandth of the hard limit; in bytes it would move with free memory between two
        // looks.
        let share =
            [format!("{device}.bdi.max_ratio_fine=1000"), format!("{device}.bdi.strict_limit=1")];
        let applied = apply(&[&share[0], &share[1]])?;
        ensure(applied.status.success(), || format!("a strict limit is none: {}", told(&applied)))?;
        let writer = served.write("b", 50)?;
        until(PATIENCE, "a writer's end beside a strict limit", || has_succeeded(writer))?;
        // Under it the server would not hang at the machine's limit either.
        let back = floodwall(&["rollback", &journal[0], &journal[1]])?;
        ensure(back.status.success(), || format!("put back: {}", told(&back)))?;
    }
    drop(rescue);

    // 4. Users who insist get the predicted hang.
    let rescue = Rescue::arm(&served.server)?;
    let insisted = apply(&[LOW[0], LOW[1], "--allow-userspace-servers"])?;
    ensure(insisted.status.success(), || format!("the override counts: {}", told(&insisted)))?;
    // It hangs when the server's threads come to the limit before the flusher has cleaned enough.
    let end = Instant::now() + PATIENCE - Duration::from_secs(2);
    let mut hung = Ok(false);
    while hung == Ok(false) && Instant::now() < end {
        for name in ["c", "d"] {
            served.write(name, 150)?;
        }
        hung = served.hangs(end);
    }
    let (written, _) = served.progress()?;
    drop(rescue);
    let goes_on = || served.progress().is_ok_and(|(now, _)| now > written);
    let freed = until(PATIENCE, "a higher limit frees it", goes_on);
    let mut writers = served.writers.iter_mut();
    let ended = writers
        .try_for_each(|writer| until(PATIENCE, "a freed writer's end", || has_succeeded(writer)));
    let back = floodwall(&["rollback", &journal[0], &journal[1]])?;
    ensure(hung?, "the server hung under the limit that was refused")?;
    freed.and(ended)?;
    ensure(back.status.success(), || format!("put back: {}", told(&back)))
}
