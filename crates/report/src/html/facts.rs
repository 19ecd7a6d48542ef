//! The machine, and everything that repeats a run: scenario, settings, command line, version.

use std::fmt::Write;

use floodwall_model::Setting;
use floodwall_model::units::{Bytes, human_duration};
use std::time::Duration;

use super::markup::{escaped, fact};
use crate::repeat::{command_lines, scenario_toml};
use crate::schema::ResultDevice;
use crate::study::Study;

/// Host, device, filesystem, the setting in force, unmeasured quantities.
pub(super) fn machine(out: &mut String, study: &Study<'_>) {
    let run = &study.document.run;
    out.push_str("<dl class=\"facts\">\n");
    let mut add = |label: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            out.push_str(&fact(label, value));
        }
    };
    let host = &run.host;
    add("Kernel", host.kernel.as_ref().map(|k| format!("Linux {k}")));
    add("Distribution", host.distribution.clone());
    add("CPUs", host.cpus.map(|n| n.to_string()));
    add("RAM", host.ram_bytes.map(|b| Bytes(b).to_string()));
    add("Virtualisation", host.virtualisation.clone());
    if let Some(device) = &run.device {
        add("Device", Some(device_text(device)));
        for leaf in &device.leaves {
            add("Below it", Some(device_text(leaf)));
        }
    }
    if let Some(f) = &run.filesystem {
        let options = if f.mount_options.is_empty() {
            String::new()
        } else {
            format!(" ({})", f.mount_options)
        };
        let path = if f.path.is_empty() { String::new() } else { format!(" on {}", f.path) };
        add("Filesystem", Some(format!("{}{options}{path}", f.kind)));
    }
    add("Begun", (run.started_at_unix_s > 0.0).then(|| crate::seeks::utc(run.started_at_unix_s)));
    let seconds = Duration::try_from_secs_f64(run.seconds.round()).unwrap_or_default();
    add("Took", Some(human_duration(seconds)));
    add("Trials", Some(study.document.trials.len().to_string()));
    add("Floodwall", Some(run.floodwall_version.clone()));
    add("Result", Some(study.source.clone()));
    out.push_str("</dl>\n");
    let in_force = study.document.setting();
    if !in_force.is_empty() {
        let _ = writeln!(
            out,
            "<details open><summary>Settings in force, as the kernel's files read ({})</summary>",
            in_force.0.len()
        );
        knobs(out, &in_force);
        out.push_str("</details>\n");
    }
    if !run.missing.is_empty() {
        let _ = writeln!(
            out,
            "<details><summary>What could not be measured ({})</summary>\n<dl class=\"facts\">",
            run.missing.len()
        );
        for missing in &run.missing {
            out.push_str(&fact(&missing.what, &missing.why));
        }
        out.push_str("</dl></details>\n");
    }
}

fn device_text(device: &ResultDevice) -> String {
    let parts = [
        device.model.clone(),
        device.size_bytes.map(|b| Bytes(b).to_string()),
        device.rotational.map(|r| if r { "seeks" } else { "does not seek" }.to_owned()),
        device.scheduler.as_ref().map(|s| format!("elevator {s}")),
    ];
    let about: Vec<String> = parts.into_iter().flatten().collect();
    if about.is_empty() {
        device.name.clone()
    } else {
        format!("{} ({})", device.name, about.join(", "))
    }
}

fn knobs(out: &mut String, setting: &Setting) {
    out.push_str("<dl class=\"knobs\">\n");
    for (knob, value) in &setting.0 {
        let _ = writeln!(
            out,
            "<dt><code>{}</code></dt><dd><code>{}</code></dd>",
            escaped(knob),
            escaped(value)
        );
    }
    out.push_str("</dl>\n");
}

/// Commands, scenario, and the settings as commands take them.
pub(super) fn repeat(out: &mut String, study: &Study<'_>, prefix: &str) {
    let scenario = &study.document.scenario;
    let toml = scenario_toml(scenario);
    let block = |out: &mut String, id: &str, text: &str| {
        let _ = writeln!(
            out,
            "<div class=\"code\"><pre id=\"{prefix}{id}\" tabindex=\"0\">{}</pre><button \
             type=\"button\" class=\"copy\" data-copy=\"{prefix}{id}\" hidden>Copy</button></div>",
            escaped(text)
        );
    };
    if let Some(in_force) = crate::repeat::in_force(study) {
        out.push_str(
            "<h3>Put the recommendation in force</h3>\n\
            <p><code>floodwall rollback</code> takes it back.</p>\n",
        );
        block(out, "apply", &in_force);
    }
    out.push_str("<h3>Run it again</h3>\n");
    if toml.is_some() {
        out.push_str("<p>With the scenario below in a file <code>scenario.toml</code>:</p>\n");
    }
    block(out, "commands", &command_lines(study, toml.is_some()));
    match toml {
        Some(toml) => {
            out.push_str("<h3>The scenario, every default filled in</h3>\n");
            block(out, "scenario", &toml);
        }
        None => {
            out.push_str("<h3>The scenario, as it was stored</h3>\n");
            block(out, "scenario", &serde_json::to_string_pretty(scenario).unwrap_or_default());
        }
    }
}
