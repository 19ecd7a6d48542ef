//! The guest's kernel: cgroup v2's io controller, filesystems, elevators.

use crate::bed::{Bed, Who, equal, in_order};
use crate::{Once, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "writeback is charged to its group, and io.max holds it",
        who: Once::Both,
        needs: &["mkfs.ext4"],
        body: charged,
    },
    Test {
        name: "victims and floods are in groups of their own, which a setting holds",
        who: Once::Both,
        needs: &["mkfs.ext4"],
        body: apart,
    },
    Test {
        name: "a group that a user was given is divided",
        who: Once::Caller,
        needs: &[floodwall_testing::ROOT, "setpriv"],
        body: delegated,
    },
    Test {
        name: "groups of a bench that was killed are removed",
        who: Once::Caller,
        needs: &[],
        body: killed,
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

/// A field of a line of io.stat, in bytes: `7:8 rbytes=0 wbytes=1 rios=0 …`. A group that the
/// device has not seen has no line.
fn field(text: &str, name: &str) -> u64 {
    let words = text.split_whitespace().filter_map(|word| word.split_once('='));
    words.filter(|(key, _)| *key == name).filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

fn charged(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    // The marks tell the parts of the output apart; times are the kernel's own, in seconds since
    // its boot.
    let script = format!(
        "groups=/sys/fs/cgroup; number=$(cat /sys/block/${{FLOODWALL_LAB_DEVICE#/dev/}}/dev)
         now() {{ cut -d' ' -f1 /proc/uptime; }}
         stat() {{ echo \"$1 $(now) $(grep \"^$number \" $groups/$2/io.stat)\"; }}
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
    let line = |mark: &str| {
        told.lines().find(|line| line.split(' ').next() == Some(mark)).unwrap_or_default()
    };
    for controller in ["cpu", "io", "memory", "pids"] {
        if !told.lines().next().unwrap_or_default().split(' ').any(|name| name == controller) {
            return Err(format!("no controller {controller}: {told}"));
        }
    }
    let written = field(line("flood"), "wbytes");
    // The file, and a little of the filesystem's own.
    if !(64 << 20..80 << 20).contains(&written) {
        return Err(format!(
            "64 MiB were written, and {written} bytes are charged to the group: {told}"
        ));
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

/// Writes a short scenario.
const SCENARIO: &str = "cat > /tmp/brief.toml <<'END'
name = \"brief\"
[[victim]]
kind = \"commit\"
size = \"1MiB\"
[[flood]]
kind = \"seq\"
data = \"zero\"
[timing]
rounds = 2
measure = \"1s\"
warmup_max = \"1s\"
settle = \"100ms\"
device_cache = \"1MiB\"
END
";
/// Runs it.
const BRIEF: &str = "--scenario /tmp/brief.toml --size 200MiB --no-burst --progress never --json .";

fn apart(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    // On a busy machine a second may be too short for a figure (status 3). The groups are the same.
    // The victim notes its own group, the limits of the floods', and which processes are in that.
    let script = format!(
        "{SCENARIO}cat > /tmp/victim <<'END'
         cd /sys/fs/cgroup/floodwall.*/flood
         cat /proc/self/cgroup memory.high io.max
         for process in $(cat cgroup.procs); do tr '\\0' ' ' < /proc/$process/cmdline; echo; done
END
         floodwall compare --set default --set held=flood:io.max=wbps=8MB,flood:memory.high=64MiB \
             --victim-cmd 'sh /tmp/victim >> /tmp/seen; sleep 1000' {BRIEF} > /tmp/result || [ $? \
             = 3 ] || exit 1
         sort /tmp/seen | uniq; grep -c 'control groups of victims and floods' /tmp/result
         grep -o 'flood:[a-z]*[0-9]*[.]*[a-z.]*\": \"[0-9a-z =:]*' /tmp/result | sort | uniq
         ls /sys/fs/cgroup | grep floodwall
         floodwall bench --same-group {BRIEF} | grep -A1 'control groups of'"
    );
    let told = bed.prints(&[], &script)?;
    let line = |wanted: fn(&str) -> bool| told.lines().any(wanted);
    for (what, is_there) in [
        (
            "the victims' group",
            line(|line| line.starts_with("0::/floodwall.") && line.ends_with("/victim")),
        ),
        ("a flood's process", line(|line| line.starts_with("/proc/self/exe flood-process"))),
        ("the default's limits", line(|line| line == "max")),
        ("the limit of memory", line(|line| line == "67108864")),
        ("the limit of io", line(|line| line.contains("wbps=8000000 "))),
        ("the setting as told", line(|line| line.ends_with("flood:memory.high\": \"67108864"))),
        ("no reason why there are none", line(|line| line == "0")),
        (
            "why they share one",
            line(|line| line.ends_with("\"--same-group keeps victims and floods in one group\"")),
        ),
    ] {
        if !is_there {
            return Err(format!("{what} is missing: {told}"));
        }
    }
    equal("groups left", told.lines().any(|line| line.starts_with("floodwall.")), false)
}

/// An ordinary user starts the guest: every user may execute that copy of the program.
fn delegated(_: Who) -> Result<(), String> {
    let bed = Bed::new(Who::Ordinary)?;
    let script = format!(
        "{SCENARIO}chmod 777 . && mkdir -p /tmp/user/disk /sys/fs/cgroup/user
         mount --bind . /tmp/user/disk && cd /tmp/user/disk
         echo +io +memory > /sys/fs/cgroup/cgroup.subtree_control
         cat /sys/fs/cgroup/user/cgroup.controllers
         for file in '' cgroup.procs cgroup.subtree_control; do chown 65534 \
         /sys/fs/cgroup/user/$file; done
         chown 65534 /tmp/user
         cat > /tmp/bench <<'END'
         exec setpriv --reuid=65534 --regid=65534 --clear-groups floodwall bench \
             --victim-cmd 'cat /proc/self/cgroup >> /tmp/user/seen; sleep 1000' {BRIEF} \
             > /tmp/result
END
         sh /tmp/bench 2>&1; grep -o 'this process may make no control group.*lets it' /tmp/result
         sh -c 'echo $$ > /sys/fs/cgroup/user/cgroup.procs; exec sh /tmp/bench' 2>/dev/null
         grep -A1 'control groups of victims and floods' /tmp/result || echo divided
         sort /tmp/user/seen | uniq
         ls -d /sys/fs/cgroup/user/*/ || echo no group left
         echo controllers: $(cat /sys/fs/cgroup/user/cgroup.subtree_control)"
    );
    let told = bed.prints(&[], &script)?;
    in_order(
        &told,
        &[
            "io memory",
            "this process may make no control group in /sys/fs/cgroup; ",
            "'systemd-run --user --scope -p Delegate=yes floodwall …' lets it\ndivided\n",
            "0::/user/floodwall.",
            "/victim\n",
            "no group left\ncontrollers:\n",
        ],
    )
}

fn killed(_: Who) -> Result<(), String> {
    let bed = Bed::new(Who::Caller)?;
    let groups = "ls /sys/fs/cgroup | grep -c '^floodwall[.]'";
    let script = format!(
        "{SCENARIO}echo '-io -memory' > /sys/fs/cgroup/cgroup.subtree_control
         floodwall bench {BRIEF} > /dev/null 2>&1 & killed=$!
         controllers() {{ echo controllers: $(cat /sys/fs/cgroup/cgroup.subtree_control); }}
         for try in $(seq 500); do [ \"$(controllers)\" = 'controllers: cpu io memory pids' ] && \
         break; sleep 0.1; done
         kill -KILL $killed; wait $killed; {groups}; controllers
         floodwall bench --clean . > /dev/null
         floodwall bench {BRIEF} > /dev/null; {groups} || true; controllers"
    );
    let after_the_kill = "1\ncontrollers: cpu io memory pids\n";
    let after_the_next = "0\ncontrollers: cpu pids\n";
    equal("groups", bed.prints(&[], &script)?, format!("{after_the_kill}{after_the_next}"))
}

/// A filesystem's name as `stat -f` has it, and a file that comes back from the device.
fn comes_up(options: &[&str], name: &str) -> Result<(), String> {
    let bed = Bed::new(Who::Caller)?;
    let script = "stat -f -c %T . && head -c 20000000 /bin/sh /dev/urandom > /tmp/file && cp \
        /tmp/file file \
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
    equal(
        "in force",
        bed.prints(&["--raw"], script)?.as_str(),
        "[none]\n[mq-deadline]\n[kyber]\n[bfq]\n",
    )?;
    let begun =
        "tr ' ' '\\n' < /sys/block/${FLOODWALL_LAB_DEVICE#/dev/}/queue/scheduler | grep '\\['";
    equal("begun with", bed.prints(&["--raw", "--scheduler", "bfq"], begun)?.as_str(), "[bfq]\n")
}
