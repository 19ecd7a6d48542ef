//! Commands that are paced in a control group of their own.

use floodwall_testing::ROOT;

use crate::bed::{Bed, Who, equal, in_order};
use crate::{ANY_KERNEL, Once, Test, images, lacks_uml};

/// A user's manager runs it as well.
const SYSTEMD: &str = "/lib/systemd/systemd";

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a paced command is frozen in a group of its own",
        who: Once::Caller,
        needs: &[ANY_KERNEL, "mkfs.ext4"],
        body: frozen,
    },
    Test {
        name: "a frozen command is stopped by the terminal's signal as without a group",
        who: Once::Caller,
        needs: &[ANY_KERNEL, "mkfs.ext4", "bash"],
        body: suspended,
    },
    Test {
        name: "a pace that is stopped by the terminal's signal limits nothing",
        who: Once::Caller,
        needs: &[ANY_KERNEL, "mkfs.ext4", "bash"],
        body: unlimited,
    },
    Test {
        name: "a paced command's io.max holds while another program commits",
        who: Once::Caller,
        needs: &[ANY_KERNEL, "mkfs.ext4"],
        body: limited,
    },
    Test {
        name: "a killed pace leaves nothing frozen and no limit",
        who: Once::Caller,
        needs: &[ANY_KERNEL, "mkfs.ext4"],
        body: killed,
    },
    Test {
        name: "a paced writer through mmap, and one of another user, are frozen",
        who: Once::Caller,
        needs: &[ANY_KERNEL, "mkfs.ext4", "setpriv", "fio"],
        body: every_writer,
    },
    Test {
        name: "a user's pace has a group below its own, if that is the user's",
        who: Once::Caller,
        needs: &[ANY_KERNEL, ROOT, "mkfs.ext4", "setpriv"],
        body: given,
    },
    Test {
        name: "a pace has no group in a unit of systemd's without Delegate=",
        who: Once::Caller,
        needs: &[ANY_KERNEL, ROOT, "mkfs.ext4", "setpriv", "python3"],
        body: delegated,
    },
    Test {
        name: "a user's pace has a group in a scope of systemd's user manager",
        who: Once::Caller,
        needs: &[ANY_KERNEL, ROOT, "mkfs.ext4", "setpriv", SYSTEMD, "busctl", "dbus-daemon"],
        body: scoped,
    },
];

/// `group` prints the directory of the command's group, and `waits` waits until a test is true.
const BEGIN: &str = "
group() { ls -d ${parent:-/sys/fs/cgroup}/floodwall.*/command 2>/dev/null; }
waits() {
    end=$(($(date +%s) + 120))
    while [ $(date +%s) -lt $end ]; do eval \"$1\" && return 0; sleep 0.05; done
    echo \"never: $1\" >&2; cat /tmp/told >&2; exit 1
}
is_frozen() { grep -qs '^frozen 1' $(group)/cgroup.events; }
runs() { grep -q '^frozen 0' $(group)/cgroup.events; }
used() { grep usage_usec $(group)/cpu.stat | cut -d' ' -f2; }
# A paced command may run for less than a look takes.
goes_on() { before=$(used); waits '[ $(used) -gt $before ]'; }
limit() { grep -o 'wbps=[0-9]*[0-9]' $(group)/io.max; }
states() {
    for pid in $(cat $(group)/cgroup.procs); do cut -d' ' -f3 /proc/$pid/stat 2>/dev/null; done
}
";
/// Dirties a file again and again.
const FLOOD: &str =
    "while :; do dd if=/dev/zero of=flood bs=1M count=8 conv=notrunc 2>/dev/null; done";

/// Commits often, also where a new process takes a second, as in an emulated image.
const VICTIM: &str = "(while :; do dd if=/dev/zero of=victim bs=4k count=100 oflag=dsync \
    conv=notrunc 2>/dev/null; done)";

fn prints(script: &str) -> Result<String, String> {
    let (bed, script) = (Bed::new(Who::Caller)?, format!("{BEGIN}{script}"));
    if lacks_uml().is_none() { bed.prints(&[], &script) } else { images::prints(&bed, &script) }
}

fn frozen(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "floodwall pace --status --to rate=1MB/s -- sh -c '
             grep ^0:: /proc/self/cgroup > /tmp/where; trap \"exit 3\" TERM; {FLOOD}' \
             2>/tmp/told & pace=$!
         waits is_frozen; states | grep -c T
         goes_on; waits is_frozen; grep -q \"^$pace\\$\" $(group)/cgroup.procs && echo pace too
         kill -TERM $pace; wait $pace; echo status $?
         cat /tmp/where; head -1 /tmp/told; ls -d /sys/fs/cgroup/floodwall.* 2>&1; true"
    ))?;
    in_order(
        &told,
        &[
            "0\nstatus 3\n0::/floodwall.",
            "/command\n",
            "pace: in a control group of its own: freezer, memory.high, io.max\n",
            "No such file",
        ],
    )
}

/// Starts a paced flood with options as a job: bash has job control without a terminal. `is_asleep`
/// tells whether `$pace` is stopped, and `end` ends all.
fn job(options: &str) -> String {
    format!(
        "cat > /tmp/job <<'END'
         set -m
         floodwall pace --quiet {options} -- sh -c '{FLOOD}' & echo $! > /tmp/pace
         exec sleep 1000
END
         bash /tmp/job > /tmp/told 2>&1 & job=$!
         waits group > /dev/null; pace=$(cat /tmp/pace)
         is_asleep() {{ [ $(cut -d' ' -f3 /proc/$pace/stat) = T ]; }}
         end() {{
             kill -KILL $job; kill -KILL $(cat $(group)/cgroup.procs)
             waits '! group > /dev/null'; echo ended
         }}
"
    )
}

fn suspended(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "{}waits is_frozen; kill -TSTP -$pace
         waits 'is_asleep && ! states | grep -q [^T]'; runs
         echo stopped; kill -CONT -$pace
         waits is_frozen; goes_on; end",
        job("--to rate=1MB/s")
    ))?;
    equal("steps", told, "stopped\nended\n".to_owned())
}

fn unlimited(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "{}{VICTIM} & victim=$!
         waits limit > /dev/null; kill -TSTP -$pace
         waits is_asleep; limit; cat $(group)/memory.high
         kill -CONT -$pace; waits limit > /dev/null; echo back
         kill -KILL $victim; end",
        job("")
    ))?;
    equal("steps", told, "max\nback\nended\n".to_owned())
}

fn limited(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "no_limit() {{ ! limit > /dev/null; }}
         floodwall pace --status -- sh -c '{FLOOD}' 2>/tmp/told & pace=$!
         waits group > /dev/null; sleep 1; waits no_limit
         {VICTIM} & victim=$!
         waits limit > /tmp/limit; head -c5 /tmp/limit; echo
         kill -KILL $victim; waits no_limit
         echo lifted; cat $(group)/memory.high; kill -TERM $pace; wait $pace
         ls -d /sys/fs/cgroup/floodwall.* 2>&1; true"
    ))?;
    equal("limits", told.lines().next(), Some("wbps="))?;
    in_order(&told, &["lifted\nmax\n", "No such file"])
}

fn killed(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "echo '-io -memory' > /sys/fs/cgroup/cgroup.subtree_control
         floodwall pace --to rate=1MB/s -- sh -c '{FLOOD}' & pace=$!
         waits is_frozen
         echo $((1 << 29)) > $(group)/memory.high
         echo \"$(cat /sys/block/${{FLOODWALL_LAB_DEVICE#/dev/}}/dev) wbps=5000000\" > \
             $(group)/io.max
         kill -KILL $pace; wait $pace 2>/dev/null
         waits runs; cat $(group)/memory.high; wc -c < $(group)/io.max
         before=$(cat $(group)/cgroup.procs)
         waits '[ \"$(cat $(group)/cgroup.procs)\" != \"$before\" ]'
         floodwall pace --quiet -- sh -c 'ls -d /sys/fs/cgroup/floodwall.* | wc -l'
         for pid in $(cat $(group)/cgroup.procs); do kill -KILL $pid; done
         waits \"! grep -q . $(group)/cgroup.procs\"
         floodwall pace --quiet -- sh -c 'ls -d /sys/fs/cgroup/floodwall.* | wc -l'
         ls -d /sys/fs/cgroup/floodwall.* 2>/dev/null; cat /sys/fs/cgroup/cgroup.subtree_control"
    ))?;
    equal("groups", told, "max\n0\n2\n1\ncpu pids\n".to_owned())
}

fn every_writer(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "chmod 777 .
         for command in 'fio --name=m --filename=m --ioengine=mmap --rw=write --size=64m \
--time_based --runtime=1000 > /dev/null' 'setpriv --reuid=65534 --regid=65534 \
--clear-groups sh -c \"{FLOOD}\"'; do
             floodwall pace --quiet --to rate=1MB/s -- sh -c \"$command\" & pace=$!
             waits is_frozen; goes_on; waits is_frozen
             for pid in $(cat $(group)/cgroup.procs); do
                 echo $(stat -c %u /proc/$pid) $(cut -d' ' -f3 /proc/$pid/stat)
             done | sort | uniq
             kill -KILL $(cat $(group)/cgroup.procs); wait $pace; echo status $?
         done"
    ))?;
    for state in ["0 T", "65534 T"] {
        if told.contains(state) {
            return Err(format!("signals are used: {told}"));
        }
    }
    in_order(&told, &["0 ", "status 137\n", "65534 ", "status 137\n"])
}

/// What an ordinary user does, in a directory of the disk: the words of `as_user` come before a
/// command. `/tmp/pace` paces one, and `pace` tells its status as well.
const USER: &str = "
chmod 777 .; mkdir -p /tmp/user/run /tmp/user/disk; chown 65534 /tmp/user /tmp/user/*
chmod 700 /tmp/user/run; mount --bind . /tmp/user/disk; cd /tmp/user/disk
give() {
    mkdir $1
    for file in '' cgroup.procs cgroup.subtree_control; do chown 65534 $1/$file; done
}
as_user=\"setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp/user \
    XDG_RUNTIME_DIR=/tmp/user/run DBUS_SESSION_BUS_ADDRESS=unix:path=/tmp/user/run/bus PATH=$PATH\"
echo line > /tmp/line
cat > /tmp/pace <<END
exec $as_user floodwall pace --status -- sh -c \
    'sleep 1; read -r line; echo read \\$line; grep ^0:: /proc/self/cgroup; pwd; exit 5' \
    < /tmp/line 2>&1
END
pace() { sh /tmp/pace; echo status $?; }
";

/// The part of an output behind a mark has to have words in an order.
fn part(told: &str, mark: &str, words: &[&str]) -> Result<(), String> {
    let part = told.split_once(&format!("== {mark}\n")).map_or("", |(_, after)| after);
    let part = part.split_once("== ").map_or(part, |(part, _)| part);
    in_order(part, words).map_err(|e| format!("{mark}: {e}\n{told}"))
}

fn given(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "{USER}echo == none; pace
         echo == given; give /sys/fs/cgroup/given
         sh -c 'echo $$ > /sys/fs/cgroup/given/cgroup.procs; exec sh /tmp/pace'; echo status $?
         ls -d /sys/fs/cgroup/given/*/ 2>&1
         echo == shared; sleep 1000 & echo $! > /sys/fs/cgroup/given/cgroup.procs
         (sh -c 'echo $PPID' > /sys/fs/cgroup/given/cgroup.procs; pace)
         kill $!; echo == end"
    ))?;
    let words = [
        "pace: no control group: this process may make no control group, and no user manager of \
         systemd is there to ask\n",
        "read line\n0::/\n/tmp/user/disk\n",
        "status 5\n",
    ];
    part(&told, "none", &words)?;
    let words = [
        "its own: freezer, memory.high, io.max\n",
        "read line\n0::/given/floodwall.",
        "/command\n/tmp/user/disk\n",
        "status 5\n",
        "No such file",
    ];
    part(&told, "given", &words)?;
    // With another process in it, a group passes no controllers on.
    part(&told, "shared", &["its own: freezer\n", "0::/given/floodwall.", "status 5\n"])
}

fn delegated(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "{USER}unit=/sys/fs/cgroup/backup.service; give $unit
         within() {{
             (sh -c 'echo $PPID' > $unit/cgroup.procs; exec sh /tmp/pace); echo status $?
         }}
         echo == unmarked; within; ls -d $unit/*/ 2>&1
         echo 'import os; os.setxattr(os.sys.argv[1], \"user.delegate\", b\"1\")' > /tmp/mark
         /usr/bin/python3 /tmp/mark $unit
         echo == marked; within; echo == end"
    ))?;
    let why = "pace: no control group: its unit of systemd's has no Delegate=yes, and no user \
               manager of systemd is there to ask\n";
    part(&told, "unmarked", &[why, "0::/backup.service\n", "status 5\n", "No such file"])?;
    let words =
        ["its own: freezer, memory.high, io.max\n", "0::/backup.service/floodwall.", "status 5\n"];
    part(&told, "marked", &words)
}

/// systemd 252 as an ordinary user's manager, in a control group of that user's. No systemd is
/// process 1. So the user's process begins in a group that this manager may take it from.
fn scoped(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "{USER}top=/sys/fs/cgroup/user@65534.service; mkdir -p /run/systemd/system
         give $top; give $top/term
         (sh -c 'echo $PPID' > $top/cgroup.procs
          exec $as_user {SYSTEMD} --user --log-target=null > /dev/null 2>&1) &
         waits '[ -S /tmp/user/run/bus ]'
         echo == ignored; (trap '' HUP; pace)
         echo == scope; (sh -c 'echo $PPID' > $top/term/cgroup.procs; pace)
         waits '! ls -d $top/app.slice/*.scope 2>/dev/null'
         for pid in $(cat $top/cgroup.procs $top/*/cgroup.procs $top/*/*/cgroup.procs); do
             kill -KILL $pid
         done; echo == end"
    ))?;
    let why = "pace: no control group: this process may make no control group, and systemd would \
               end it with the session (loginctl enable-linger)\n";
    part(&told, "ignored", &[why, "0::/\n", "status 5\n"])?;
    let words = [
        "pace: in a control group of its own: freezer, memory.high, io.max\n",
        "read line\n0::/user@65534.service/app.slice/floodwall-pace-",
        ".scope/floodwall.",
        "/command\n/tmp/user/disk\n",
        "status 5\n",
    ];
    part(&told, "scope", &words)
}
