//! Files that a process has mapped shared and writable, from /proc/PID/maps. Their descriptors may
//! be closed.

/// The paths and inode numbers of such files.
pub(super) fn shared_files(maps: &str) -> Vec<(&str, u64)> {
    let mut files: Vec<(&str, u64)> = maps.lines().filter_map(shared_file).collect();
    files.dedup();
    files
}

/// `address perms offset dev inode path` (proc_pid_maps(5)).
fn shared_file(line: &str) -> Option<(&str, u64)> {
    let mut words = line.splitn(6, ' ');
    let permissions = words.nth(1)?.as_bytes();
    if permissions.get(1) != Some(&b'w') || permissions.get(3) != Some(&b's') {
        return None;
    }
    let inode: u64 = words.nth(2)?.parse().ok()?;
    let path = words.next()?.trim_start();
    (inode > 0 && path.starts_with('/')).then_some((path, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_writable_files_count() {
        let maps = "\
55d0c9a00000-55d0c9a02000 r--p 00000000 08:01 11 /usr/bin/x
7f0000000000-7f0000001000 rw-s 00000000 08:01 12                         /srv/a b.db
7f0000001000-7f0000002000 rw-s 00001000 08:01 12                         /srv/a b.db
7f0000002000-7f0000003000 rw-p 00000000 08:01 13                         /srv/private
7f0000003000-7f0000004000 r--s 00000000 08:01 14                         /srv/read
7f0000004000-7f0000005000 rw-s 00000000 00:05 1025                       /dev/zero (deleted)
7f0000005000-7f0000006000 rw-s 00000000 00:00 0
7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0                          [stack]
";
        assert_eq!(shared_files(maps), [("/srv/a b.db", 12), ("/dev/zero (deleted)", 1025)]);
        assert!(shared_files("rw-s\n\n x rw-s").is_empty());
    }
}
