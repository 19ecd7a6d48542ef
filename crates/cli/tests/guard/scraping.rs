//! A real Prometheus that scrapes one target, and what it is asked.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use floodwall_testing::process::run;
use serde_json::Value;

use crate::bed::{kill, tied, until};

/// A file of `packaging`.
pub(crate) fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

/// Killed when it is dropped.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(rustix::process::Pid::from_child(&self.0), rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

pub(crate) fn start(command: &mut Command) -> Result<Running, String> {
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.map(Running).map_err(|e| e.to_string())
}

pub(crate) fn free_port() -> Result<u16, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .map(|a| a.port())
        .map_err(|e| e.to_string())
}

/// A Prometheus that scrapes and evaluates every second.
pub(crate) struct Prometheus {
    port: u16,
    _process: Running,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    /// With the rules of a file of `packaging` and one target, `127.0.0.1:port`.
    pub(crate) fn start(rules: &str, job: &str, port: u16) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let rules = packaging(rules).canonicalize().map_err(|e| e.to_string())?;
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs:\n  - job_name: {job}\n    static_configs: \
             [{{targets: ['127.0.0.1:{port}']}}]\n",
            rules.display()
        );
        let file = dir.path().join("prometheus.yml");
        fs::write(&file, config).map_err(|e| e.to_string())?;
        let web = free_port()?;
        let process = start(
            tied("prometheus")
                .arg(format!("--config.file={}", file.display()))
                .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
                .arg(format!("--web.listen-address=127.0.0.1:{web}")),
        )?;
        let prometheus = Self { port: web, _process: process, _dir: dir };
        // Something that takes a moment to begin is behind the target.
        until("the target is up", || {
            prometheus.query("up").is_ok_and(|found| found.iter().any(|one| one["value"][1] == "1"))
        })?;
        Ok(prometheus)
    }

    /// An answer of its API.
    pub(crate) fn ask(&self, path: &str, words: &[&str]) -> Result<Value, String> {
        let url = format!("http://127.0.0.1:{}/api/v1/{path}", self.port);
        let text = run("curl", &[&["-sS", "--get"], words, &[&url]].concat())?;
        let answer: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
        if answer["status"] != "success" {
            return Err(format!("{path} {words:?}: {answer}"));
        }
        Ok(answer["data"].clone())
    }

    /// What an expression finds now.
    pub(crate) fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let query = format!("query={expression}");
        let found = self.ask("query", &["--data-urlencode", &query])?;
        Ok(found["result"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until an expression finds something.
    pub(crate) fn finds(&self, expression: &str) -> Result<(), String> {
        until(expression, || self.query(expression).is_ok_and(|found| !found.is_empty()))
    }

    /// Waits until each series of an exposition is known. One that was dropped, or was taken for
    /// another type, is not.
    pub(crate) fn knows(&self, exposition: &str) -> Result<(), String> {
        for line in exposition.lines().filter(|line| !line.starts_with('#')) {
            // A figure that is unknown at a scrape has no sample then.
            self.finds(line.split(['{', ' ']).next().unwrap_or_default())?;
        }
        Ok(())
    }

    /// The type and the unit that it takes a metric for.
    pub(crate) fn is(&self, name: &str, kind: &str, unit: &str) -> Result<(), String> {
        let known = self.ask("metadata", &[])?;
        let total = format!("{name}_total");
        let told = [name, &total].iter().find_map(|n| known[n].get(0)).cloned().unwrap_or_default();
        if told["type"] == kind && told["unit"] == unit {
            Ok(())
        } else {
            Err(format!("{name}: {told}"))
        }
    }

    /// Waits until every query of a dashboard, and of its annotations, finds something. Returns how
    /// many there are.
    pub(crate) fn fills(&self, dashboard: &str) -> Result<usize, String> {
        let text = fs::read_to_string(packaging(dashboard)).map_err(|e| e.to_string())?;
        let document: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let panels = array(&document["panels"]);
        let targets = panels.iter().flat_map(|panel| array(&panel["targets"]));
        let annotations = array(&document["annotations"]["list"]);
        let expressions: Vec<String> = targets
            .chain(annotations)
            .map(|asked| asked["expr"].as_str().unwrap_or_default().to_owned())
            .collect();
        for expression in &expressions {
            let values = [("$instance", ".*"), ("$device", ".*")];
            let spans = [("$__rate_interval", "10s"), ("$__range", "10m")];
            let filled = values
                .iter()
                .chain(&spans)
                .fold(expression.clone(), |text, (name, value)| text.replace(name, value));
            self.finds(&filled)?;
        }
        Ok(expressions.len())
    }
}
