//! Floodwall's own commands inside a guest, as far as its kernel lets them.

use crate::bed::{Bed, Who, equal, in_order, run, said, text};
use crate::place::refuses;
use crate::{Once, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "settings are applied and put back",
        who: Once::Both,
        needs: &["mkfs.ext4"],
        body: settings,
    },
    Test {
        name: "bench and compare measure",
        who: Once::Caller,
        needs: &["mkfs.ext4"],
        body: measures,
    },
    Test { name: "kernels are compared", who: Once::Both, needs: &["mkfs.ext4"], body: kernels },
    Test {
        name: "kernels that can't be compared are refused",
        who: Once::Caller,
        needs: &["mkfs.ext4"],
        body: no_kernels,
    },
    Test {
        name: "what the kernel lacks is named",
        who: Once::Caller,
        needs: &["mkfs.ext4"],
        body: lacks,
    },
];

/// What the guest's script prints has to contain these words, in this order.
fn tells(options: &[&str], who: Who, script: &str, words: &[&str]) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let output = run(&mut bed.guest(options, script), &[])?;
    in_order(&said(&output.stdout), words).map_err(|e| format!("{e}{}", said(&output.stderr)))?;
    bed.nothing_is_left()
}

fn settings(who: Who) -> Result<(), String> {
    let script = "device=${FLOODWALL_LAB_DEVICE#/dev/}; at=/sys/block/$device/queue/scheduler
                  floodwall apply --yes vm.dirty_bytes=16MiB $device.scheduler=bfq >/dev/null; \
                  echo status $?
                  cat /proc/sys/vm/dirty_bytes $at
                  floodwall rollback >/dev/null; echo status $?
                  cat /proc/sys/vm/dirty_ratio $at";
    tells(&[], who, script, &["status 0\n16777216\n", "[bfq]", "status 0\n20\n[none]"])
}

fn measures(who: Who) -> Result<(), String> {
    let script = "run='--rounds 2 --measure 1s --no-burst --size 200MiB'
                  floodwall bench $run . 2>&1; echo bench $?
                  floodwall compare $run --set vm.dirty_bytes=16MiB . 2>&1; echo compare $?
                  cat /proc/sys/vm/dirty_ratio";
    let bed = Bed::new(who)?;
    let told = bed.prints(&[], script)?;
    // Measured: conclusive or not.
    let ended =
        |name: &str| [0, 3].iter().any(|status| told.contains(&format!("{name} {status}\n")));
    let words = ["Linux 6.", "1 CPU", "victim_kept", "flood_kept", "vm.dirty_bytes"];
    match words.iter().find(|word| !told.contains(**word)) {
        None if ended("bench") && ended("compare") && told.ends_with("\n20\n") => Ok(()),
        _ => Err(told),
    }
}

/// Wrong usage and missing kernels are told before a guest boots.
fn no_kernels(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let refused = |options: &[&str], status, words: &[&str]| {
        let mut command = bed.command(&[], &bed.program());
        refuses(command.arg("compare").args(options), status, words)
    };
    let uml = ["--kernel", "uml"];
    let device = ["--device", "null"];
    refused(&[uml, device].concat(), 2, &["give --kernel twice or more"])?;
    refused(&[uml, uml, device].concat(), 2, &["two contenders are called 'uml'", "NAME=uml"])?;
    refused(&[uml, uml].concat(), 2, &["--device"])?;
    refused(&[uml, device, ["--set", "default"]].concat(), 2, &["--set", "can't go with"])?;
    refused(
        &[uml, ["--kernel", "/bin/true"], device].concat(),
        2,
        &["/bin/true", "no user-mode kernel"],
    )?;
    refused(&[uml, uml, ["--device", "hdd-720"]].concat(), 2, &["hdd-7200"])?;
    // What the guest refuses has the guest's exit status.
    let wrong = [
        ["--kernel", "a=uml"],
        ["--kernel", "b=uml"],
        device,
        ["--ram", "640MiB"],
        ["--scheduler", "cfq"],
    ];
    refused(&wrong.concat(), 2, &["no elevator 'cfq'"])?;
    bed.nothing_is_left()
}

/// One kernel under two names: four guests, one after the other.
fn kernels(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let out = bed.memory().join("result.json");
    let mut command = bed.command(&[], &bed.program());
    command.args([
        "compare", "--kernel", "a=uml", "--kernel", "b=uml", "--device", "null", "--ram", "640MiB",
    ]);
    command
        .args(["--rounds", "2", "--measure", "1s", "--flood", "none", "--size", "128MiB", "--out"])
        .arg(&out);
    let output = run(&mut command, &[])?;
    let told = format!("{}{}", said(&output.stdout), said(&output.stderr));
    if !matches!(output.status.code(), Some(0 | 3))
        || !told.contains("b against a")
        || told.contains("sizes differ")
    {
        return Err(format!("{}: {told}", output.status));
    }
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&out).map_err(text)?).map_err(text)?;
    let version =
        std::process::Command::new("linux.uml").arg("--version").output().map_err(text)?;
    let version = said(&version.stdout).trim().to_owned();
    equal("the kernel", result["host"]["kernel"].as_str(), Some(&*version))?;
    equal("the device", result["device"]["name"].as_str(), Some("null"))?;
    for contender in result["contenders"].as_array().ok_or("no contenders")? {
        equal("its release", contender["setting"]["kernel.release"].as_str(), Some(&*version))?;
        equal("its trials", contender["trials"].as_array().map(Vec::len), Some(2))?;
    }
    // The page says how to do it again.
    let page = bed.memory().join("result.html");
    run(bed.command(&[], &bed.program()).arg("report").arg(&out).arg("--out").arg(&page), &[])?;
    let html = std::fs::read_to_string(&page).map_err(text)?;
    for words in ["--kernel a=/", "--kernel b=/", "--device null --fs ext4", "--ram 671088640B"] {
        if !html.contains(words) {
            return Err(format!("'{words}' is not on the page"));
        }
    }
    for file in [out, page] {
        std::fs::remove_file(&file).map_err(text)?;
    }
    bed.nothing_is_left()
}

fn lacks(who: Who) -> Result<(), String> {
    let script = "floodwall status; echo status $?
                  floodwall probe --count 1 --interval 100ms 2>&1; echo probe $?
                  floodwall guard --device ${FLOODWALL_LAB_DEVICE#/dev/} 2>&1; echo guard $?";
    let words = [
        "cgroup v2",
        "/proc/pressure/io does not exist",
        "status 0\n",
        "counters in /proc",
        "probe 0\n",
        "this kernel is built without tracing",
        "guard 4\n",
    ];
    tells(&[], who, script, &words)
}
