//! PostgreSQL as Debian packages it, with its own settings (fsync on, fdatasync of the log at each
//! commit), and pgbench's transactions.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::database::Database;
use super::load::Load;
use super::summary::Measured;
use processes::child::{end, finished, said, tied, tied_as, until};

/// Debian's user of it.
const USER: &str = "postgres";
const PROGRAMS: &str = "/usr/lib/postgresql";
/// Until it takes connections, and until it has shut down.
const PATIENCE: Duration = Duration::from_secs(60);

/// A private server, and its database.
pub(super) struct Postgres {
    server: Child,
    programs: PathBuf,
    socket: PathBuf,
    clients: u32,
    /// Transactions a second to ask for; as many as it can without it.
    rate: Option<u32>,
    /// pgbench's logs, away from the device.
    logs: tempfile::TempDir,
}

/// Programs of the newest version that is installed.
fn programs() -> anyhow::Result<PathBuf> {
    let versions = std::fs::read_dir(PROGRAMS).into_iter().flatten().flatten();
    let found = versions
        .filter_map(|v| Some((v.file_name().to_str()?.parse::<u32>().ok()?, v.path().join("bin"))));
    let newest = found.filter(|(_, bin)| bin.join("postgres").exists()).max();
    let (_, bin) = newest.with_context(|| {
        format!("no PostgreSQL server in {PROGRAMS}: apt-get install postgresql")
    })?;
    Ok(bin)
}

impl Postgres {
    pub(super) fn make(dir: &Path, load: &Load) -> anyhow::Result<Self> {
        let programs = programs()?;
        let (data, socket) = (dir.join("pg"), dir.join("s"));
        for dir in [&data, &socket] {
            finished(
                Command::new("install").args(["-d", "-m", "700", "-o", USER, "-g", USER]).arg(dir),
            )?;
        }
        let mut initdb = tied_as(USER, "KILL", programs.join("initdb"));
        said(initdb.args(["-A", "trust", "-U", USER, "-D"]).arg(&data))?;
        let mut server = tied_as(USER, "QUIT", programs.join("postgres"));
        server.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-c", "fsync=on", "-c"]);
        server.arg(format!("unix_socket_directories={}", socket.display()));
        let log = std::fs::File::create(dir.join("pg.log")).context("can't make its log")?;
        server.stdout(Stdio::null()).stderr(log);
        let logs = tempfile::tempdir().context("can't make a directory for logs")?;
        let server = server.spawn().context("can't start postgres")?;
        let mut postgres =
            Self { server, programs, socket, clients: load.clients, rate: load.rate, logs };
        let mut ready = Command::new(postgres.programs.join("pg_isready"));
        ready.arg("-q").arg("-h").arg(&postgres.socket).stdin(Stdio::null());
        until(&mut postgres.server, "postgres", PATIENCE, || {
            ready.status().is_ok_and(|s| s.success())
        })?;
        said(postgres.client("pgbench").args(["-i", "-q", "-s", &load.scale.to_string(), USER]))?;
        postgres.ask("CHECKPOINT")?;
        Ok(postgres)
    }

    /// A client of the server, which ends with this program.
    fn client(&self, program: &str) -> Command {
        let mut command = tied("TERM", self.programs.join(program));
        command.arg("-h").arg(&self.socket).args(["-U", USER]).env("PGDATABASE", USER);
        command
    }

    fn ask(&self, question: &str) -> anyhow::Result<String> {
        Ok(said(self.client("psql").args(["-X", "-A", "-t", "-c", question]))?.trim().to_owned())
    }
}

impl Database for Postgres {
    fn run(&mut self, time: Duration) -> anyhow::Result<Measured> {
        let prefix = self.logs.path().join("log");
        let mut pgbench = self.client("pgbench");
        pgbench.args(["-n", "-l", "-j", "2"]);
        pgbench.args(["-c", &self.clients.to_string(), "-T", &time.as_secs().to_string()]);
        // Times count from when a transaction was due then.
        pgbench.args(self.rate.map(|rate| format!("--rate={rate}")));
        pgbench.arg("--log-prefix").arg(&prefix).arg(USER);
        let told = said(&mut pgbench)?;
        let own = told
            .lines()
            .find_map(|line| line.strip_prefix("number of transactions actually processed: "));
        let own: u64 = own
            .and_then(|n| n.split('/').next()?.trim().parse().ok())
            .context("pgbench told no number")?;
        Ok(Measured::new(time, logged(self.logs.path(), own)?))
    }

    fn process(&self) -> Option<u32> {
        Some(self.server.id())
    }

    fn load(&self) -> Vec<String> {
        let client = [self.programs.join("psql"), "-h".into(), self.socket.clone()];
        let mut words: Vec<String> = client.iter().map(|word| word.display().to_string()).collect();
        words.extend(["-U", USER, "-d", USER, "-X", "-q"].map(String::from));
        for command in [
            "SET client_min_messages=warning",
            "DROP TABLE IF EXISTS FLOOD",
            "CREATE TABLE FLOOD(v text)",
            "COPY FLOOD FROM STDIN",
        ] {
            words.extend(["-c".into(), command.into()]);
        }
        words
    }

    fn about(&mut self) -> anyhow::Result<Value> {
        let syncs: u64 =
            self.ask("SELECT wal_sync FROM pg_stat_wal")?.parse().context("pg_stat_wal")?;
        Ok(json!({
            "version": self.ask("SHOW server_version")?, "fsync": self.ask("SHOW \
             fsync")?, "wal_sync_method": self.ask("SHOW wal_sync_method")?,
            "synchronous_commit": self.ask("SHOW synchronous_commit")?, "wal_syncs": syncs,
        }))
    }
}

/// The transactions in all logs of a directory, which are removed. `own`: as many as the program
/// that wrote them says.
pub(super) fn logged(dir: &Path, own: u64) -> anyhow::Result<Vec<(u64, u64)>> {
    let mut done = Vec::new();
    for log in std::fs::read_dir(dir).context("the logs of transactions")? {
        let path = log?.path();
        let file = std::fs::File::open(&path).context("the log of transactions")?;
        for line in BufReader::new(file).lines() {
            let line = line.context("the log of transactions")?;
            done.push(
                transaction(&line)
                    .with_context(|| format!("the log of transactions says '{line}'"))?,
            );
        }
        std::fs::remove_file(&path).context("the log of transactions")?;
    }
    anyhow::ensure!(done.len() as u64 == own, "the logs have {} transactions of {own}", done.len());
    Ok(done)
}

/// When it was done, in µs since 1970, and how long it took:
/// `client number time script seconds microseconds`.
fn transaction(line: &str) -> Option<(u64, u64)> {
    let words: Vec<u64> = line.split(' ').take(6).map_while(|word| word.parse().ok()).collect();
    let [_, _, took_us, _, seconds, us] = words.as_slice() else { return None };
    Some((seconds * 1_000_000 + us, *took_us))
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once, without writing anything back: the data is of no further use.
        if let Err(error) = end(&mut self.server, "QUIT", PATIENCE) {
            eprintln!("postgres may still run: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_tells_when_and_how_long() {
        // pgbench(1), "Per-Transaction Logging".
        assert_eq!(
            transaction("0 199 2241 0 1175850568 995598"),
            Some((1_175_850_568_995_598, 2241))
        );
        assert_eq!(
            transaction("0 81 4621 0 1412881037 912698 3005"),
            Some((1_412_881_037_912_698, 4621))
        );
        assert_eq!(transaction("0 84 skipped 0 1412881037 918023 5217"), None);
    }
}
