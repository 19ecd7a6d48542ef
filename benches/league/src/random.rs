//! Devices drawn at random: no setting was ever tried on them before, so nothing can have been
//! chosen on them.
//!
//! ```text
//! seed + class ─▶ a value of each range ─▶ a device file ─▶ DeviceSpec
//! ```
//!
//! Ranges span the devices on sale. Rates and times are drawn log-uniformly, because products
//! differ by factors; choices evenly. Sources of the ranges, by class:
//!
//! - disk: data sheets from the Seagate Barracuda 7200.12 (2009: 125 MB/s, 8.5 ms, 32 MB) to the
//!   Exos X20 (2021: 285 MB/s, 256 MB). Desktop disks of 5,400 rpm.
//! - array: such disks behind a protected cache. From the Adaptec 5405Z (2009: 512 MB) to cards
//!   with 2 GB (LSI 9361-8i).
//! - SATA SSD: link rates of SATA 3 drives (500 to 560 MB/s). Program times of TLC and MLC. SLC
//!   areas of data sheets (Samsung 860 EVO: 12 to 78 GB). Fill and wear depend on the user.
//! - NVMe SSD: data sheets from PCIe 3 ×2 (1,700 MB/s) to PCIe 4 ×4 (7,000 MB/s). Data-centre
//!   drives have power-loss protection, consumer drives do not.
//! - USB stick: erase blocks, open blocks and pauses as in Arnd Bergmann, "Optimizing Linux with
//!   cheap flash drives" (LWN 2011).
//! - cloud volume: from Azure Premium SSD P10 (500 IOPS, 100 MB/s) to Amazon EBS gp3's maximum
//!   (16,000 IOPS, 1,000 MiB/s). Latencies are one to a few milliseconds, as both
//!   providers state them.

use floodwall_device::DeviceSpec;
use floodwall_stats::random::Random;

/// Classes of devices, by name.
pub(crate) const CLASSES: [&str; 6] =
    ["drawn-disk", "drawn-array", "drawn-sata-ssd", "drawn-nvme", "drawn-usb-stick", "drawn-cloud"];

/// A stream of draws.
struct Draw(Random);

impl Draw {
    /// Evenly by the logarithm, to three digits.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        let value = (low.ln() + (high / low).ln() * self.0.unit()).exp();
        let digit = 10f64.powf(value.log10().floor() - 2.0);
        (value / digit).round() * digit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[((self.0.unit() * choices.len() as f64) as usize).min(choices.len() - 1)]
    }
}

/// The device of a class that a seed gives.
pub(crate) fn spec(class: &str, seed: u32) -> anyhow::Result<DeviceSpec> {
    let number = CLASSES.iter().position(|name| *name == class);
    let number = number.ok_or_else(|| anyhow::anyhow!("'{class}' is no class of drawn devices"))?;
    let mut draw = Draw(Random::seeded(u64::from(seed) << 8 | number as u64));
    let (description, tables) = match class {
        "drawn-disk" => {
            let cache = draw.one_of(&[16, 32, 64, 128, 256]);
            let (what, table) = disk(&mut draw, cache);
            (what, table)
        }
        "drawn-array" => array(&mut draw),
        "drawn-sata-ssd" => sata_ssd(&mut draw),
        "drawn-nvme" => nvme(&mut draw),
        "drawn-usb-stick" => usb_stick(&mut draw),
        _ => cloud(&mut draw),
    };
    let head = format!(
        "name = \"{class}\"\ndescription = \"{description}\"\ndefault_size = \"16GiB\"\n\n"
    );
    Ok(DeviceSpec::parse(&(head + &tables))?)
}

fn disk(draw: &mut Draw, cache_mib: u32) -> (String, String) {
    let speed = draw.one_of(&[5400, 7200, 10_000]);
    let outer = draw.between(100.0, 285.0);
    let seek = draw
        .between(if speed == 10_000 { 3.5 } else { 7.5 }, if speed == 10_000 { 5.0 } else { 12.0 });
    let heads = draw.one_of(&[2, 4, 6, 8, 12]);
    let inner = outer * draw.between(0.45, 0.6);
    let text = format!(
        "[disk]\ncapacity = \"2TB\"\nspeed = \"{speed}rpm\"\nouter_rate = \"{outer:.0}MB/s\"\n\
         inner_rate = \"{inner:.0}MB/s\"\n\
         heads = {heads}\nhead_switch = \"0.8ms\"\ntrack_to_track = \"{:.2}ms\"\n\
         average_seek = \"{seek:.2}ms\"\n\
         full_stroke = \"{:.2}ms\"\nwrite_settle = \"{:.2}ms\"\ncommand = \"0.1ms\"\n\
         link_rate = \"300MB/s\"\n\
         queue_depth = 32\nread_ahead = \"2MiB\"\nsegments = 16\n\
         write_cache = \"{cache_mib}MiB\"\n",
        draw.between(0.4, 1.2),
        seek * draw.between(1.8, 2.3),
        draw.between(0.4, 1.2),
    );
    (
        format!("{speed} rpm, {outer:.0} MB/s outside, seek {seek:.1} ms, cache {cache_mib} MiB"),
        text,
    )
}

fn array(draw: &mut Draw) -> (String, String) {
    let (level, members) = draw.one_of(&[
        ("raid1", 2),
        ("raid10", 4),
        ("raid10", 8),
        ("raid5", 4),
        ("raid5", 6),
        ("raid6", 8),
    ]);
    let (disks, disk) = disk(draw, 0);
    let size = draw.one_of(&[256, 512, 1024, 2048]);
    let chunk = draw.one_of(&[64, 256, 512]);
    let backing = draw.between(100.0, 900.0);
    let depth = draw.one_of(&[4, 8, 16, 32]);
    let high = draw.between(0.1, 0.8);
    let text = format!(
        "[array]\nlevel = \"{level}\"\nmembers = {members}\nchunk = \"{chunk}KiB\"\n\n\
         [cache]\nsize = \"{size}MiB\"\nmode = \"protected\"\ncommand = \"0.03ms\"\n\
         latency = \"{:.3}ms\"\nlink_rate = \"2GB/s\"\n\
         backing_rate = \"{backing:.0}MB/s\"\nhigh = {high:.2}\nlow = {:.3}\nidle = \"100ms\"\n\
         destage_depth = {depth}\n\
         destage_max = \"512KiB\"\n",
        draw.between(0.03, 0.2),
        high / 2.0,
    );
    let what = format!(
        "{members} disks in {level} ({}), protected cache of {size} MiB, {backing:.0} MB/s behind \
         it, destaging {depth} at a time from {:.0} %",
        disks.replace(", cache 0 MiB", ""),
        high * 100.0
    );
    (what, format!("{disk}\n{text}"))
}

/// What both kinds of SSD share: a table from its geometry and times.
struct Flash {
    link_mb_s: f64,
    read_latency_us: f64,
    write_latency_us: f64,
    command_us: f64,
    channels: u32,
    dies: u32,
    buffer_mib: u32,
    protected: bool,
    spare: f64,
}

impl Flash {
    fn table(&self, draw: &mut Draw) -> (String, String) {
        let program = draw.between(0.6, 3.5);
        let has_slc = !self.protected && draw.0.unit() < 0.8;
        let slc = draw.between(6.0, 80.0);
        let filled = draw.between(0.2, 0.95);
        let worn = draw.0.unit() < 0.5;
        // Four planes of 16 KiB a die.
        let rate = f64::from(self.channels * self.dies) * 65_536.0 / program / 1e3;
        let slc_lines = if has_slc {
            format!("slc_program = \"{:.2}ms\"\nslc_size = \"{slc:.0}GB\"\n", program * 0.35)
        } else {
            String::new()
        };
        let text = format!(
            "[flash]\ncapacity = \"1TB\"\nread_latency = \"{}us\"\nwrite_latency = \"{}us\"\n\
             command = \"{}us\"\nlink_rate = \"{}MB/s\"\n\
             channels = {}\ndies_per_channel = {}\npage = \"16KiB\"\nplanes = 4\n\
             read = \"{:.0}us\"\nprogram = \"{program:.2}ms\"\n{slc_lines}\
             block = \"64MiB\"\nerase = \"5ms\"\nsuspend = \"{:.2}ms\"\nbuffer = \"{}MiB\"\n\
             power_loss_protection = {}\nspare = {}\n\
             filled = {filled:.2}\nworn = {worn}\ngc_burst = \"{:.1}ms\"\nidle = \"1s\"\n",
            self.read_latency_us,
            self.write_latency_us,
            self.command_us,
            self.link_mb_s,
            self.channels,
            self.dies,
            draw.between(40.0, 90.0),
            draw.between(0.05, 0.5),
            self.buffer_mib,
            self.protected,
            self.spare,
            draw.between(2.0, 20.0),
        );
        let what = format!(
            "link {:.0} MB/s, {} dies that program {rate:.0} MB/s{}, buffer {} MiB{}, {:.0} % \
             full{}",
            self.link_mb_s,
            self.channels * self.dies,
            if has_slc { format!(", SLC area of {slc:.0} GB") } else { String::new() },
            self.buffer_mib,
            if self.protected { " with power-loss protection" } else { "" },
            filled * 100.0,
            if worn { ", worn" } else { "" },
        );
        (what, text)
    }
}

fn sata_ssd(draw: &mut Draw) -> (String, String) {
    let flash = Flash {
        link_mb_s: draw.between(500.0, 560.0),
        read_latency_us: draw.between(12.0, 40.0),
        write_latency_us: draw.between(5.0, 30.0),
        command_us: draw.between(10.0, 20.0),
        channels: draw.one_of(&[4, 8]),
        dies: draw.one_of(&[1, 2, 4]),
        buffer_mib: draw.one_of(&[4, 8, 16, 32]),
        protected: false,
        spare: draw.one_of(&[0.07, 0.12]),
    };
    flash.table(draw)
}

fn nvme(draw: &mut Draw) -> (String, String) {
    let protected = draw.0.unit() < 0.5;
    let flash = Flash {
        link_mb_s: draw.between(1700.0, 7000.0),
        read_latency_us: draw.between(4.0, 15.0),
        write_latency_us: draw.between(8.0, 25.0),
        command_us: draw.between(1.2, 4.0),
        channels: draw.one_of(&[4, 8]),
        dies: draw.one_of(&[2, 4, 8]),
        buffer_mib: draw.one_of(&[16, 32, 64]),
        protected,
        spare: if protected { draw.one_of(&[0.12, 0.28]) } else { 0.07 },
    };
    flash.table(draw)
}

fn usb_stick(draw: &mut Draw) -> (String, String) {
    let read = draw.between(20.0, 300.0);
    let write = draw.between(4.0, 60.0);
    let block = draw.one_of(&[1, 2, 4, 8]);
    let open = draw.one_of(&[1, 2, 3, 5, 8]);
    let every = draw.one_of(&[64, 128, 256, 512]);
    let stall = draw.between(0.1, 2.0);
    let text = format!(
        "[cheap_flash]\ncapacity = \"64GB\"\nread_latency = \"{:.2}ms\"\n\
         write_latency = \"{:.2}ms\"\nread_rate = \"{read:.0}MB/s\"\n\
         write_rate = \"{write:.1}MB/s\"\ncopy_rate = \"{:.1}MB/s\"\n\
         erase_block = \"{block}MiB\"\nerase = \"{:.1}ms\"\n\
         open_blocks = {open}\nstall_every = \"{every}MiB\"\nstall = \"{stall:.2}s\"\n",
        draw.between(0.2, 1.0),
        draw.between(0.3, 1.5),
        write * draw.between(1.0, 1.6),
        draw.between(1.0, 5.0),
    );
    let what = format!(
        "reads {read:.0} MB/s, writes {write:.0} MB/s, {open} open blocks of {block} MiB, a pause \
         of {stall:.1} s every {every} MiB"
    );
    (what, text)
}

fn cloud(draw: &mut Draw) -> (String, String) {
    let iops = draw.between(500.0, 16_000.0);
    let rate = draw.between(100.0, 1000.0);
    let latency = draw.between(0.4, 3.0);
    let sigma = draw.between(0.1, 0.6);
    let text = format!(
        "[cloud]\ncapacity = \"4TiB\"\niops = \"{iops:.0}/s\"\niops_burst = {:.0}\n\
         rate = \"{rate:.0}MiB/s\"\nrate_burst = \"{:.0}MiB\"\n\
         io_size = \"{}KiB\"\nmedian_latency = \"{latency:.2}ms\"\nlatency_sigma = {sigma:.2}\n\
         latency_floor = \"{:.2}ms\"\n\
         link_rate = \"10000Mbit/s\"\n",
        (iops / 10.0).max(1.0),
        (rate / 10.0).max(1.0),
        draw.one_of(&[16, 256]),
        latency * draw.between(0.3, 0.6),
    );
    (format!("{iops:.0} IOPS, {rate:.0} MiB/s, latency {latency:.1} ms (σ {sigma:.2})"), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_can_be_built_and_a_seed_gives_the_same_device_again() {
        for class in CLASSES {
            let mut descriptions = std::collections::BTreeSet::new();
            for seed in 0..300 {
                let drawn =
                    spec(class, seed).unwrap_or_else(|e| panic!("{class}, seed {seed}: {e}"));
                assert_eq!(drawn, spec(class, seed).unwrap());
                drawn.build(drawn.default_size.0, 1).unwrap();
                descriptions.insert(drawn.description);
            }
            assert!(descriptions.len() > 250, "{class}: {} of 300 differ", descriptions.len());
        }
        assert!(spec("hdd-7200", 1).is_err());
    }

    #[test]
    fn draws_fill_their_range_evenly_by_the_logarithm() {
        let mut draw = Draw(Random::seeded(1));
        let values: Vec<f64> = (0..4000).map(|_| draw.between(1.0, 100.0)).collect();
        assert!(values.iter().all(|v| (1.0..=100.0).contains(v)));
        let below = values.iter().filter(|v| **v < 10.0).count();
        assert!((1800..2200).contains(&below), "{below} of 4000 below the middle");
    }
}
