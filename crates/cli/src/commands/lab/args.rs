//! What `floodwall lab` takes.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use floodwall_lab::{Filesystem, Overflow};
use floodwall_model::units::UnitError;
use floodwall_model::{Bytes, PhaseKind};

/// Virtual devices: a slow disk, an array, a worn SSD, a cloud volume behind the real kernel.
///
/// The page cache, the flusher, the elevator and the filesystem are the kernel's own; only the time
/// that the device takes comes from a model. Contents live in memory and go with the device. Needs
/// root, FUSE and loop devices; 'lab run --kernel uml' needs none of them.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall lab list
  floodwall lab run raid10-bbwc-2010 --fs xfs -- floodwall bench --quick .
  floodwall lab run hdd-7200 --kernel uml -- floodwall bench --quick .
  floodwall lab up usb-stick --name stick --fs ext4 --mount /mnt/stick
  floodwall lab stats stick; floodwall lab down stick
  floodwall lab show hdd-7200 > my-disk.toml; floodwall lab up ./my-disk.toml")]
pub(crate) struct LabArgs {
    /// Where labs are remembered.
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabCommand {
    /// The presets there are, and the devices that are up
    #[command(after_help = "Examples:
  floodwall lab list
  floodwall lab list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a preset as a file to copy and edit
    #[command(after_help = "Examples:
  floodwall lab show hdd-7200 > my-disk.toml")]
    Show {
        /// A preset's name
        preset: String,
    },
    /// Bring a device up
    #[command(after_help = "Examples:
  floodwall lab up hdd-7200 --fs ext4
  floodwall lab up usb-stick --name stick --fs ext4 --mount /mnt/stick
  floodwall lab up ./my-disk.toml --raw --scheduler mq-deadline")]
    Up {
        #[command(flatten)]
        up: UpArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// What a device counts: queue, cache, bytes, service times, and how late the lab was against
    /// its model
    #[command(after_help = "Examples:
  floodwall lab stats hdd-7200
  floodwall lab stats hdd-7200 --json")]
    Stats {
        /// The device's name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a device down, from whatever state it is in
    #[command(after_help = "Examples:
  floodwall lab down hdd-7200
  floodwall lab down --all")]
    Down(NameOrAll),
    /// Bring a device up, run a command on it, take it down
    #[command(after_help = "Examples:
  floodwall lab run hdd-7200 -- floodwall bench --quick .
  floodwall lab run usb-stick --fs ext4 --user nobody -- sh -c 'cp /bin/* .'
  floodwall lab run hdd-7200 --kernel uml -- floodwall bench --quick .")]
    Run {
        #[command(flatten)]
        up: UpArgs,
        /// Run the command as this user, who gets the device's filesystem. Of the environment it
        /// gets PATH, LANG, LC_*, TERM, TZ and FLOODWALL_*, and HOME, USER, LOGNAME and SHELL of
        /// that user. It keeps this terminal and may be able to type into it: run only what you
        /// trust. Without this option the command runs as root, as this program does
        #[arg(long, value_name = "USER")]
        user: Option<String>,
        #[command(flatten)]
        kernel: KernelArgs,
        /// The command and its arguments, after --
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Cut the power: what a volatile cache had not flushed is lost
    #[command(after_help = "Examples:
  floodwall lab powercut hdd-7200")]
    Powercut {
        /// The device's name
        name: String,
    },
    /// Give the power back: a new loop device over the surviving data, mounted again
    #[command(after_help = "Examples:
  floodwall lab powerup hdd-7200")]
    Powerup {
        /// The device's name
        name: String,
    },
    /// Write what reached the device as CSV: time, operation, offset, size, flags, queue and
    /// service time
    #[command(after_help = "Examples:
  floodwall lab record hdd-7200 --out disk.csv
  floodwall lab record hdd-7200 --from-now --follow > disk.csv")]
    Record {
        /// The device's name
        name: String,
        /// The file; stdout if absent
        #[arg(long, value_name = "FILE.csv")]
        out: Option<PathBuf>,
        /// Only what comes from now on
        #[arg(long)]
        from_now: bool,
        /// Go on until interrupted
        #[arg(long)]
        follow: bool,
    },
    /// Draw a recording as SVG: offset over time, seeks, throughput, queue and service time
    #[command(after_help = "Examples:
  floodwall lab seeks disk.csv --out disk.svg
  floodwall lab seeks disk.csv --result bench.json --out disk.svg")]
    Seeks(SeeksArgs),
}

/// Which kernel the device is behind.
#[derive(Args, Debug)]
pub(crate) struct KernelArgs {
    /// Run everything in a separate kernel, without root. KERNEL is uml (user-mode Linux, Debian's
    /// package user-mode-linux), a user-mode kernel's file, or an image that QEMU boots, such as
    /// /boot/vmlinuz. The command is root there and sees this machine's files. Its writes stay in
    /// the guest's memory and go with it
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<OsString>,
    /// The guest's memory; half of what is free if absent
    #[arg(long, value_parser = bytes, value_name = "SIZE", requires = "kernel")]
    pub(crate) ram: Option<Bytes>,
    /// A directory of this machine that the guest may write to; may be given again
    #[arg(long, value_name = "DIR", requires = "kernel")]
    pub(crate) out: Vec<PathBuf>,
    /// This is the guest.
    #[arg(long, hide = true)]
    pub(crate) in_guest: bool,
}

/// A process of a guest; not for people.
#[derive(Args, Debug)]
pub(crate) struct GuestProcess {
    #[command(subcommand)]
    pub(crate) role: GuestRole,
}

#[derive(Subcommand, Debug)]
pub(crate) enum GuestRole {
    /// The guest's first process
    Init {
        /// User-mode Linux appends `root=` and `console=` behind our own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        of_the_kernel: Vec<OsString>,
    },
    /// Set a process up, then become the command
    Launch {
        /// `kernel` or `session`
        role: String,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

/// The picture that `lab seeks` draws.
#[derive(Args, Debug)]
pub(crate) struct SeeksArgs {
    /// What `lab record` wrote
    #[arg(value_name = "RECORDING.csv")]
    pub(crate) recording: PathBuf,
    /// A result that `bench --out` wrote meanwhile: its phases are shaded and named
    #[arg(long, value_name = "BENCH.json")]
    pub(crate) result: Option<PathBuf>,
    /// Only this phase with its warm-up
    #[arg(long, value_enum, requires = "result")]
    pub(crate) phase: Option<PhaseName>,
    /// The phase of this round; the first that was recorded if absent
    #[arg(long, value_name = "N", requires = "phase")]
    pub(crate) round: Option<u32>,
    /// The most marks for requests: fewer make a smaller file, and a mark stands for more of them
    #[arg(long, value_name = "N", default_value_t = floodwall_report::seeks::MARKS as u32,
          value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) marks: u32,
    /// The picture
    #[arg(long, short, value_name = "FILE.svg")]
    pub(crate) out: PathBuf,
}

/// A phase, as results spell it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PhaseName {
    Victim,
    Flood,
    Both,
    Burst,
}

impl From<PhaseName> for PhaseKind {
    fn from(name: PhaseName) -> Self {
        match name {
            PhaseName::Victim => Self::Victim,
            PhaseName::Flood => Self::Flood,
            PhaseName::Both => Self::Both,
            PhaseName::Burst => Self::Burst,
        }
    }
}

/// One device, or all.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct NameOrAll {
    /// The device's name
    pub(crate) name: Option<String>,
    /// Every lab device of this machine
    #[arg(long)]
    all: bool,
}

/// What a device is to be.
#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    /// A preset, or a file like those that `lab show` prints
    pub(crate) preset: String,
    /// Its name; the preset's if absent
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Its size; the preset's own if absent
    #[arg(long, value_parser = bytes)]
    pub(crate) size: Option<Bytes>,
    /// The most memory that its contents may take; zeros take none
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    pub(crate) memory: Option<Bytes>,
    /// Put what does not fit in memory into a nameless file in DIR, instead of failing with ENOSPC
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// Make this filesystem and mount it
    #[arg(long, value_enum)]
    fs: Option<Fs>,
    /// Where to mount it; a directory of the lab's own if absent
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// No filesystem, also for `lab run`
    #[arg(long, conflicts_with_all = ["fs", "mount"])]
    pub(crate) raw: bool,
    /// Begin with this elevator, such as the mq-deadline that the kernel gives a disk with one
    /// queue; a loop device has none by itself
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
    /// 512 or 4096
    #[arg(long, default_value_t = 512, value_name = "BYTES")]
    pub(crate) block_size: u32,
    /// Makes what is random in the model repeatable
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Fs {
    Xfs,
    Ext4,
    Btrfs,
}

impl UpArgs {
    pub(crate) fn overflow(&self) -> Overflow {
        self.spill.clone().map_or(Overflow::NoSpace, Overflow::Spill)
    }

    /// The filesystem and where to mount it; a place without a filesystem's name means ext4.
    pub(crate) fn mount(&self) -> Option<(Filesystem, Option<PathBuf>)> {
        let filesystem = match (self.fs, &self.mount) {
            (Some(Fs::Xfs), _) => Filesystem::Xfs,
            (Some(Fs::Btrfs), _) => Filesystem::Btrfs,
            (Some(Fs::Ext4), _) | (None, Some(_)) => Filesystem::Ext4,
            (None, None) => return None,
        };
        Some((filesystem, self.mount.clone()))
    }
}

fn bytes(text: &str) -> Result<Bytes, UnitError> {
    text.parse()
}

/// The server's own command line; not for people.
#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    /// `server` or `guardian`
    #[arg(long)]
    pub(crate) role: String,
    /// The lab's state directory
    #[arg(long)]
    pub(crate) state: PathBuf,
}
