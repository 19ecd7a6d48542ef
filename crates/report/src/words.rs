//! Words of a command line: a knob with its value, quoted where a shell needs that.

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

/// A word of a command line, quoted for a shell where it needs that.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_=.,:/%+@".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_safe_in_a_shell() {
        assert_eq!(["a=b", "it's (1)", ""].map(quoted), ["a=b", r"'it'\''s (1)'", "''"]);
        assert_eq!(
            [("vm.dirty_bytes", "0"), ("scheduler", "none")].map(|(k, v)| person(k, v)),
            ["vm.dirty_bytes=0B", "scheduler=none"]
        );
    }
}
