//! Commands that are paced in a control group of their own.

use floodwall_testing::ROOT;

use crate::bed::{Bed, Who, equal, in_order};
use crate::{ANY_KERNEL, Once, Test, images, lacks_uml};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a paced command is frozen in a group of its own",
        who: Once::Caller,
        needs: &[ANY_KERNEL, "mkfs.ext4"],
        body: frozen,
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
        name: "a user's pace has a group where the user may make one, or in a scope",
        who: Once::Caller,
        needs: &[ANY_KERNEL, ROOT, "mkfs.ext4", "setpriv"],
        body: users,
    },
];

/// `group` prints the directory of the command's group, and `waits` waits until a test is true.
const BEGIN: &str = "
group() { ls -d ${parent:-/sys/fs/cgroup}/floodwall.*/command 2>/dev/null; }
waits() {
    for try in $(seq 1200); do eval \"$1\" && return 0; sleep 0.05; done
    echo \"never: $1\"; cat /tmp/told; exit 1
}
is_frozen() { grep -qs '^frozen 1' $(group)/cgroup.events; }
runs() { grep -q '^frozen 0' $(group)/cgroup.events; }
states() { for pid in $(cat $(group)/cgroup.procs); do cut -d' ' -f3 /proc/$pid/stat; done; }
";
/// Dirties a file again and again.
const FLOOD: &str =
    "while :; do dd if=/dev/zero of=flood bs=1M count=8 conv=notrunc 2>/dev/null; done";

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
         waits runs; waits is_frozen; grep -q \"^$pace\\$\" $(group)/cgroup.procs && echo pace too
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

fn limited(_: Who) -> Result<(), String> {
    let told = prints(&format!(
        "limit() {{ grep -o 'wbps=[0-9]*[0-9]' $(group)/io.max; }}
         no_limit() {{ ! limit; }}
         floodwall pace --status -- sh -c '{FLOOD}' 2>/tmp/told & pace=$!
         waits group > /dev/null; sleep 1; limit
         (while :; do dd if=/dev/zero of=victim bs=4k count=1 oflag=dsync conv=notrunc \
             2>/dev/null; done) & victim=$!
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
         waits \"states | grep -q R\"
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
             waits is_frozen; waits runs; waits is_frozen
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

/// A script stands in for busctl(1) and systemd's user manager: it makes a group, gives it to the
/// user and moves the process there.
fn users(_: Who) -> Result<(), String> {
    let told = prints(
        "chmod 777 .; mkdir -p /tmp/user/bin /tmp/user/run /tmp/user/disk
         mount --bind . /tmp/user/disk; cd /tmp/user/disk
         touch /tmp/user/run/bus; mkfifo /tmp/user/asked /tmp/user/done
         chown 65534 /tmp/user /tmp/user/*
         give() {
             mkdir $1
             for file in '' cgroup.procs cgroup.subtree_control; do chown 65534 $1/$file; done
         }
         cat > /tmp/user/bin/busctl <<'END'
#!/bin/sh
echo \"$*\" > /tmp/user/words
[ -e /tmp/user/fails ] && exit 1
echo $PPID > /tmp/user/asked; read -r done < /tmp/user/done
END
         chmod 755 /tmp/user/bin/busctl
         cat > /tmp/user/pace <<'END'
         exec setpriv --reuid=65534 --regid=65534 --clear-groups env XDG_RUNTIME_DIR=/tmp/user/run \
             PATH=/tmp/user/bin:$PATH floodwall pace --status -- sh -c \
             'sleep 2; read -r line; echo read $line; grep ^0:: /proc/self/cgroup; pwd; exit 5'
END
         pace() { echo line | sh /tmp/user/pace; echo status $?; }
         echo == none; touch /tmp/user/fails; pace 2>&1
         echo == scope; rm /tmp/user/fails
         (read -r pid < /tmp/user/asked; scope=/sys/fs/cgroup/floodwall-pace-$pid.scope; give $scope
          echo $pid > $scope/cgroup.procs; echo done > /tmp/user/done) &
         pace 2>&1; kill $! 2>/dev/null
         grep -o 'Transient.*' /tmp/user/words; ls -d /sys/fs/cgroup/*.scope/*/ 2>&1
         echo == given; give /sys/fs/cgroup/given
         sh -c 'echo $$ > /sys/fs/cgroup/given/cgroup.procs; exec sh /tmp/user/pace' 2>&1 <<'END'
line
END
         ls -d /sys/fs/cgroup/given/*/ 2>&1; echo == end",
    )?;
    let part = |mark: &str, words: &[&str]| {
        let part = told.split_once(&format!("== {mark}\n")).map_or("", |(_, after)| after);
        let part = part.split_once("== ").map_or(part, |(part, _)| part);
        in_order(part, words).map_err(|e| format!("{mark}: {e}\n{told}"))
    };
    part(
        "none",
        &[
            "pace: no control group: this process may make no control group, and ",
            "read line\n0::/\n/tmp/user/disk\n",
            "status 5\n",
        ],
    )?;
    part(
        "scope",
        &[
            "pace: in a control group of its own: freezer, memory.high, io.max\n",
            "read line\n0::/floodwall-pace-",
            ".scope/floodwall.",
            "/command\n/tmp/user/disk\n",
            "status 5\n",
            "TransientUnit ssa(sv)a(sa(sv)) floodwall-pace-",
            ".scope fail 3 PIDs au 1 ",
            " Delegate b true CollectMode s inactive-or-failed 0\n",
            "No such file",
        ],
    )?;
    part("given", &["read line\n0::/given/floodwall.", "/command\n", "No such file"])
}
