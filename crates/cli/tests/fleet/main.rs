//! The files of `packaging` for many machines: what they call is there, their configurations are
//! accepted, and the programs that they are for can read them. A program that is missing leaves its
//! test out, with the reason.
//!
//! ```text
//! packaging/kubernetes ─┬─ commands ──────────────────────────▶ floodwall … --help
//!                       ├─ kubectl kustomize ─▶ documents ────▶ kubernetes-validate
//!                       └─ guard.toml ┐
//! packaging/ansible ─ template ───────┴───────────────────────▶ floodwall guard --check
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use floodwall_testing::process::{done, output, text};
use floodwall_testing::{Outcome, Trial, ensure, equal, lacks, said, test};

const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// Kustomizations that stand alone, below `packaging/kubernetes`.
const KUSTOMIZATIONS: [&str; 3] = ["base", "dry-run", "pacing"];
/// A value of each type that the role may be given, with the line that it becomes.
const CONFIG: [(&str, &str); 4] = [
    (r#""p99": "20ms""#, r#"p99 = "20ms""#),
    (r#""devices": ["sda", "nvme0n1"]"#, r#"devices = ["sda", "nvme0n1"]"#),
    (r#""dry_run": true"#, "dry_run = true"),
    (r#""history": 50"#, "history = 50"),
];

fn main() {
    floodwall_testing::run(vec![
        trial("a configuration is checked without a guard", &[], checked),
        trial("the manifests call what there is", &[], called),
        trial("the operator's alerts are Prometheus's", &[], alerts),
        trial("the manifests fit the schemas", &["kubectl", "kubernetes-validate"], validated),
        trial("the role's configuration is accepted", &["ansible"], role),
        trial("the role can be parsed", &["ansible-playbook"], playbook),
    ])
}

fn trial<R: Outcome>(
    name: &'static str,
    needs: &'static [&'static str],
    body: impl FnOnce() -> R + Send + 'static,
) -> Trial {
    test(name, || lacks(needs), body)
}

/// A path below `packaging`.
fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(packaging(path)).map_err(said(path))
}

/// What `floodwall guard --check` says of a file: its status, and both outputs.
fn check(file: &Path) -> Result<(Option<i32>, String), String> {
    let output = output(Command::new(FLOODWALL).args(["guard", "--check", "--config"]).arg(file))?;
    Ok((output.status.code(), text(&output.stdout) + &text(&output.stderr)))
}

fn checked() -> Result<(), String> {
    for file in ["guard.toml", "kubernetes/base/guard.toml"] {
        let (status, says) = check(&packaging(file))?;
        ensure(status == Some(0) && says.ends_with("has no errors\n"), || {
            format!("{file}: {says}")
        })?;
    }
    let dir = tempfile::tempdir().map_err(said("temporary directory"))?;
    let wrong = dir.path().join("guard.toml");
    fs::write(&wrong, "mode = \"protect\"\np98 = \"20ms\"\n").map_err(said("guard.toml"))?;
    let (status, says) = check(&wrong)?;
    equal(status, Some(2))?;
    ensure(says.contains("guard.toml', line 2: unknown key 'p98'"), says)
}

/// The lists of words after these keys, each on one line.
fn lists(text: &str, key: &str) -> Vec<Vec<String>> {
    let list = |line: &str| {
        let inner = line.trim().strip_prefix(key)?.trim().strip_prefix('[')?.strip_suffix(']')?;
        Some(inner.split(", ").map(|word| word.trim_matches('"').to_owned()).collect())
    };
    text.lines().filter_map(list).collect()
}

fn called() -> Result<(), String> {
    let daemonset = read("kubernetes/base/daemonset.yaml")?;
    let executable = "/usr/bin/floodwall";
    let mut commands = lists(&daemonset, "args:");
    for command in lists(&daemonset, "command:") {
        equal(command.first().map(String::as_str), Some(executable))?;
        commands.push(command.into_iter().skip(1).collect());
    }
    commands.extend(lists(&read("kubernetes/dry-run/kustomization.yaml")?, "value:"));
    equal(commands.len(), 4)?;
    ensure(
        read("container/Containerfile")?.contains(&format!("[\"{executable}\"]")),
        "entrypoint",
    )?;
    for command in &commands {
        let mut help = Command::new(FLOODWALL);
        done(help.args(command).arg("--help")).map_err(|e| format!("{command:?}: {e}"))?;
    }
    Ok(())
}

fn alerts() -> Result<(), String> {
    let rules = read("prometheus/floodwall-guard.rules.yml")?;
    let groups = rules.split_once("groups:\n").ok_or("no groups")?.1;
    let indent = |line: &str| if line.is_empty() { "\n".into() } else { format!("  {line}\n") };
    let wanted: String = groups.lines().map(indent).collect();
    let found = read("kubernetes/metrics/rules.yaml")?;
    ensure(
        found.ends_with(&format!("\nspec:\n  groups:\n{wanted}")),
        "kubernetes/metrics/rules.yaml has other groups than prometheus/floodwall-guard.rules.yml",
    )
}

fn validated() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(said("temporary directory"))?;
    for name in KUSTOMIZATIONS {
        let mut kustomize = Command::new("kubectl");
        kustomize.arg("kustomize").arg(packaging("kubernetes").join(name));
        let built = output(&mut kustomize)?;
        ensure(built.status.success(), text(&built.stderr))?;
        let file = dir.path().join(format!("{name}.yaml"));
        fs::write(&file, built.stdout).map_err(said(name))?;
        done(Command::new("kubernetes-validate").args(["--strict", "--quiet"]).arg(&file))?;
    }
    Ok(())
}

fn role() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(said("temporary directory"))?;
    let file = dir.path().join("guard.toml");
    let template = packaging("ansible/roles/floodwall/templates/guard.toml.j2");
    let arguments = format!("src={} dest={}", template.display(), file.display());
    let config: Vec<&str> = CONFIG.iter().map(|(json, _)| *json).collect();
    let variables = format!("{{\"floodwall_config\": {{{}}}}}", config.join(", "));
    let mut ansible = Command::new("ansible");
    ansible.args(["localhost", "--connection", "local", "--module-name", "template", "--args"]);
    done(ansible.args([&arguments, "--extra-vars", &variables]).env("HOME", dir.path()))?;
    let written = fs::read_to_string(&file).map_err(said("guard.toml"))?;
    for (_, line) in CONFIG {
        ensure(written.lines().any(|found| found == line), || format!("no {line} in {written}"))?;
    }
    let (status, says) = check(&file)?;
    ensure(status == Some(0), says)
}

fn playbook() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(said("temporary directory"))?;
    let mut ansible = Command::new("ansible-playbook");
    ansible.args(["--syntax-check", "--inventory", "localhost,"]);
    ansible.arg(packaging("ansible/site.yml")).env("HOME", dir.path());
    done(&mut ansible).map(|_| ())
}
