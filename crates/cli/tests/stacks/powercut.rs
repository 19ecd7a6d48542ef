//! Power cuts under real filesystems, with fio as the judge of the surviving data.
//!
//! ```text
//! fio writes, acknowledged ─▶ its list of them (outside the device) ─▶ powercut ─▶ powerup
//!                          ─▶ fio reads each again
//! ```
//!
//! With `O_DSYNC` every acknowledged write must be there. Without it the device's volatile cache
//! loses some, and fio must say so: that shows that the test can fail.

use crate::Test;
use crate::bed::in_guest;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "ext4 has what it acknowledged before a power cut",
        needs: &["fio", "mkfs.ext4"],
        body: || cut("ext4"),
    },
    Test {
        name: "xfs has what it acknowledged before a power cut",
        needs: &["fio", "mkfs.xfs"],
        body: || cut("xfs"),
    },
    Test {
        name: "btrfs has what it acknowledged before a power cut",
        needs: &["fio", "mkfs.btrfs"],
        body: || cut("btrfs"),
    },
];

/// Writes, cuts the power beside a flood, and reads back. `$1` is the value of fio's `sync`. The
/// power is cut once the field `$2` of the device's counters (/sys/block/DEVICE/stat) has grown by
/// `$3`.
const CUT: &str = r#"
cut() {
    name=disk-$1-${try:-0}; at=/run/$name; own=/tmp/$name
    mkdir -p $at $own
    floodwall lab up sata-ssd --name $name --size 1GiB --memory 512MiB --fs FS \
        --mount $at >&2 2>$own/up
    stat=/sys/block/$(floodwall lab list | sed -n "s|^ *$name .*/dev/\(loop[0-9]*\),.*|\1|p")/stat
    job="--name=v --filename=$at/f --size=64m --rw=randwrite --bs=4k --verify=crc32c --sync=$1
        --rate_iops=1500 --direct=1 --ioengine=psync --randrepeat=1 --aux-path=$own"
    dd if=/dev/zero of=$at/f bs=1M count=64 conv=fsync 2>$own/dd
    [ $1 = none ] || dd if=/dev/zero of=$at/flood bs=1M count=100 2>$own/flood &
    flood=$!
    done=$(($(awk "{ print \$$2 }" $stat) + $3))
    (until [ $(awk "{ print \$$2 }" $stat) -ge $done ]; do sleep 0.05; done; touch $own/now) &
    fio $job --do_verify=0 --verify_state_save=1 --trigger-file=$own/now \
        --trigger="floodwall lab powercut $name > $own/cut" --output=$own/written
    # It ends when its writes fail.
    wait $flood || true
    floodwall lab powerup $name >&2
    status=0
    fio $job --verify_state_load=1 --verify_only --output=$own/read 2>$own/verify || status=$?
    echo "$1: $(cat $own/cut)"
    bad=$(grep -c 'bad magic\|crc32c: verify failed' $own/verify || true)
    echo "$1: verify ended with $status, $bad bad blocks told"
    echo "$1:$(grep -o 'total=[0-9]*' $own/read) read"
    floodwall lab down $name >&2
}
cut dsync 16 60
# A flush of the filesystem's own journal just before the cut leaves nothing to lose: several tries.
for try in 1 2 3 4 5; do
    cut none 5 600
    [ $status = 0 ] || break
done
"#;

fn cut(filesystem: &str) {
    let said = in_guest(&CUT.replace("FS", filesystem));
    let line = |starts: &str, has: &str| {
        let found = said.lines().find(|line| line.starts_with(starts) && line.contains(has));
        found.unwrap_or_else(|| panic!("no '{has}' for '{starts}' in:\n{said}")).to_owned()
    };
    let read = |line: &str| -> u64 {
        let number = line.split("total=").nth(1).unwrap().split(' ').next().unwrap();
        number.parse().unwrap()
    };
    line("dsync:", "has no power");
    line("dsync:", "verify ended with 0, 0 bad blocks");
    // fio reads what it wrote, so nothing written would be nothing to lose.
    let kept = read(&line("dsync:", " read"));
    assert!(kept >= 20, "too little was written to tell anything:\n{said}");

    line("none:", "of unflushed writes lost");
    line("none:", "verify ended with 1, 1 bad blocks");
}
