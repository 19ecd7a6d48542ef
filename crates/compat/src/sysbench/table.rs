//! The options that there are, and what to do without those that there are not.

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// A number or a word: `--threads=4`.
    Value,
    /// `on`, `off`, or nothing for `on`.
    Switch,
}

/// The dialects that know an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum In {
    Both,
    /// 1.0 alone.
    New,
    /// 0.4 alone.
    Old,
    /// 0.4; 1.0 warns, and knows it by this name.
    Renamed(&'static str),
}

/// An option's name, without its two dashes.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    pub(super) known_in: In,
}

const fn option(name: &'static str, takes: Takes, known_in: In) -> Known {
    Known { name, takes, known_in }
}

/// The options that are supported.
pub(super) const KNOWN: [Known; 34] = [
    option("dialect", Takes::Value, In::Both),
    option("test", Takes::Value, In::Both),
    option("file-num", Takes::Value, In::Both),
    option("file-block-size", Takes::Value, In::Both),
    option("file-total-size", Takes::Value, In::Both),
    option("file-test-mode", Takes::Value, In::Both),
    option("file-io-mode", Takes::Value, In::Both),
    option("file-extra-flags", Takes::Value, In::Both),
    option("file-fsync-freq", Takes::Value, In::Both),
    option("file-fsync-all", Takes::Switch, In::Both),
    option("file-fsync-end", Takes::Switch, In::Both),
    option("file-fsync-mode", Takes::Value, In::Both),
    option("file-merged-requests", Takes::Value, In::Both),
    option("file-rw-ratio", Takes::Value, In::Both),
    option("threads", Takes::Value, In::New),
    option("events", Takes::Value, In::New),
    option("time", Takes::Value, In::New),
    option("warmup-time", Takes::Value, In::New),
    option("rate", Takes::Value, In::New),
    option("report-interval", Takes::Value, In::New),
    option("percentile", Takes::Value, In::Both),
    option("histogram", Takes::Switch, In::New),
    option("rand-seed", Takes::Value, In::New),
    option("rand-type", Takes::Value, In::New),
    option("rand-spec-iter", Takes::Value, In::New),
    option("rand-spec-pct", Takes::Value, In::New),
    option("rand-spec-res", Takes::Value, In::New),
    option("rand-pareto-h", Takes::Value, In::New),
    option("num-threads", Takes::Value, In::Renamed("threads")),
    option("max-requests", Takes::Value, In::Renamed("events")),
    option("max-time", Takes::Value, In::Renamed("time")),
    option("tx-rate", Takes::Value, In::Renamed("rate")),
    option("init-rng", Takes::Switch, In::Old),
    option("seed-rng", Takes::Value, In::Old),
];

/// The tool's other options, and what to do without them.
const OTHERS: [(&str, &str); 12] = [
    ("file-async-backlog", "--threads=N has N requests at a time"),
    ("validate", "leave it out; data is not checked"),
    ("report-checkpoints", "--report-interval=N"),
    ("thread-stack-size", "leave it out"),
    ("forced-shutdown", "leave it out; the run ends when its last request does"),
    ("debug", "leave it out"),
    ("verbosity", "leave it out"),
    ("config-file", "write its options on the command line"),
    ("help", "floodwall compat --help"),
    ("version", "floodwall --version"),
    ("batch", "--report-interval=N of 1.0"),
    ("batch-delay", "--report-interval=N of 1.0"),
];

/// An option that is supported.
pub(super) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// Advice for an option of the tool that is not supported.
pub(super) fn instead(name: &str) -> Option<&'static str> {
    OTHERS.iter().find(|(other, _)| *other == name).map(|(_, nearest)| *nearest)
}
