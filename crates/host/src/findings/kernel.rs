//! Which kernel it is, as far as a fault belongs to a range of versions.
//!
//! Features are looked for by their files. Only faults, which leave no file, are told by the
//! release; a distribution may have repaired its kernel, so what is found this way says so.

use floodwall_model::status::Machine;

/// Major and minor number of a release such as `6.8.0-40-generic`; `None` if it is not known.
pub(super) fn version(machine: &Machine) -> Option<(u32, u32)> {
    let mut parts = machine.kernel.value()?.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some((major, minor))
}

/// The release, if its version lies in a range, both ends included.
pub(super) fn between(machine: &Machine, first: (u32, u32), last: (u32, u32)) -> Option<&str> {
    let version = version(machine)?;
    let release = machine.kernel.value()?;
    (first <= version && version <= last).then_some(release.as_str())
}

#[cfg(test)]
mod tests {
    use floodwall_model::Reading;

    use super::*;
    use crate::findings::testing;

    #[test]
    fn releases_of_distributions() {
        let mut machine = testing::Machine::healthy().status.machine;
        let mut read = |release: &str| {
            machine.kernel = Reading::Value(release.to_owned());
            version(&machine)
        };
        assert_eq!(read("4.18.0-348.el8.x86_64"), Some((4, 18)));
        assert_eq!(read("6.8.0-40-generic"), Some((6, 8)));
        assert_eq!(read("6.18-rc1"), Some((6, 18)));
        assert_eq!(read("next"), None);
        machine.kernel = Reading::Value("6.12.1".to_owned());
        assert_eq!(between(&machine, (6, 2), (6, 12)), Some("6.12.1"));
        assert_eq!(between(&machine, (6, 2), (6, 7)), None);
    }
}
