//! The guest's kernel: cgroup v2's io controller, filesystems, elevators.

use crate::bed::{Bed, Who, equal};
use crate::{Once, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "writeback is charged to its group, and io.max holds it",
        who: Once::Both,
        needs: &["mkfs.ext4"],
        body: charged,
    },
    Test { name: "ext4 comes up", who: Once::Caller, needs: &["mkfs.ext4"], body: ext4 },
    Test { name: "xfs comes up", who: Once::Caller, needs: &["mkfs.xfs"], body: xfs },
    Test { name: "btrfs comes up", who: Once::Caller, needs: &["mkfs.btrfs"], body: btrfs },
    Test { name: "every elevator can be set", who: Once::Caller, needs: &[], body: elevators },
];

/// Bytes per second that the limited group may write.
const LIMIT: u64 = 8 << 20;
/// Bytes that it writes beyond the measured part: a limit lets a slice's worth through at once.
const SLACK: u64 = 4 << 20;

/// A field of a line of io.stat, in bytes: `7:8 rbytes=0 wbytes=1 rios=0 …`. A group that the device has not seen has
/// no line.
fn field(text: &str, name: &str) -> u64 {
    let words = text.split_whitespace().filter_map(|word| word.split_once('='));
    words.filter(|(key, _)| *key == name).filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

fn charged(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    // The marks tell the parts of the output apart; times are the kernel's own, in seconds since its boot.
    let script = format!(
        "groups=/sys/fs/cgroup; number=$(cat /sys/block/${{FLOODWALL_LAB_DEVICE#/dev/}}/dev)
         stat() {{ echo \"$1 $(cut -d' ' -f1 /proc/uptime) $(grep \"^$number \" $groups/$2/io.stat)\"; }}
         cat $groups/cgroup.controllers
         echo $$ > $groups/flood/cgroup.procs
         dd if=/dev/zero of=file bs=1M count=64 conv=fsync 2>/dev/null
         stat flood flood; stat victim victim
         echo \"$number wbps={LIMIT}\" > $groups/flood/io.max
         stat begin flood
         dd if=/dev/zero of=limited bs=1M count=32 conv=fsync 2>/dev/null
         stat end flood"
    );
    let told = bed.prints(&[], &script)?;
    let line =
        |mark: &str| told.lines().find(|line| line.split(' ').next() == Some(mark)).unwrap_or_default();
    for controller in ["cpu", "io", "memory", "pids"] {
        if !told.lines().next().unwrap_or_default().split(' ').any(|name| name == controller) {
            return Err(format!("no controller {controller}: {told}"));
        }
    }
    let written = field(line("flood"), "wbytes");
    // The file, and a little of the filesystem's own.
    if !(64 << 20..80 << 20).contains(&written) {
        return Err(format!("64 MiB were written, and {written} bytes are charged to the group: {told}"));
    }
    equal("charged to the other group", field(line("victim"), "wbytes"), 0)?;
    let seconds = |mark: &str| line(mark).split(' ').nth(1).and_then(|s| s.parse::<f64>().ok());
    let (Some(begin), Some(end)) = (seconds("begin"), seconds("end")) else { return Err(told) };
    let bytes = field(line("end"), "wbytes") - field(line("begin"), "wbytes");
    if bytes < 32 << 20 {
        return Err(format!("32 MiB were written, and {bytes} bytes are charged: {told}"));
    }
    let rate = (bytes - SLACK) as f64 / (end - begin);
    if rate > LIMIT as f64 {
        return Err(format!("{rate} B/s under a limit of {LIMIT}: {told}"));
    }
    Ok(())
}

/// A filesystem's name as `stat -f` has it, and a file that comes back from the device.
fn comes_up(options: &[&str], name: &str) -> Result<(), String> {
    let bed = Bed::new(Who::Caller)?;
    let script = "stat -f -c %T . && head -c 20000000 /bin/sh /dev/urandom > /tmp/file && cp /tmp/file file \
                  && sync && echo 3 > /proc/sys/vm/drop_caches && cmp /tmp/file file && echo same";
    equal("the guest's words", bed.prints(options, script)?, format!("{name}\nsame\n"))
}

fn ext4(_: Who) -> Result<(), String> {
    comes_up(&["--fs", "ext4"], "ext2/ext3")
}

fn xfs(_: Who) -> Result<(), String> {
    comes_up(&["--fs", "xfs"], "xfs")
}

fn btrfs(_: Who) -> Result<(), String> {
    comes_up(&["--fs", "btrfs"], "btrfs")
}

fn elevators(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let script = "queue=/sys/block/${FLOODWALL_LAB_DEVICE#/dev/}/queue
                  for name in none mq-deadline kyber bfq; do
                      echo $name > $queue/scheduler && tr ' ' '\\n' < $queue/scheduler | grep '\\['
                  done";
    equal("in force", bed.prints(&["--raw"], script)?.as_str(), "[none]\n[mq-deadline]\n[kyber]\n[bfq]\n")?;
    let begun = "tr ' ' '\\n' < /sys/block/${FLOODWALL_LAB_DEVICE#/dev/}/queue/scheduler | grep '\\['";
    equal("begun with", bed.prints(&["--raw", "--scheduler", "bfq"], begun)?.as_str(), "[bfq]\n")
}
