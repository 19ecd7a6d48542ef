//! I/O priorities of threads (ioprio_set(2)). No kernel file has them; a write touches no queue.

use crate::catalogue::knob::{BLANK, Knob, Scope, Unit};

const BASE: Knob = Knob {
    scope: Scope::Threads,
    unit: Unit::IoPriority,
    default: "none (be/4 at nice 0)",
    ..BLANK
};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "ioprio",
        needs: "a process that runs; CAP_SYS_NICE for other users' processes and for rt",
        does: "The I/O priority of all threads of a process, or of all processes of a control \
            group: who goes first where the elevator honours it.",
        quirks: &[
            "bfq honours it among the processes of one control group, and divides its tags by it \
             only with CONFIG_BFQ_GROUP_IOSCHED. mq-deadline orders by the class alone (Linux \
             5.14), and commits share its tags with the flood. kyber and none ignore it.",
            "It counts for what a thread submits itself: reads, direct I/O and the data that its \
             fsync writes. The flusher submits buffered writes: idle for a flood does nothing for \
             them.",
            "ext4 commits its journal in a thread of its own: raise journal.ioprio along with it. \
             xfs and btrfs commit in the caller's thread, mostly.",
            "rt goes before everything else and can starve writeback until the dirty limit stops \
             all writers: apply takes it with --for only. Try be/0 first.",
            "Debian's postgresql.service is an empty wrapper: unit:postgresql@15-main has the \
             server's processes.",
            "New threads inherit it. Rollback restores threads that still have our value; other \
             threads keep theirs.",
        ],
        source: "block/ioprio.c ioprio_set; block/blk-ioc.c __copy_io; block/bfq-iosched.c \
            bfq_check_ioprio_change, bfqq_request_over_limit",
        ..BASE
    },
    Knob {
        name: "journal.ioprio",
        scope: Scope::Journal,
        default: "be/3; the mount option journal_ioprio sets it",
        needs: "an ext4 filesystem with a journal, mounted, on the device itself; Linux 4.20",
        does: "The I/O priority of the threads that commit ext4's journals (jbd2): every fsync on \
            that filesystem waits for them.",
        quirks: &["A remount that names journal_ioprio sets it; any other remount keeps it."],
        source: "fs/ext4/super.c ext4_load_and_init_journal, set_task_ioprio; fs/ext4/sysfs.c \
            journal_task",
        ..BASE
    },
];
