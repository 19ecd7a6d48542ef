//! Ways to copy a file.

use std::path::Path;

use clap::ValueEnum;

use super::source::Source;

/// A disk, an array with a battery-backed cache, a worn SSD, a cloud volume and a stick.
pub(super) const DEVICES: [&str; 5] =
    ["hdd-7200", "raid10-bbwc-2010", "sata-ssd-worn", "cloud-gp3", "usb-stick"];

/// A way to copy, or another paced command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// cp, then sync of the filesystem.
    Cp,
    /// The same at idle I/O priority.
    Ionice,
    /// The same past the page cache, as far as possible.
    Nocache,
    /// dd with direct I/O.
    Direct,
    /// rsync at a low guessed rate, then sync.
    Bwlimit10,
    /// The same at a higher one.
    Bwlimit40,
    /// cp in a control group whose io.max is a low guess, then sync. `systemd-run -p
    /// IOWriteBandwidthMax=` sets the same.
    IoMax10,
    /// The same with a higher one.
    IoMax40,
    /// The copy of floodwall itself.
    PaceCp,
    /// cp, paced.
    Pace,
    /// tar that unpacks small and large files, paced.
    PaceTar,
    /// dd with large writes, paced.
    PaceDd,
    /// rsync, paced.
    PaceRsync,
    /// git clone, paced.
    PaceGit,
    /// cargo build, paced.
    PaceCargo,
    /// A static Go program, paced.
    PaceGo,
    /// A program that writes through mmap(2), paced.
    PaceMmap,
    /// A program that writes by io_uring, paced.
    PaceUring,
}

impl Way {
    pub(super) const ALL: [Self; 18] = [
        Self::Cp,
        Self::Ionice,
        Self::Nocache,
        Self::Direct,
        Self::Bwlimit10,
        Self::Bwlimit40,
        Self::IoMax10,
        Self::IoMax40,
        Self::PaceCp,
        Self::Pace,
        Self::PaceTar,
        Self::PaceDd,
        Self::PaceRsync,
        Self::PaceGit,
        Self::PaceCargo,
        Self::PaceGo,
        Self::PaceMmap,
        Self::PaceUring,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cp => "cp",
            Self::Ionice => "ionice",
            Self::Nocache => "nocache",
            Self::Direct => "direct",
            Self::Bwlimit10 => "bwlimit10",
            Self::Bwlimit40 => "bwlimit40",
            Self::IoMax10 => "io-max10",
            Self::IoMax40 => "io-max40",
            Self::PaceCp => "pace-cp",
            Self::Pace => "pace",
            Self::PaceTar => "pace-tar",
            Self::PaceDd => "pace-dd",
            Self::PaceRsync => "pace-rsync",
            Self::PaceGit => "pace-git",
            Self::PaceCargo => "pace-cargo",
            Self::PaceGo => "pace-go",
            Self::PaceMmap => "pace-mmap",
            Self::PaceUring => "pace-uring",
        }
    }

    /// As the document's table calls it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Cp => "`cp`, then `sync`",
            Self::Ionice => "`ionice -c3 cp`, then `sync`",
            Self::Nocache => "`nocache cp`, then `sync`",
            Self::Direct => "`dd bs=1M oflag=direct`",
            Self::Bwlimit10 => "`rsync --bwlimit=10M`, then `sync`",
            Self::Bwlimit40 => "`rsync --bwlimit=40M`, then `sync`",
            Self::IoMax10 => "`cp` with `io.max` of 10 MB/s, then `sync`",
            Self::IoMax40 => "`cp` with `io.max` of 40 MB/s, then `sync`",
            Self::PaceCp => "`floodwall pace cp`",
            Self::Pace => "`floodwall pace -- cp`",
            Self::PaceTar => "`floodwall pace -- tar xf`",
            Self::PaceDd => "`floodwall pace -- dd bs=1M`",
            Self::PaceRsync => "`floodwall pace -- rsync`",
            Self::PaceGit => "`floodwall pace -- git clone`",
            Self::PaceCargo => "`floodwall pace -- cargo build`",
            Self::PaceGo => "`floodwall pace -- restic backup`",
            Self::PaceMmap => "`floodwall pace -- fio --ioengine=mmap`",
            Self::PaceUring => "`floodwall pace -- fio --ioengine=io_uring`",
        }
    }

    /// Whether `floodwall pace` runs it.
    pub(super) fn is_paced(self) -> bool {
        !matches!(
            self,
            Self::Cp
                | Self::Ionice
                | Self::Nocache
                | Self::Direct
                | Self::Bwlimit10
                | Self::Bwlimit40
                | Self::IoMax10
                | Self::IoMax40
        )
    }

    /// The code that its figures depend on.
    pub(super) fn inputs(self) -> &'static [&'static str] {
        if self.is_paced() {
            &["lab", "device-presets", "engines", "pace"]
        } else {
            &["lab", "device-presets", "engines"]
        }
    }

    /// Seconds of a phase, if `seconds` are asked for. The kernel leaves dirty data of a slow copy
    /// in memory for 30 s (`vm.dirty_expire_centisecs`), so a shorter phase sees nothing of it.
    pub(super) fn phase_seconds(self, seconds: u32) -> u32 {
        match self {
            Self::Bwlimit10 | Self::Bwlimit40 => seconds.max(60),
            _ => seconds,
        }
    }

    /// The shell command that copies to the current directory. Where it leaves data dirty, a sync
    /// of the filesystem follows. Without the program `floodwall` nothing is paced.
    pub(super) fn command(self, floodwall: Option<&Path>, source: &Source) -> String {
        let pace = floodwall.map(|program| format!("{} pace --quiet", program.display()));
        let paced = pace.as_ref().map(|pace| format!("{pace} -- ")).unwrap_or_default();
        let own_cp = pace.as_ref().map_or("cp".to_owned(), |pace| format!("{pace} cp"));
        let (file, files) = (source.file().display(), source.files().display());
        let rsync = "rsync --inplace --whole-file --ignore-times";
        let fio = "fio --name=copy --rw=write --bs=1M --size=2G --output=/dev/null";
        // Of the flood's own group, which `bench` has made.
        let io_max = |rate: &str| {
            format!(
                "number=$(lsblk -ndo MAJ:MIN $(findmnt -nro SOURCE -T .)); \
                 echo $number wbps={rate} > /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/io.max \
                 && cp {file} copy"
            )
        };
        let copies = match self {
            Self::Cp => format!("cp {file} copy"),
            Self::Ionice => format!("ionice -c3 cp {file} copy"),
            Self::Nocache => format!("nocache cp {file} copy"),
            Self::Direct => format!("dd if={file} of=copy bs=1M oflag=direct status=none"),
            Self::Bwlimit10 => format!("{rsync} --bwlimit=10M {file} copy"),
            Self::Bwlimit40 => format!("{rsync} --bwlimit=40M {file} copy"),
            Self::IoMax10 => io_max("10000000"),
            Self::IoMax40 => io_max("40000000"),
            Self::PaceCp => format!("{own_cp} {file} copy"),
            Self::Pace => format!("{paced}cp {file} copy"),
            Self::PaceTar => format!("{paced}tar xf {}", source.archive().display()),
            Self::PaceDd => format!("{paced}dd if={file} of=copy bs=1M status=none"),
            Self::PaceRsync => format!("{paced}{rsync} -r {files} ."),
            Self::PaceGit => {
                let repository = source.repository().display().to_string();
                format!("rm -rf clone; {paced}git clone -q --no-local {repository} clone")
            }
            Self::PaceCargo => {
                // In the repository, whose toolchain is used.
                let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
                let cargo = "cargo build --quiet --offline --locked -p floodwall-stats";
                format!(
                    "rm -rf target; here=$PWD; cd {repository} && \
                     {paced}{cargo} --target-dir $here/target && cd $here"
                )
            }
            Self::PaceGo => {
                let restic = "restic --no-cache --quiet --repo backup";
                // Its temporary files are on the same disk.
                let prepared = "export RESTIC_PASSWORD=bench TMPDIR=$PWD; rm -rf backup";
                format!("{prepared}; {restic} init && {paced}{restic} backup {files}")
            }
            Self::PaceMmap => format!("{paced}{fio} --ioengine=mmap"),
            Self::PaceUring => format!("{paced}{fio} --ioengine=io_uring"),
        };
        match self {
            Self::Direct => copies,
            Self::PaceCp if pace.is_some() => copies,
            _ => format!("{copies} && sync -f ."),
        }
    }
}
