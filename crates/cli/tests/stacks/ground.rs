//! What the stacks stand on: modules when the kernel asks for them, and a network with itself.

use crate::Test;
use crate::bed::{in_guest, part};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "the kernel loads the modules that it asks for",
        needs: &["dmsetup"],
        body: the_kernel_loads_the_modules_that_it_asks_for,
    },
    Test { name: "the loopback device is up", needs: &[], body: the_loopback_device_is_up },
    Test {
        name: "what a kernel without tracepoints can't show is said",
        needs: &[],
        body: what_a_kernel_without_tracepoints_can_not_show_is_said,
    },
];

fn the_kernel_loads_the_modules_that_it_asks_for() {
    let said = in_guest(
        r#"
        has() { grep -q "^$1 " /proc/modules && echo "$1 loaded" || echo "$1 absent"; }
        has dm_mod; has dm_zero; has nfsd
        mount -t nfsd nfsd /proc/fs/nfsd
        dmsetup create slow --table "0 2048 zero"
        has dm_mod; has dm_zero; has nfsd
        "#,
    );
    let absent = "dm_mod absent\ndm_zero absent\nnfsd absent\n";
    assert_eq!(said, format!("{absent}dm_mod loaded\ndm_zero loaded\nnfsd loaded\n"));
}

fn the_loopback_device_is_up() {
    let said = in_guest(
        "cat /sys/class/net/lo/flags; grep -A1 -m1 127.0.0.1 /proc/net/fib_trie | tail -1",
    );
    let words: Vec<&str> = said.split_whitespace().collect();
    // IFF_UP | IFF_LOOPBACK, and an address that is the guest's own.
    assert_eq!(words, ["0x9", "/32", "host", "LOCAL"]);
}

fn what_a_kernel_without_tracepoints_can_not_show_is_said() {
    let said = in_guest(
        r#"
        tell() { echo "=== $1"; shift; "$@" 2>&1 || echo "status $?"; }
        tell guard floodwall guard
        tell perf floodwall probe --source perf
        tell auto floodwall probe --interval 100ms --count 1
        "#,
    );
    let guard = part(&said, "guard");
    assert!(guard.contains("nothing to steer by") && guard.contains("CONFIG_FTRACE"), "{guard}");
    // The guard has no such source, and `auto` has gone to it by itself.
    assert!(!guard.contains("--source proc") && guard.ends_with("status 4\n"), "{guard}");
    let perf = part(&said, "perf");
    assert!(perf.contains("--source proc works without") && perf.ends_with("status 4\n"), "{perf}");
    let auto = part(&said, "auto");
    assert!(
        auto.contains("through the counters in /proc") && !auto.contains("--source proc"),
        "{auto}"
    );
    assert!(!auto.contains("status"), "{auto}");
}
