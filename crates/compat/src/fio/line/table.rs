//! The options that there are: names, aliases, and what each sets.

use super::kinds::{Amount, Data, Engine, Fallocate, Pattern, Sync};
use super::number::{self, SECOND_US, Unit};
use super::options::JobOptions;

/// Values that would do in place of a wrong one.
pub(super) type Wanted = &'static str;
type Set = fn(&mut JobOptions, Text<'_>) -> Result<(), Wanted>;

/// Whether an option needs a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// On a command line the next word is it, unless there is a `=`.
    Value,
    /// It may have one after a `=`.
    Flag,
    /// The same, but only in a job file.
    ValueOrLine,
}

/// An option.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) alias: Option<&'static str>,
    pub(super) takes: Takes,
    pub(super) set: Set,
}

const fn value(name: &'static str, set: Set) -> Known {
    Known { name, alias: None, takes: Takes::Value, set }
}

const fn flag(name: &'static str, set: Set) -> Known {
    Known { name, alias: None, takes: Takes::Flag, set }
}

const fn log(name: &'static str, set: Set) -> Known {
    Known { name, alias: None, takes: Takes::ValueOrLine, set }
}

const fn also(alias: &'static str, known: Known) -> Known {
    Known { alias: Some(alias), ..known }
}

/// Blocks: as long as io_uring can transfer at once.
const MAX_BLOCK: u64 = 1 << 30;
const MAX_COUNT: u64 = 1 << 20;
const SWITCH: Wanted = "0 or 1";
const SIZE: Wanted = "a size like 4k, 4096 or 1g";
const TIME: Wanted = "a time like 30, 500ms or 2h";
const COUNT: Wanted = "a whole number";
const UP_TO_A_MILLION: Wanted = "a number from 1 to 1048576";
const PERCENT: Wanted = "a percentage from 0 to 100";

/// The options of jobs that are supported.
pub(super) const KNOWN: [Known; 83] = [
    value("name", |o, v| v.owned().map(|x| o.name = x)),
    value("description", |o, v| v.owned().map(|x| o.description = Some(x))),
    also(
        "readwrite",
        value("rw", |o, v| {
            o.pattern = Pattern::parse(v.0).ok_or(
                "one of read, write, randread, randwrite, rw, randrw; trim is not supported",
            )?;
            Ok(())
        }),
    ),
    also("blocksize", value("bs", blocks)),
    value("size", |o, v| v.amount(o.kb_base).map(|x| o.size = Some(x))),
    also("io_limit", value("io_size", |o, v| v.amount(o.kb_base).map(|x| o.io_size = Some(x)))),
    value("filesize", |o, v| v.size(o.kb_base).map(|x| o.file_size = Some(x))),
    also("fileoffset", value("offset", |o, v| v.amount(o.kb_base).map(|x| o.offset = x))),
    value("offset_increment", |o, v| v.amount(o.kb_base).map(|x| o.offset_increment = x)),
    also(
        "nr_files",
        value("nrfiles", |o, v| {
            v.within(1, MAX_COUNT, UP_TO_A_MILLION).map(|x| o.files = Some(x as u32))
        }),
    ),
    value("filename", |o, v| v.colons().map(|x| o.filenames = x)),
    value("filename_format", |o, v| v.owned().map(|x| o.filename_format = Some(x))),
    value("directory", |o, v| v.colons().map(|x| o.directories = x)),
    value("ioengine", |o, v| {
        o.engine = Engine::parse(v.0)
            .ok_or("one of psync, sync, vsync, pvsync, pvsync2, libaio, io_uring")?;
        Ok(())
    }),
    value("iodepth", |o, v| {
        v.within(1, 4096, "a number from 1 to 4096").map(|x| o.depth = x as u32)
    }),
    value("numjobs", |o, v| v.within(0, MAX_COUNT, UP_TO_A_MILLION).map(|x| o.jobs = x as u32)),
    value("direct", |o, v| v.switch(&mut o.direct)),
    value("buffered", |o, v| v.inverse(&mut o.direct)),
    value("sync", |o, v| {
        o.sync = match v.0 {
            "none" | "0" => Sync::None,
            "sync" | "1" => Sync::Sync,
            "dsync" => Sync::Dsync,
            _ => return Err("one of none, sync, dsync, 0, 1"),
        };
        Ok(())
    }),
    value("fsync", |o, v| v.count().map(|x| o.fsync = x)),
    value("fdatasync", |o, v| v.count().map(|x| o.fdatasync = x)),
    value("end_fsync", |o, v| v.switch(&mut o.end_fsync)),
    value("fsync_on_close", |o, v| v.switch(&mut o.fsync_on_close)),
    value("rate", |o, v| v.sizes(o.kb_base).map(|x| o.rate = x)),
    value("rate_iops", |o, v| v.counts().map(|x| o.rate_iops = x)),
    also("timeout", value("runtime", |o, v| v.time(SECOND_US).map(|x| o.runtime_us = x))),
    flag("time_based", |o, v| v.switch(&mut o.time_based)),
    value("ramp_time", |o, v| v.time(SECOND_US).map(|x| o.ramp_us = x)),
    value("startdelay", |o, v| v.time(SECOND_US).map(|x| o.delay_us = x)),
    also("wait_for_previous", flag("stonewall", |o, v| v.switch(&mut o.stonewall))),
    flag("new_group", |o, v| v.switch(&mut o.new_group)),
    flag("group_reporting", |o, v| v.switch(&mut o.group_reporting)),
    flag("thread", |o, v| v.switch(&mut o.thread)),
    value("rwmixread", |o, v| v.within(0, 100, PERCENT).map(|x| o.read_percent = x as u32)),
    value("rwmixwrite", |o, v| v.within(0, 100, PERCENT).map(|x| o.read_percent = 100 - x as u32)),
    flag("norandommap", |o, v| v.inverse(&mut o.random_map)),
    value("randrepeat", |o, v| v.switch(&mut o.random_repeat)),
    value("allrandrepeat", |_, v| v.ignored()),
    value("randseed", |o, v| v.count().map(|x| o.seed = Some(x))),
    value("random_generator", |_, v| v.only(&["tausworthe", "tausworthe64", "lfsr"])),
    value("random_distribution", |_, v| v.only(&["random"])),
    value("file_service_type", |_, v| v.only(&["roundrobin"])),
    value("rw_sequencer", |_, v| v.only(&["sequential"])),
    value("rate_process", |_, v| v.only(&["linear"])),
    value("io_submit_mode", |_, v| v.only(&["inline"])),
    value("verify", |_, v| v.only(&["0"])),
    value("do_verify", |_, v| v.only(&["0"])),
    value("loops", |o, v| v.count().map(|x| o.loops = x.max(1))),
    value("number_ios", |o, v| v.count().map(|x| o.number_ios = x)),
    value("invalidate", |o, v| v.switch(&mut o.invalidate)),
    value("overwrite", |o, v| v.switch(&mut o.overwrite)),
    value("create_on_open", |o, v| v.switch(&mut o.create_on_open)),
    value("create_serialize", |_, v| v.ignored()),
    value("allow_file_create", |_, v| v.only(&["1"])),
    value("fallocate", |o, v| {
        o.fallocate =
            Fallocate::parse(v.0).ok_or("one of none, native, posix, keep, truncate, 0, 1")?;
        Ok(())
    }),
    value("fadvise_hint", |_, v| v.only(&["1"])),
    value("unlink", |o, v| v.switch(&mut o.unlink)),
    flag("exitall", |o, v| v.switch(&mut o.exit_all)),
    flag("zero_buffers", |o, v| v.if_on(Data::Zero).map(|x| o.data = x)),
    flag("refill_buffers", |_, v| v.ignored()),
    value("scramble_buffers", |_, v| v.ignored()),
    value("buffer_compress_percentage", |o, v| {
        o.data = match v.0 {
            "0" => Data::Random,
            "50" => Data::HalfZero,
            "100" => Data::Zero,
            _ => return Err("one of 0, 50, 100"),
        };
        Ok(())
    }),
    value("force_async", |_, v| v.ignored()),
    value("gtod_reduce", |o, v| {
        let mut is_on = false;
        v.switch(&mut is_on)?;
        if is_on {
            (o.lat, o.clat, o.slat, o.bw) = (false, false, false, false);
        }
        Ok(())
    }),
    value("disable_lat", |o, v| v.inverse(&mut o.lat)),
    value("disable_clat", |o, v| v.inverse(&mut o.clat)),
    value("disable_slat", |o, v| v.inverse(&mut o.slat)),
    also("disable_bw", value("disable_bw_measurement", |o, v| v.inverse(&mut o.bw))),
    value("clat_percentiles", |o, v| v.switch(&mut o.percentiles.clat)),
    value("lat_percentiles", |o, v| v.switch(&mut o.percentiles.lat)),
    value("slat_percentiles", |o, v| v.switch(&mut o.percentiles.slat)),
    value("percentile_list", percentiles),
    value("disk_util", |o, v| v.switch(&mut o.disk_util)),
    value("significant_figures", |_, v| v.only(&["4"])),
    log("write_bw_log", |o, v| v.log().map(|x| o.logs.bw = Some(x))),
    log("write_iops_log", |o, v| v.log().map(|x| o.logs.iops = Some(x))),
    log("write_lat_log", |o, v| v.log().map(|x| o.logs.lat = Some(x))),
    value("log_avg_msec", |o, v| v.milliseconds().map(|x| o.logs.average_ms = x)),
    value("per_job_logs", |o, v| v.switch(&mut o.logs.per_job)),
    value("bwavgtime", |o, v| v.window().map(|x| o.bw_window_ms = x)),
    value("iopsavgtime", |o, v| v.window().map(|x| o.iops_window_ms = x)),
    value("kb_base", |o, v| {
        v.only(&["1024", "1000"])?;
        o.kb_base = if v.0 == "1000" { 1000 } else { 1024 };
        Ok(())
    }),
    value("unit_base", |_, v| v.only(&["0"])),
];

/// An option that is supported, by its name or alias.
pub(super) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name || known.alias == Some(name))
}

/// The value of an option, as it was written; `1` of a flag without one.
#[derive(Clone, Copy)]
pub(super) struct Text<'a>(pub(super) &'a str);

impl Text<'_> {
    fn owned(self) -> Result<String, Wanted> {
        if self.0.is_empty() { Err("a name") } else { Ok(self.0.to_owned()) }
    }

    /// Names between colons; `\:` is a colon.
    fn colons(self) -> Result<Vec<String>, Wanted> {
        const ESCAPED: &str = "\0";
        let text = self.0.replace("\\:", ESCAPED);
        let parts = text.split(':').filter(|part| !part.is_empty());
        let names: Vec<String> = parts.map(|part| part.replace(ESCAPED, ":")).collect();
        if names.is_empty() { Err("a name") } else { Ok(names) }
    }

    fn is_on(self) -> Result<bool, Wanted> {
        match self.0 {
            "0" => Ok(false),
            "1" | "" => Ok(true),
            _ => Err(SWITCH),
        }
    }

    fn switch(self, to: &mut bool) -> Result<(), Wanted> {
        *to = self.is_on()?;
        Ok(())
    }

    fn inverse(self, to: &mut bool) -> Result<(), Wanted> {
        *to = !self.is_on()?;
        Ok(())
    }

    /// A switch or a number that changes nothing here.
    fn ignored(self) -> Result<(), Wanted> {
        self.count().map(drop)
    }

    fn if_on(self, data: Data) -> Result<Data, Wanted> {
        Ok(if self.is_on()? { data } else { Data::Random })
    }

    /// One of these alone: what is done anyway.
    fn only(self, words: &'static [&'static str]) -> Result<(), Wanted> {
        let wanted = match words {
            ["0"] => "0, which alone is supported",
            ["1"] => "1, which alone is supported",
            ["4"] => "4, which alone is supported",
            ["random"] => "random, which alone is supported",
            ["roundrobin"] => "roundrobin, which alone is supported",
            ["sequential"] => "sequential, which alone is supported",
            ["linear"] => "linear, which alone is supported",
            ["inline"] => "inline, which alone is supported",
            ["1024", ..] => "1024 or 1000",
            _ => "tausworthe, tausworthe64 or lfsr",
        };
        if words.contains(&self.0) { Ok(()) } else { Err(wanted) }
    }

    fn count(self) -> Result<u64, Wanted> {
        number::parse(self.0, Unit::Bytes(1024)).ok_or(COUNT)
    }

    fn within(self, least: u64, most: u64, wanted: Wanted) -> Result<u64, Wanted> {
        let number = self.count()?;
        if (least..=most).contains(&number) { Ok(number) } else { Err(wanted) }
    }

    fn size(self, kb_base: u64) -> Result<u64, Wanted> {
        number::parse(self.0, Unit::Bytes(kb_base)).ok_or(SIZE)
    }

    fn amount(self, kb_base: u64) -> Result<Amount, Wanted> {
        match self.0.strip_suffix('%') {
            None => self.size(kb_base).map(Amount::Bytes),
            Some(percent) => {
                let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
                percent.map(Amount::Percent).ok_or("a size, or a percentage from 1% to 100%")
            }
        }
    }

    fn time(self, plain_us: u64) -> Result<u64, Wanted> {
        number::parse(self.0, Unit::Time(plain_us)).ok_or(TIME)
    }

    /// A part of one would be none, which means something else.
    fn milliseconds(self) -> Result<u64, Wanted> {
        let us = self.time(1000)?;
        if us.is_multiple_of(1000) { Ok(us / 1000) } else { Err("a whole number of milliseconds") }
    }

    fn window(self) -> Result<u64, Wanted> {
        Ok((self.time(1000)? / 1000).max(1))
    }

    /// Of reads and writes; of trims, too, which there are not.
    fn pair(self, one: impl Fn(Text<'_>) -> Result<u64, Wanted>) -> Result<[u64; 2], Wanted> {
        let mut parts = self.0.split(',');
        let of = |part: Option<&str>| match part {
            None => Ok(None),
            Some("") => Ok(Some(0)),
            Some(text) => one(Text(text)).map(Some),
        };
        let (read, write) = (of(parts.next())?, of(parts.next())?);
        let read = read.unwrap_or(0);
        Ok([read, write.unwrap_or(read)])
    }

    fn sizes(self, kb_base: u64) -> Result<[u64; 2], Wanted> {
        self.pair(|part| part.size(kb_base))
    }

    fn counts(self) -> Result<[u64; 2], Wanted> {
        self.pair(|part| part.count())
    }

    fn log(self) -> Result<String, Wanted> {
        Ok(if self.0 == "1" { String::new() } else { self.0.to_owned() })
    }
}

/// One block size, or those of reads, writes and trims. An empty one keeps the default.
fn blocks(options: &mut JobOptions, text: Text<'_>) -> Result<(), Wanted> {
    let mut last = None;
    let mut parts = text.0.split(',');
    for block in &mut options.block {
        match parts.next() {
            Some("") => last = None,
            Some(part) => {
                if part.contains('-') {
                    return Err("a single size; ranges are not supported");
                }
                let size = Text(part).size(options.kb_base)?;
                if !(1..=MAX_BLOCK).contains(&size) {
                    return Err("a size from 1 to 1g");
                }
                (*block, last) = (size, Some(size));
            }
            None => *block = last.unwrap_or(*block),
        }
    }
    if parts.next().is_some() { Err("at most three sizes") } else { Ok(()) }
}

fn percentiles(options: &mut JobOptions, text: Text<'_>) -> Result<(), Wanted> {
    let wanted = "up to 20 numbers above 0 and up to 100, with colons between them";
    let one = |part: &str| part.parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 100.0);
    let mut list: Vec<f64> = text.0.split(':').map(one).collect::<Option<_>>().ok_or(wanted)?;
    if list.len() > 20 {
        return Err(wanted);
    }
    list.sort_by(f64::total_cmp);
    let decimals = |part: &str| part.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    options.percentiles.precision = text.0.split(':').map(decimals).max().unwrap_or(0);
    options.percentiles.list = list;
    Ok(())
}
