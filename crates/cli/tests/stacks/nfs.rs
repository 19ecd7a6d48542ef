//! NFS for real: server and client in one guest, over its loopback device.
//!
//! ```text
//! /run/client (nfs4) ─▶ lo ─▶ nfsd ─▶ /run/server (ext4 on a lab device)
//! ```

use floodwall_testing::IMAGE;
use serde_json::Value;

use crate::Test;
use crate::bed::{in_guest, in_image, part};

const NEEDS: &[&str] = &["exportfs", "rpc.mountd", "rpc.nfsd", "mount.nfs4", "mkfs.ext4"];

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "status says of an NFS mount what can and can't be known",
        needs: NEEDS,
        body: status_says_of_an_nfs_mount_what_can_and_can_not_be_known,
    },
    Test {
        name: "size and bench leave nothing on an NFS mount",
        needs: NEEDS,
        body: size_and_bench_leave_nothing_on_an_nfs_mount,
    },
    Test {
        name: "an NFS export is as safe in a power cut as its option says",
        needs: NEEDS,
        body: an_nfs_export_is_as_safe_in_a_power_cut_as_its_option_says,
    },
    Test {
        name: "a guard names an NFS mount, and leaves its limits alone",
        needs: &[
            "exportfs",
            "rpc.mountd",
            "rpc.nfsd",
            "mount.nfs4",
            "mkfs.ext4",
            "qemu-system-x86_64",
            "ldd",
            "depmod",
            IMAGE,
        ],
        body: a_guard_names_an_nfs_mount_and_leaves_its_limits_alone,
    },
];

/// Shell functions: `serve HOW` exports the server's directory with the option `sync` or `async`
/// and mounts it, `part NAME` begins a part of the output. NFSv4 alone: it needs no rpcbind.
const NFS: &str = r#"
cd /
part() { echo "=== $1"; }
serve() {
    mkdir -p /run/server /run/client /var/lib/nfs/v4recovery
    floodwall lab up sata-ssd --name disk --size 2GiB --memory 1GiB --fs ext4 \
        --mount /run/server >&2
    mount -t nfsd nfsd /proc/fs/nfsd
    : > /var/lib/nfs/etab
    exportfs -o rw,$1,no_root_squash,no_subtree_check,fsid=0,insecure 127.0.0.1:/run/server
    rpc.mountd --no-nfs-version 3 2>/run/mountd.log
    rpc.nfsd --no-nfs-version 3 2>&1
    mount -t nfs4 -o vers=4.2 127.0.0.1:/ /run/client
}
end() { umount /run/client; rpc.nfsd 0; exportfs -ua; }
"#;

fn nfs(script: &str) -> String {
    in_guest(&format!("{NFS}{script}"))
}

fn status_says_of_an_nfs_mount_what_can_and_can_not_be_known() {
    let said = nfs(r#"
        serve sync
        dd if=/dev/zero of=/run/client/f bs=1M count=8 conv=fsync 2>/dev/null
        part arrived; stat -c %s /run/server/f
        part kernel; awk '$5 == "/run/client" { print $3 }' /proc/self/mountinfo
        part status; floodwall status --seconds 0.2 --json
        part text; floodwall status --seconds 0.2
        end
        "#);
    assert_eq!(part(&said, "arrived"), "8388608\n", "the file went through the server");
    let status: Value = serde_json::from_str(part(&said, "status")).unwrap();
    let devices = status["devices"].as_array().unwrap();
    let mounted =
        devices.iter().find(|device| device["mounts"][0]["mountpoint"] == "/run/client").unwrap();
    assert_eq!(mounted["name"], "127.0.0.1:/");
    assert_eq!(mounted["kind"], "nfs4");
    // The kernel's own name of its backing device, which limits are set by.
    assert_eq!(mounted["bdi"], part(&said, "kernel").trim());
    assert_eq!(mounted["limits"]["max_ratio_percent"], 100.0, "{mounted:#}");
    assert_eq!(mounted["leaves"].as_array().map(Vec::len), Some(0));
    // A mount without a block device has no such figure: absent, not zero.
    assert_eq!(mounted["written_bytes_per_s"]["absent"], "nfs4 has no block device");
    assert!(mounted["queue"]["scheduler"]["absent"].is_string(), "{mounted:#}");
    let server =
        devices.iter().find(|device| device["mounts"][0]["mountpoint"] == "/run/server").unwrap();
    assert!(server["kind"].as_str().unwrap().starts_with("loop"), "{server:#}");
    assert!(part(&said, "text").contains("127.0.0.1:/  nfs4: /run/client (nfs4)"), "{said}");
}

fn size_and_bench_leave_nothing_on_an_nfs_mount() {
    let said = nfs(r#"
        serve async
        # A busy machine's guest may drain a few MB/s only, less than a flusher's chunk in a second.
        part size; floodwall size --device /run/client --delay 5s --hard-delay 10s
        part after-size; ls -A /run/server
        part bench
        # One round is not conclusive: exit status 3.
        floodwall bench --rounds 1 --measure 1s --size 194MiB --no-burst /run/client || test $? = 3
        part after-bench; ls -A /run/server
        end
        "#);
    assert!(part(&said, "size").contains("vm.dirty_bytes = "), "{said}");
    assert_eq!(part(&said, "after-size"), "lost+found\n");
    assert!(part(&said, "bench").contains("commits/s"), "{said}");
    let uncharged = "nfs4 does not charge writeback to control groups";
    assert!(part(&said, "bench").contains(uncharged), "{said}");
    assert_eq!(part(&said, "after-bench"), "lost+found\n");
}

/// The two halves of the experiment of 2016: `sync` waits for the disk, `async` answers from
/// memory.
fn an_nfs_export_is_as_safe_in_a_power_cut_as_its_option_says() {
    let cut = |option: &str| {
        let said = nfs(&format!(
            r#"
            # The server's flusher wakes up every 5 s, and writes then: a device that has written
            # nothing yet has a background limit near zero.
            echo 360000 > /proc/sys/vm/dirty_writeback_centisecs
            serve {option}
            head -c 33554432 /dev/urandom > /dev/shm/data
            dd if=/dev/shm/data of=/run/client/f bs=1M conv=fsync 2>/dev/null
            part waits
            awk '/^(Dirty|Writeback):/ {{ kib += $2 }} END {{ print kib }}' /proc/meminfo
            end
            floodwall lab powercut disk >&2
            floodwall lab powerup disk >&2
            part came-through
            if cmp -s /dev/shm/data /run/server/f; then echo all; else echo not all; fi
            "#
        ));
        let waits: u64 = part(&said, "waits").trim().parse().unwrap();
        (waits, part(&said, "came-through").trim().to_owned())
    };
    let (waits, came_through) = cut("sync");
    assert!(waits < 1 << 10, "{waits} KiB wait for the disk after an fsync through a sync export");
    assert_eq!(came_through, "all");
    let (waits, came_through) = cut("async");
    assert!(
        waits > 16 << 10,
        "{waits} KiB wait for the disk after an fsync through an async export"
    );
    assert_eq!(came_through, "not all");
}

/// A process writes over NFS meanwhile. The client can't tell which processes wait for the server's
/// disk.
fn a_guard_names_an_nfs_mount_and_leaves_its_limits_alone() {
    let said = in_image(&format!(
        r#"{NFS}
        serve sync
        limits() {{ grep . /proc/sys/vm/dirty_*ratio /sys/class/bdi/$nfs/*_ratio; }}
        nfs=$(awk '$5 == "/run/client" {{ print $3 }}' /proc/self/mountinfo)
        part before; limits
        floodwall guard 2>/run/guard.log & guard=$!
        dd if=/dev/zero of=/run/client/f bs=1M count=100 conv=fsync 2>/dev/null
        # A busy emulated processor may keep the guard from answering. Its supervisor then starts
        # it again.
        part status
        for try in $(seq 60); do
            if floodwall guard status 2>/run/why; then break; fi
            sleep 1
        done
        part during; limits
        part guard; kill $guard; wait $guard && echo $?
        end
        "#
    ));
    let status = part(&said, "status");
    assert!(status.contains("not steered: /run/client (127.0.0.1:/): it has no queue"), "{status}");
    assert_eq!(part(&said, "during"), part(&said, "before"));
    assert_eq!(part(&said, "guard"), "0\n");
}
