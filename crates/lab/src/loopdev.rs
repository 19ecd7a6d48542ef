//! Loop devices over a lab's file: attach, find, detach.
//!
//! ```text
//! LOOP_CTL_ADD ─▶ open /dev/loopN ─▶ LOOP_CONFIGURE (direct I/O)
//!   ─▶ queue/rotational, queue/write_cache as the model has them
//!   ─▶ queue/scheduler if one was named
//! LOOP_CLR_FD ─▶ LOOP_CTL_REMOVE
//! ```
//!
//! Each lab gets a loop device that did not exist before and is removed afterwards. A used loop
//! device keeps its elevator, its queue's settings and the limits of its backing device for the
//! next user.
//!
//! Only loop devices whose backing file is the lab's are ever touched. The file's name holds a
//! random token, which is checked in `/sys/block/loopN/loop/backing_file` before every step.
//! Request codes and structures are those of `include/uapi/linux/loop.h`.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, NoArg, Opcode, Setter};

use crate::error::LabError;

const CONTROL: &str = "/dev/loop-control";
const SYS_BLOCK: &str = "/sys/block";

const LOOP_CTL_ADD: Opcode = 0x4C80;
const LOOP_CTL_REMOVE: Opcode = 0x4C81;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CLR_FD: Opcode = 0x4C01;
/// The highest number that is tried where the kernel does not choose one, plus one.
const NUMBERS: isize = 4096;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A request to /dev/loop-control: its argument is a number, and so is what it returns.
struct Control<const OPCODE: Opcode>(isize);

// SAFETY: loop_control_ioctl takes the argument as a number and follows no pointer; the result is
// the return value alone.
#[allow(unsafe_code, reason = "ioctl")]
unsafe impl<const OPCODE: Opcode> Ioctl for Control<OPCODE> {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::without_provenance_mut(self.0.cast_unsigned())
    }

    unsafe fn output_from_ptr(
        result: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<u32> {
        u32::try_from(result).map_err(|_| Errno::INVAL)
    }
}

#[allow(unsafe_code, reason = "ioctl")]
fn control<const OPCODE: Opcode>(file: &File, argument: isize) -> rustix::io::Result<u32> {
    // SAFETY: `file` is /dev/loop-control, which these requests are for.
    unsafe { rustix::ioctl::ioctl(file, Control::<OPCODE>(argument)) }
}

/// A device that did not exist before. Where /dev does not follow the kernel (a container with
/// other nodes), one that is free.
fn new_device(file: &File) -> rustix::io::Result<LoopDevice> {
    let device = LoopDevice { number: add(|number| control::<LOOP_CTL_ADD>(file, number))? };
    if device.path().exists() {
        return Ok(device);
    }
    control::<LOOP_CTL_REMOVE>(file, device.number as isize)?;
    Ok(LoopDevice { number: control::<LOOP_CTL_GET_FREE>(file, 0)? })
}

/// Adds a device under a number of the kernel's choice, or else under the first number that is not
/// there. Linux 5.10 chooses a device that is there and free, and refuses to add it: EEXIST
/// (`loop_control_ioctl` of drivers/block/loop.c).
fn add(request: impl Fn(isize) -> rustix::io::Result<u32>) -> rustix::io::Result<u32> {
    (-1..NUMBERS)
        .map(request)
        .find(|added| *added != Err(Errno::EXIST))
        .unwrap_or(Err(Errno::EXIST))
}

/// Removes a detached device, so that the next user does not inherit its settings. A device that is
/// open or attached by then stays.
fn remove(device: &LoopDevice) {
    if let Ok(file) = OpenOptions::new().read(true).write(true).open(CONTROL) {
        let _ = control::<LOOP_CTL_REMOVE>(&file, device.number as isize);
    }
}

#[allow(unsafe_code, reason = "ioctl")]
fn configure(device: &File, file: &File, block_size: u32) -> rustix::io::Result<()> {
    let info = Info {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        sizelimit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: LO_FLAGS_DIRECT_IO,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let config = Config { fd: file.as_raw_fd() as u32, block_size, info, reserved: [0; 8] };
    // SAFETY: LOOP_CONFIGURE reads a `struct loop_config`, whose layout `Config` has; the file
    // stays open during the call and the kernel takes its own reference to it.
    unsafe { rustix::ioctl::ioctl(device, Setter::<LOOP_CONFIGURE, Config>::new(config)) }
}

#[allow(unsafe_code, reason = "ioctl")]
fn clear(device: &File) -> rustix::io::Result<()> {
    // SAFETY: LOOP_CLR_FD takes no argument.
    unsafe { rustix::ioctl::ioctl(device, NoArg::<LOOP_CLR_FD>::new()) }
}

/// A loop device that stands on a lab's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopDevice {
    number: u32,
}

impl LoopDevice {
    /// `/dev/loopN`.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.number))
    }

    fn sys(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("{SYS_BLOCK}/loop{}/{file}", self.number))
    }

    /// `MAJOR:MINOR`, as in mountinfo.
    pub(crate) fn dev(&self) -> Option<String> {
        Some(fs::read_to_string(self.sys("dev")).ok()?.trim_end().to_owned())
    }

    /// Whether it stands on a file of this name.
    fn stands_on(&self, file_name: &str) -> bool {
        // Not only below its mount point: once that is unmounted lazily, the kernel prints the path
        // from the mount's own root.
        fs::read_to_string(self.sys("loop/backing_file")).is_ok_and(|path| {
            Path::new(path.trim_end()).file_name().is_some_and(|n| n == file_name)
        })
    }

    /// Tells the block layer what the model is, as a disk's driver would.
    ///
    /// # Errors
    /// When the queue's attributes can't be written.
    pub(crate) fn describe(&self, rotational: bool, volatile_cache: bool) -> Result<(), LabError> {
        self.set("queue/rotational", if rotational { "1" } else { "0" })?;
        self.set("queue/write_cache", if volatile_cache { "write back" } else { "write through" })
    }

    /// Gives the queue its elevator, as the kernel does for a disk when it appears
    /// (block/elevator.c `elevator_set_default`); a loop device has none by itself.
    ///
    /// # Errors
    /// [`LabError::Elevator`] if this kernel does not offer it.
    pub(crate) fn choose_elevator(&self, name: &str) -> Result<(), LabError> {
        let path = self.sys("queue/scheduler");
        let offered = fs::read_to_string(&path).map_err(|e| LabError::io("read", &path, e))?;
        let offered = offered.trim_end().replace(['[', ']'], "");
        if !offered.split(' ').any(|one| one == name) {
            return Err(LabError::Elevator {
                name: name.to_owned(),
                offered: offered.replace(' ', ", "),
            });
        }
        self.set("queue/scheduler", name)
    }

    fn set(&self, attribute: &str, value: &str) -> Result<(), LabError> {
        let path = self.sys(attribute);
        let written = OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut f| f.write_all(value.as_bytes()));
        written.map_err(|e| LabError::io("write", &path, e))
    }
}

/// Whether the kernel has loop devices.
pub(crate) fn check() -> Result<(), LabError> {
    if Path::new(CONTROL).exists() {
        Ok(())
    } else {
        Err(LabError::NoLoop { path: CONTROL.into() })
    }
}

/// How often another process may take the free device first.
const TRIES: u32 = 32;

/// Puts a loop device onto a lab's file.
///
/// # Errors
/// [`LabError::NoLoop`], [`LabError::NoFreeLoop`], or what the kernel answers.
pub(crate) fn attach(file: &Path, block_size: u32) -> Result<LoopDevice, LabError> {
    let control_file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(CONTROL)
        .map_err(|_| LabError::NoLoop { path: CONTROL.into() })?;
    let backing = OpenOptions::new()
        .read(true)
        .write(true)
        .open(file)
        .map_err(|e| LabError::io("open", file, e))?;
    let mut refused = Errno::BUSY;
    for _ in 0..TRIES {
        let device = new_device(&control_file).map_err(|errno| LabError::NoFreeLoop { errno })?;
        let path = device.path();
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| LabError::io("open", &path, e))?;
        match configure(&open, &backing, block_size) {
            Ok(()) => return Ok(device),
            // Taken between the two calls.
            Err(Errno::BUSY) => refused = Errno::BUSY,
            Err(errno) => {
                drop(open);
                remove(&device);
                return Err(LabError::io("configure", &path, errno));
            }
        }
    }
    Err(LabError::NoFreeLoop { errno: refused })
}

/// The loop devices that stand on a file of this name (more than one only if something went wrong
/// half-way).
pub(crate) fn find(file_name: &str) -> Vec<LoopDevice> {
    let Ok(entries) = fs::read_dir(SYS_BLOCK) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.strip_prefix("loop")?.parse().ok())
        .map(|number| LoopDevice { number })
        .filter(|device| device.stands_on(file_name))
        .collect();
    found.sort_unstable_by_key(|d| d.number);
    found
}

/// Takes a loop device off the lab's file and waits until it is off. Does nothing to a device that
/// stands on anything else.
///
/// # Errors
/// [`LabError::Busy`] if a process still uses it when `patience` is over; the kernel then detaches
/// it when the last one stops.
pub(crate) fn detach(
    device: &LoopDevice,
    file_name: &str,
    patience: Duration,
) -> Result<(), LabError> {
    let path = device.path();
    let ours = device.stands_on(file_name);
    if ours {
        let open = File::open(&path).map_err(|e| LabError::io("open", &path, e))?;
        match clear(&open) {
            Ok(()) | Err(Errno::NXIO) => {}
            Err(errno) => return Err(LabError::io("detach", &path, errno)),
        }
    }
    // The kernel clears it when the last opener closes: here that is `open`, unless another process
    // has it.
    let deadline = Instant::now() + patience;
    while device.stands_on(file_name) {
        if Instant::now() >= deadline {
            let pids = crate::process::users_of_device(&path, device.dev().as_deref());
            return Err(LabError::Busy { pids, device: path });
        }
        thread::sleep(Duration::from_millis(2));
    }
    if ours {
        remove(device);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_gets_the_first_number_that_is_not_there_where_the_kernel_does_not_choose() {
        let old = |there: isize| {
            move |number: isize| if number < there { Err(Errno::EXIST) } else { Ok(number as u32) }
        };
        assert_eq!(add(old(8)), Ok(8));
        assert_eq!(add(old(isize::MAX)), Err(Errno::EXIST));
        assert_eq!(add(|number| if number == -1 { Ok(3) } else { Err(Errno::INVAL) }), Ok(3));
        let refused = |number| if number == -1 { Err(Errno::EXIST) } else { Err(Errno::PERM) };
        assert_eq!(add(refused), Err(Errno::PERM));
    }

    #[test]
    fn structures_have_the_kernels_sizes() {
        // include/uapi/linux/loop.h: 5×8 + 4×4 + 64 + 64 + 32 + 2×8, and 2×4 + that + 8×8.
        assert_eq!((size_of::<Info>(), size_of::<Config>()), (232, 304));
    }

    #[test]
    fn a_device_on_another_file_is_left_alone() {
        let device = LoopDevice { number: 0 };
        assert!(!device.stands_on("no-such-lab.floodwall-lab"));
        assert!(detach(&device, "no-such-lab.floodwall-lab", Duration::ZERO).is_ok());
        assert!(find("no-such-lab.floodwall-lab").is_empty());
    }
}
