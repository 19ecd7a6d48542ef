//! A list of settings in one argument: `KNOB=VALUE[,KNOB=VALUE…]`, alike in every command.

use floodwall_knobs::catalogue;

/// The settings of a list. A comma ends one, unless a further key of the same knob follows:
/// `flood:io.max=wbps=20MB,wiops=max` is one setting.
pub(crate) fn parts(list: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match all.last_mut().filter(|last| has_keys(last) && !names_knob(part)) {
            Some(last) => *last = format!("{last} {part}"),
            None => all.push(part.to_owned()),
        }
    }
    all
}

/// Whether a setting's value is made of keys: `flood:io.max=wbps=20MB`.
fn has_keys(setting: &str) -> bool {
    setting.split_once('=').is_some_and(|(_, value)| value.contains('='))
}

/// Whether a part begins with a knob, or with the place of one, or is a preset or a file.
fn names_knob(part: &str) -> bool {
    let name = part.split_once('=').map_or(part, |(name, _)| name);
    name.contains(['.', ':']) || catalogue::find(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn a_comma_ends_a_setting_unless_a_key_of_its_knob_follows() {
        for (list, expected) in [
            ("vm.dirty_bytes=1MiB", &["vm.dirty_bytes=1MiB"][..]),
            ("a=1, b=2,", &["a=1", "b=2"]),
            (
                "flood:io.max=wbps=20MB,wiops=max,scheduler=none",
                &["flood:io.max=wbps=20MB wiops=max", "scheduler=none"],
            ),
            (
                "sda.io.cost.qos=enable=1,ctrl=user,flood:memory.high=1MiB",
                &["sda.io.cost.qos=enable=1 ctrl=user", "flood:memory.high=1MiB"],
            ),
            ("scheduler=none,wbps=20MB", &["scheduler=none", "wbps=20MB"]),
            ("", &[]),
        ] {
            assert_eq!(parts(list), expected, "{list}");
        }
    }
}
