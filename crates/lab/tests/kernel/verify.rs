//! Written data reads back, under load, whatever the model does; fio's checksums prove it.

use floodwall_testing::process::run;
use floodwall_testing::{ensure, said};

use crate::Test;
use crate::runner::{GO_ON, Runner, options};

pub(crate) const TESTS: &[Test] = &[Test {
    name: "fio verifies what it wrote on several devices",
    needs: &["fio"],
    seconds: 120,
    body: verified,
}];

/// Presets, the bytes written to each (slow devices less), and the block size of the device.
const DEVICES: &[(&str, &str, u32)] = &[
    ("null", "192M", 512),
    ("null", "192M", 4096),
    ("nvme-consumer", "96M", 512),
    ("sata-ssd", "64M", 512),
    ("hdd-7200", "6M", 512),
    ("raid10-bbwc-2010", "24M", 512),
    ("usb-stick", "4M", 512),
];

fn verified() -> Result<(), String> {
    for (preset, amount, block_size) in DEVICES {
        let runner = Runner::new()?;
        let mut options = options(preset, 128);
        options.block_size = *block_size;
        let up = runner.lab.up(&options, &GO_ON).map_err(said("up"))?;
        let device = up.device.ok_or("no device")?;
        let smallest = format!("--bsrange={block_size}-128k");
        // Two jobs that share nothing, deep queues, odd sizes, trims between, and each block read
        // back soon after it was written and again at the end.
        let text = run(
            "timeout",
            &[
                "60",
                "fio",
                "--name=verify",
                &format!("--filename={}", device.display()),
                "--direct=1",
                "--ioengine=libaio",
                "--rw=randwrite",
                &smallest,
                "--iodepth=16",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--verify_backlog=64",
                "--verify_state_save=0",
                "--do_verify=1",
                &format!("--io_size={amount}"),
                "--size=60M",
                "--numjobs=2",
                "--offset_increment=64M",
                "--fsync=32",
                "--group_reporting",
                "--randrepeat=0",
            ],
        )
        .map_err(|e| format!("{preset}: {e}"))?;
        ensure(text.contains("err= 0"), || format!("{preset}: {text}"))?;
        let stats = runner.lab.stats(preset).map_err(said("stats"))?;
        ensure(stats.device.reads > 0 && stats.device.errors == 0, || {
            format!("{preset}: {stats:?}")
        })?;
    }
    Ok(())
}
