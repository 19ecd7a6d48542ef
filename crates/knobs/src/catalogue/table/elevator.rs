//! Tunables of mq-deadline, kyber and bfq: /sys/block/NAME/queue/iosched. They come and go with
//! their elevator.

use crate::catalogue::knob::{BLANK, Knob, Reset, Scope, Unit};

const MQ_DEADLINE: Scope = Scope::Elevator(&["mq-deadline"]);
const KYBER: Scope = Scope::Elevator(&["kyber"]);
const BFQ: Scope = Scope::Elevator(&["bfq"]);
/// Times are kept in ticks of the kernel's clock and read back rounded (124 for 125 ms at 250 ticks
/// a second).
const TICKS: Option<&str> = Some("rounded to ticks of the kernel's clock");
/// No elevator takes more from these files than an `int`.
const INT: i64 = i32::MAX as i64;

const BASE: Knob = Knob {
    scope: MQ_DEADLINE,
    unit: Unit::Milliseconds,
    max: INT,
    source: "block/mq-deadline.c",
    ..BLANK
};
const BASE_BFQ: Knob = Knob { scope: BFQ, source: "block/bfq-iosched.c", ..BASE };

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "iosched.read_expire",
        default: "500",
        adjusts: TICKS,
        does: "How long a read may be passed over in favour of others on its way.",
        ..BASE
    },
    Knob {
        name: "iosched.write_expire",
        default: "5000",
        adjusts: TICKS,
        does: "How long a write may be passed over.",
        quirks: &["Data that fsync waits for are writes like any other here."],
        ..BASE
    },
    Knob {
        name: "iosched.writes_starved",
        unit: Unit::Count,
        max: 1_000_000,
        default: "2",
        does: "How many batches of reads may go before a batch of writes.",
        quirks: &["The kernel takes negative numbers; refused here."],
        ..BASE
    },
    Knob {
        name: "iosched.front_merges",
        unit: Unit::Flag,
        max: 1,
        default: "1",
        does: "Whether requests are merged at their front.",
        quirks: &["On 5.15 async_depth's file reads and writes this by mistake."],
        ..BASE
    },
    Knob {
        name: "iosched.fifo_batch",
        unit: Unit::Count,
        max: 1_000_000,
        default: "16",
        does: "How many requests are sent in the order of their place before deadlines are looked \
               at.",
        ..BASE
    },
    Knob {
        name: "iosched.async_depth",
        unit: Unit::Count,
        min: 1,
        max: 65_536,
        default: "nr_requests; 3/4 of it on 5.15 to 6.8",
        needs: "a kernel after RHEL 8's 4.18 (there in 5.15) and before 7 (there in 6.18); then \
            the queue's async_depth",
        adjusts: Some("cut to nr_requests"),
        does: "How many requests all but synchronous reads may hold.",
        quirks: &[
            "A change of nr_requests resets it.",
            "On 5.15 the file is front_merges by mistake.",
        ],
        source: "block/mq-deadline.c dd_limit_depth, dd_depth_updated",
        ..BASE
    },
    Knob {
        name: "iosched.prio_aging_expire",
        default: "10000",
        needs: "a kernel after 5.15 (there in 6.5)",
        adjusts: TICKS,
        does: "How long a request of a lower I/O priority class may wait for the higher ones.",
        source: "block/mq-deadline.c dd_dispatch_prio_aged_requests",
        ..BASE
    },
    Knob {
        name: "iosched.read_lat_nsec",
        scope: KYBER,
        unit: Unit::Nanoseconds,
        min: 1,
        max: i64::MAX,
        default: "2000000",
        does: "Kyber's target for reads: above it the other kinds get fewer tokens.",
        source: "block/kyber-iosched.c kyber_read_lat_store",
        ..BASE
    },
    Knob {
        name: "iosched.write_lat_nsec",
        scope: KYBER,
        unit: Unit::Nanoseconds,
        min: 1,
        max: i64::MAX,
        default: "10000000",
        does: "Kyber's target for writes.",
        source: "block/kyber-iosched.c kyber_write_lat_store",
        ..BASE
    },
    Knob {
        name: "iosched.fifo_expire_sync",
        default: "125",
        adjusts: TICKS,
        does: "How long a synchronous request may be passed over within its process's queue.",
        ..BASE_BFQ
    },
    Knob {
        name: "iosched.fifo_expire_async",
        default: "250",
        adjusts: TICKS,
        does: "How long an asynchronous request may be passed over.",
        ..BASE_BFQ
    },
    Knob {
        name: "iosched.back_seek_max",
        unit: Unit::Kibibytes,
        default: "16384",
        does: "How far back on the disk the next request may be and still count as near.",
        ..BASE_BFQ
    },
    Knob {
        name: "iosched.back_seek_penalty",
        unit: Unit::Count,
        min: 1,
        default: "2",
        does: "How many times farther a backward distance counts than a forward one.",
        ..BASE_BFQ
    },
    Knob {
        name: "iosched.slice_idle_us",
        unit: Unit::Microseconds,
        default: "8000",
        does: "How long the device is kept idle for the next request of the process just served; 0 \
            on fast drives trades fairness for throughput.",
        quirks: &["Under strict_guarantees it is at least 8000."],
        ..BASE_BFQ
    },
    Knob {
        name: "iosched.slice_idle",
        default: "8",
        does: "The same as slice_idle_us, in milliseconds.",
        quirks: &[
            "One cell with slice_idle_us, in a coarser unit: the finer one is saved and written.",
        ],
        ..BASE_BFQ
    },
    Knob {
        name: "iosched.max_budget",
        unit: Unit::Count,
        default: "0 (worked out from the device's rate)",
        does: "How many sectors a process's queue may use before the next one's turn.",
        ..BASE_BFQ
    },
    Knob {
        name: "iosched.timeout_sync",
        default: "125",
        adjusts: TICKS,
        does: "How long a process's queue may keep the device.",
        ..BASE_BFQ
    },
    Knob {
        name: "iosched.strict_guarantees",
        unit: Unit::Flag,
        max: 1,
        default: "0",
        resets: &[
            Reset { knob: "iosched.slice_idle_us", keep: false },
            Reset { knob: "iosched.slice_idle", keep: false },
        ],
        does: "One request in the device at a time, and idling always: bandwidth shares hold \
               exactly.",
        quirks: &[
            "Switching it on raises slice_idle to 8 ms, and switching it off leaves it there: it \
             is saved with it.",
        ],
        source: "block/bfq-iosched.c bfq_strict_guarantees_store",
        ..BASE_BFQ
    },
    Knob {
        name: "iosched.low_latency",
        unit: Unit::Flag,
        max: 1,
        default: "1",
        does: "Raises the weight of interactive and soft real-time processes thirtyfold for some \
               seconds.",
        ..BASE_BFQ
    },
];
