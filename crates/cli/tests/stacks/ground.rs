//! What the stacks stand on: modules when the kernel asks for them, and a network with itself.

use crate::Test;
use crate::bed::in_guest;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "the kernel loads the modules that it asks for",
        needs: &["dmsetup"],
        body: the_kernel_loads_the_modules_that_it_asks_for,
    },
    Test { name: "the loopback device is up", needs: &[], body: the_loopback_device_is_up },
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
    let said = in_guest("cat /sys/class/net/lo/flags; grep -A1 -m1 127.0.0.1 /proc/net/fib_trie | tail -1");
    let words: Vec<&str> = said.split_whitespace().collect();
    // IFF_UP | IFF_LOOPBACK, and an address that is the guest's own.
    assert_eq!(words, ["0x9", "/32", "host", "LOCAL"]);
}
