//! Words of a command line: a knob with its value.

/// `KNOB=VALUE`, a size with its unit, as people write it.
pub(crate) fn person(knob: &str, value: &str) -> String {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    // Of the keys of `io.max` two are sizes.
    let pair = |pair: &str| match pair.split_once('=') {
        Some(("rbps" | "wbps", size)) if digits(size) => format!("{pair}B"),
        _ => pair.to_owned(),
    };
    let in_bytes = knob.ends_with("bytes") || knob.ends_with("memory.high");
    let value = match value {
        keys if keys.contains('=') => keys.split(' ').map(pair).collect::<Vec<_>>().join(" "),
        size if in_bytes && digits(size) => format!("{size}B"),
        other => other.to_owned(),
    };
    format!("{knob}={value}")
}

/// What the kernel calls its I/O schedulers.
const ELEVATORS: [&str; 4] = ["none", "mq-deadline", "bfq", "kyber"];

/// A setting's short name in words, for where a person reads it first: `I/O scheduler bfq, 8
/// requests, writeback throttling off` for `bfq + 8 requests + wbt off`. A name that is not made of
/// such parts stays.
pub(crate) fn spelled(name: &str) -> String {
    let part = |part: &str| {
        let (elevator, tunable) = part.split_once(": ").map_or((part, None), |(e, t)| (e, Some(t)));
        if ELEVATORS.contains(&elevator) {
            let with = tunable.map_or_else(String::new, |tunable| format!(" with {tunable}"));
            return Some(format!("I/O scheduler {elevator}{with}"));
        }
        if let Some(target) = part.strip_prefix("wbt ") {
            return Some(format!("writeback throttling {target}"));
        }
        if let Some(limit) = part.strip_prefix("strict ") {
            return Some(format!("strict limit {limit}"));
        }
        if let Some(limit) = part.strip_prefix("limit ") {
            return Some(format!("dirty limit {limit}"));
        }
        let kib = part.strip_suffix(" KiB")?;
        let digits = kib.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| format!("requests of at most {part}"))
    };
    let parts: Vec<(&str, Option<String>)> = name.split(" + ").map(|p| (p, part(p))).collect();
    if parts.iter().all(|(_, spelled)| spelled.is_none()) {
        return name.to_owned();
    }
    let said: Vec<String> =
        parts.into_iter().map(|(part, spelled)| spelled.unwrap_or_else(|| part.into())).collect();
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_spelled_out() {
        for (short, long) in [
            (
                "bfq + 8 requests + 128 KiB + wbt off",
                "I/O scheduler bfq, 8 requests, requests of at most 128 KiB, writeback throttling \
                 off",
            ),
            ("mq-deadline: fifo_batch 2", "I/O scheduler mq-deadline with fifo_batch 2"),
            (
                "limit 2 s (193 MiB) + wbt 75 ms",
                "dirty limit 2 s (193 MiB), writeback throttling 75 ms",
            ),
            ("strict 0.25 s (60 MiB) + none", "strict limit 0.25 s (60 MiB), I/O scheduler none"),
            ("default", "default"),
            ("mine + yours", "mine + yours"),
        ] {
            assert_eq!(spelled(short), long);
        }
    }

    #[test]
    fn sizes_have_their_unit() {
        assert_eq!(
            [("vm.dirty_bytes", "0"), ("scheduler", "none")].map(|(k, v)| person(k, v)),
            ["vm.dirty_bytes=0B", "scheduler=none"]
        );
    }
}
