//! `--output-format=normal`: the text for people.

use std::fmt::Write;

use floodwall_model::Moments;

use super::super::distribution::Distribution;
use super::super::number::{DIGITS, Unit, scaled};
use super::super::outcome::{Direction, Disk, Job, LIMITS, Outcome, Percentiles};
use super::merge::{Entry, Group, Merged, Total, percents, rate, share_of_group};

/// Columns of a line of percentiles.
const WIDTH: usize = 73;

pub(super) fn text(outcome: &Outcome, merged: &Merged) -> String {
    let mut text = "\n".to_owned();
    for entry in &merged.entries {
        if entry.job.ios() == 0 && entry.job.directions().iter().all(|one| one.bytes == 0) {
            continue;
        }
        let totals = merged.groups.get(entry.job.group as usize).map(|group| group.0);
        text += &job(entry, &totals.unwrap_or_default(), &outcome.ended);
    }
    for (number, group) in merged.groups.iter().enumerate() {
        text += &status(number, group);
    }
    if !outcome.disks.is_empty() {
        text += "\nDisk stats (read/write):\n";
        text.extend(outcome.disks.iter().map(|one| disk(one, &outcome.disks)));
    }
    text
}

fn job(Entry { job, members }: &Entry, totals: &[Total; 3], ended: &str) -> String {
    let Job { name, group, error, pid, .. } = job;
    let why = if *error == 0 { String::new() } else { format!(" ({})", job.error_text) };
    let mut text = format!(
        "{name}: (groupid={group}, jobs={members}): err={error:>2}{why}: pid={pid}: {ended}\n"
    );
    if let Some(description) = &job.description {
        let _ = writeln!(text, "  Description  : [{description}]");
    }
    let names = ["read", "write", "trim"];
    for ((name, one), total) in names.iter().zip(job.directions()).zip(totals) {
        if one.bytes > 0 && one.runtime_ms > 0 {
            text += &direction(name, one, job, total);
        }
    }
    let buckets = &job.latency_buckets;
    for (unit, counts) in
        [("nsec", &buckets.ns[..]), ("usec", &buckets.us[..]), ("msec", &buckets.ms[..])]
    {
        text += &latency_buckets(unit, &percents(counts, job.ios(), 0.01));
    }
    if job.sync.moments.n > 0 {
        text += "  fsync/fdatasync/sync_file_range:\n";
        text += &latency("sync", &job.sync.moments);
        text += &percentiles("sync", &job.sync, &job.percentiles);
    }
    let [user, system] = job.cpu();
    let _ = writeln!(
        text,
        "  cpu          : usr={user:.2}%, sys={system:.2}%, ctx={}, majf={}, minf={}",
        job.context_switches, job.major_faults, job.minor_faults
    );
    let depths = &job.depths;
    let by_call = ["0", "4", "8", "16", "32", "64", ">=64"];
    for (label, names, counts, total) in [
        ("  IO depths    ", ["1", "2", "4", "8", "16", "32", ">=64"], &depths.level, job.ios()),
        ("     submit    ", by_call, &depths.submit, depths.submits),
        ("     complete  ", by_call, &depths.complete, depths.completes),
    ] {
        let shares = percents(counts, total, 0.1);
        let shares = names.iter().zip(shares).map(|(name, share)| format!("{name}={share:.1}%"));
        let _ = writeln!(text, "{label}: {}", shares.collect::<Vec<_>>().join(", "));
    }
    let [read, write, trim] = job.directions();
    let _ = writeln!(
        text,
        "     issued rwts: total={},{},{},{} short={},{},{},0 dropped={},{},{},0",
        read.ios,
        write.ios,
        trim.ios,
        job.sync.moments.n,
        read.short,
        write.short,
        trim.short,
        read.dropped,
        write.dropped,
        trim.dropped
    );
    let depth = job.depth;
    text + &format!("     latency   : target=0, window=0, percentile=100.00%, depth={depth}\n")
}

fn direction(name: &str, one: &Direction, job: &Job, total: &Total) -> String {
    let (ms, list) = (one.runtime_ms, &job.percentiles);
    let bytes = rate(one.bytes, ms);
    let [first, second] = bases(job.is_decimal).map(|unit| scaled(bytes, DIGITS, Unit::Rate(unit)));
    let iops = scaled(rate(one.ios, ms), DIGITS, Unit::None);
    let moved = scaled(one.bytes, DIGITS, Unit::Bytes(!job.is_decimal));
    let zones = if name == "write" { "; 0 zone resets" } else { "" };
    let mut text =
        format!("  {name}: IOPS={iops}, BW={first} ({second})({moved}/{ms}msec){zones}\n");
    text += &latency("slat", &one.slat.moments);
    text += &latency("clat", &one.clat.moments);
    text += &latency(" lat", &one.lat.moments);
    for (name, all, is_wanted) in [
        ("slat", &one.slat, list.slat),
        ("clat", &one.clat, list.clat),
        ("lat", &one.lat, list.lat),
    ] {
        if is_wanted {
            text += &percentiles(name, all, list);
        }
    }
    if one.bw.n > 0 {
        text += &bandwidth(&one.bw, job.is_decimal, total);
    }
    if one.iops.n > 0 {
        let Moments { n, min, max, mean, .. } = one.iops;
        let dev = one.iops.deviation();
        let _ = writeln!(
            text,
            "   iops        : min={min:>5}, max={max:>5}, avg={mean:5.2}, stdev={dev:5.2}, \
             samples={n}"
        );
    }
    text
}

/// Whether units are binary: the first ones, and those in brackets.
fn bases(is_decimal: bool) -> [bool; 2] {
    [!is_decimal, is_decimal]
}

/// fio counts KiB, whatever it calls them.
fn bandwidth(bw: &Moments, is_decimal: bool, total: &Total) -> String {
    let (base, small) = if is_decimal { (1_000, "kB") } else { (1_024, "KiB") };
    let is_large = bw.mean > (base * base) as f64;
    let (unit, by) = if is_large { ("MiB", base) } else { (small, 1) };
    let (min, max) = (bw.min / by, bw.max / by);
    let (mean, dev) = (bw.mean / by as f64, bw.deviation() / by as f64);
    let (share, n) = (share_of_group(bw, total), bw.n);
    format!(
        "   bw ({unit:>5}/s): min={min:>5}, max={max:>5}, per={share:.2}%, avg={mean:5.2}, \
         stdev={dev:5.2}, samples={n}\n"
    )
}

/// Extremes, mean and deviation in a unit that is fine enough for the smallest.
fn latency(name: &str, of: &Moments) -> String {
    let Moments { n, min, max, mean, .. } = *of;
    if n == 0 {
        return String::new();
    }
    let dev = of.deviation();
    let is_beyond = |scale: u64| min > 2 * scale && max > 100 * scale - 1 && dev > scale as f64;
    let (unit, by) = match () {
        () if is_beyond(1_000_000) => ("msec", 1_000_000),
        () if is_beyond(1_000) => ("usec", 1_000),
        () => ("nsec", 1),
    };
    let [min, max] = [min, max].map(|value| scaled(value / by, 6, Unit::None));
    let (mean, dev) = (mean / by as f64, dev / by as f64);
    format!("    {name} ({unit}): min={min}, max={max}, avg={mean:5.2}, stdev={dev:5.2}\n")
}

fn percentiles(
    name: &str,
    all: &Distribution,
    Percentiles { list, precision, .. }: &Percentiles,
) -> String {
    let values = all.percentiles(list);
    let (Some(min), Some(max), 1..) = (values.first(), values.last(), all.moments.n) else {
        return String::new();
    };
    let (unit, steps) = match () {
        () if *min > 2_000_000 && *max > 99_999_999 => ("msec", 2),
        () if *min > 2_000 && *max > 99_999 => ("usec", 1),
        () => ("nsec", 0),
    };
    let digits = (max / 1_000_u64.pow(steps)).to_string().len().max(5);
    let width = precision + 3;
    let one = |(percent, ns): (&f64, &u64)| {
        let value = (0..steps).fold(*ns, |value, _| value.div_ceil(1_000));
        format!(" {percent:width$.precision$}th=[{value:>digits$}]")
    };
    let fields: Vec<String> = list.iter().zip(&values).map(one).collect();
    let lines: Vec<String> = fields
        .chunks((WIDTH / (precision + 10 + digits)).max(1))
        .map(|line| line.join(","))
        .collect();
    format!("    {name} percentiles ({unit}):\n     |{}\n", lines.join(",\n     |"))
}

fn latency_buckets(unit: &str, percents: &[f64]) -> String {
    let name = |index: usize| LIMITS.get(index).map_or(">=2000".to_owned(), u64::to_string);
    let used: Vec<String> = percents
        .iter()
        .enumerate()
        .filter(|(_, percent)| **percent > 0.0)
        .map(|(index, percent)| format!("{}={percent:.2}%", name(index)))
        .collect();
    used.chunks(5).map(|line| format!("  lat ({unit})   : {}\n", line.join(", "))).collect()
}

fn status(number: usize, Group(totals): &Group) -> String {
    let mut text = format!("\nRun status group {number} (all jobs):\n");
    for (name, total) in ["READ", "WRITE", "TRIM"].iter().zip(totals) {
        if total.run_ms.1 == 0 {
            continue;
        }
        let rates = |is_binary| {
            let rate = |bytes| scaled(bytes, DIGITS, Unit::Rate(is_binary));
            (rate(total.together()), format!("{}-{}", rate(total.rate.0), rate(total.rate.1)))
        };
        let bases = bases(total.is_decimal);
        let [(together, range), (together_too, range_too)] = bases.map(rates);
        let [moved, moved_too] = bases.map(|unit| scaled(total.bytes, DIGITS, Unit::Bytes(unit)));
        let (from, to) = total.run_ms;
        let _ = writeln!(
            text,
            "{name:>7}: bw={together} ({together_too}), {range} ({range_too}), io={moved} \
             ({moved_too}), run={from}-{to}msec"
        );
    }
    text
}

fn disk(disk: &Disk, all: &[Disk]) -> String {
    let fields = |disk: &Disk, prefix: &str, busy: f64| {
        let Disk { ios: [r, w], merges: [rm, wm], ticks_ms: [rt, wt], in_queue_ms, .. } = disk;
        format!(
            "{prefix}ios={r}/{w}, {prefix}merge={rm}/{wm}, {prefix}ticks={rt}/{wt}, \
             {prefix}in_queue={in_queue_ms}, {prefix}util={busy:.2}%"
        )
    };
    let own = fields(disk, "", disk.busy());
    match disk.below(all) {
        None => format!("  {}: {own}\n", disk.name),
        Some((mean, busy)) => {
            format!("    {}: {own}, {}\n", disk.name, fields(&mean, "aggr", busy))
        }
    }
}
