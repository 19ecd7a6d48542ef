//! Refuses dirty limits under which a userspace block server and the machine can wait for each
//! other for ever.
//!
//! ```text
//! entries that change a limit ─▶ host::servers: who serves, what can wait
//!                                        └─▶ limits now and then ─▶ refusal
//! ```
//!
//! docs/settings.md and the host crate's `servers` say why, and where the floor comes from. A plan
//! that brings the limits nearer to the floor from below is let through. Where there is no floor,
//! so is one that lowers neither the hard limit nor what is between the limits. Sizes are bytes.

use floodwall_host::servers::{self, Exposure, FuseLimits, fuse_limits, gap};
use floodwall_model::Bytes;
use floodwall_model::status::{Served, Server};

use crate::catalogue::Scope;
use crate::catalogue::cell::Cell;
use crate::catalogue::files::Files;
use crate::plan::dirty_limit::{Memory, background_limit, hard_limit};
use crate::plan::entry::Entry;
use crate::plan::error::PlanError;
use crate::plan::order::ppm;

/// The option of `floodwall apply` and others that makes such a change all the same.
pub const OVERRIDE: &str = "--allow-userspace-servers";

/// The limits that decide, in bytes.
struct Limits {
    hard: u64,
    background: u64,
}

impl Limits {
    fn read(entries: &[Entry], files: &dyn Files, memory: &Memory) -> Option<Self> {
        let hard = hard_limit(entries, files).and_then(|state| memory.limit_bytes(&state))?;
        let background =
            background_limit(entries, files).and_then(|state| memory.limit_bytes(&state))?;
        Some(Self { hard, background })
    }

    fn gap(&self) -> u64 {
        gap(self.hard, self.background)
    }

    /// Bytes left between the limits when everything that can wait does wait. A server can hang if
    /// none are left.
    fn room(&self, exposure: &Exposure) -> f64 {
        self.gap() as f64 - exposure.waiting_bytes(self.hard)
    }

    /// Whether these limits leave a server no less room than those in force now.
    fn are_no_worse(&self, now: &Self, exposure: &Exposure) -> bool {
        if exposure.boundless.is_some() {
            // The room is -∞ under any limits: it can't tell which are worse.
            self.hard >= now.hard && self.gap() >= now.gap()
        } else {
            self.room(exposure) >= now.room(exposure)
        }
    }
}

/// Checks entries as [`super::check`] does. Processes are looked at only if a limit is
/// changed that matters.
pub(crate) fn check(entries: &[Entry], files: &dyn Files) -> Result<(), PlanError> {
    let Some(root) = files.servers_root() else { return Ok(()) };
    let Some(cause) = entries.iter().find(|entry| matters(entry)) else { return Ok(()) };
    let servers = servers::read(root);
    let (Some(now), Some(then)) = (
        Exposure::of(&servers, fuse_limits),
        Exposure::of(&servers, |served| planned_limits(entries, served)),
    ) else {
        return Ok(());
    };
    let memory = Memory::read(files);
    let (Some(limits_now), Some(limits)) =
        (Limits::read(&[], files, &memory), Limits::read(entries, files, &memory))
    else {
        return Ok(());
    };
    if !then.can_hang(limits.hard, limits.background)
        || now == then && limits.are_no_worse(&limits_now, &then)
    {
        return Ok(());
    }
    Err(PlanError::WouldHang { label: cause.label(), why: why(&servers, &then, &limits) })
}

/// Whether an entry changes a limit that a server can hang at: the machine's, or a FUSE
/// filesystem's own, which bounds what can wait for its server. A strict limit of the device that a
/// server writes to stops it only until that device has written, which waits for no server.
fn matters(entry: &Entry) -> bool {
    let changes = match (&entry.old, &entry.new) {
        (Some(old), Some(new)) => !entry.cell.same(old, new),
        (_, new) => new.is_some(),
    };
    // A filesystem without a block device, or the kernel's name for that of a FUSE filesystem.
    let may_be_fuse = |number: &str| number.starts_with("0:") || number.contains("-fuse");
    let is_fuse = entry.target.device().is_some_and(|device| may_be_fuse(&device.number));
    changes
        && (matches!(entry.cell, Cell::Pair { .. }) || entry.knob.scope == Scope::Bdi && is_fuse)
}

/// A FUSE filesystem's limits once the entries are in force.
fn planned_limits(entries: &[Entry], served: &Served) -> FuseLimits {
    let mut limits = fuse_limits(served);
    let number = |entry: &Entry| entry.target.device().map(|device| device.number.clone());
    let its = entries.iter().filter(|entry| number(entry).as_ref() == served.fuse_bdi.value());
    // The machine's knobs have no number, and a block device no such backing device.
    for entry in its.filter(|_| served.fuse_bdi.value().is_some()) {
        let Some(new) = &entry.new else { continue };
        if entry.knob.name == "bdi.strict_limit" {
            limits.strict = new.value == "1";
        } else if entry.knob.name.starts_with("bdi.max_")
            && let Some(ppm) = ppm(new)
        {
            limits.share = ppm as f64 / 1e6;
        }
    }
    limits
}

fn why(servers: &[Server], exposure: &Exposure, limits: &Limits) -> String {
    let may_hang = servers.iter().filter(|server| server.may_hang());
    let all: Vec<String> = may_hang.map(servers::describe).collect();
    let between = Bytes(limits.gap());
    let waiting = match &exposure.boundless {
        Some(why) => {
            format!("more than the {between} between the limits can wait for it, because {why}")
        }
        None => format!(
            "up to {} can wait for it, and only {between} are between the limits",
            Bytes(exposure.waiting_bytes(limits.hard) as u64)
        ),
    };
    let instead = exposure.least_hard_bytes().map_or_else(String::new, |hard| {
        format!(
            "give at least vm.dirty_bytes={}MiB vm.dirty_background_bytes={}MiB, or ",
            hard >> 20,
            (hard >> 20) / 4
        )
    });
    format!(
        "{}; the machine can hang: {waiting}; {instead}let the server set PR_SET_IO_FLUSHER or \
         write with O_DIRECT, or add {OVERRIDE}",
        all.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use floodwall_host::SysRoot;

    use crate::plan::change::Change;
    use crate::plan::plan;
    use crate::testing::{Tree, files_of, machine};

    const PLAIN: &str = "4194304";
    const FLUSHER: &str = "5767168";

    /// A loop device of 160 MiB of requests on the file of a FUSE filesystem, whose server has
    /// these flags.
    fn served(flags: &str) -> Tree {
        let mut tree = machine();
        let mut put = |path: &str, text: &str| tree.insert(path.to_owned(), format!("{text}\n"));
        put(
            "/proc/self/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:40 / /fuse rw - fuse image rw",
        );
        put("/sys/class/bdi/0:40/strict_limit", "1");
        put("/sys/class/bdi/0:40/max_ratio", "1");
        put("/sys/class/bdi/0:40/max_ratio_fine", "10000");
        put("/sys/class/bdi/0:40/min_ratio_fine", "0");
        put("/sys/devices/loop0/dev", "7:0");
        put("/sys/devices/loop0/uevent", "DEVNAME=loop0");
        put("/sys/devices/loop0/loop/backing_file", "/fuse/disk");
        put("/sys/devices/loop0/queue/nr_requests", "128");
        put("/sys/devices/loop0/queue/max_sectors_kb", "1280");
        put("/sys/dev/block/7:0", "->../../devices/loop0");
        put("/proc/70/comm", "serve");
        put("/proc/70/fd/3", "->/dev/fuse");
        put("/proc/70/fdinfo/3", "flags:\t02100002\nfuse_connection:\t40");
        put("/proc/70/fd/4", "->/srv/disk.img");
        put("/proc/70/fdinfo/4", "flags:\t0100002\nmnt_id:\t22");
        put("/proc/70/task/70/stat", &format!("70 (serve) S 1 7 7 0 -1 {flags} 0 0"));
        tree
    }

    fn planned(tree: &Tree, texts: &[&str]) -> Result<(), String> {
        let (dir, files) = files_of(tree);
        let root = SysRoot::new(dir.path()).unwrap();
        let changes: Vec<Change> =
            texts.iter().map(|t| Change::parse(&root, None, t).unwrap()).collect();
        plan(&changes, &files).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_limit_that_can_hang_a_server_is_refused_with_who_why_and_what_to_do() {
        insta::assert_snapshot!(planned(&served(PLAIN), &["vm.dirty_bytes=15MB"]).unwrap_err(), @"\
            vm.dirty_bytes is refused: loop0 and /fuse: served by pid 70 (serve), which has \
            /srv/disk.img open for buffered writes without PR_SET_IO_FLUSHER; the machine can \
            hang: up to 166 MiB can wait for it, and only 7326 KiB are between the limits; give at \
            least vm.dirty_bytes=267MiB vm.dirty_background_bytes=66MiB, or let the server set \
            PR_SET_IO_FLUSHER or write with O_DIRECT, or add --allow-userspace-servers");
    }

    #[test]
    fn a_limit_above_the_floor_is_not() {
        let tree = served(PLAIN);
        let enough = ["vm.dirty_bytes=268MiB", "vm.dirty_background_bytes=67MiB"];
        assert_eq!(planned(&tree, &enough), Ok(()));
        assert!(
            planned(&tree, &["vm.dirty_bytes=268MiB", "vm.dirty_background_bytes=134MiB"]).is_err()
        );
        // The background limit alone can bring it there, too.
        assert!(planned(&tree, &["vm.dirty_background_ratio=19"]).is_err());
        assert_eq!(
            planned(&tree, &["vm.dirty_expire_centisecs=100", "sda.bdi.max_bytes=64MiB"]),
            Ok(())
        );
    }

    #[test]
    fn out_of_the_danger_every_step_is_allowed() {
        let mut tree = served(PLAIN);
        tree.insert("/proc/sys/vm/dirty_bytes".into(), "16777216\n".into());
        tree.insert("/proc/sys/vm/dirty_ratio".into(), "0\n".into());
        assert_eq!(planned(&tree, &["vm.dirty_bytes=64MiB"]), Ok(()));
        assert!(planned(&tree, &["vm.dirty_bytes=8MiB"]).is_err());
    }

    #[test]
    fn where_nothing_bounds_what_can_wait_no_limit_may_fall() {
        let mut no_strict_limit = served(PLAIN);
        no_strict_limit.insert("/sys/class/bdi/0:40/strict_limit".into(), "0\n".into());
        let mut unreadable_queue = served(PLAIN);
        unreadable_queue.remove("/sys/devices/loop0/queue/nr_requests");
        for (tree, why) in [
            (no_strict_limit, "because /fuse has no strict limit"),
            (unreadable_queue, "because the queue of loop0 can't be read"),
        ] {
            let refused = planned(&tree, &["vm.dirty_bytes=15MB"]).unwrap_err();
            assert!(
                refused.contains(why) && refused.contains("--allow-userspace-servers"),
                "{refused}"
            );
            // The limits are 20 % and 10 %: one falls, or they come nearer to each other.
            assert!(planned(&tree, &["vm.dirty_ratio=19", "vm.dirty_background_ratio=5"]).is_err());
            assert!(planned(&tree, &["vm.dirty_background_ratio=15"]).is_err());
            assert!(
                planned(&tree, &["vm.dirty_ratio=30", "vm.dirty_background_ratio=25"]).is_err()
            );
            assert_eq!(planned(&tree, &["vm.dirty_ratio=30"]), Ok(()));
            assert_eq!(planned(&tree, &["vm.dirty_background_ratio=5"]), Ok(()));
        }
    }

    #[test]
    fn who_has_the_flag_or_nothing_to_serve_is_not_refused() {
        assert_eq!(planned(&served(FLUSHER), &["vm.dirty_bytes=15MB"]), Ok(()));
        let mut tree = served(PLAIN);
        tree.remove("/proc/70/fd/4");
        assert_eq!(planned(&tree, &["vm.dirty_bytes=15MB"]), Ok(()), "it has nothing to dirty");
        let mut tree = served(PLAIN);
        tree.remove("/sys/dev/block/7:0");
        assert_eq!(planned(&tree, &["vm.dirty_bytes=15MB"]), Ok(()), "a FUSE filesystem is strict");
    }

    #[test]
    fn a_fuse_filesystem_keeps_its_strict_limit() {
        let mut tree = served(PLAIN);
        tree.remove("/sys/dev/block/7:0");
        let refused = planned(&tree, &["0:40.bdi.strict_limit=0"]).unwrap_err();
        assert!(refused.contains("has no strict limit"), "{refused}");
        assert!(planned(&tree, &["0:40.bdi.max_ratio_fine=900000"]).is_err());
        assert_eq!(planned(&tree, &["0:40.bdi.max_ratio_fine=20000"]), Ok(()));
    }

    #[test]
    fn whoever_knows_better_can_say_so() {
        let (dir, files) = files_of(&served(PLAIN));
        let root = SysRoot::new(dir.path()).unwrap();
        let changes = [Change::parse(&root, None, "vm.dirty_bytes=15MB").unwrap()];
        assert!(plan(&changes, &files).is_err());
        assert!(plan(&changes, &files.allow_userspace_servers(true)).is_ok());
    }
}
