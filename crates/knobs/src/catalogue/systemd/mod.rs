//! Limits of a unit's control group, which systemd sets: a knob's file as properties of the unit.
//!
//! ```text
//! systemctl show ─▶ Shown ─▶ view: where the limit is set, and what the kernel's file is to hold
//! systemctl set-property --runtime ◀─ assignments ◀─ a line for that file
//! ```
//!
//! systemd writes a unit's files again at each `daemon-reload` (src/core/unit-serialize.c
//! `unit_deserialize_state`), and all files of a controller at each change of one of its properties
//! (src/core/cgroup.c `unit_invalidate_cgroup`). `memory.high` and the group's own weights are lost
//! then if they were written past it. A device's line is lost if systemd knows that device.
//! `set-property --runtime` keeps a value in a drop-in (src/core/unit.c `unit_write_setting`):
//! `/run/systemd/system.control/UNIT.d/50-PROPERTY.conf`, or below `/run/systemd/transient` for a
//! transient unit.
//!
//! [`ask`] gives a limit two paths, so that a plan, a journal and an undoing treat it like two
//! files:
//!
//! | path | write | state |
//! |---|---|---|
//! | `/run/systemd/system.control/GROUP/KNOB` | `set-property --runtime` | such a drop-in says it |
//! | `/run/systemd/system/GROUP/KNOB` | drop-ins removed, `daemon-reload` | its own files say it |
//!
//! Both read alike. The first line says where the limit is set and by which properties. The second
//! lists the unit's other drop-ins. Then comes the kernel's file as systemd would write it.
//!
//! Limits of several devices share a drop-in (src/core/dbus-cgroup.c `bus_cgroup_set_property`).
//! One device's can be given back only while no other has any: [`refusal`].
//!
//! Not here: `io.latency` and weights of single devices, which systemd can't take back. They are
//! written to the group's file. `io.bfq.weight` is refused: systemd works it out from `IOWeight=`.

pub(crate) mod ask;

use crate::catalogue::files::{CGROUPS, Files};
use crate::catalogue::line::Line;

/// Below it a path stands for a limit that is set at run time.
const RUN_TIME: &str = "/run/systemd/system.control";
/// Below it a path stands for a limit that the unit's own files say.
const UNIT_FILES: &str = "/run/systemd/system";
/// Where systemd keeps drop-ins of `set-property --runtime`; the second is for transient units.
const RUN_TIME_DROP_INS: [&str; 2] = [RUN_TIME, "/run/systemd/transient"];
/// Where it keeps those of `set-property`.
const LASTING_DROP_INS: &str = "/etc/systemd/system.control";
/// The first line of a view. After this one come a colon and the properties.
const AT_RUN_TIME: &str = "# set at run time";
const BY_UNIT_FILES: &str = "# set by the unit's files";
/// The second line of a view: the unit's other drop-ins, if it has any.
const OTHER_DROP_INS: &str = "# drop-ins:";

/// Keys of `io.max` and their properties (src/core/cgroup.c `cgroup_io_limit_type_table`).
pub(crate) const IO_MAX: [(&str, &str); 4] = [
    ("rbps", "IOReadBandwidthMax"),
    ("wbps", "IOWriteBandwidthMax"),
    ("riops", "IOReadIOPSMax"),
    ("wiops", "IOWriteIOPSMax"),
];
/// The value of `io.weight` without a property (src/basic/cgroup-util.h `CGROUP_WEIGHT_DEFAULT`).
const DEFAULT_WEIGHT: &str = "100";

/// Kinds of units that have a control group, and the section for its settings.
const KINDS: [(&str, &str); 6] = [
    (".service", "Service"),
    (".slice", "Slice"),
    (".scope", "Scope"),
    (".socket", "Socket"),
    (".mount", "Mount"),
    (".swap", "Swap"),
];

/// The section of a unit's settings for its control group: `[Service]`. `None` if this is not the
/// name of a unit with a control group.
pub(crate) fn section(unit: &str) -> Option<&'static str> {
    // src/basic/unit-name.c VALID_CHARS_WITH_AT; a name never leaves its directory.
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_' | '.' | '\\' | '@');
    if !unit.chars().all(fits) {
        return None;
    }
    KINDS
        .iter()
        .find(|(suffix, _)| unit.strip_suffix(suffix).is_some_and(|name| !name.is_empty()))
        .map(|(_, s)| *s)
}

/// The properties that a knob's file is made of; none if systemd does not set it.
pub(crate) fn properties(file: &str) -> &'static [&'static str] {
    match file {
        "memory.high" => &["MemoryHigh"],
        "io.weight" => &["IOWeight"],
        "io.max" => const { &[IO_MAX[0].1, IO_MAX[1].1, IO_MAX[2].1, IO_MAX[3].1] },
        _ => &[],
    }
}

/// Whether systemd sets a knob of its units' groups.
pub(crate) fn sets(knob: &str, of_device: bool) -> bool {
    let is_weight_of_device = knob == "io.weight" && of_device;
    !properties(knob).is_empty() && !is_weight_of_device
}

/// The unit of a control group.
pub(crate) fn unit_of(group: &str) -> &str {
    group.rsplit('/').next().unwrap_or_default()
}

/// Where a limit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In a drop-in of `set-property --runtime`.
    RunTime,
    /// In the unit's own files, or nowhere.
    UnitFiles,
}

impl Origin {
    /// The path of a limit that is set so.
    pub(crate) fn path(self, group: &str, file: &str) -> String {
        let top = match self {
            Self::RunTime => RUN_TIME,
            Self::UnitFiles => UNIT_FILES,
        };
        format!("{top}/{group}/{file}")
    }
}

/// A limit of a unit, by one of its two paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit<'a> {
    pub(crate) origin: Origin,
    /// The control group, below its mount.
    pub(crate) group: &'a str,
    /// Its last part.
    pub(crate) unit: &'a str,
    /// The knob's file.
    pub(crate) file: &'a str,
}

impl<'a> Limit<'a> {
    /// `None` for every other path.
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        let below = |top: &str| path.strip_prefix(top)?.strip_prefix('/');
        let (origin, below) = match below(RUN_TIME) {
            Some(below) => (Origin::RunTime, below),
            None => (Origin::UnitFiles, below(UNIT_FILES)?),
        };
        let (group, file) = below.rsplit_once('/')?;
        let unit = unit_of(group);
        (section(unit).is_some() && !properties(file).is_empty()).then_some(Self {
            origin,
            group,
            unit,
            file,
        })
    }

    /// The same limit's path.
    pub(crate) fn at(&self, origin: Origin) -> String {
        origin.path(self.group, self.file)
    }

    /// The kernel's file.
    pub(crate) fn kernel_file(&self) -> String {
        format!("{}/{}/{}", CGROUPS, self.group, self.file)
    }

    /// The drop-ins that `set-property --runtime` makes of it, and their directories.
    pub(crate) fn drop_ins(&self) -> Vec<(String, Vec<String>)> {
        let directory = |top: &&str| format!("{top}/{}.d", self.unit);
        let files = |dir: &str| {
            properties(self.file).iter().map(|name| format!("{dir}/{}", drop_in(name))).collect()
        };
        RUN_TIME_DROP_INS.iter().map(directory).map(|dir| (dir.clone(), files(&dir))).collect()
    }

    /// A write of `value` as a shell command. `before` is the view, and `node` the device's path.
    pub(crate) fn commands(&self, before: &str, value: &str, node: &str) -> String {
        match self.origin {
            Origin::RunTime => {
                let all = assignments(self.file, before, value, node).into_iter();
                let set: Vec<String> =
                    all.map(|(name, value)| format!("{name}={}", quoted(&value))).collect();
                let set = format!(
                    "systemctl set-property --runtime {} {}",
                    quoted(self.unit),
                    set.join(" ")
                );
                match self.is_written_first(value) {
                    true => format!("echo {value} > {}; {set}", quoted(&self.kernel_file())),
                    false => set,
                }
            }
            Origin::UnitFiles => {
                let files = self.drop_ins().into_iter().flat_map(|(_, files)| files);
                let files: Vec<String> = files.map(|file| quoted(&file)).collect();
                format!("rm -f {}; systemctl daemon-reload", files.join(" "))
            }
        }
    }

    /// Whether the kernel's file is written before the property is set. The thread that lowers
    /// `memory.high` reclaims the group's memory (mm/memcontrol.c `memory_high_write`). systemd has
    /// one thread: while that reclaims, it starts and stops no unit.
    pub(crate) fn is_written_first(&self, value: &str) -> bool {
        self.file == "memory.high" && value != "max"
    }

    /// The view after a write, where nothing else happens.
    pub(crate) fn view_after(&self, lines: &str) -> String {
        let first = match self.origin {
            Origin::RunTime => AT_RUN_TIME,
            Origin::UnitFiles => BY_UNIT_FILES,
        };
        format!("{first}\n{lines}")
    }
}

fn drop_in(property: &str) -> String {
    format!("50-{property}.conf")
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    if word.contains('\\') {
        format!("'{word}'")
    } else if word.contains(' ') {
        format!("\"{word}\"")
    } else {
        word.to_owned()
    }
}

/// The output of `systemctl show`: `NAME=VALUE` lines, several of one name for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown<'a>(&'a str);

impl<'a> Shown<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// The values of a property. An empty one does not count.
    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let lines = self.0.lines().filter_map(|line| line.split_once('='));
        lines.filter(move |(key, value)| *key == name && !value.is_empty()).map(|(_, value)| value)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Devices and values of a property that has a value for each device. A path may have spaces.
    fn by_device(&self, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.all(name).filter_map(|value| value.rsplit_once(' '))
    }

    /// The path under which systemd knows a device already.
    pub(crate) fn node_of(
        &self,
        number: &str,
        number_of: impl Fn(&str) -> Option<String>,
    ) -> Option<&'a str> {
        let all = IO_MAX.iter().flat_map(|(_, name)| self.by_device(name));
        all.map(|(path, _)| path).find(|path| number_of(path).as_deref() == Some(number))
    }

    /// The unit's drop-ins of all directories in the order in which they are read. systemd shows
    /// names with a backslash in quotes.
    pub(crate) fn drop_ins(&self) -> impl Iterator<Item = String> {
        let paths = self.get("DropInPaths").unwrap_or_default();
        paths.split_whitespace().map(|path| match path.strip_prefix('"') {
            Some(path) => path.trim_end_matches('"').replace("\\\\", "\\"),
            None => path.to_owned(),
        })
    }

    /// The properties of a knob's file that a drop-in of `set-property --runtime` sets.
    fn at_run_time(&self, file: &str) -> Vec<&'static str> {
        let paths: Vec<String> = self.drop_ins().filter(|path| is_at_run_time(path)).collect();
        let is_set =
            |name: &&&str| paths.iter().any(|path| path.ends_with(&format!("/{}", drop_in(name))));
        properties(file).iter().filter(is_set).copied().collect()
    }

    /// Where the limit is set, and the value for the kernel's file. `number_of` finds a device's
    /// number by its path.
    pub(crate) fn view(&self, file: &str, number_of: impl Fn(&str) -> Option<String>) -> String {
        let unlimited =
            |value: &str| if value == "infinity" { "max".to_owned() } else { value.to_owned() };
        let mut lines = match self.at_run_time(file).as_slice() {
            [] => vec![BY_UNIT_FILES.to_owned()],
            names => vec![format!("{AT_RUN_TIME}: {}", names.join(" "))],
        };
        let others: Vec<String> = self.drop_ins().filter(|path| !is_at_run_time(path)).collect();
        if !others.is_empty() {
            lines.push(format!("{OTHER_DROP_INS} {}", others.join(" ")));
        }
        match file {
            "memory.high" => lines.extend(self.get("MemoryHigh").map(unlimited)),
            "io.weight" => {
                let weight = self.get("IOWeight").filter(|weight| weight.parse::<u64>().is_ok());
                lines.push(format!("default {}", weight.unwrap_or(DEFAULT_WEIGHT)));
            }
            _ => {
                let mut devices: Vec<Line> = Vec::new();
                for (key, name) in IO_MAX {
                    for (path, value) in self.by_device(name) {
                        // One that is not there has no line in the kernel's file either.
                        let Some(number) = number_of(path) else { continue };
                        let new = Line::parse(&format!("{number} {key}={}", unlimited(value)));
                        match devices.iter_mut().find(|line| line.key == number) {
                            Some(line) => *line = line.with(&new),
                            None => {
                                let all = format!("{number} rbps=max wbps=max riops=max wiops=max");
                                devices.push(Line::parse(&all).with(&new));
                            }
                        }
                    }
                }
                lines.extend(devices.iter().map(Line::to_string));
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// Whether a drop-in is one of `set-property --runtime`.
fn is_at_run_time(path: &str) -> bool {
    let is_below = |top: &&str| path.strip_prefix(*top).is_some_and(|rest| rest.starts_with('/'));
    RUN_TIME_DROP_INS.iter().any(is_below)
}

/// Where a view says that the limit is set, and its lines.
pub(crate) fn split(view: &str) -> (Origin, &str) {
    let origin = if view.starts_with(AT_RUN_TIME) { Origin::RunTime } else { Origin::UnitFiles };
    let head =
        view.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
    (origin, view.get(head..).unwrap_or_default())
}

/// The properties that lead from a view to a value, with their values; `node` is the device's path.
pub(crate) fn assignments(
    file: &str,
    before: &str,
    value: &str,
    node: &str,
) -> Vec<(&'static str, String)> {
    let unlimited =
        |value: &str| if value == "max" { "infinity".to_owned() } else { value.to_owned() };
    match file {
        "memory.high" => vec![("MemoryHigh", unlimited(value))],
        "io.weight" => {
            let weight = value.split_whitespace().next_back().unwrap_or(DEFAULT_WEIGHT);
            vec![("IOWeight", weight.to_owned())]
        }
        _ => {
            let new = Line::parse(value);
            let old = split(before).1.lines().map(Line::parse).find(|line| line.key == new.key);
            let was = |key: &str| old.as_ref().and_then(|line| line.value(key)).unwrap_or("max");
            let changed =
                IO_MAX.iter().filter_map(|(key, name)| Some((*key, *name, new.value(key)?)));
            changed
                .filter(|(key, _, value)| was(key) != *value)
                .map(|(_, name, value)| (name, format!("{node} {}", unlimited(value))))
                .collect()
        }
    }
}

/// Why a limit can't be set at run time, or could not be given back. `value` is the value for the
/// kernel's file.
pub(crate) fn refusal(files: &dyn Files, limit: &Limit<'_>, value: &str) -> Option<String> {
    let view = files.read(&limit.at(Origin::RunTime)).ok()?;
    let others =
        view.lines().find_map(|line| line.strip_prefix(OTHER_DROP_INS)).unwrap_or_default();
    let read = |path: &str| files.read(path).unwrap_or_default();
    if let Some(stronger) =
        stronger(others.split_whitespace(), read, drop_in, properties(limit.file))
    {
        return Some(format!(
            "{stronger}, which would be in force again at the next daemon-reload; change it there"
        ));
    }
    if limit.file != "io.max" {
        return None;
    }
    if let Some(other) = another_device(&view, &Line::parse(value).key) {
        return Some(shares_a_drop_in(limit.unit, &other));
    }
    // A rollback to a limit that is set at run time leaves the drop-ins of all keys behind.
    let names = view.lines().next().and_then(|first| first.strip_prefix(AT_RUN_TIME))?;
    let is_there =
        |name: &str| names.trim_start_matches(':').split_whitespace().any(|other| other == name);
    let missing =
        assignments(limit.file, &view, value, "").into_iter().find(|(name, _)| !is_there(name));
    missing.map(|(name, _)| {
        format!(
            "{} has limits that are set at run time ({}), and {name}= is not one: it would be \
             after a rollback; \
             roll those back first, and give all together",
            limit.unit,
            names.trim_start_matches([':', ' '])
        )
    })
}

/// Another device that a view lists.
fn another_device(view: &str, key: &str) -> Option<String> {
    let keys = split(view).1.lines().map(|line| Line::parse(line).key);
    keys.into_iter().find(|other| !other.is_empty() && other != key)
}

/// Whether systemd limits another device of a limit's unit, too.
pub(crate) fn has_another_device(files: &dyn Files, path: &str, key: &str) -> bool {
    files.read(path).is_ok_and(|view| another_device(&view, key).is_some())
}

/// Why a second device of a unit is not limited at run time.
pub(crate) fn shares_a_drop_in(unit: &str, other: &str) -> String {
    format!(
        "systemd keeps the limits of all devices of {unit} in one drop-in, and device {other} is \
         one: a rollback \
         could not take back this one's alone; set both in the unit's files (systemctl edit {unit})"
    )
}

/// A drop-in that is read after `ours` (by a property's name) and sets the same.
pub(crate) fn stronger<'a>(
    paths: impl Iterator<Item = &'a str>,
    read: impl Fn(&str) -> String,
    ours: impl Fn(&str) -> String,
    properties: &[&str],
) -> Option<String> {
    let after = |path: &str, ours: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        // Of two files with one name the persistent one counts.
        name > ours || (name == ours && path.starts_with(LASTING_DROP_INS))
    };
    let mut found = paths.filter_map(|path| {
        let text = read(path);
        let sets = |property: &&&str| {
            let is_it =
                |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim() == **property);
            after(path, &ours(property)) && text.lines().any(is_it)
        };
        properties.iter().find(sets).map(|property| format!("{path} sets {property}="))
    });
    found.next()
}

/// Whether a drop-in limits a device other than the one of this number.
pub(crate) fn limits_another(
    text: &str,
    number: &str,
    number_of: impl Fn(&str) -> Option<String>,
) -> bool {
    let settings = text.lines().filter_map(|line| line.split_once('='));
    let devices = settings.filter_map(|(name, value)| {
        let is_limit = IO_MAX.iter().any(|(_, property)| *property == name.trim());
        is_limit.then(|| value.trim().rsplit_once(' '))?
    });
    devices.map(|(path, _)| number_of(path)).any(|other| other.as_deref() != Some(number))
}

#[cfg(test)]
mod tests;
