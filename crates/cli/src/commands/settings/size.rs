//! `floodwall size`: limits from bandwidth × delay.
//!
//! ```text
//! --link, --rate, --device (measured) ─▶ Drain ┐
//! --delay, --hard-delay ───────────────────────┼▶ knobs::size ─▶ sysctl lines | JSON |
//! this machine's memory ───────────────────────┘                 a file for apply | apply itself
//! ```

use std::fmt::Write;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_knobs::Change;
use floodwall_knobs::size::{Delays, Drain, Machine, Sizing, parse_link, size};
use floodwall_model::control_group::memory_high_of_paced;
use floodwall_model::units::{human_duration, parse_duration};
use floodwall_model::{Bytes, Rate};
use serde_json::json;

use super::apply::{self, Terms};
use super::measure::{self, Measured};
use super::{Place, PlaceArgs};
use crate::exit::{Exit, UsageError};
use crate::output;

/// Work out dirty limits from how fast data drains and how long one may wait for it
///
/// The background limit is what drains in --delay, the hard limit what drains in --hard-delay.
/// Prints sysctl lines with what the kernel makes of them and what its defaults would cost on this
/// machine. Nothing is changed unless --apply is given. With --device a measurement shows how fast
/// that device drains. It writes a scratch file on it, up to --sample bytes for up to ten seconds,
/// and removes it; it never writes to the raw device.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  floodwall size --link 1Gbit/s
  floodwall size --rate sda=66MB/s --rate sdb=180MB/s --hard-delay 1s
  floodwall size --device sda --device /mnt/usb --hard-delay 1s
  floodwall size --device /srv --apply --for 10m
  floodwall size --link 1Gbit/s --toml > link.toml; floodwall apply link.toml

1Gbit/s is 125 MB/s; the rule published in 2016 counts a gigabit as 1024³ bits, which is 1Gibit/s. \
Several devices get a limit for all of them and a share each.")]
pub(crate) struct SizeArgs {
    /// A network link's speed, such as 1Gbit/s; may be repeated
    #[arg(long, value_name = "[NAME=]SPEED", value_parser = link)]
    link: Vec<Drain>,
    /// A device's drain rate, such as 66MB/s or sda=66MB/s; may be repeated
    #[arg(long, value_name = "[NAME=]RATE", value_parser = rate)]
    rate: Vec<Drain>,
    /// A device whose drain rate is measured: a disk's name such as sda, or a directory on it; may
    /// be repeated
    #[arg(long, value_name = "DEV|DIR")]
    device: Vec<String>,
    /// How much is written at the most to measure a device
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = sample)]
    sample: Bytes,
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
    /// Apply the limits, as floodwall apply does: shows the difference and asks
    #[arg(long, conflicts_with_all = ["json", "toml"])]
    apply: bool,
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    place: PlaceArgs,
}

/// The name of a single drain without one.
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

fn sample(text: &str) -> Result<Bytes, String> {
    text.parse::<Bytes>().map_err(|e| e.to_string())
}

fn delay(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|e| e.to_string())
}

/// Runs the command.
///
/// # Errors
/// [`UsageError`] if there is nothing to size for, or the limits would be worse than none.
pub(crate) fn run(args: &SizeArgs) -> anyhow::Result<Exit> {
    if !args.apply && !args.terms.is_empty() {
        return Err(UsageError("--for, --yes and --dry-run go with --apply".to_owned()).into());
    }
    let place = args.place.open()?.allow_userspace_servers(args.terms.allow_userspace_servers);
    let place = place.rehearses(args.terms.dry_run);
    let mut drains = args.link.clone();
    drains.extend(args.rate.iter().cloned());
    if drains.is_empty() && args.device.is_empty() {
        let how = "give --link 1Gbit/s, --rate 66MB/s or --device sda";
        return Err(UsageError(format!("nothing to size for: {how}")).into());
    }
    // Checked before anything is written: names given by hand must differ, too.
    if !args.device.is_empty() {
        check_given(&drains)?;
    }
    let measured = measure::measure(&place, &args.device, args.sample)?;
    drains.extend(measured.iter().map(|one| one.drain.clone()));
    check_names(&drains)?;
    let delays = Delays { background: args.delay, hard: args.hard_delay };
    let sizing =
        size(&drains, delays, Machine::read(&place.root)).map_err(|e| UsageError(e.to_string()))?;
    if args.json {
        let measured: Vec<_> = measured.iter().map(Measured::document).collect();
        let document = json!({
            "schema": "floodwall/size/1",
            "drains": drains,
            "measured": measured,
            "sizing": sizing,
        });
        output::json(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    } else if args.toml {
        output::result(&toml_file(&drains, delays, &sizing))?;
    } else {
        output::result(&sysctl(&place.root, &drains, delays, &sizing, &measured))?;
    }
    if args.apply {
        let why = format!("sized for {}", basis(&drains, delays));
        return Ok(apply::make(&place, &changes(&place, &sizing)?, &why, &args.terms)?.exit());
    }
    Ok(Exit::Done)
}

/// The limits as changes.
fn changes(place: &Place, sizing: &Sizing) -> anyhow::Result<Vec<Change>> {
    let parse = |(knob, value): (String, String)| {
        Change::parse(&place.root, None, &format!("{knob}={value}"))
    };
    let changes = sizing.settings().into_iter().map(parse).collect::<Result<Vec<Change>, _>>();
    Ok(changes.map_err(|e| UsageError(e.to_string()))?)
}

/// Beside a measured device every other one needs a name.
fn check_given(drains: &[Drain]) -> anyhow::Result<()> {
    if drains.iter().any(|drain| drain.name == LINK || drain.name == DEVICE) {
        return Err(UsageError(
            "beside --device the others need names: --rate sda=66MB/s".to_owned(),
        )
        .into());
    }
    Ok(())
}

/// Several share a limit by their names, which must be devices' and tell them apart.
fn check_names(drains: &[Drain]) -> anyhow::Result<()> {
    let is_shared =
        |drain: &Drain| drains.iter().filter(|other| other.name == drain.name).count() > 1;
    let is_unnamed = |drain: &Drain| drain.name == LINK || drain.name == DEVICE;
    if drains.len() > 1 && drains.iter().any(|drain| is_shared(drain) || is_unnamed(drain)) {
        let how = "--rate sda=66MB/s --link 0:45=1Gbit/s";
        return Err(
            UsageError(format!("several devices need their names, each its own: {how}")).into()
        );
    }
    Ok(())
}

/// The rates and delays behind the limits, for a first line.
fn basis(drains: &[Drain], delays: Delays) -> String {
    let drains: Vec<String> = drains
        .iter()
        .map(|drain| format!("{} {}", drain.name, Rate(drain.bytes_per_s as f64)))
        .collect();
    format!(
        "{} x {} in the background, {} hard",
        drains.join(", "),
        human_duration(delays.background),
        human_duration(delays.hard)
    )
}

fn sysctl(
    root: &SysRoot,
    drains: &[Drain],
    delays: Delays,
    sizing: &Sizing,
    measured: &[Measured],
) -> String {
    let mut text = format!("# {}\n", basis(drains, delays));
    for line in measured.iter().flat_map(Measured::lines) {
        let _ = writeln!(text, "# {line}");
    }
    for one in measured {
        let class = format!("/sys/class/block/{}", one.drain.name.replace('/', "!"));
        let _ = writeln!(text, "# {}", pace_hint(&one.drain, root.exists(&class)));
    }
    let _ = writeln!(text, "vm.dirty_background_bytes = {}", sizing.background_bytes);
    let _ = writeln!(text, "vm.dirty_bytes = {}", sizing.hard_bytes);
    for share in &sizing.shares {
        let _ = writeln!(
            text,
            "# {0}'s share is {1}, which no sysctl sets: floodwall apply \
             {0}.bdi.max_ratio_fine={2} {0}.bdi.strict_limit=1",
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

/// Values that pace a backup on a measured device.
fn pace_hint(drain: &Drain, is_disk: bool) -> String {
    let half = Rate(drain.bytes_per_s as f64 / 2.0);
    let (rate, high) =
        (half.to_string().replace(' ', ""), memory_high_of_paced(half.0 as u64, 0, 0));
    // A mount without a disk has no `io.max`; its disks do.
    let disk = if is_disk { &drain.name } else { "DISK" };
    format!(
        "a backup in a unit of its own at half of that: unit:NAME:{disk}.io.max=wbps={rate} \
         unit:NAME:memory.high={high} (and more by what its processes use); \
         floodwall explain io.max"
    )
}

fn toml_file(drains: &[Drain], delays: Delays, sizing: &Sizing) -> String {
    // A name is what a user typed: quoted as TOML wants it.
    let quoted = |text: String| toml::Value::String(text).to_string();
    let mut text =
        format!("why = {}\n\n[settings]\n", quoted(format!("sized for {}", basis(drains, delays))));
    for (knob, value) in sizing.settings() {
        // The machine's own names are keys as they are; a device's may hold anything.
        let key = if knob.starts_with("vm.") { knob } else { quoted(knob) };
        let _ = writeln!(text, "{key} = {}", quoted(value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_paced_on_the_measured_device_with_memory_for_three_seconds() {
        let of = |name: &str, bytes_per_s| Drain { name: name.to_owned(), bytes_per_s };
        let hint = |name, bytes_per_s| pace_hint(&of(name, bytes_per_s), true);
        insta::assert_snapshot!(hint("sda", 120_000_000), @"a backup in a unit of its own at half \
            of that: unit:NAME:sda.io.max=wbps=60.0MB/s unit:NAME:memory.high=172MiB (and more by \
            what its processes use); floodwall explain io.max");
        let slow = hint("sdb", 20_000_000);
        assert!(
            slow.contains("unit:NAME:sdb.io.max=wbps=10.0MB/s unit:NAME:memory.high=64MiB"),
            "{slow}"
        );
        let diskless = pace_hint(&of("btrfs-1", 120_000_000), false);
        assert!(diskless.contains("unit:NAME:DISK.io.max=wbps=60.0MB/s"), "{diskless}");
    }
}
