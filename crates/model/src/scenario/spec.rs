//! Victims and floods on the command line: `commit,threads=10,block=4KiB`.

use super::error::ScenarioError;
use super::loads::{RawFlood, RawVictim};
use super::{Flood, Victim};
use crate::toml_text;

/// Reads `KIND[,key=value…]` with the keys of a scenario file's `[[victim]]`.
///
/// # Errors
/// [`ScenarioError::Invalid`], naming the key and its accepted values.
pub fn parse_victim(spec: &str) -> Result<Victim, ScenarioError> {
    let place = format!("--victim {spec}");
    let raw: RawVictim = table(spec, &place)?;
    raw.check(&place)
}

/// Reads `KIND[,key=value…]` with the keys of a scenario file's `[[flood]]`.
///
/// # Errors
/// [`ScenarioError::Invalid`], naming the key and its accepted values.
pub fn parse_flood(spec: &str) -> Result<Flood, ScenarioError> {
    let place = format!("--flood {spec}");
    let raw: RawFlood = table(spec, &place)?;
    raw.check(&place)
}

/// A victim that is a shell command.
///
/// # Errors
/// [`ScenarioError::Invalid`] for an empty command.
pub fn command_victim(command: &str) -> Result<Victim, ScenarioError> {
    refuse_empty(command, "--victim-cmd", "pgbench -T 600 bench")?;
    RawVictim::from_command(command).check("--victim-cmd")
}

/// A flood that is a shell command.
///
/// # Errors
/// [`ScenarioError::Invalid`] for an empty command.
pub fn command_flood(command: &str) -> Result<Flood, ScenarioError> {
    refuse_empty(command, "--flood-cmd", "cp /backup/big copy")?;
    RawFlood::from_command(command).check("--flood-cmd")
}

fn refuse_empty(command: &str, option: &str, example: &str) -> Result<(), ScenarioError> {
    if !command.trim().is_empty() {
        return Ok(());
    }
    let message = format!("the command is empty; give one, such as {option} '{example}'");
    Err(ScenarioError::Invalid { place: option.into(), message })
}

fn table<T: serde::de::DeserializeOwned>(spec: &str, place: &str) -> Result<T, ScenarioError> {
    let invalid = |message: String| ScenarioError::Invalid { place: place.into(), message };
    let mut table = toml::Table::new();
    for (i, part) in spec.split(',').map(str::trim).enumerate() {
        let (key, value) = match part.split_once('=') {
            Some((key, value)) => (key.trim(), value.trim()),
            None if i == 0 => ("kind", part),
            None => return Err(invalid(format!("'{part}' is not key=value"))),
        };
        if table.insert(key.into(), typed(value)).is_some() {
            return Err(invalid(format!("'{key}' is given twice")));
        }
    }
    T::deserialize(toml::Value::Table(table)).map_err(|e| invalid(toml_text::message_of_key(&e)))
}

/// Numbers and booleans as such, everything else as text.
fn typed(value: &str) -> toml::Value {
    if let Ok(n) = value.parse::<i64>() {
        return toml::Value::Integer(n);
    }
    value.parse().map_or_else(|_| toml::Value::String(value.into()), toml::Value::Boolean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn a_spec_takes_the_keys_of_a_file() {
        let v = parse_victim("commit,threads=10,block=4KiB,direct=true").unwrap();
        assert_eq!((v.threads, v.block), (10, Bytes(4096)));
        assert!(v.kind.is_direct());
        let f = parse_flood("seq,streams=4,data=zero").unwrap();
        assert_eq!(f.streams, 4);
    }

    #[test]
    fn mistakes_are_named() {
        for (spec, part) in [
            ("comit", "did you mean 'commit'"),
            ("commit,thread=1", "did you mean 'threads'"),
            ("commit,block=4096", "needs a unit"),
            ("commit,threads", "not key=value"),
            ("commit,threads=1,threads=2", "given twice"),
            ("commit,threads=four", "threads=four: threads: 'four' is not a whole number"),
            ("commit,direct=maybe", "direct: 'maybe' is not true or false"),
        ] {
            let message = parse_victim(spec).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn an_empty_command_is_refused_with_one_that_is_not() {
        let said = command_victim(" ").unwrap_err().to_string();
        assert_eq!(
            said,
            "--victim-cmd: the command is empty; give one, such as --victim-cmd 'pgbench -T 600 \
             bench'"
        );
        let said = command_flood("").unwrap_err().to_string();
        assert!(said.starts_with("--flood-cmd: the command is empty; give one"), "{said}");
    }
}
