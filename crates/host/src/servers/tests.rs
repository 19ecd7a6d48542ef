use floodwall_model::Reading;
use floodwall_model::status::Server;

use super::*;
use crate::root::testing::tree;

/// A disk, a FUSE filesystem with a loop device on its file, and what process 70 has open.
fn machine(
    descriptor: &str,
    flags: &str,
    fuse_info: &str,
    threads: &[u64],
) -> (tempfile::TempDir, SysRoot) {
    let mut files: Vec<(String, String)> = vec![
        (
            "proc/self/mountinfo".into(),
            "22 1 8:0 / / rw - ext4 /dev/sda rw\n23 22 0:5 / /dev rw - devtmpfs none rw\n\
             24 22 0:24 / /tmp rw - tmpfs none rw\n30 22 0:40 / /fuse rw - fuse image rw\n"
                .into(),
        ),
        ("sys/class/bdi/0:40".into(), "->../../devices/bdi/0:40".into()),
        ("sys/devices/bdi/0:40/strict_limit".into(), "1\n".into()),
        ("sys/devices/bdi/0:40/max_ratio".into(), "1\n".into()),
        ("sys/devices/loop0/dev".into(), "7:0\n".into()),
        ("sys/devices/loop0/size".into(), "2048\n".into()),
        ("sys/devices/loop0/uevent".into(), "DEVNAME=loop0\n".into()),
        ("sys/devices/loop0/loop/backing_file".into(), "/fuse/disk\n".into()),
        ("sys/devices/loop0/queue/nr_requests".into(), "128\n".into()),
        ("sys/devices/loop0/queue/max_sectors_kb".into(), "1280\n".into()),
        ("sys/dev/block/7:0".into(), "->../../devices/loop0".into()),
        ("sys/class/block/loop0".into(), "->../../devices/loop0".into()),
        ("sys/class/block/sdb/size".into(), "1\n".into()),
        ("proc/70/comm".into(), "serve\n".into()),
        ("proc/70/fd/3".into(), "->/dev/fuse".into()),
        ("proc/70/fdinfo/3".into(), format!("flags:\t02100002\nmnt_id:\t23\n{fuse_info}")),
        ("proc/70/fd/4".into(), format!("->{descriptor}")),
        ("proc/70/fdinfo/4".into(), format!("flags:\t{flags}\n")),
    ];
    for (i, flags) in threads.iter().enumerate() {
        let stat = format!("7{i} (a) b) S 1 7 7 0 -1 {flags} 0 0\n");
        files.push((format!("proc/70/task/7{i}/stat"), stat));
    }
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    tree(&files)
}

/// What the threads of an ordinary process have (`PF_RANDOMIZE`), and what `PR_SET_IO_FLUSHER`
/// adds.
const PLAIN: u64 = 0x0040_0000;
const FLUSHER: u64 = 0x0058_0000;
const FUSE: &str = "fuse_connection:\t40\n";

fn only(root: &SysRoot) -> Server {
    let servers = read(root);
    assert_eq!(servers.len(), 1, "{servers:?}");
    servers.into_iter().next().unwrap()
}

#[test]
fn the_server_below_a_loop_device_is_found_with_what_it_writes() {
    let (_dir, root) = machine("/srv/disk.img", "0100002\nmnt_id:\t22", FUSE, &[PLAIN, PLAIN]);
    let server = only(&root);
    assert_eq!((server.pid.value(), server.name.as_str()), (Some(&70), "serve"));
    let served: Vec<&str> = server.serves.iter().map(|served| served.name.as_str()).collect();
    assert_eq!(served, ["/fuse", "loop0"]);
    assert_eq!(server.io_flusher, Reading::Value(false));
    assert_eq!(server.buffered, Reading::Value("/srv/disk.img".into()));
    assert!(server.may_hang());
    let exposure = Exposure::of(&[server], fuse_limits).unwrap();
    assert_eq!((exposure.queue_bytes, exposure.share, exposure.boundless), (160 << 20, 0.01, None));
}

#[test]
fn the_flag_is_a_matter_of_every_thread() {
    let flag = |threads: &[u64]| {
        let (_dir, root) = machine("/srv/disk.img", "0100002\nmnt_id:\t22", FUSE, threads);
        let server = only(&root);
        (server.io_flusher.value().copied(), server.may_hang())
    };
    assert_eq!(flag(&[FLUSHER, FLUSHER]), (Some(true), false));
    assert_eq!(flag(&[FLUSHER, PLAIN]), (None, true), "which of them writes can't be told");
    // Half of it is not it: `PF_MEMALLOC_NOIO` is set for moments inside the kernel.
    assert_eq!(flag(&[PLAIN | 0x0008_0000]), (Some(false), true));
    assert_eq!(flag(&[]), (None, true));
}

#[test]
fn a_server_without_dirty_pages_can_not_hang() {
    let writes = |descriptor: &str, flags: &str| {
        let (_dir, root) = machine(descriptor, flags, FUSE, &[PLAIN]);
        only(&root).may_hang()
    };
    assert!(writes("/srv/disk.img", "0100001\nmnt_id:\t22"));
    assert!(writes("/dev/sdb", "0100002\nmnt_id:\t23"), "a disk's own pages");
    assert!(writes("/dev/shm/disk/image", "0100002\nmnt_id:\t22"), "a filesystem below /dev");
    assert!(writes("/memfd or another mount", "0100002\nmnt_id:\t99"));
    assert!(!writes("/srv/disk.img", "0100000\nmnt_id:\t22"), "for reading");
    let direct = format!("0{:o}\nmnt_id:\t22", rustix::fs::OFlags::DIRECT.bits() | 2);
    assert!(!writes("/srv/disk.img", &direct), "past the page cache");
    assert!(!writes("/tmp/disk.img", "0100002\nmnt_id:\t24"), "in memory");
    assert!(!writes("/dev/null", "0100002\nmnt_id:\t23"));
    assert!(!writes("socket:[5]", "02"));
    assert!(!writes("/fuse/other", "0100002\nmnt_id:\t30"));
}

#[test]
fn before_linux_6_16_every_holder_may_be_the_server() {
    let (_dir, root) = machine("/srv/disk.img", "0100002\nmnt_id:\t22", "", &[PLAIN]);
    assert!(only(&root).may_hang());
    // A descriptor of another mount does not count.
    let (_dir, root) =
        machine("/srv/disk.img", "0100002\nmnt_id:\t22", "fuse_connection:\t41\n", &[PLAIN]);
    let server = only(&root);
    assert_eq!(server.pid.reason(), Some("no process that can be seen from here serves it"));
    assert!(server.may_hang(), "a server that can't be told is not known to be harmless");
}

#[test]
fn nbd_and_ublk_are_found_by_their_own_ways() {
    let (_dir, root) = tree(&[
        (
            "proc/self/mountinfo",
            "22 1 8:0 / / rw - ext4 /dev/sda rw\n40 22 43:0 / /data rw - xfs /dev/nbd0 rw\n",
        ),
        ("sys/devices/nbd0/dev", "43:0\n"),
        ("sys/devices/nbd0/uevent", "DEVNAME=nbd0\n"),
        ("sys/devices/nbd0/pid", "80\n"),
        ("sys/devices/nbd0/queue/nr_requests", "64\n"),
        ("sys/devices/nbd0/queue/max_sectors_kb", "1024\n"),
        ("sys/dev/block/43:0", "->../../devices/nbd0"),
        ("sys/class/block/nbd0", "->../../devices/nbd0"),
        // A partition of it, another one that is not set up, and an array of another owner.
        ("sys/devices/nbd0/nbd0p1/dev", "43:1\n"),
        ("sys/dev/block/43:1", "->../../devices/nbd0/nbd0p1"),
        ("sys/devices/nbd1/dev", "43:16\n"),
        ("sys/dev/block/43:16", "->../../devices/nbd1"),
        ("sys/devices/ublkb3/dev", "259:3\n"),
        ("sys/dev/block/259:3", "->../../devices/ublkb3"),
        ("sys/devices/loop0/dev", "7:0\n"),
        ("sys/devices/loop0/uevent", "DEVNAME=loop0\n"),
        ("sys/devices/loop0/loop/backing_file", "/data/image\n"),
        ("sys/dev/block/7:0", "->../../devices/loop0"),
        ("proc/80/comm", "nbd-client\n"),
        ("proc/80/fd/3", "->/dev/nbd0"),
        ("proc/80/fdinfo/3", "flags:\t0100002\n"),
        ("proc/80/fd/4", "->socket:[77]"),
        ("proc/80/fdinfo/4", "flags:\t02\n"),
        ("proc/80/task/80/stat", "80 (nbd-client) S 1 7 7 0 -1 4194304 0 0\n"),
        ("proc/90/comm", "ublk\n"),
        ("proc/90/fd/5", "->/dev/ublkc3"),
        ("proc/90/fdinfo/5", "flags:\t02\n"),
        ("proc/90/task/90/stat", "90 (ublk) S 1 7 7 0 -1 5767168 0 0\n"),
    ]);
    let servers = read(&root);
    let shown: Vec<_> = servers
        .iter()
        .map(|s| {
            (
                s.name.as_str(),
                s.serves.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(),
                s.may_hang(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [("nbd-client", vec!["nbd0", "loop0"], true), ("ublk", vec!["ublkb3"], false)]
    );
    let why = servers[0].buffered.reason().unwrap();
    assert!(why.contains("through a socket"), "{why}");
    assert_eq!(servers[1].io_flusher, Reading::Value(true));
}

#[test]
fn nobody_is_looked_for_where_nothing_is_served() {
    let (_dir, root) = tree(&[
        (
            "proc/self/mountinfo",
            "22 1 8:0 / / rw - ext4 /dev/sda rw\n23 22 0:9 / /x rw - virtiofs tag rw\n",
        ),
        ("proc/70/fd/3", "->/dev/fuse"),
    ]);
    let remembering = root.remembering();
    assert_eq!(read(&remembering), []);
    assert!(!remembering.seen().iter().any(|path| path.starts_with("/proc/70")));
}

#[test]
fn a_captured_machine_tells_of_the_same_servers() {
    use crate::capture::{Content, entries};
    let (_dir, root) = machine("/srv/disk.img", "0100002\nmnt_id:\t22", FUSE, &[PLAIN]);
    let (dir, captured) = tree(&[]);
    for entry in entries(&root) {
        let path = dir.path().join(entry.path.trim_start_matches('/'));
        match entry.content {
            Content::Text(text) => crate::root::testing::put(&path, &text),
            Content::Link(target) => crate::root::testing::put(&path, &format!("->{target}")),
            Content::Directory | Content::Unreadable => {}
        }
    }
    let servers = read(&captured);
    assert_eq!(servers, read(&root));
    assert!(servers[0].may_hang());
}
