//! `floodwall size`: limits from bandwidth × delay.
//!
//! ```text
//! --link, --rate ─▶ Drain ┐
//! --delay, --hard-delay ──┼▶ knobs::size ─▶ sysctl lines | JSON | a file for apply
//! this machine's memory ──┘
//! ```

use std::fmt::Write;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::memory::read_memory;
use floodwall_knobs::size::{Delays, Drain, Machine, Sizing, parse_link, size};
use floodwall_model::units::{human_duration, parse_duration};
use floodwall_model::{Bytes, Rate};
use serde_json::json;

use super::PlaceArgs;
use crate::exit::{Exit, UsageError};
use crate::output;

/// Work out dirty limits from how fast data drains and how long one may wait for it
///
/// The background limit is what drains in --delay, the hard limit what drains in --hard-delay. Prints sysctl lines with what the kernel makes of them
/// and what its defaults would cost on this machine. Nothing is changed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall size --link 1Gbit/s
  floodwall size --rate sda=66MB/s --rate sdb=180MB/s --hard-delay 1s
  floodwall size --link 1Gbit/s --toml > limits.toml; floodwall apply limits.toml

A link's gigabit is counted as 1024³ bits, as the published rule does. A device's rate is what it drains under a long flood: see the
drain rate of floodwall status while one runs.")]
pub(crate) struct SizeArgs {
    /// A network link's speed, such as 1Gbit/s; may be repeated
    #[arg(long, value_name = "[NAME=]SPEED", value_parser = link)]
    link: Vec<Drain>,
    /// A device's drain rate, such as 66MB/s or sda=66MB/s; may be repeated
    #[arg(long, value_name = "[NAME=]RATE", value_parser = rate)]
    rate: Vec<Drain>,
    /// How long what waits in the background may take to drain
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = delay)]
    delay: Duration,
    /// How long it may take when writers are made to wait
    #[arg(long, value_name = "TIME", default_value = "1.5s", value_parser = delay)]
    hard_delay: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print a file for floodwall apply
    #[arg(long, conflicts_with = "json")]
    toml: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// What a single one is called that was given no name.
const LINK: &str = "link";
const DEVICE: &str = "device";

/// `sda=66MB/s`, or without a name.
fn named<'a>(text: &'a str, unnamed: &'a str) -> (String, &'a str) {
    let (name, rest) = text.split_once('=').unwrap_or((unnamed, text));
    (name.to_owned(), rest)
}

fn link(text: &str) -> Result<Drain, String> {
    let (name, speed) = named(text, LINK);
    Ok(Drain { name, bytes_per_s: parse_link(speed).map_err(|e| e.to_string())? })
}

fn rate(text: &str) -> Result<Drain, String> {
    let (name, rate) = named(text, DEVICE);
    let Rate(bytes_per_s) = rate.parse::<Rate>().map_err(|e| e.to_string())?;
    Ok(Drain { name, bytes_per_s: bytes_per_s as u64 })
}

fn delay(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|e| e.to_string())
}

/// Runs the command.
///
/// # Errors
/// [`UsageError`] if there is nothing to size for, or the limits would be worse than none.
pub(crate) fn run(args: &SizeArgs) -> anyhow::Result<Exit> {
    let place = args.place.open()?;
    let mut drains = args.link.clone();
    drains.extend(args.rate.iter().cloned());
    if drains.is_empty() {
        return Err(UsageError("nothing to size for: give --link 1Gbit/s or --rate 66MB/s".to_owned()).into());
    }
    check_names(&drains)?;
    let delays = Delays { background: args.delay, hard: args.hard_delay };
    let sizing = size(&drains, delays, machine(&place.root)).map_err(|e| UsageError(e.to_string()))?;
    let text = if args.json {
        let document = json!({ "schema": "floodwall/size/1", "drains": drains, "sizing": sizing });
        format!("{}\n", serde_json::to_string_pretty(&document)?)
    } else if args.toml {
        toml_file(&drains, delays, &sizing)
    } else {
        sysctl(&drains, delays, &sizing)
    };
    output::result(&text)?;
    Ok(Exit::Done)
}

/// Several share a limit by their names, which must be devices' and tell them apart.
fn check_names(drains: &[Drain]) -> anyhow::Result<()> {
    let is_shared = |drain: &Drain| drains.iter().filter(|other| other.name == drain.name).count() > 1;
    let is_unnamed = |drain: &Drain| drain.name == LINK || drain.name == DEVICE;
    if drains.len() > 1 && drains.iter().any(|drain| is_shared(drain) || is_unnamed(drain)) {
        let how = "--rate sda=66MB/s --link 0:45=1Gbit/s";
        return Err(UsageError(format!("several devices need their names, each its own: {how}")).into());
    }
    Ok(())
}

fn machine(root: &SysRoot) -> Machine {
    // `0-7`, or `0,2-7`: the last number is the highest.
    let possible = root.read_line("/sys/devices/system/cpu/possible").into_value();
    let last = possible.and_then(|text| text.rsplit([',', '-']).next()?.trim().parse::<u64>().ok());
    Machine {
        page_bytes: root.page_bytes(),
        ram_bytes: read_memory(root).total_bytes.into_value(),
        possible_cpus: last.map(|last| last + 1),
    }
}

/// What it was worked out from, for a first line.
fn basis(drains: &[Drain], delays: Delays) -> String {
    let drains: Vec<String> =
        drains.iter().map(|drain| format!("{} {}", drain.name, Rate(drain.bytes_per_s as f64))).collect();
    format!(
        "{} x {} in the background, {} hard",
        drains.join(", "),
        human_duration(delays.background),
        human_duration(delays.hard)
    )
}

fn sysctl(drains: &[Drain], delays: Delays, sizing: &Sizing) -> String {
    let mut text = format!("# {}\n", basis(drains, delays));
    let _ = writeln!(text, "vm.dirty_background_bytes = {}", sizing.background_bytes);
    let _ = writeln!(text, "vm.dirty_bytes = {}", sizing.hard_bytes);
    for share in &sizing.shares {
        let _ = writeln!(
            text,
            "# {0}'s share is {1}, which no sysctl sets: floodwall apply {0}.bdi.max_ratio_fine={2} {0}.bdi.strict_limit=1",
            share.name,
            Bytes(share.max_bytes),
            share.max_ratio_ppm
        );
    }
    if (sizing.effective_hard_bytes, sizing.effective_background_bytes)
        != (sizing.hard_bytes, sizing.background_bytes)
    {
        let _ = writeln!(
            text,
            "# in whole pages: {} in the background, {} hard",
            sizing.effective_background_bytes, sizing.effective_hard_bytes
        );
    }
    for note in &sizing.notes {
        let _ = writeln!(text, "# {note}");
    }
    for cost in &sizing.defaults {
        let _ = writeln!(
            text,
            "# {}: the kernel's default of 20 % would be up to {} here and take {} to drain",
            cost.name,
            Bytes(cost.hard_bytes),
            human_duration(Duration::try_from_secs_f64(cost.drain_s).unwrap_or(Duration::MAX))
        );
    }
    text
}

fn toml_file(drains: &[Drain], delays: Delays, sizing: &Sizing) -> String {
    // A name is what a user typed: quoted as TOML wants it.
    let quoted = |text: String| toml::Value::String(text).to_string();
    let mut text =
        format!("why = {}\n\n[settings]\n", quoted(format!("sized for {}", basis(drains, delays))));
    let _ = writeln!(text, "vm.dirty_background_bytes = \"{}B\"", sizing.background_bytes);
    let _ = writeln!(text, "vm.dirty_bytes = \"{}B\"", sizing.hard_bytes);
    for share in &sizing.shares {
        for (knob, value) in [("bdi.max_ratio_fine", share.max_ratio_ppm), ("bdi.strict_limit", 1)] {
            let _ = writeln!(text, "{} = {value}", quoted(format!("{}.{knob}", share.name)));
        }
    }
    text
}
