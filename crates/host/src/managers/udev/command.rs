//! Knobs that a rule's `RUN+=` sets: `echo VALUE > FILE`, `sysctl -w NAME=VALUE`, and programs that
//! are known to set some.

use super::super::reach::{self, Owner};
use super::super::shipped;

/// A knob that a command sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) knob: String,
    /// The name of the disk, as the command has it; `None` for the machine's knobs.
    pub(super) disk: Option<String>,
    /// The value, if the command tells.
    pub(super) value: Option<String>,
}

/// What a command sets, as far as its text tells.
pub(super) fn effects(command: &str) -> Vec<Effect> {
    let command = ["/sys%p/", "/sys/%p/", "/sys$devpath/", "/sys/$devpath/", "%S%p/", "$sys$devpath/"]
        .iter()
        .fold(command.to_owned(), |text, prefix| text.replace(prefix, "/sys/block/%k/"));
    // `>` may stand without blanks.
    let spaced = command.replace('>', " > ");
    let words: Vec<&str> = spaced
        .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '&' | '(' | ')'))
        .filter(|word| !word.is_empty())
        .collect();
    let mut effects: Vec<Effect> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if let Some((knob, owner)) = reach::of_path(word) {
            let disk = match owner {
                Owner::Machine => None,
                Owner::Name(name) | Owner::Number(name) => Some(name.to_owned()),
            };
            effects.push(Effect { knob, disk, value: value_before(&words[..at]) });
        } else if let Some((name, value)) = word.split_once('=')
            && let Some(knob) = reach::of_sysctl(name)
        {
            effects.push(Effect { knob: knob.to_owned(), disk: None, value: Some(value.to_owned()) });
        }
    }
    let program = words.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    for knob in shipped::knobs_of_program(program) {
        effects.push(Effect { knob: (*knob).to_owned(), disk: Some("%k".to_owned()), value: None });
    }
    effects
}

/// The value of `echo VALUE >`, given the words before the file's name.
fn value_before(words: &[&str]) -> Option<String> {
    match words {
        [.., "echo" | "printf", value, ">"] if !value.contains(['$', '%', '`']) => Some((*value).to_owned()),
        [.., "echo", "-n", value, ">"] if !value.contains(['$', '%', '`']) => Some((*value).to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_writes() {
        let of = |command: &str| {
            let shown = |e: Effect| {
                let value = e.value.unwrap_or("?".into());
                e.disk.map_or_else(
                    || format!("{}={value}", e.knob),
                    |disk| format!("{disk}.{}={value}", e.knob),
                )
            };
            effects(command).into_iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            of(
                "/usr/bin/bash -c 'echo 1 > /sys/block/%k/bdi/strict_limit; echo 16777216 >/sys/block/%k/bdi/max_bytes'"
            ),
            "%k.bdi.strict_limit=1 %k.bdi.max_bytes=16777216"
        );
        assert_eq!(of("/bin/sh -c 'echo $size > /sys/block/%k/bdi/max_bytes'"), "%k.bdi.max_bytes=?");
        assert_eq!(of("/bin/sh -c \"echo bfq>/sys%p/queue/scheduler\""), "%k.scheduler=bfq");
        assert_eq!(of("/usr/sbin/sysctl -w vm.dirty_ratio=5"), "vm.dirty_ratio=5");
        assert_eq!(of("/bin/sh -c 'echo 5 > /proc/sys/vm/dirty_ratio'"), "vm.dirty_ratio=5");
        assert_eq!(
            of("/usr/lib/cachyos-kyber-tune %k"),
            "%k.iosched.read_lat_nsec=? %k.iosched.write_lat_nsec=?"
        );
        assert_eq!(of("/usr/bin/true /sys/block/sda/queue/rotational"), "");
    }
}
