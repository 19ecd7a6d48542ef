//! A guard's configuration: a file, and flags that override it.
//!
//! ```toml
//! p99 = "20ms"                    # the goal; without it four times
//!                                 # what operations take while nothing floods
//! mode = "protect"                # the goal first; or "balance"
//! devices = ["sda", "nvme0n1"]    # only these
//! exclude = ["sdb"]               # all but these
//! dry_run = false
//! source = "auto"                 # or "bpf", "perf"
//! metrics = "127.0.0.1:9750"      # or "unix:/run/floodwall/metrics.sock"; off without it
//! socket = "/run/floodwall/guard.sock"
//! history = 1000
//! record = true                   # keep what `floodwall watch` shows, for days
//! ```

mod values;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use floodwall_guard::Mode;
use floodwall_model::toml_text;
use floodwall_plant::{SourceKind, mount_points};
use serde::{Deserialize, Serialize};
use toml::{Spanned, Value};

pub use self::values::Listen;
pub(crate) use self::values::Record;
use self::values::{
    HISTORY, SOCKET, check_names, flag, goal, history, listen, mode, names, record, socket_path,
    source, text,
};
use crate::error::DaemonError;

/// The configuration that is read where none is named.
pub(crate) const FILE: &str = "/etc/floodwall/guard.toml";
/// Everything of a running guard: its lock and its socket.
pub(crate) const DIRECTORY: &str = "/run/floodwall";

/// A guard's command-line flags; each overrides the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Read this configuration; without it the usual one, if it is there.
    pub config: Option<PathBuf>,
    /// How long 99 of 100 synchronous operations may take.
    pub p99: Option<String>,
    /// What the guard prefers: `protect` or `balance`.
    pub mode: Option<String>,
    /// Steer only these; empty: all.
    pub devices: Vec<String>,
    /// Leave these alone.
    pub exclude: Vec<String>,
    /// Decide and log, but write nothing.
    pub dry_run: bool,
    /// Where to look: `auto`, `bpf` or `perf`.
    pub source: Option<String>,
    /// Where metrics are served.
    pub metrics: Option<String>,
    /// Where the guard can be asked.
    pub socket: Option<String>,
    /// How many decisions are kept.
    pub history: Option<i64>,
    /// The preset of a simulated machine.
    pub sim: Option<String>,
    /// Where journals are kept.
    pub journal: PathBuf,
}

impl Flags {
    /// Reads the configuration as a guard with these flags would, and the path of its file if there
    /// is one. Nothing is started, and no device is looked for.
    ///
    /// # Errors
    /// [`DaemonError::Usage`] with the file's line or the flag, and what to do.
    pub fn check(&self) -> Result<Option<PathBuf>, DaemonError> {
        Settings::read(self).map(|settings| settings.file)
    }
}

/// Everything that a guard is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// The file that was read, if there was one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) p99: Option<Duration>,
    pub(crate) mode: Mode,
    /// Only these; empty: all.
    pub(crate) devices: Vec<String>,
    /// Where the filesystems of those that are directories were mounted at the start.
    pub(crate) mounted: BTreeMap<String, PathBuf>,
    /// Not these.
    pub(crate) exclude: Vec<String>,
    pub(crate) dry_run: bool,
    /// As [`SourceKind`] names it; `None`: the best that there is.
    pub(crate) source: Option<String>,
    pub(crate) metrics: Option<Listen>,
    pub(crate) socket: PathBuf,
    pub(crate) history: usize,
    /// Whether a recorder runs beside the guard, and where it writes.
    pub(crate) record: Record,
    /// The preset of a simulated machine.
    pub(crate) sim: Option<String>,
    /// The journal of writes.
    pub(crate) journal: PathBuf,
}

/// As the file is written. Values are checked afterwards, so that an error can name its line.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    p99: Option<Spanned<Value>>,
    mode: Option<Spanned<Value>>,
    devices: Option<Spanned<Value>>,
    exclude: Option<Spanned<Value>>,
    dry_run: Option<Spanned<Value>>,
    source: Option<Spanned<Value>>,
    metrics: Option<Spanned<Value>>,
    socket: Option<Spanned<Value>>,
    history: Option<Spanned<Value>>,
    record: Option<Spanned<Value>>,
}

/// A file's text with its name, for messages.
struct Text<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Text<'_> {
    fn wrong(&self, offset: usize, why: &str) -> DaemonError {
        let line = self.text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1;
        DaemonError::Usage(format!("'{}', line {line}: {why}", self.path.display()))
    }

    /// A value, made something of.
    fn take<T>(
        &self,
        value: Option<&Spanned<Value>>,
        make: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, DaemonError> {
        let made = value
            .map(|value| make(value.get_ref()).map_err(|why| self.wrong(value.span().start, &why)));
        made.transpose()
    }
}

/// The default path of a guard's socket.
pub(crate) fn default_socket() -> PathBuf {
    PathBuf::from(SOCKET)
}

/// The default path for a simulated machine, which needs no root.
pub(crate) fn simulated_socket() -> PathBuf {
    let directory =
        std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    directory.join(format!("floodwall-guard-{}.sock", rustix::process::geteuid().as_raw()))
}

impl Settings {
    /// The file's settings, overridden by the flags.
    ///
    /// # Errors
    /// [`DaemonError::Usage`] with the file's line or the flag, and what to do.
    pub(crate) fn read(args: &Flags) -> Result<Self, DaemonError> {
        let path = args.config.clone().unwrap_or_else(|| PathBuf::from(FILE));
        let settings = match fs::read_to_string(&path) {
            Ok(text) => Self::parse(args, Some(&path), &text)?,
            Err(e) if e.kind() == ErrorKind::NotFound && args.config.is_none() => {
                Self::parse(args, None, "")?
            }
            Err(e) => {
                return Err(DaemonError::Usage(format!(
                    "can't read '{}': {e}; name another with --config",
                    path.display()
                )));
            }
        };
        Ok(Self { mounted: mount_points(&settings.devices), ..settings })
    }

    /// The same from a file's text.
    fn parse(args: &Flags, path: Option<&Path>, text_of_file: &str) -> Result<Self, DaemonError> {
        let at = Text { path: path.unwrap_or(Path::new(FILE)), text: text_of_file };
        let file: File = toml::from_str(text_of_file).map_err(|e| {
            let (_, why) = toml_text::place_and_message(text_of_file, &e);
            at.wrong(e.span().map_or(0, |s| s.start), &why)
        })?;
        let p99 = at.take(file.p99.as_ref(), |v| goal(text(v, "p99", "20ms")?))?;
        let mode = at.take(file.mode.as_ref(), |v| mode(text(v, "mode", "protect")?))?;
        let devices = at.take(file.devices.as_ref(), |v| names(v, "devices"))?;
        let exclude = at.take(file.exclude.as_ref(), |v| names(v, "exclude"))?;
        let dry_run = at.take(file.dry_run.as_ref(), |v| flag(v, "dry_run"))?;
        let recorded = at.take(file.record.as_ref(), record)?;
        let source_of_file =
            at.take(file.source.as_ref(), |v| source(text(v, "source", "auto")?))?;
        let metrics =
            at.take(file.metrics.as_ref(), |v| listen(text(v, "metrics", "127.0.0.1:9750")?))?;
        let socket = at.take(file.socket.as_ref(), |v| {
            socket_path(text(v, "socket", SOCKET)?).map_err(|why| format!("socket: {why}"))
        })?;
        let history_of_file =
            at.take(file.history.as_ref(), |v| {
                history(v.as_integer().ok_or_else(|| {
                    format!("history = {v} is no number; write history = {HISTORY}")
                })?)
            })?;

        let wrong = |why: String| DaemonError::Usage(format!("--{why}"));
        check_names(&args.devices, "device").map_err(wrong)?;
        check_names(&args.exclude, "exclude").map_err(wrong)?;
        let chosen = |flags: &[String], file: Option<Vec<String>>| {
            if flags.is_empty() { file.unwrap_or_default() } else { flags.to_vec() }
        };
        let settings = Self {
            file: path.map(Path::to_owned),
            p99: args.p99.as_deref().map(goal).transpose().map_err(wrong)?.or(p99),
            mode: args
                .mode
                .as_deref()
                .map(values::mode)
                .transpose()
                .map_err(wrong)?
                .or(mode)
                .unwrap_or_default(),
            devices: chosen(&args.devices, devices),
            mounted: BTreeMap::new(),
            exclude: chosen(&args.exclude, exclude),
            dry_run: args.dry_run || dry_run.unwrap_or(false),
            source: match &args.source {
                Some(text) => source(text).map_err(wrong)?,
                None => source_of_file.flatten(),
            },
            metrics: args.metrics.as_deref().map(listen).transpose().map_err(wrong)?.or(metrics),
            socket: match &args.socket {
                Some(text) => socket_path(text).map_err(|why| wrong(format!("socket: {why}")))?,
                None if args.sim.is_some() => simulated_socket(),
                None => socket.unwrap_or_else(default_socket),
            },
            history: args
                .history
                .map(history)
                .transpose()
                .map_err(wrong)?
                .or(history_of_file)
                .unwrap_or(HISTORY),
            record: recorded.unwrap_or_default(),
            sim: args.sim.clone(),
            journal: args.journal.clone(),
        };
        if let Some(both) = settings.devices.iter().find(|d| settings.exclude.contains(d)) {
            let why = format!(
                "device '{both}' is both to be steered and to be left alone; take it out of \
                 devices or of exclude"
            );
            let place = file
                .exclude
                .as_ref()
                .or(file.devices.as_ref())
                .filter(|_| args.devices.is_empty() && args.exclude.is_empty());
            return Err(place.map_or_else(
                || DaemonError::Usage(why.clone()),
                |v| at.wrong(v.span().start, &why),
            ));
        }
        if settings.metrics == Some(Listen::Unix(settings.socket.clone())) {
            let why = "metrics and socket are one path; give each its own";
            return Err(file.metrics.as_ref().map_or_else(
                || DaemonError::Usage(why.into()),
                |v| at.wrong(v.span().start, why),
            ));
        }
        Ok(settings)
    }

    /// The source that is wished for.
    pub(crate) fn source_kind(&self) -> Option<SourceKind> {
        [SourceKind::Bpf, SourceKind::Perf]
            .into_iter()
            .find(|kind| self.source.as_deref() == Some(kind.name()))
    }

    /// The settings of the control law.
    pub(crate) fn law(&self) -> floodwall_guard::Config {
        floodwall_guard::Config { goal: self.p99, mode: self.mode }
    }

    /// Keeps what can't change while the guard runs, and names what was to.
    pub(crate) fn keep_fixed(&mut self, old: &Self) -> Vec<&'static str> {
        let mut kept = Vec::new();
        let mut keep = |name, differs: bool| {
            if differs {
                kept.push(name);
            }
        };
        keep("source", self.source != old.source);
        keep("metrics", self.metrics != old.metrics);
        keep("socket", self.socket != old.socket);
        self.source.clone_from(&old.source);
        self.metrics.clone_from(&old.metrics);
        self.socket.clone_from(&old.socket);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, String> {
        with(Flags::default(), text)
    }

    fn with(args: Flags, text: &str) -> Result<Settings, String> {
        Settings::parse(&args, Some(Path::new("/g.toml")), text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_file_is_read_and_flags_go_before_it() {
        let file =
            "p99 = \"20ms\"\ndevices = [\"sda\"]\nmetrics = \"127.0.0.1:9750\"\nhistory = 5\n";
        let settings = parse(file).unwrap();
        assert_eq!(settings.p99, Some(Duration::from_millis(20)));
        assert_eq!(settings.devices, ["sda"]);
        assert_eq!(settings.metrics, Some(Listen::Tcp("127.0.0.1:9750".parse().unwrap())));
        assert_eq!((settings.history, settings.socket), (5, PathBuf::from(SOCKET)));
        let args = Flags {
            p99: Some("5ms".into()),
            devices: vec!["sdb".into()],
            metrics: Some("unix:/run/m.sock".into()),
            ..Flags::default()
        };
        let settings = with(args, file).unwrap();
        assert_eq!(settings.p99, Some(Duration::from_millis(5)));
        assert_eq!(settings.devices, ["sdb"]);
        assert_eq!(settings.metrics, Some(Listen::Unix("/run/m.sock".into())));
        assert_eq!(parse("record = true\n").unwrap().record, Record::Usual);
        assert_eq!(parse("record = \"/srv/r\"\n").unwrap().record, Record::In("/srv/r".into()));
        assert_eq!(parse("record = false\n").unwrap().record, Record::Off);
        let wrong = parse("record = \"r\"\n").unwrap_err();
        assert!(wrong.contains("line 1: record = \"r\""), "{wrong}");
        assert_eq!((parse("").unwrap().p99, parse("").unwrap().mode), (None, Mode::Protect));
        assert_eq!(parse("mode = \"balance\"\n").unwrap().mode, Mode::Balance);
        let args = Flags { mode: Some("protect".into()), ..Flags::default() };
        assert_eq!(with(args, "mode = \"balance\"\n").unwrap().mode, Mode::Protect);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_what_to_do() {
        let cases = [
            ("# x\np98 = \"20ms\"\n", "'/g.toml', line 2: unknown key 'p98'; did you mean 'p99'?"),
            ("p99 = 20\n", "line 1: p99 = 20 is no text; write p99 = \"20ms\""),
            (
                "\n\np99 = \"1ms\"\n",
                "line 3: p99 = 1ms is less than queue lengths can steer; write 2.00 ms or more",
            ),
            ("p99 = \"2h\"\n", "protects nobody"),
            ("p99 = \"-5ms\"\n", "line 1: p99: "),
            ("devices = \"sda\"\n", "write devices = [\"sda\", \"nvme0n1\"]"),
            ("exclude = [\"\"]\n", "exclude: '' is no device"),
            ("mode = \"fair\"\n", "line 1: mode = fair is none; write protect or balance"),
            (
                "history = 3\ndevices = [\"sda\"]\nexclude = [\"sda\"]\n",
                "line 3: device 'sda' is both",
            ),
            ("dry_run = \"yes\"\n", "write dry_run = true or false"),
            ("source = \"proc\"\n", "can't see who waits"),
            ("source = \"x\"\n", "write auto, bpf or perf"),
            ("metrics = \"0.0.0.0:9750\"\n", "write 127.0.0.1:9750"),
            ("metrics = \"[::]:9750\"\n", "could be reached from elsewhere"),
            ("metrics = \"9750\"\n", "is no address"),
            ("metrics = \"unix:m.sock\"\n", "write an absolute one"),
            ("socket = \"guard.sock\"\n", "line 1: socket: 'guard.sock' is no socket's path"),
            ("socket = \"/m\"\nmetrics = \"/m\"\n", "line 2: metrics and socket are one path"),
            ("history = 0\n", "history = 0 is out of range"),
            ("p99 = \"20ms\"\np99 = \"30ms\"\n", "line 2: "),
            ("p99 = \n", "line 1: "),
        ];
        for (text, expected) in cases {
            let said = parse(text).unwrap_err();
            assert!(said.contains(expected), "{text:?}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
        let long = format!("socket = \"/{}\"\n", "x".repeat(200));
        assert!(parse(&long).unwrap_err().contains("too long for a socket"));
        let args = Flags { p99: Some("1ms".into()), ..Flags::default() };
        assert!(with(args, "").unwrap_err().starts_with("--p99 = 1ms is less"));
    }

    #[test]
    fn only_the_usual_file_may_be_absent() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("guard.toml");
        let args = Flags { config: Some(missing.clone()), ..Flags::default() };
        let said = Settings::read(&args).unwrap_err().to_string();
        assert!(said.starts_with(&format!("can't read '{}': ", missing.display())), "{said}");
    }

    #[test]
    fn the_example_in_packaging_is_the_default_with_every_key() {
        let text = include_str!("../../../../packaging/guard.toml");
        assert_eq!(parse(text).unwrap(), parse("").unwrap());
        // Each key is there, commented out with its default or an example, and can be taken as it
        // stands.
        let keys = [
            "p99", "mode", "devices", "exclude", "dry_run", "source", "metrics", "socket",
            "history",
        ];
        for key in keys {
            let line = text
                .lines()
                .find_map(|l| l.strip_prefix('#').filter(|l| l.starts_with(&format!("{key} = "))));
            parse(line.unwrap_or_else(|| panic!("{key} is not in it"))).unwrap();
        }
    }

    #[test]
    fn what_is_taken_at_the_start_only_is_named() {
        let old = parse("").unwrap();
        let mut new =
            parse("p99 = \"9ms\"\nmetrics = \"127.0.0.1:1\"\nsource = \"perf\"\n").unwrap();
        assert_eq!(new.keep_fixed(&old), ["source", "metrics"]);
        assert_eq!(new, Settings { p99: Some(Duration::from_millis(9)), ..old });
    }
}
