//! Victims and floods: real programs, and a plain one that commits. Each ends when it is dropped or
//! the test's process ends. Floods write zeros, which take no memory of a lab, and at most
//! [`FLOOD_BYTES`].

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use floodwall_testing::process::done;
use floodwall_testing::{said, until};

use crate::bed::{Lab, PATIENCE, Unit};

/// The first argument of the plain victim.
pub(crate) const VICTIM: &str = "why-victim";
/// The bytes of one commit.
const BLOCK: [u8; 8 << 10] = [7; 8 << 10];
/// More than any disk here drains within a test.
const FLOOD_BYTES: u64 = 2 << 30;
/// The size of a small file.
const SMALL_BYTES: usize = 8 << 10;
/// A record of an archive (tar(5)).
const RECORD_BYTES: usize = 512;
/// Debian's user and programs of PostgreSQL.
const POSTGRES: &str = "postgres";
/// Where its versions are.
pub(crate) const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// Commits to a file of a directory until it is killed.
pub(crate) fn commit(directory: &Path, pause_ms: &str) -> io::Result<()> {
    let pause = Duration::from_millis(pause_ms.parse().map_err(io::Error::other)?);
    let file = File::create(directory.join("victim"))?;
    loop {
        file.write_all_at(&BLOCK, 0)?;
        // The journal as well: the time of the last change is in it.
        file.sync_all()?;
        std::thread::sleep(pause);
    }
}

/// A program that ends with the test's process, as another user if one is named.
fn tied(user: Option<&str>, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(user) = user {
        command.args(["--reuid", user, "--regid", user, "--init-groups"]);
    }
    command.arg(program.as_ref()).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A program that runs; killed when it is dropped. Its file is removed then, so that the next test
/// need not wait for its writeback.
pub(crate) struct Load {
    child: Child,
    removed: Option<PathBuf>,
}

impl Load {
    fn start(command: &mut Command, unit: Option<&Unit>) -> Result<Self, String> {
        let child = command.spawn().map_err(said(&format!("{command:?}")))?;
        let load = Self { child, removed: None };
        unit.map_or(Ok(()), |unit| unit.takes(load.pid()))?;
        Ok(load)
    }

    fn removing(mut self, path: impl Into<PathBuf>) -> Self {
        self.removed = Some(path.into());
        self
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The write calls that it has made (proc_pid_io(5)).
    pub(crate) fn writes(&self) -> Result<u64, String> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.pid())).map_err(said("io"))?;
        let writes = io.lines().find_map(|line| line.strip_prefix("syscw: ")?.parse().ok());
        writes.ok_or(io)
    }

    /// What the kernel calls it, once it is the program that it shall be.
    pub(crate) fn name(&self) -> Result<String, String> {
        let name = || fs::read_to_string(format!("/proc/{}/comm", self.pid()));
        until(PATIENCE, "a program runs", || name().is_ok_and(|name| name.trim() != "setpriv"))?;
        Ok(name().map_err(said("comm"))?.trim_end().to_owned())
    }

    /// Writes to its standard input, from another thread, until it ends.
    fn fed(
        mut self,
        mut feed: impl FnMut(&mut dyn Write) -> io::Result<()> + Send + 'static,
    ) -> Self {
        if let Some(mut input) = self.child.stdin.take() {
            // It ends by an error: the pipe has no reader any more.
            std::thread::spawn(move || feed(&mut input));
        }
        self
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        match &self.removed {
            Some(path) if path.is_dir() => drop(fs::remove_dir_all(path)),
            Some(path) => drop(fs::remove_file(path)),
            None => {}
        }
    }
}

/// The plain victim, with a pause between two commits.
pub(crate) fn victim(lab: &Lab, pause_ms: u32) -> Result<Load, String> {
    let this = std::env::current_exe().map_err(said("this binary"))?;
    let mut command = tied(None, this);
    command.arg(VICTIM).arg(&lab.directory).arg(pause_ms.to_string());
    Load::start(&mut command, None)
}

/// SQLite's shell, which commits one row after another.
pub(crate) fn sqlite(lab: &Lab) -> Result<Load, String> {
    let mut command = tied(None, "sqlite3");
    command.arg(lab.file("data.db")).stdin(Stdio::piped());
    let load = Load::start(&mut command, None)?;
    Ok(load.fed(|input| {
        input.write_all(b"CREATE TABLE t(v);\n")?;
        loop {
            input.write_all(b"INSERT INTO t VALUES(randomblob(500));\n")?;
        }
    }))
}

/// A file of zeros, which has no place on a disk.
fn zeros(name: &str) -> Result<tempfile::NamedTempFile, String> {
    let file = tempfile::Builder::new().prefix(name).tempfile().map_err(said("a file"))?;
    file.as_file().set_len(FLOOD_BYTES).map_err(said("a sparse file"))?;
    Ok(file)
}

/// A large file, and the program that writes it to a disk.
pub(crate) struct Copy {
    pub(crate) load: Load,
    #[expect(dead_code, reason = "dropping it removes the file")]
    from: tempfile::NamedTempFile,
}

/// `cp` of a large file.
pub(crate) fn copy(lab: &Lab, unit: Option<&Unit>) -> Result<Copy, String> {
    let (from, to) = (zeros("why-copy")?, lab.file("copy"));
    let mut command = tied(None, "cp");
    command.arg("--sparse=never").arg(from.path()).arg(&to);
    Ok(Copy { load: Load::start(&mut command, unit)?.removing(to), from })
}

/// `tar` of a tree with a large file.
pub(crate) fn backup(lab: &Lab, unit: Option<&Unit>) -> Result<Copy, String> {
    let (from, to) = (zeros("why-backup")?, lab.file("backup.tar"));
    let mut command = tied(None, "tar");
    // Never to /dev/null, and never a sparse one: tar would not write it.
    command.args(["--create", "--absolute-names", "--file", &to]).arg(from.path());
    Ok(Copy { load: Load::start(&mut command, unit)?.removing(to), from })
}

/// `tar` that extracts small files, one after the other.
pub(crate) fn small_files(lab: &Lab) -> Result<Load, String> {
    let to = lab.directory.join("small");
    fs::create_dir(&to).map_err(said("a directory"))?;
    let mut command = tied(None, "tar");
    command.args(["--extract", "--file", "-", "--directory"]).arg(&to).stdin(Stdio::piped());
    let load = Load::start(&mut command, None)?.removing(to);
    Ok(load.fed(|input| {
        let content = [0; SMALL_BYTES];
        (0..FLOOD_BYTES / SMALL_BYTES as u64).try_for_each(|number| {
            input.write_all(&header(&format!("{}/{number}", number / 1000)))?;
            input.write_all(&content)
        })
    }))
}

/// The header of a small file in an archive (tar(5), "Old-Style Archive Format").
fn header(name: &str) -> [u8; RECORD_BYTES] {
    let mut header = [0; RECORD_BYTES];
    let mut put = |at: usize, text: &str| {
        if let Some(field) = header.get_mut(at..at + text.len()) {
            field.copy_from_slice(text.as_bytes());
        }
    };
    put(0, name);
    put(100, "0000644");
    put(124, &format!("{SMALL_BYTES:011o}"));
    put(136, "00000000001");
    // Its own field counts as blanks.
    put(148, "        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

/// A private server of PostgreSQL on a disk, and a client whose transactions commit.
pub(crate) struct Postgres {
    #[expect(dead_code, reason = "dropping it ends the client, before the server")]
    client: Load,
    server: Load,
}

impl Postgres {
    pub(crate) fn start(lab: &Lab, unit: &Unit) -> Result<Self, String> {
        let programs = newest().ok_or("no version of PostgreSQL")?;
        let program = |name: &str| tied(Some(POSTGRES), programs.join(name));
        let (data, socket) = (lab.file("pg"), lab.file("s"));
        for directory in [&data, &socket] {
            let owner = ["-d", "-m", "700", "-o", POSTGRES, "-g", POSTGRES];
            done(Command::new("install").args(owner).arg(directory))?;
        }
        done(program("initdb").args(["--no-sync", "-A", "trust", "-U", POSTGRES, "-D", &data]))?;
        let mut server = program("postgres");
        server.args(["-D", &data, "-c", "listen_addresses=", "-c"]);
        server.arg(format!("unix_socket_directories={socket}")).stderr(Stdio::null());
        let server = Load::start(&mut server, Some(unit))?;
        let client = |name: &str| {
            let mut client = program(name);
            client.args(["-h", &socket, "-U", POSTGRES]).stderr(Stdio::null());
            client
        };
        until(PATIENCE, "PostgreSQL answers", || {
            client("pg_isready").status().is_ok_and(|status| status.success())
        })?;
        done(client("pgbench").args(["-i", "-q", POSTGRES]))?;
        let mut transactions = client("pgbench");
        transactions.args(["-n", "-c", "2", "-T", "600", POSTGRES]);
        Ok(Self { client: Load::start(&mut transactions, None)?, server })
    }

    /// Whether a process is the server, or was started by it.
    pub(crate) fn is(&self, pid: u64) -> bool {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        let server = u64::from(self.server.pid());
        pid == server || parent.and_then(|parent| parent.trim().parse().ok()) == Some(server)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once, and its processes with it: a killed server would leave them.
        if let Some(pid) =
            i32::try_from(self.server.pid()).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
            let _ = until(PATIENCE, "PostgreSQL ends", || {
                matches!(self.server.child.try_wait(), Ok(Some(_)) | Err(_))
            });
        }
    }
}

/// The programs of the newest version that is installed.
fn newest() -> Option<PathBuf> {
    let versions = fs::read_dir(POSTGRES_VERSIONS).into_iter().flatten().flatten();
    let numbered =
        versions.filter_map(|v| Some((v.file_name().to_str()?.parse::<u32>().ok()?, v.path())));
    Some(numbered.max()?.1.join("bin"))
}
