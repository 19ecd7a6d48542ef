//! Settings of the administrator's that are good before the guard begins.

use floodwall_model::Setting;

use crate::{Run, options, with};

const COPY: &str = "seq,size=32GiB,name=copy";
const DATABASE: &str = "commit,threads=10,block=16KiB,size=1GiB,name=db";

fn limited() -> Setting {
    [("vm.dirty_bytes", "15000000"), ("vm.dirty_background_bytes", "5000000")]
        .map(|(knob, value)| (knob.to_owned(), value.to_owned()))
        .into_iter()
        .collect()
}

fn encounter(device: &str, victim: &str, guarded: bool) -> Run {
    let mut run = Run::under(&limited(), vec![with(options(device), &[victim], &[COPY])], guarded);
    run.start(1, "db");
    run.start(11, "copy");
    run.until(71);
    run
}

#[test]
fn a_good_limit_is_not_made_worse() {
    for device in ["raid10-bbwc-2010", "hdd-7200", "sata-ssd", "nvme-consumer", "cloud-gp3"] {
        for rate in ["", ",rate=20"] {
            let victim = format!("{DATABASE}{rate}");
            let (guarded, own) =
                (encounter(device, &victim, true), encounter(device, &victim, false));
            // The first seconds, in which the guard knows least, and all later ones.
            for (from, to) in [(12, 22), (22, 71)] {
                let (with, without) = (guarded.iops(from, to), own.iops(from, to));
                assert!(
                    with >= 0.95 * without,
                    "{device}{rate} {from}-{to} s: {with:.0} a second, {without:.0} without"
                );
            }
        }
    }
}
