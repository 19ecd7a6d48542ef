//! A pace inside a pace: the outer one paces both.

use std::ffi::OsStr;

use floodwall_host::SysRoot;
use floodwall_host::task::read_stat;

/// The environment variable that holds the number of the process that paces a command.
pub const OUTER: &str = "FLOODWALL_PACE";

/// Generations that are followed, at most. A captured tree may hold a circle.
const MOST: u32 = 10_000;

/// Whether the process of an outer pace is alive and an ancestor of `own`. Processes that outlive
/// a pace still have its variable.
pub(super) fn is_nested(root: &SysRoot, outer: Option<&OsStr>, own: u32) -> bool {
    let Some(outer) = outer.and_then(OsStr::to_str).and_then(|text| text.parse::<u32>().ok())
    else {
        return false;
    };
    let mut buffer = Vec::new();
    let mut pid = own;
    for _ in 0..MOST {
        match read_stat(root, pid, &mut buffer).map(|stat| stat.parent) {
            Some(parent) if parent == outer => return outer > 0,
            Some(parent) if parent > 0 => pid = parent,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use floodwall_testing::tree::put;

    use super::*;

    #[test]
    fn an_outer_pace_is_an_ancestor() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, parent) in [(9, 8), (8, 5), (5, 1), (1, 0), (7, 7)] {
            let stat = format!("{pid} (a) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n");
            put(&dir.path().join(format!("proc/{pid}/stat")), &stat);
        }
        let root = SysRoot::new(dir.path()).unwrap();
        let nested = |outer: &str, own| is_nested(&root, Some(OsStr::new(outer)), own);
        assert!(nested("5", 9) && nested("8", 9) && nested("1", 9));
        assert!(!nested("6", 9) && !nested("9", 9) && !nested("0", 9) && !nested("x", 9));
        assert!(!nested("6", 7), "a circle");
        assert!(!is_nested(&root, None, 9));
    }
}
