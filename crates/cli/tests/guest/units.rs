//! Units of a real systemd, which is process 1 of a PID namespace in the guest, as in a container.

use crate::bed::{Bed, Who, equal, in_order};
use crate::{Once, Test};

const SYSTEMD: &str = "/lib/systemd/systemd";
const NEEDS: &[&str] = &[SYSTEMD, "systemctl", "systemd-run", "unshare", "nsenter"];

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "limits of units are set through systemd",
        who: Once::Caller,
        needs: NEEDS,
        body: set,
    },
    Test { name: "units that stop meanwhile", who: Once::Caller, needs: NEEDS, body: stopped },
    Test {
        name: "units that somebody changes meanwhile",
        who: Once::Caller,
        needs: NEEDS,
        body: changed,
    },
    Test { name: "what persist keeps of units", who: Once::Caller, needs: NEEDS, body: kept },
    Test {
        name: "a change of units that is killed",
        who: Once::Caller,
        needs: NEEDS,
        body: killed,
    },
    Test { name: "a systemd that does not answer", who: Once::Caller, needs: NEEDS, body: silent },
];

/// Starts systemd with a separate control group, and two units in it: `plain.service`, whose file
/// has a limit, and `flood.service`, which is transient. `show` prints what systemd and the kernel
/// say of both. systemctl talks to systemd from inside its PID namespace alone: `$inside` runs a
/// command there.
const BEGIN: &str = "
mkdir /sys/fs/cgroup/systemd /run/begin
cat > /run/begin/systemd <<'END'
mount --make-rprivate /
umount /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup
for dir in system system-generators; do mount -t tmpfs tmpfs /usr/lib/systemd/$dir; done
mount -t tmpfs tmpfs /etc/systemd/system
cd /etc/systemd/system
for unit in sysinit basic shutdown test; do printf '[Unit]\\nDefaultDependencies=no\\n' > \
$unit.target; done
printf '[Service]\\nExecStart=/bin/sleep 10000\\nMemoryHigh=600M\\n' > plain.service
exec env -i container=test PATH=\"$PATH\" /lib/systemd/systemd --unit=test.target --log-target=null
END
cat > /run/begin/show <<'END'
for unit in plain flood; do
    systemctl show -p MemoryHigh,IOWriteBandwidthMax,DropInPaths,NeedDaemonReload $unit.service
    for file in memory.high io.max; do
        echo $unit $file: $(cat /sys/fs/cgroup/system.slice/$unit.service/$file 2>&1)
    done
done
find /run/systemd/system.control /run/systemd/transient -name '*.conf' 2>/dev/null
END
sh -c 'echo $$ > /sys/fs/cgroup/systemd/cgroup.procs
    exec unshare --pid --fork --mount --cgroup --mount-proc sh /run/begin/systemd' &
until [ -S /run/systemd/private ]; do sleep 0.1; done
first=$(pgrep -x systemd)
echo $! > /sys/fs/cgroup/cgroup.procs
trap 'kill -KILL $first' EXIT
inside=\"nsenter --target $first --mount --pid --cgroup env PATH=$PATH\"
show() { $inside sh /run/begin/show; }
$inside systemctl is-system-running --wait > /dev/null
$inside systemctl start plain
$inside systemd-run --quiet --unit=flood sleep 10000
disk=${FLOODWALL_LAB_DEVICE#/dev/}; number=$(cat /sys/block/$disk/dev)
limits=\"unit:plain:memory.high=400MiB unit:flood:memory.high=300MiB \
unit:flood:$disk.io.max=wbps=5MB\"
";

fn prints(script: &str) -> Result<String, String> {
    Bed::new(Who::Caller)?.prints(&["--raw"], &format!("{BEGIN}{script}"))
}

/// The part of an output behind a mark, up to the next one.
fn part<'a>(told: &'a str, mark: &str) -> &'a str {
    let after = told.split_once(&format!("== {mark}\n")).map_or("", |(_, after)| after);
    after.split_once("== ").map_or(after, |(part, _)| part)
}

fn set(_: Who) -> Result<(), String> {
    let told = prints(
        "echo == before; show
         echo == told; $inside floodwall apply --yes $limits 2>&1
         echo == applied; show
         $inside systemctl daemon-reload
         echo == reloaded; show
         echo == rehearsed; $inside floodwall rollback --dry-run
         echo == told; $inside floodwall rollback 2>&1
         echo == after; show
         echo == number; echo $number; echo == end",
    )?;
    let number = part(&told, "number").trim();
    let is = |mark: &str, words: &[&str]| {
        in_order(part(&told, mark), words).map_err(|e| format!("{mark}: {e}\n{told}"))
    };
    is(
        "before",
        &["MemoryHigh=629145600", "plain memory.high: 629145600", "flood memory.high: max"],
    )?;
    for mark in ["applied", "reloaded"] {
        is(mark, &["MemoryHigh=419430400\n", "plain memory.high: 419430400\n"])?;
        is(mark, &["IOWriteBandwidthMax=/dev/", " 5000000\n"])?;
        is(mark, &["MemoryHigh=314572800\n", "flood memory.high: 314572800\n"])?;
        is(
            mark,
            &[&format!("flood io.max: {number} rbps=max wbps=5000000 riops=max wiops=max\n")],
        )?;
    }
    is(
        "rehearsed",
        &["systemctl set-property --runtime flood.service IOWriteBandwidthMax=", " infinity"],
    )?;
    // systemd takes the controller io away with its last property.
    let (before, after) = (part(&told, "before"), part(&told, "after"));
    if before == after { Ok(()) } else { Err(format!("not as before: {told}")) }
}

fn stopped(_: Who) -> Result<(), String> {
    let told = prints(
        "$inside floodwall apply --yes unit:nosuch:memory.high=400MiB 2>&1
         $inside floodwall apply --yes $limits > /dev/null
         $inside systemctl stop plain flood
         echo == rollback; $inside floodwall rollback 2>&1; echo status $?
         echo == after; show; $inside systemctl start plain; echo == started; show; echo == end",
    )?;
    in_order(&told, &["no unit", "nosuch.service"])?;
    let is = |mark: &str, words: &[&str]| {
        in_order(part(&told, mark), words).map_err(|e| format!("{mark}: {e}\n{told}"))
    };
    is(
        "rollback",
        &["flood.service:memory.high: gone (systemd does not know flood.service any more)"],
    )?;
    is("rollback", &["plain.service:memory.high: 629145600 again", "status 0"])?;
    is("after", &["MemoryHigh=629145600"])?;
    equal("drop-ins are left", part(&told, "after").contains("/50-"), false)?;
    is("started", &["plain memory.high: 629145600"])
}

fn changed(_: Who) -> Result<(), String> {
    let told = prints(
        "limits=\"$limits unit:plain:$disk.io.max=wbps=4MB\"
         show > /run/before
         $inside floodwall apply --yes $limits > /dev/null
         $inside systemctl revert plain
         echo == reverted; show
         echo == rollback; $inside floodwall rollback 2>&1; echo status $?
         show > /run/after; diff /run/before /run/after && echo as before
         other=$(cd /sys/block && ls -d loop* | grep -v -x $disk | head -n 1)
         [ -b /dev/$other ] || mknod /dev/$other b $(tr : ' ' < /sys/block/$other/dev)
         $inside floodwall apply --yes $limits > /dev/null
         $inside systemctl set-property --runtime flood \"IOWriteBandwidthMax=/dev/$other 7000000\"
         echo == second; $inside floodwall rollback 2>&1; echo status $?
         show; cat /sys/block/$other/dev
         echo == refused
         $inside floodwall apply --yes unit:flood:$disk.io.max=wbps=5MB 2>&1; echo status $?
         echo == end",
    )?;
    let is = |mark: &str, words: &[&str]| {
        in_order(part(&told, mark), words).map_err(|e| format!("{mark}: {e}\n{told}"))
    };
    // The kernel keeps the line of a device that systemd does not know any more.
    is("reverted", &["MemoryHigh=629145600", "plain io.max: ", "wbps=4000000"])?;
    is("rollback", &["status 0\n", "as before\n"])?;
    is("second", &["status 0\n", "IOWriteBandwidthMax=/dev/", " 7000000\n"])?;
    let second = part(&told, "second");
    let number = second.lines().last().unwrap_or_default();
    is(
        "second",
        &[&format!("flood io.max: {number} rbps=max wbps=7000000 riops=max wiops=max\n")],
    )?;
    equal("limits of the first device are left", second.contains("wbps=5000000"), false)?;
    is("refused", &["in one drop-in", "status 2\n"])
}

fn kept(_: Who) -> Result<(), String> {
    let told = prints(
        "high() { echo $1 $(cat /sys/fs/cgroup/systemd/system.slice/plain.service/memory.high); }
         show > /run/before
         $inside floodwall persist --yes unit:plain:memory.high=500MiB unit:plain:ioprio=be/7 2>&1
         high persisted; $inside systemctl daemon-reload; high reloaded
         $inside systemctl show -p IOSchedulingClass,IOSchedulingPriority plain
         $inside floodwall apply --yes unit:plain:memory.high=400MiB > /dev/null
         $inside systemctl daemon-reload; high applied
         $inside floodwall rollback > /dev/null; high back
         $inside floodwall unpersist --yes 2>&1; $inside systemctl daemon-reload
         show > /run/after; diff /run/before /run/after && echo as before
         $inside sh -c 'dir=/etc/systemd/system/service.d && mkdir -p $dir && cd $dir &&
             printf \"[Service]\\nIOSchedulingClass = idle\\n\" > 60-idle.conf &&
             systemctl daemon-reload'
         $inside floodwall persist --yes unit:plain:ioprio=be/7 2>&1; echo status $?",
    )?;
    in_order(
        &told,
        &[
            "/etc/systemd/system/plain.service.d/49-floodwall.conf written",
            "persisted 629145600\nreloaded 524288000\n",
            "IOSchedulingClass=2\nIOSchedulingPriority=7\n",
            "applied 419430400\nback 524288000\n",
            "/etc/systemd/system/plain.service.d/49-floodwall.conf removed",
            "as before\n",
            "/service.d/60-idle.conf sets IOSchedulingClass=, and is read later",
            "status 2\n",
        ],
    )
}

/// Kills are tied to what the kernel shows, not to a clock: a guest may be slow.
fn killed(_: Who) -> Result<(), String> {
    let told = prints(
        "show > /run/before
         # Starts no process, which would take as long as a step of the command.
         state() {
             echo /var/lib/floodwall/journal/*
             cd /sys/fs/cgroup/systemd/system.slice
             for file in plain.service/memory.high flood.service/memory.high flood.service/io.max
             do
                 while read line; do echo $line; done < $file
             done
         }
         killed_after() {
             steps=$1; shift; last=$(state)
             $inside floodwall \"$@\" > /dev/null 2>&1 & nsenter=$!
             while [ $steps -gt 0 ] && pgrep -P $nsenter > /dev/null; do
                 now=$(state)
                 [ \"$now\" = \"$last\" ] || { steps=$((steps - 1)); last=$now; }
             done
             pkill -KILL -P $nsenter; wait $nsenter
             [ $? -ne 137 ] || echo killed $1
         }
         for steps in '1 1' '2 1' '3 1' '4 2'; do
             set -- $steps
             killed_after $1 apply --yes $limits
             show > /run/killed; cmp -s /run/before /run/killed && echo as before || echo changed
             killed_after $2 rollback
             $inside floodwall rollback > /run/told 2>&1 || cat /run/told
             show > /run/after; diff /run/before /run/after && echo restored
         done",
    )?;
    let count = |line: &str| told.lines().filter(|l| *l == line).count();
    equal("restored", count("restored"), 4).map_err(|e| format!("{e}: {told}"))?;
    // The last step of a command may be over before the kill.
    for said in ["killed apply", "killed rollback", "changed"] {
        if count(said) < 2 {
            return Err(format!("{said}: {} of 4: {told}", count(said)));
        }
    }
    Ok(())
}

fn silent(_: Who) -> Result<(), String> {
    let told = prints(
        "kill -STOP $first
         $inside floodwall apply --yes $limits 2>&1; echo status $?
         kill -CONT $first
         $inside floodwall apply --yes $limits > /dev/null 2>&1; echo status $?",
    )?;
    in_order(
        &told,
        &["can't tell whether systemd manages", "did not answer", "status 2\n", "status 0\n"],
    )
}
