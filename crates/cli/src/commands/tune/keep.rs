//! A recommended setting → `floodwall apply`, `persist` and `export`. There is one way to do each.

use clap::Parser;
use floodwall_knobs::OVERRIDE;

use crate::commands::settings;
use crate::exit::Exit;

/// Prints the setting in a format of `floodwall export`.
pub(super) fn export(
    format: &str,
    device: Option<&str>,
    setting: &[String],
) -> anyhow::Result<Exit> {
    let words = [&["export", "--format", format], to_device(device).as_slice()].concat();
    settings::export::run(&with_settings::<ExportOnly>(&words, setting)?.args)
}

/// Puts the setting in force, and then keeps it across boots if that is wanted. `allow`: also where
/// a userspace server could hang.
pub(super) fn apply(
    device: Option<&str>,
    allow: bool,
    setting: &[String],
    persists: bool,
) -> anyhow::Result<()> {
    let to = to_device(device);
    let allow: &[&str] = if allow { &[OVERRIDE] } else { &[] };
    let apply = || {
        let words = [&["apply", "--yes", "--why", "floodwall tune"], allow, to.as_slice()].concat();
        settings::apply::run(&with_settings::<ApplyOnly>(&words, setting)?.args)
    };
    let persist = || {
        let words = [&["persist", "--yes"], allow, to.as_slice()].concat();
        settings::persist::run(&with_settings::<PersistOnly>(&words, setting)?.args)
    };
    applied(apply, persists.then_some(persist))
}

/// Applies and then persists: a setting that can't be put in force now must not come into force at
/// the next boot either.
fn applied(
    apply: impl FnOnce() -> anyhow::Result<Exit>,
    persist: Option<impl FnOnce() -> anyhow::Result<Exit>>,
) -> anyhow::Result<()> {
    let done = |exit, what: &str| match exit {
        Exit::Done => Ok(()),
        _ => Err(anyhow::anyhow!(
            "the recommended setting could not be {what}; what was said above has the reason"
        )),
    };
    done(apply()?, "put in force")?;
    persist.map_or(Ok(()), |persist| done(persist()?, "kept across boots"))
}

#[derive(Parser)]
struct ApplyOnly {
    #[command(flatten)]
    args: settings::apply::ApplyArgs,
}

#[derive(Parser)]
struct ExportOnly {
    #[command(flatten)]
    args: settings::export::ExportArgs,
}

#[derive(Parser)]
struct PersistOnly {
    #[command(flatten)]
    args: settings::persist::PersistArgs,
}

fn with_settings<P: Parser>(words: &[&str], settings: &[String]) -> anyhow::Result<P> {
    Ok(P::try_parse_from(words.iter().copied().chain(settings.iter().map(String::as_str)))?)
}

fn to_device(name: Option<&str>) -> Vec<&str> {
    name.map_or_else(Vec::new, |name| vec!["--device", name])
}

#[cfg(test)]
mod tests {
    use floodwall_knobs::value::as_written;
    use floodwall_model::Setting;

    use super::*;

    #[test]
    fn a_recommended_setting_can_be_given_to_apply() {
        let setting: Setting = [
            ("scheduler", "bfq"),
            ("vm.dirty_bytes", "67108864"),
            ("sda.bdi.max_bytes", "8388608"),
            ("u.service:memory.high", "8388608"),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
        let words = as_written(&setting);
        assert_eq!(
            words,
            [
                "scheduler=bfq",
                "sda.bdi.max_bytes=8388608B",
                "u.service:memory.high=8388608B",
                "vm.dirty_bytes=67108864B"
            ]
        );
        assert!(with_settings::<ApplyOnly>(&["apply", "--yes", "--device", "sda"], &words).is_ok());
        assert!(with_settings::<PersistOnly>(&["persist", "--yes"], &words).is_ok());
        assert!(with_settings::<ExportOnly>(&["export", "--format", "udev"], &words).is_ok());
    }

    #[test]
    fn only_what_was_applied_is_persisted() {
        let persisted = std::cell::Cell::new(0);
        let persist = || {
            persisted.set(persisted.get() + 1);
            Ok(Exit::Done)
        };
        assert!(applied(|| Err(anyhow::anyhow!("refused")), Some(persist)).is_err());
        assert!(applied(|| Ok(Exit::Failed), Some(persist)).is_err());
        assert_eq!(persisted.get(), 0);
        assert!(applied(|| Ok(Exit::Done), Some(persist)).is_ok());
        assert_eq!(persisted.get(), 1);
    }
}
