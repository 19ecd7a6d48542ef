//! Other managers are looked for that set the knobs which the catalogue has.

use floodwall_host::managers::is_known;
use floodwall_knobs::catalogue::{Scope, knobs};

#[test]
fn every_knob_of_the_machine_and_of_disks_is_looked_for() {
    for knob in knobs() {
        let looked_for = !matches!(
            knob.scope,
            Scope::Cgroup
                | Scope::CgroupValue
                | Scope::RootCgroup
                | Scope::Threads
                | Scope::Journal
        );
        assert_eq!(is_known(knob.name), looked_for, "{}", knob.name);
    }
}
