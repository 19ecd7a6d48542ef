//! MariaDB with its own default settings (the log stable at each commit), and sysbench's
//! `oltp_update_non_index`: one update a transaction.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::database::Database;
use super::load::Load;
use super::postgres::logged;
use super::summary::Measured;
use processes::child::{end, finished, said, tied, tied_as, until};

/// The number of Debian's user `nobody` and group `nogroup`. The package of the service would add a
/// user `mysql`.
const USER: &str = "65534";
const SERVER: &str = "mariadbd";
const NAME: &str = "victim";
/// For each unit of `--scale`: some 5 MB. The default of 20 units fits into the buffer pool (128
/// MiB by default): victims wait for commits and not for reads.
const ROWS: u32 = 20_000;
/// Until it takes connections, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(60);
/// sysbench's script: transactions are logged in the form of pgbench's.
const SCRIPT: &str = include_str!("commits.lua");

/// A private server, and its database.
pub(super) struct Mariadb {
    server: Child,
    socket: PathBuf,
    clients: u32,
    rows: u32,
    /// The script and its logs, away from the device.
    script: tempfile::NamedTempFile,
    logs: tempfile::TempDir,
}

impl Mariadb {
    pub(super) fn make(dir: &Path, load: &Load) -> anyhow::Result<Self> {
        let (data, socket) = (dir.join("mariadb"), dir.join("m").join("s"));
        for dir in [Some(data.as_path()), socket.parent()].into_iter().flatten() {
            finished(
                Command::new("install").args(["-d", "-m", "700", "-o", USER, "-g", USER]).arg(dir),
            )?;
        }
        let datadir = format!("--datadir={}", data.display());
        let mut install = tied_as(USER, "KILL", "mariadb-install-db");
        install.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        said(install.arg(&datadir))
            .context("apt-get install mariadb-server-core mariadb-client-core")?;
        let mut server = tied_as(USER, "KILL", SERVER);
        server.args(["--no-defaults", "--skip-networking", &datadir]);
        server.arg(format!("--socket={}", socket.display()));
        let log = std::fs::File::create(dir.join("mariadb.log")).context("can't make its log")?;
        server.stdout(Stdio::null()).stderr(log);
        let script =
            tempfile::NamedTempFile::with_suffix(".lua").context("a file for the script")?;
        std::fs::write(script.path(), SCRIPT).context("can't write the script")?;
        let logs = tempfile::tempdir().context("can't make a directory for logs")?;
        let server = server.spawn().with_context(|| format!("can't start {SERVER}"))?;
        let rows = load.scale * ROWS;
        let mut mariadb = Self { server, socket, clients: load.clients, rows, script, logs };
        let mut words = mariadb.client().into_iter();
        let mut ready = Command::new(words.next().context("no client")?);
        ready.args(words).args(["-e", "SELECT 1"]).stdin(Stdio::null());
        ready.stdout(Stdio::null()).stderr(Stdio::null());
        until(&mut mariadb.server, SERVER, PATIENCE, || ready.status().is_ok_and(|s| s.success()))?;
        mariadb.ask(&format!("CREATE DATABASE {NAME}"))?;
        said(mariadb.sysbench().arg("prepare"))?;
        Ok(mariadb)
    }

    /// The client's command line.
    fn client(&self) -> Vec<String> {
        let socket = format!("--socket={}", self.socket.display());
        ["mariadb", "--no-defaults", "--batch", "-N", "-u", "root", &socket]
            .map(String::from)
            .to_vec()
    }

    fn ask(&self, question: &str) -> anyhow::Result<String> {
        let words = self.client();
        let mut client = tied("TERM", &words[0]);
        Ok(said(client.args(&words[1..]).args(["-e", question]))?.trim().to_owned())
    }

    fn sysbench(&self) -> Command {
        let mut command = tied("TERM", "sysbench");
        command.arg(self.script.path()).args([
            "--db-driver=mysql",
            "--mysql-user=root",
            "--tables=1",
        ]);
        command
            .arg(format!("--mysql-db={NAME}"))
            .arg(format!("--mysql-socket={}", self.socket.display()));
        command
            .arg(format!("--threads={}", self.clients))
            .arg(format!("--table-size={}", self.rows));
        command.arg(format!("--log={}", self.logs.path().display()));
        command
    }
}

impl Database for Mariadb {
    fn run(&mut self, time: Duration) -> anyhow::Result<Measured> {
        let mut sysbench = self.sysbench();
        sysbench.arg(format!("--time={}", time.as_secs())).args(["--events=0", "run"]);
        let told = said(&mut sysbench)?;
        let own = told.lines().find_map(|line| line.trim().strip_prefix("transactions:"));
        let own = own
            .and_then(|n| n.split_whitespace().next()?.parse().ok())
            .context("sysbench told no number")?;
        Ok(Measured::new(time, logged(self.logs.path(), own)?))
    }

    fn process(&self) -> Option<u32> {
        Some(self.server.id())
    }

    fn load(&self) -> Vec<String> {
        let mut words = self.client();
        words.extend(["--local-infile=1", "-D", NAME, "-e"].map(String::from));
        words.push(
            "DROP TABLE IF EXISTS FLOOD; CREATE TABLE FLOOD(v VARCHAR(1000)); \
             LOAD DATA LOCAL INFILE '/dev/stdin' INTO TABLE FLOOD"
                .into(),
        );
        words
    }

    fn about(&mut self) -> anyhow::Result<Value> {
        let variable = |name: &str| self.ask(&format!("SELECT @@{name}"));
        Ok(json!({
            "version": variable("version")?,
            "innodb_flush_log_at_trx_commit": variable("innodb_flush_log_at_trx_commit")?,
            "innodb_flush_method": variable("innodb_flush_method")?,
            "log_bin": variable("log_bin")?,
        }))
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        // At once, without writing anything back: the data is of no further use.
        if let Err(error) = end(&mut self.server, "KILL", PATIENCE) {
            eprintln!("{SERVER} may still run: {error:#}");
        }
    }
}
