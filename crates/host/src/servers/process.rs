//! What of a server decides whether a dirty limit can stop it: its threads' flags and the files
//! that it writes to.

use floodwall_model::Reading;
use rustix::fs::OFlags;

use crate::mounts::{self, Mount};
use crate::root::SysRoot;
use crate::task;

/// What `PR_SET_IO_FLUSHER` sets on a thread (kernel/sys.c `PR_IO_FLUSHER`, since Linux 5.6):
/// `PF_MEMALLOC_NOIO` and `PF_LOCAL_THROTTLE`, which was called `PF_LESS_THROTTLE` up to 5.7
/// (include/linux/sched.h). No process could set the latter before.
const IO_FLUSHER: u64 = 0x0008_0000 | 0x0010_0000;

/// Standard input, output and error: what a server writes there are messages.
const STANDARD: [&str; 3] = ["0", "1", "2"];

/// Whether all threads of a process have set `PR_SET_IO_FLUSHER`. Unreadable where some have:
/// nothing tells which of them write.
pub(super) fn read_io_flusher(root: &SysRoot, pid: u32) -> Reading<bool> {
    root.list(&format!("/proc/{pid}/task")).and_then(|threads| {
        let (mut with, mut all) = (0, 0);
        for thread in threads {
            match task::read_thread_stat(root, pid, &thread) {
                Reading::Value(stat) => {
                    all += 1;
                    with += u32::from(stat.flags & IO_FLUSHER == IO_FLUSHER);
                }
                // It has ended meanwhile.
                Reading::Absent(_) => {}
                Reading::Unreadable(why) => return Reading::Unreadable(why),
            }
        }
        match (with, all) {
            (0, 0) => Reading::Absent(format!("process {pid} is gone")),
            (0, _) => Reading::Value(false),
            (with, all) if with == all => Reading::Value(true),
            (with, all) => Reading::Unreadable(format!(
                "{with} of its {all} threads have set PR_SET_IO_FLUSHER"
            )),
        }
    })
}

/// The first file or block device that a process has open for writing through the page cache of a
/// device. `is_served` tells the devices that the process itself serves.
pub(super) fn read_buffered(
    root: &SysRoot,
    pid: u32,
    ours: &[Mount],
    is_served: impl Fn(&str) -> bool,
) -> Reading<String> {
    let directory = format!("/proc/{pid}/fd");
    // The server's mounts: it may see others than this process does.
    let theirs = root.read(&format!("/proc/{pid}/mountinfo")).map(|text| mounts::parse(&text));
    let mounts = theirs.value().map_or(ours, Vec::as_slice);
    root.list(&directory).and_then(|descriptors| {
        for descriptor in descriptors.iter().filter(|number| !STANDARD.contains(&number.as_str())) {
            let Some(link) = root.link_target(&format!("{directory}/{descriptor}")).into_value()
            else {
                continue;
            };
            let Some(info) = root.read(&format!("/proc/{pid}/fdinfo/{descriptor}")).into_value()
            else {
                continue;
            };
            if link.starts_with('/') && is_buffered(root, &link, &info, mounts, &is_served) {
                return Reading::Value(link);
            }
        }
        Reading::Absent(format!(
            "process {pid} has no file open for writing through the page cache"
        ))
    })
}

fn is_buffered(
    root: &SysRoot,
    link: &str,
    info: &str,
    mounts: &[Mount],
    is_served: &impl Fn(&str) -> bool,
) -> bool {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = field("flags:").and_then(|text| u32::from_str_radix(text, 8).ok());
    let writes = flags.is_some_and(|flags| {
        let is_for_writing = flags & OFlags::ACCMODE.bits() != OFlags::RDONLY.bits();
        is_for_writing && flags & (OFlags::DIRECT | OFlags::PATH).bits() == 0
    });
    if !writes {
        return false;
    }
    // A block device has a page cache; the other nodes in /dev have none. Filesystems may be
    // mounted below it.
    if let Some(node) = link.strip_prefix("/dev/") {
        let name = node.replace('/', "!");
        let is_block_device = root.exists(&format!("/sys/class/block/{name}"));
        if is_block_device || !node.contains('/') {
            return is_block_device && !is_served(&name);
        }
    }
    let id = field("mnt_id:").and_then(|text| text.parse::<i32>().ok());
    match mounts.iter().find(|mount| Some(mount.id) == id) {
        // A file on FUSE is another server's to be stopped at.
        Some(mount) => mounts::without_own_writeback(mount).is_none(),
        // A mount that is not to be seen any more, or the kernel's own.
        None => true,
    }
}

/// Whether a process has a socket open.
pub(super) fn has_socket(root: &SysRoot, pid: u32) -> bool {
    let directory = format!("/proc/{pid}/fd");
    let descriptors = root.list(&directory).into_value().unwrap_or_default();
    descriptors.iter().any(|descriptor| {
        let link = root.link_target(&format!("{directory}/{descriptor}")).into_value();
        link.is_some_and(|link| link.starts_with("socket:"))
    })
}
