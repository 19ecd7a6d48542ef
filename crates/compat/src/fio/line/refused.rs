//! Options that are not supported, with the nearest that is.

use floodwall_model::toml_text::nearest;

use super::error::OptionError;
use super::others::instead;
use super::table::KNOWN;

/// The tool's options of the command that are not supported.
const COMMANDS: [(&str, &str); 6] = [
    ("help h cmdhelp enghelp", "floodwall compat --help"),
    ("status-interval bandwidth-log", "write_bw_log=NAME"),
    ("latency-log", "write_lat_log=NAME"),
    (
        "showcmd debug crctest cpuclock-test aux-path inflate-log idle-prof trigger trigger-file \
         trigger-timeout trigger-remote merge-blktrace-only",
        "leave it out",
    ),
    ("client server daemonize remote-config", "ssh HOST floodwall compat fio"),
    ("json", "--output-format=json"),
];

/// The options of the command that are supported.
const OWN: [&str; 11] = [
    "version",
    "parse-only",
    "output",
    "minimal",
    "append-terse",
    "output-format",
    "terse-version",
    "eta",
    "readonly",
    "section",
    "max-jobs",
];

/// An option without the value that it needs.
pub(super) fn lacking(name: &str) -> OptionError {
    OptionError::NoValue { place: String::new(), option: name.to_owned() }
}

/// An option as it was written, its name, and what stands before a name in that place.
pub(super) fn refused(place: &str, word: &str, name: &str, dashes: &str) -> OptionError {
    let is_command = !dashes.is_empty();
    let has = |names: &str| names.split(' ').any(|other| other == name);
    let command = COMMANDS.iter().find(|(names, _)| is_command && has(names));
    let place = place.to_owned();
    if let Some(nearest) = command.map(|(_, nearest)| *nearest).or_else(|| instead(name)) {
        return OptionError::Unsupported { place, what: word.to_owned(), nearest };
    }
    let own = OWN.into_iter().filter(|_| is_command);
    let names = KNOWN.iter().flat_map(|known| [Some(known.name), known.alias]).flatten().chain(own);
    let nearest = nearest(name, names).map_or_else(
        || "docs/compat.md lists those supported".to_owned(),
        |near| format!("{dashes}{near}"),
    );
    OptionError::Unknown { place, option: word.to_owned(), nearest }
}
