//! Another user than the caller, to run commands as.
//!
//! ```text
//! User::named (NSS: passwd, groups) ─▶ runs(&mut Command)
//!   ─▶ child: setgroups, setresgid, setresuid ─▶ exec
//! ```

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use nix::unistd::getgrouplist;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Why commands can't run as a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// There is no user of this name.
    #[error("unknown user '{0}'; name a user of this machine (getent passwd lists them)")]
    Unknown(String),
    /// The user database does not answer.
    #[error("can't look up user '{name}': {errno}; see /etc/nsswitch.conf")]
    Lookup {
        /// The name that was looked up.
        name: String,
        /// The lookup's error.
        errno: Errno,
    },
    /// The caller can't become another user.
    #[error("only root can run commands as user '{0}'; run floodwall as root, or leave --user out")]
    NotRoot(String),
}

/// The name of a user of this machine; `None` without one, or if the user database does not
/// answer.
#[must_use]
pub fn user_name(uid: u32) -> Option<String> {
    nix::unistd::User::from_uid(uid.into()).ok().flatten().map(|user| user.name)
}

/// A user with everything that a process takes over from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    home: PathBuf,
    shell: PathBuf,
    uid: Uid,
    gid: Gid,
    /// All groups, the primary one included.
    groups: Vec<Gid>,
}

impl User {
    /// Looks a user up by name.
    ///
    /// # Errors
    /// [`UserError`]; also if the caller is not root and so could not start anything as this user.
    pub fn named(name: &str) -> Result<Self, UserError> {
        let lookup = |e: nix::Error| UserError::Lookup {
            name: name.to_owned(),
            errno: Errno::from_raw_os_error(e as i32),
        };
        let c_name =
            std::ffi::CString::new(name).map_err(|_| UserError::Unknown(name.to_owned()))?;
        let found = nix::unistd::User::from_name(name).map_err(lookup)?;
        let found = found.ok_or_else(|| UserError::Unknown(name.to_owned()))?;
        if !rustix::process::geteuid().is_root() {
            return Err(UserError::NotRoot(name.to_owned()));
        }
        let groups = getgrouplist(&c_name, found.gid).map_err(lookup)?;
        Ok(Self {
            name: found.name,
            home: found.dir,
            shell: found.shell,
            uid: Uid::from_raw(found.uid.as_raw()),
            gid: Gid::from_raw(found.gid.as_raw()),
            groups: groups.into_iter().map(|group| Gid::from_raw(group.as_raw())).collect(),
        })
    }

    /// User id and primary group.
    #[must_use]
    pub fn ids(&self) -> (Uid, Gid) {
        (self.uid, self.gid)
    }

    /// Makes a command run as this user: groups, group and user are set before exec. The command's
    /// directory is entered before that, as the caller.
    ///
    /// The caller's environment may hold secrets. The command gets `PATH`, `LANG`, `LC_*`, `TERM`,
    /// `TZ` and `FLOODWALL_*` of it, and `HOME`, `USER`, `LOGNAME` and `SHELL` of the user.
    /// Variables that were set on `command` before are dropped; those that are set later stay.
    #[expect(unsafe_code, reason = "code between fork and exec")]
    pub fn runs(&self, command: &mut Command) {
        command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_passed_on(name)));
        command.env("HOME", &self.home).env("SHELL", &self.shell);
        command.env("USER", &self.name).env("LOGNAME", &self.name);
        let user = self.clone();
        // SAFETY: the closure makes three system calls with memory that is there already. It
        // allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || user.become_it().map_err(io::Error::from));
        }
    }

    /// The calling thread becomes this user for good; in a forked child that is the whole process.
    fn become_it(&self) -> Result<(), Errno> {
        // The user last: only root may set groups.
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        set_thread_res_uid(self.uid, self.uid, self.uid)
    }
}

/// Whether another user's command gets a variable of the caller's environment.
fn is_passed_on(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    matches!(name, b"PATH" | b"LANG" | b"TERM" | b"TZ")
        || name.starts_with(b"LC_")
        || name.starts_with(b"FLOODWALL_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_is_named() {
        for name in ["floodwall-no-such-user", "", "a\0b"] {
            let error = User::named(name).unwrap_err();
            assert_eq!(error, UserError::Unknown(name.to_owned()));
            assert!(error.to_string().starts_with(&format!("unknown user '{name}'; name a user")));
        }
    }
}
