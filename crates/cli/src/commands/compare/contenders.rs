//! Which settings contend: `--set [NAME=]SETTING` and `--each KNOB`.
//!
//! ```text
//! default            what is in force
//! preset:cachyos     a published one
//! limits.toml        a settings file, also another machine's
//! scheduler=none,vm.dirty_bytes=15MB          named after itself
//! small=vm.dirty_bytes=15MB                   named
//! --each scheduler   one contender for every value that the device offers, or of a documented grid
//! ```

use floodwall_host::SysRoot;
use floodwall_host::queue::choices;
use floodwall_knobs::presets::{self, PRESETS};
use floodwall_knobs::{Change, Device, Target, catalogue};
use floodwall_model::{Setting, toml_text};
use floodwall_tune::contest::Contender;

use super::files;
use crate::commands::settings::list;
use crate::exit::UsageError;

/// The name of the setting in force.
pub(crate) const DEFAULT: &str = "default";

/// Values that `--each` tries where a device does not list them, as people write them.
const GRIDS: &[(&str, &[&str])] = &[
    ("nr_requests", &["4", "8", "16", "32", "64", "128", "256"]),
    ("max_sectors_kb", &["64", "128", "256", "512", "1024"]),
    ("wbt_lat_usec", &["0", "2000", "10000", "75000"]),
    ("read_ahead_kb", &["0", "32", "128", "512", "2048"]),
    ("vm.dirty_bytes", &["16MiB", "64MiB", "256MiB", "1GiB"]),
    ("vm.dirty_background_bytes", &["4MiB", "16MiB", "64MiB", "256MiB"]),
    ("vm.dirty_ratio", &["5", "10", "20", "40"]),
    ("vm.dirty_background_ratio", &["1", "3", "5", "10"]),
    ("bdi.strict_limit", &["0", "1"]),
];

/// Settings that contend, and what the user should know of them.
pub(crate) type Contenders = (Vec<Contender>, Vec<String>);

/// All contenders, the reference first: the first `--set`, or of `--each` alone the value in force.
///
/// # Errors
/// [`UsageError`]: a setting is wrong, or there are fewer than two.
pub(crate) fn contenders(
    root: &SysRoot,
    device: Option<&Device>,
    in_force: &Setting,
    sets: &[String],
    each: &[String],
) -> anyhow::Result<Contenders> {
    let (mut all, warnings) = named(root, device, sets)?;
    for knob in each {
        let mut of_knob = each_of(root, device, knob)?;
        if all.is_empty() {
            // The setting in force comes first: the others are compared with it.
            let name = catalogue::find(knob).map_or(knob.as_str(), |k| k.name);
            of_knob.sort_by_key(|c| in_force.get(name) != c.setting.get(name));
        }
        all.extend(of_knob);
    }
    if all.len() == 1 && !all[0].setting.is_empty() {
        all.insert(0, Contender { name: DEFAULT.into(), setting: Setting::default() });
    }
    if all.len() < 2 {
        return Err(UsageError(
            "nothing to compare: give --set twice or more, or --each KNOB".into(),
        )
        .into());
    }
    check_names(&all)?;
    Ok((all, warnings))
}

/// Every `--set`, in their order.
///
/// # Errors
/// [`UsageError`]: one of them is wrong.
pub(crate) fn named(
    root: &SysRoot,
    device: Option<&Device>,
    sets: &[String],
) -> anyhow::Result<Contenders> {
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    for text in sets {
        all.push(parse(root, device, text, &mut warnings)?);
    }
    check_names(&all)?;
    Ok((all, warnings))
}

/// Of the presets among `--set`, whose they are: `cachyos: CachyOS-Settings (commit …)`.
pub(crate) fn sources(sets: &[String]) -> Vec<String> {
    let presets = sets.iter().flat_map(|text| text.split(['=', ','])).filter_map(|part| {
        let preset = presets::find(part.trim().strip_prefix("preset:")?)?;
        Some(format!("{}: {}", preset.name, preset.source))
    });
    presets.collect()
}

/// Refuses two contenders of one name.
///
/// # Errors
/// [`UsageError`].
pub(super) fn check_names(all: &[Contender]) -> anyhow::Result<()> {
    for (i, contender) in all.iter().enumerate() {
        if all.iter().take(i).any(|c| c.name == contender.name) {
            let name = &contender.name;
            return Err(UsageError(format!(
                "two contenders are called '{name}': give one of them another name, NAME={name}"
            ))
            .into());
        }
    }
    Ok(())
}

/// One `--set`.
fn parse(
    root: &SysRoot,
    device: Option<&Device>,
    text: &str,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Contender> {
    let text = text.trim();
    let named = text.split_once('=').filter(|(name, rest)| {
        let is_setting = *rest == DEFAULT
            || rest.starts_with("preset:")
            || rest.ends_with(".toml")
            || rest.contains('=');
        is_setting && !name.is_empty() && !is_knob(name)
    });
    let (name, body) = named.unwrap_or((text.strip_prefix("preset:").unwrap_or(text), text));
    let mut left_out = Vec::new();
    let setting = setting(root, device, body, &mut left_out, warnings)?;
    let without = if left_out.is_empty() {
        String::new()
    } else {
        format!(" (without {})", left_out.join(", "))
    };
    Ok(Contender { name: format!("{name}{without}"), setting })
}

/// Whether a text is a knob, or a device's or group's knob.
fn is_knob(name: &str) -> bool {
    let ends = |knob: &str| {
        name.strip_suffix(knob).is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', ':']))
    };
    catalogue::find(name).is_some() || catalogue::knobs().any(|knob| ends(knob.name))
}

/// `default`, or knobs, `preset:NAME` and `FILE.toml` separated by commas.
fn setting(
    root: &SysRoot,
    device: Option<&Device>,
    text: &str,
    left_out: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Setting> {
    if text == DEFAULT {
        return Ok(Setting::default());
    }
    let mut setting = Setting::default();
    for part in list::parts(text) {
        let part = part.as_str();
        if part.ends_with(".toml") {
            let file = files::read(root, device, part)?;
            left_out.extend(file.left_out);
            warnings.extend(file.warnings);
            for change in file.changes {
                add(&mut setting, device, change)?;
            }
            continue;
        }
        let parsed =
            |text: &str| Change::parse(root, device, text).map_err(|e| UsageError(e.to_string()));
        match part.strip_prefix("preset:") {
            Some(name) => {
                let preset = presets::find(name).ok_or_else(|| UsageError(no_preset(name)))?;
                for change in preset.changes {
                    add(&mut setting, device, parsed(change)?)?;
                }
            }
            None => add(&mut setting, device, parsed(part)?)?,
        }
    }
    if setting.is_empty() {
        return Err(UsageError(format!(
            "'{text}' sets nothing: write KNOB=VALUE[,KNOB=VALUE…], preset:NAME, FILE.toml or \
             default"
        ))
        .into());
    }
    Ok(setting)
}

/// Adds a change under the name that a result gives it: a knob's own, with its device only where
/// that is another one.
fn add(setting: &mut Setting, device: Option<&Device>, change: Change) -> anyhow::Result<()> {
    let key = match &change.target {
        Target::Device(target) if Some(target) == device => change.knob.name.to_owned(),
        target => target.label(change.knob),
    };
    if setting.0.insert(key.clone(), change.value).is_some() {
        return Err(UsageError(format!("{key} is set twice")).into());
    }
    Ok(())
}

/// One contender for every value of a knob.
fn each_of(root: &SysRoot, device: Option<&Device>, knob: &str) -> anyhow::Result<Vec<Contender>> {
    let values: Vec<String> = if knob == "scheduler" {
        let device = device.ok_or_else(|| {
            UsageError(
                "there is no block device below this directory, so there is no scheduler to \
                 compare"
                    .into(),
            )
        })?;
        let path = format!("/sys/dev/block/{}/queue/scheduler", device.number);
        let text = root.read_line(&path).into_value().unwrap_or_default();
        choices(&text).map(str::to_owned).collect()
    } else {
        let name = catalogue::find(knob).map_or(knob, |k| k.name);
        let grid = GRIDS
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| UsageError(no_grid(knob)))?;
        grid.1.iter().map(|value| (*value).to_owned()).collect()
    };
    if values.is_empty() {
        return Err(UsageError(format!("--each {knob}: the device offers no values")).into());
    }
    values
        .into_iter()
        .map(|value| {
            let text = format!("{knob}={value}");
            let setting = setting(root, device, &text, &mut Vec::new(), &mut Vec::new())?;
            Ok(Contender { name: value, setting })
        })
        .collect()
}

fn no_grid(knob: &str) -> String {
    let names = || std::iter::once("scheduler").chain(GRIDS.iter().map(|(name, _)| *name));
    let hint = toml_text::nearest(knob, names())
        .map_or_else(String::new, |near| format!("did you mean '{near}'? "));
    let all = names().collect::<Vec<_>>().join(", ");
    format!("--each {knob}: {hint}values are known for {all}; give others with --set")
}

fn no_preset(name: &str) -> String {
    let names = || PRESETS.iter().map(|preset| preset.name);
    match toml_text::nearest(name, names()) {
        Some(near) => format!("there is no preset '{name}'; did you mean preset:{near}?"),
        None => format!(
            "there is no preset '{name}'; there are {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use floodwall_testing::tree::put;

    use super::*;

    /// A disk `sda` with three elevators, as files.
    fn machine() -> (tempfile::TempDir, SysRoot) {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| put(&dir.path().join(path), text);
        write("sys/devices/sda/dev", "8:0\n");
        write("sys/devices/sda/uevent", "DEVNAME=sda\n");
        write("sys/devices/sda/queue/scheduler", "none [mq-deadline] bfq\n");
        write("proc/version", "\n");
        for link in ["sys/dev/block/8:0", "sys/class/block/sda"] {
            write(link, "->../../devices/sda");
        }
        let root = SysRoot::new(dir.path()).unwrap();
        (dir, root)
    }

    fn parsed(sets: &[&str], each: &[&str]) -> anyhow::Result<Vec<String>> {
        let (_dir, root) = machine();
        let sda = Device::find(&root, "sda").unwrap();
        let in_force: Setting =
            [("scheduler".to_owned(), "mq-deadline".to_owned())].into_iter().collect();
        let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let (all, _) = contenders(&root, Some(&sda), &in_force, &owned(sets), &owned(each))?;
        Ok(all.into_iter().map(|c| format!("{} = {}", c.name, c.setting)).collect())
    }

    #[test]
    fn settings_are_named_by_themselves_or_by_hand() {
        let sets = [
            "default",
            "preset:cachyos",
            "small=vm.dirty_bytes=15MB,sda.scheduler=none",
            "nr_requests=8",
            "mine=preset:2010-15MB",
        ];
        assert_eq!(
            parsed(&sets, &[]).unwrap(),
            [
                "default = in force",
                "cachyos = vm.dirty_background_bytes=67108864,vm.dirty_bytes=268435456",
                "small = scheduler=none,vm.dirty_bytes=15000000",
                "nr_requests=8 = nr_requests=8",
                "mine = vm.dirty_bytes=15000000",
            ]
        );
    }

    #[test]
    fn one_setting_is_compared_with_what_is_in_force() {
        assert_eq!(parsed(&["preset:2010-15MB"], &[]).unwrap()[0], "default = in force");
    }

    #[test]
    fn each_elevator_of_the_device_with_the_one_in_force_first() {
        let all = parsed(&[], &["scheduler"]).unwrap();
        assert_eq!(
            all,
            ["mq-deadline = scheduler=mq-deadline", "none = scheduler=none", "bfq = scheduler=bfq"]
        );
        assert_eq!(parsed(&["default"], &["vm.dirty_bytes"]).unwrap().len(), 5);
    }

    #[test]
    fn a_file_of_another_machine_is_checked_knob_by_knob() {
        let (dir, root) = machine();
        let sda = Device::find(&root, "sda").unwrap();
        let path = dir.path().join("theirs.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            named(&root, Some(&sda), &[format!("theirs={}", path.display())])
        };
        let (all, warnings) = read(
            "device = \"nvme0n1\"\n[settings]\nscheduler = \"none\"\nnr_requests = 64\n\
             vm.dirty_byte = \"1MiB\"\n\
             \"sdz.scheduler\" = \"bfq\"\niosched.low_latency = 0\n",
        )
        .unwrap();
        assert_eq!(all[0].setting.to_string(), "scheduler=none");
        let name =
            "theirs (without vm.dirty_byte, sdz.scheduler, iosched.low_latency, nr_requests)";
        let sorted = |text: &str| {
            let mut words: Vec<String> = text
                .split([' ', ',', '(', ')'])
                .filter(|w| !w.is_empty())
                .map(str::to_owned)
                .collect();
            words.sort();
            words
        };
        assert_eq!(sorted(&all[0].name), sorted(name));
        assert!(
            warnings[0]
                .contains("was written for nvme0n1; its settings of a disk are tried on sda")
        );
        for part in
            ["did you mean vm.dirty_bytes", "no device is called 'sdz'", "nr_requests is left out"]
        {
            assert!(warnings.iter().any(|w| w.contains(part)), "{part}: {warnings:?}");
        }
        let nothing = read("[settings]\nvm.dirty_byte = \"1MiB\"\n").unwrap_err().to_string();
        assert!(
            nothing.contains("nothing of '") && nothing.contains("did you mean vm.dirty_bytes"),
            "{nothing}"
        );
        let broken = read("[settings]\nvm.dirty_bytes = [1]\n").unwrap_err().to_string();
        assert!(broken.contains("neither text nor a whole number"), "{broken}");
        let missing =
            named(&root, Some(&sda), &["./nowhere.toml".to_owned()]).unwrap_err().to_string();
        assert!(missing.contains("can't read './nowhere.toml'"), "{missing}");
    }

    #[test]
    fn knobs_of_a_file_that_are_only_possible_together_are_taken_together() {
        let (dir, root) = machine();
        for (path, text) in [
            ("proc/vmstat", "nr_free_pages 3000000\nnr_dirty_threshold 10000\n"),
            ("proc/sys/vm/dirty_bytes", "0\n"),
            ("proc/sys/vm/dirty_ratio", "1\n"),
            ("proc/sys/kernel/osrelease", "6.18.0\n"),
            ("sys/class/bdi/8:0/max_ratio", "100\n"),
            ("sys/class/bdi/8:0/max_ratio_fine", "1000000\n"),
            ("sys/class/bdi/8:0/min_ratio_fine", "0\n"),
            ("sys/class/bdi/8:0/strict_limit", "0\n"),
        ] {
            put(&dir.path().join(path), text);
        }
        let sda = Device::find(&root, "sda").unwrap();
        let path = dir.path().join("both.toml");
        let read = |more: &str| {
            // 10,000 pages are 40 MB: the device's limit is above the machine's unless that is
            // raised too.
            let both = "\"bdi.max_bytes\" = \"256MiB\"\n\"vm.dirty_bytes\" = \"512MiB\"\n";
            std::fs::write(&path, format!("[settings]\n{both}{more}")).unwrap();
            named(&root, Some(&sda), &[format!("both={}", path.display())]).unwrap()
        };
        let (all, warnings) = read("");
        assert_eq!(
            all[0].setting.to_string(),
            "bdi.max_bytes=268435456,vm.dirty_bytes=536870912",
            "{warnings:?}"
        );
        // Also beside one that is not possible at all.
        let (all, _) = read("nr_requests = 64\n");
        assert_eq!(all[0].setting.to_string(), "bdi.max_bytes=268435456,vm.dirty_bytes=536870912");
    }

    #[test]
    fn presets_come_with_their_sources() {
        let sets =
            ["default", "mine=preset:2010-15MB,scheduler=none", "preset:popos"].map(str::to_owned);
        let told = sources(&sets);
        assert_eq!(told.len(), 2);
        assert!(
            told[0].starts_with("2010-15MB: question and answer") && told[1].contains("Pop!_OS"),
            "{told:?}"
        );
    }

    #[test]
    fn mistakes_say_what_to_do() {
        for (sets, each, part) in [
            (&["default"][..], &[][..], "nothing to compare"),
            (&["nr_requests=8", "nr_requests=8"], &[], "two contenders are called"),
            (&["default", "preset:cachy"], &[], "did you mean preset:cachyos"),
            (&["default", "vm.dirty_byte=1MB"], &[], "did you mean vm.dirty_bytes"),
            (&["default", "vm.dirty_bytes=15000000"], &[], "needs a unit"),
            (&["default", "x=nr_requests=8,nr_requests=9"], &[], "is set twice"),
            (&[], &["schedular"], "did you mean 'scheduler'"),
            (&["default", "sdz.scheduler=none"], &[], "no device is called 'sdz'"),
            (&["default", ","], &[], "sets nothing"),
            (&["default", "nr_requests=8,wbps=1MB"], &[], "it is a key of io.max"),
        ] {
            let message = parsed(sets, each).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
