//! SQLite: one program that commits a row after the other, through sqlite3, with the journal that
//! it has by default and `synchronous=FULL`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use processes::interrupt;
use serde_json::{Value, json};

use super::database::Database;
use super::summary::Measured;
use processes::child::{end, said, tied};

const SETUP: &str = "PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);";
/// One transaction; the answer comes when it is stable.
const COMMIT: &str = "INSERT INTO t(v) VALUES(randomblob(200)); SELECT 'done';";

pub(super) struct Sqlite {
    program: Child,
    dir: PathBuf,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Sqlite {
    pub(super) fn make(dir: &Path) -> anyhow::Result<Self> {
        let mut command = tied("KILL", "sqlite3");
        command
            .arg("-batch")
            .arg(dir.join("sqlite.db"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut program =
            command.spawn().context("can't start sqlite3: apt-get install sqlite3")?;
        let (ask, answers) =
            program.stdin.take().zip(program.stdout.take()).context("sqlite3 has no pipes")?;
        let mut sqlite =
            Self { program, dir: dir.to_owned(), ask, answers: BufReader::new(answers) };
        sqlite.question(&format!("{SETUP} SELECT 'done';"), "done")?;
        Ok(sqlite)
    }

    fn question(&mut self, question: &str, answer: &str) -> anyhow::Result<()> {
        ensure!(
            self.answer(question)? == answer,
            "sqlite3 does not answer '{answer}' to '{question}'"
        );
        Ok(())
    }

    fn answer(&mut self, question: &str) -> anyhow::Result<String> {
        writeln!(self.ask, "{question}").context("sqlite3 has ended")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("sqlite3 has ended")?;
        Ok(line.trim_end().to_owned())
    }
}

impl Database for Sqlite {
    fn run(&mut self, time: Duration) -> anyhow::Result<Measured> {
        let end = Instant::now() + time;
        let mut done = Vec::new();
        loop {
            let begin = Instant::now();
            if begin >= end {
                return Ok(Measured::new(time, done));
            }
            interrupt::check()?;
            self.question(COMMIT, "done")?;
            let at = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?;
            done.push((at.as_micros() as u64, begin.elapsed().as_micros() as u64));
        }
    }

    /// Into another database: its long transaction would lock the victim's.
    fn load(&self) -> Vec<String> {
        let file = self.dir.join("FLOOD.db").display().to_string();
        let setup = "DROP TABLE IF EXISTS t; CREATE TABLE t(v);";
        ["sqlite3", "-batch", &file, setup, ".import /dev/stdin t"].map(String::from).to_vec()
    }

    fn about(&mut self) -> anyhow::Result<Value> {
        let version = said(tied("KILL", "sqlite3").arg("--version"))?;
        Ok(json!({
            "version": version.split(' ').next(),
            "journal_mode": self.answer("PRAGMA journal_mode;")?,
            "synchronous": self.answer("PRAGMA synchronous;")?,
        }))
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // Its wait in the kernel ends with the copy, which has ended by now.
        if let Err(error) = end(&mut self.program, "KILL", Duration::from_secs(60)) {
            eprintln!("sqlite3 may still run: {error:#}");
        }
    }
}
