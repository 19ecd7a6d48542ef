//! Software RAID and the device mapper over lab devices: what Floodwall says of a stack, held
//! against the kernel's own files.

use serde_json::Value;

use crate::Test;
use crate::bed::{in_guest, part};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "status knows a RAID and its members as the kernel does",
        needs: &["mdadm", "mkfs.ext4"],
        body: status_knows_a_raid_and_its_members_as_the_kernel_does,
    },
    Test {
        name: "a flood on a RAID is put down to its devices",
        needs: &["mdadm", "mkfs.ext4"],
        body: a_flood_on_a_raid_is_put_down_to_its_devices,
    },
    Test {
        name: "status follows the device mapper down to the disks",
        needs: &["dmsetup", "mkfs.ext4"],
        body: status_follows_the_device_mapper_down_to_the_disks,
    },
    Test {
        name: "size measures through a stack and leaves nothing",
        needs: &["mdadm", "dmsetup", "mkfs.ext4"],
        body: size_measures_through_a_stack_and_leaves_nothing,
    },
];

/// Shell functions. `up NAME…` makes lab devices of `$size`, whose contents take up to `$memory`.
/// `dev NAME` prints a device.
/// `raid N LEVEL DEVICE…` makes /dev/mdN. `map NAME TABLE` makes a device of the device mapper.
/// `put DEVICE DIR` makes an ext4 and mounts it. `part NAME` begins a part of the output.
const STACKS: &str = r#"
cd /
size=512MiB memory=200MiB
up() { for name; do
    floodwall lab up sata-ssd --name $name --size $size --memory $memory >&2; done; }
dev() { floodwall lab list | awk -v name=$1 '$1 == name { sub(",", "", $3); print $3 }'; }
raid() { to=/dev/md$1 level=$2; shift 2
    mdadm --create $to --run --level=$level --raid-devices=$# --metadata=1.2 --assume-clean \
        "$@" >&2; }
map() { dmsetup create $1 --table "$2" && dmsetup mknodes; }
sectors() { blockdev --getsz $1; }
put() { mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard $1 &&
    mkdir -p $2 && mount $1 $2; }
part() { echo "=== $1"; }
"#;

fn stacks(script: &str) -> String {
    in_guest(&format!("{STACKS}{script}"))
}

/// A device in the JSON of `status`.
fn device<'a>(status: &'a Value, name: &str) -> &'a Value {
    let devices = status["devices"].as_array().unwrap();
    devices.iter().find(|d| d["name"] == name).unwrap_or_else(|| panic!("no {name} in {status:#}"))
}

fn leaves(device: &Value) -> Vec<&str> {
    device["leaves"].as_array().unwrap().iter().map(|leaf| leaf["name"].as_str().unwrap()).collect()
}

fn status_of(said: &str) -> Value {
    serde_json::from_str(part(said, "status")).unwrap()
}

/// `NAME : active LEVEL MEMBER[N] …` of /proc/mdstat: level and members, sorted.
fn mdstat<'a>(text: &'a str, name: &str) -> (&'a str, Vec<&'a str>) {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let mut words = line.split_whitespace().skip(3);
    let level = words.next().unwrap();
    let mut members: Vec<&str> = words.map(|member| member.split('[').next().unwrap()).collect();
    members.sort_unstable();
    (level, members)
}

fn status_knows_a_raid_and_its_members_as_the_kernel_does() {
    let said = stacks(
        r#"
        up a b c d e f
        raid 1 1 $(dev a) $(dev b)
        raid 10 10 $(dev c) $(dev d) $(dev e) $(dev f)
        put /dev/md1 /run/mirror; put /dev/md10 /run/stripes
        part mdstat; cat /proc/mdstat
        part sizes; for md in md1 md10; do echo $md $(($(cat /sys/block/$md/size) * 512)); done
        part status; floodwall status --seconds 0.2 --json
        "#,
    );
    let (status, kernel) = (status_of(&said), part(&said, "mdstat"));
    for (name, level, at) in [("md1", "raid1", "/run/mirror"), ("md10", "raid10", "/run/stripes")] {
        let array = device(&status, name);
        let (kernels_level, members) = mdstat(kernel, &format!("{name} "));
        assert_eq!((array["kind"].as_str(), kernels_level), (Some(level), level));
        assert_eq!(leaves(array), members, "{kernel}");
        assert_eq!(array["mounts"][0]["mountpoint"], at);
        let size = format!("{name} {}", array["size_bytes"]);
        assert!(part(&said, "sizes").lines().any(|line| line == size), "{size}\n{said}");
        assert_eq!(array["path"], format!("{name} → {}", members.join(" + ")));
        // An array has no elevator, and no writeback throttling: its members have.
        assert!(array["queue"]["wbt_lat_us"]["absent"].is_string(), "{array:#}");
        assert!(array["leaves"][0]["queue"]["wbt_lat_us"].is_u64(), "{array:#}");
    }
    // No mount helps a kernel that was built without debugfs.
    let findings = status["findings"].as_array().unwrap();
    let blind = findings.iter().find(|finding| finding["id"] == "FW036").unwrap();
    assert!(blind["evidence"][0].as_str().unwrap().contains("CONFIG_DEBUG_FS"), "{blind:#}");
    assert!(!blind["remedy"].as_str().unwrap().contains("mount"), "{blind:#}");
}

fn a_flood_on_a_raid_is_put_down_to_its_devices() {
    let said = stacks(
        // One dd has to write for longer than a window: a process that ends within one is seen
        // only while it lives.
        r#"
        size=4GiB; up a b c d e f
        raid 1 1 $(dev a) $(dev b)
        raid 10 10 $(dev c) $(dev d) $(dev e) $(dev f)
        put /dev/md1 /run/mirror; put /dev/md10 /run/stripes
        floodwall apply --yes vm.dirty_bytes=16MiB vm.dirty_background_bytes=4MiB >&2
        for at in mirror stripes; do
            dd if=/dev/zero of=/run/$at/f bs=1M count=3500 2>/dev/null & flood=$!
            sleep 1
            part $at; floodwall status --seconds 4 --json
            part probe-$at; floodwall probe --interval 2s --count 1 --json
            kill $flood || true; wait $flood || true
            sync
        done
        "#,
    );
    for (at, name, idle, copies) in
        [("mirror", "md1", "md10", 2.0), ("stripes", "md10", "md1", 2.0)]
    {
        let status: Value = serde_json::from_str(part(&said, at)).unwrap();
        let wrote = |device: &Value| device["written_bytes_per_s"].as_f64().unwrap();
        let array = device(&status, name);
        let flood = wrote(array);
        assert!(flood > 1e6, "{name}: {flood} B/s beside a flood");
        assert!(wrote(device(&status, idle)) < flood / 20.0, "{idle} beside a flood on {name}");
        let members = array["leaves"].as_array().unwrap();
        let below: f64 = members.iter().map(wrote).sum();
        // Each byte is on two members; what is on the way at either end of the window bends the
        // sum.
        assert!(
            (below / flood / copies - 1.0).abs() < 0.25,
            "{name}: {flood} B/s, below it {below} B/s"
        );
        let share = below / members.len() as f64;
        for member in members {
            assert!(
                (wrote(member) / share - 1.0).abs() < 0.35,
                "{name}: a member of {share} B/s: {member:#}"
            );
        }
        assert!(
            status["writers"]["top"].as_array().unwrap().iter().any(|w| w["comm"] == "dd"),
            "{status:#}"
        );

        let seen: Value = serde_json::from_str(part(&said, &format!("probe-{at}"))).unwrap();
        let text = seen.to_string();
        let names: Vec<&str> =
            members.iter().map(|m| m["name"].as_str().unwrap()).chain([name]).collect();
        for name in names {
            assert!(text.contains(&format!("\"{name}\"")), "probe does not show {name}: {text}");
        }
    }
}

fn status_follows_the_device_mapper_down_to_the_disks() {
    let said = stacks(
        r#"
        up data meta plain
        data=$(dev data) plain=$(dev plain)
        map pool "0 $(sectors $data) thin-pool $(dev meta) $data 128 0"
        dmsetup message pool 0 "create_thin 0"
        map thin "0 524288 thin /dev/mapper/pool 0"
        key=$(printf '%0128d' 7)
        map secret "0 $(sectors $plain) crypt aes-xts-plain64 $key 0 $plain 0"
        map slow "0 $(sectors /dev/mapper/secret) delay /dev/mapper/secret 0 10"
        put /dev/mapper/thin /run/thin; put /dev/mapper/slow /run/slow
        part kernel
        for name in thin slow; do
            number=$(dmsetup info -c --noheadings -o major,minor $name)
            echo $name $(basename $(readlink -f /sys/dev/block/$number))
        done
        part devices; echo "data $data"; echo "meta $(dev meta)"; echo "plain $plain"
        part slaves
        for d in /sys/block/dm-*; do echo "$(cat $d/dm/name) $(ls $d/slaves | xargs)"; done
        part status; floodwall status --seconds 0.2 --json
        "#,
    );
    let status = status_of(&said);
    let second = |name: &str, word: &str| {
        let line = part(&said, name).lines().find(|line| line.starts_with(&format!("{word} ")));
        line.unwrap().split(' ').nth(1).unwrap().trim_start_matches("/dev/").to_owned()
    };
    let [data, meta, plain] = ["data", "meta", "plain"].map(|name| second("devices", name));
    let [thin, slow] = ["thin", "slow"].map(|name| second("kernel", name));
    let [pool, secret] = ["thin", "slow"].map(|name| second("slaves", name));

    let found = device(&status, &thin);
    let mut below = vec![data.as_str(), &meta];
    below.sort_unstable();
    assert_eq!(leaves(found), below);
    assert_eq!(found["kind"], "dm 'thin'");
    assert_eq!(found["path"], format!("{thin} → {pool} → {}", below.join(" + ")));

    let found = device(&status, &slow);
    assert_eq!(leaves(found), [plain.as_str()]);
    assert_eq!(found["kind"], "dm 'slow'");
    assert_eq!(found["path"], format!("{slow} → {secret} → {plain}"));
}

fn size_measures_through_a_stack_and_leaves_nothing() {
    let said = stacks(
        // The memory of a lab device holds all of this size: a device that is full fails a write.
        r#"
        size=256MiB memory=256MiB; up a b
        raid 1 1 $(dev a) $(dev b)
        map slow "0 $(sectors /dev/md1) delay /dev/md1 0 1"
        put /dev/mapper/slow /run/slow
        limits() { for knob in /proc/sys/vm/dirty_*; do echo ${knob##*/} $(cat $knob); done; }
        part before; limits; ls -A /run/slow
        part size; floodwall size --device /run/slow
        part after; limits; ls -A /run/slow
        "#,
    );
    let size = part(&said, "size");
    assert!(size.contains("# dm-0 drains "), "{size}");
    let bytes = |knob: &str| -> u64 {
        let line = size.lines().find_map(|line| line.strip_prefix(&format!("{knob} = ")));
        line.unwrap_or_else(|| panic!("no {knob} in {size}")).parse().unwrap()
    };
    // 250 ms and 1.5 s of the same rate.
    let times = bytes("vm.dirty_bytes") as f64 / bytes("vm.dirty_background_bytes") as f64;
    assert!((times - 6.0).abs() < 0.01, "{size}");
    assert_eq!(part(&said, "before"), part(&said, "after"));
}
