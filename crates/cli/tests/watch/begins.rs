//! A call that began before the recorder is in its first frames.

use std::process::Command;

use floodwall_model::frame::{Frame, Process};
use floodwall_record::Recording;
use floodwall_testing::process::{everything, output, text};
use floodwall_testing::{FUSE, LOOP, ROOT, ensure, said};

use crate::{FLOODWALL, Test};

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a process that hangs in fsync since before is in the first frames with its call",
    needs: &[ROOT, FUSE, LOOP, "mkfs.ext4", "dd", "timeout"],
    body: hangs,
}];

/// A stick takes seconds for what the page cache takes at once. The recorder begins while dd is in
/// its only fsync, and ends before that has returned.
const SCRIPT: &str = "
    dd if=/dev/zero of=hangs bs=1M count=100 conv=fsync 2>/dev/null &
    until [ \"$(stat -c %s hangs 2>/dev/null)\" = $((100 << 20)) ]; do sleep 0.05; done
    sleep 0.2
    timeout --preserve-status 3 \"$0\" record --interval 1s --dir \"$1\"
    wait $!
    echo \"${FLOODWALL_LAB_DEVICE#/dev/}\"";

fn hangs() -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(said("a directory"))?;
    let name = format!("watch-{}", std::process::id());
    let mut lab = Command::new(FLOODWALL);
    lab.args(["lab", "run", "usb-stick", "--fs", "ext4", "--size", "512MiB", "--name", &name])
        .args(["--", "sh", "-ec", SCRIPT, FLOODWALL])
        .arg(directory.path());
    let output = output(&mut lab)?;
    ensure(output.status.success(), || everything(&output))?;
    let disk = text(&output.stdout).trim().to_owned();
    let mut recording = Recording::open(directory.path()).map_err(said("the recording"))?;
    let frames: Vec<Frame> = recording.between(0, u64::MAX).filter_map(Result::ok).collect();
    let is_it = |process: &&Process| process.name == "dd" && process.disk.as_ref() == Some(&disk);
    let told: Vec<_> = frames
        .iter()
        .take(2)
        .map(|frame| {
            let since_ms = frame.at_unix_ms.saturating_sub(frames[0].began_unix_ms());
            (since_ms, frame.processes.iter().find(is_it))
        })
        .collect();
    let hangs = |(since_ms, dd): &(u64, Option<&Process>)| {
        dd.is_some_and(|dd| {
            // It counts from the recorder's beginning.
            let is_from_then = since_ms.abs_diff(dd.oldest_us / 1000) < 300;
            dd.waiting == 1 && is_from_then && dd.slowest_call() == Some("fsync")
        })
    };
    ensure(told.len() == 2 && told.iter().all(hangs), || {
        format!("{disk}: {told:?}\n{}", everything(&output))
    })
}
