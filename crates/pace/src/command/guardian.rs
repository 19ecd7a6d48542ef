//! The guardian: a shell that continues a command if this process dies, and lifts its limits.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::group::files::GroupFiles;

/// The script. It remembers the processes of `hold` lines until another line. When its input ends,
/// it sends them SIGCONT, thaws the control group `$1` and lifts its limits, also those of disks
/// `$2`. It ignores the signals that end a whole session.
const GUARDIAN: &str = "trap '' HUP INT QUIT TERM; held=; \
    while read -r word pids; do \
        case $word in hold) held=\"$held $pids\" ;; *) held= ;; esac; \
    done; \
    for pid in $held; do kill -s CONT \"$pid\"; done; \
    [ \"$1\" ] || exit 0; \
    echo 0 > \"$1/cgroup.freeze\"; \
    [ -e \"$1/memory.high\" ] && echo max > \"$1/memory.high\"; \
    for disk in $2; do echo \"$disk wbps=max\" > \"$1/io.max\"; done";
/// Bytes of a line, at most. write(2) puts so many into a pipe as a whole (`PIPE_BUF`, pipe(7)).
const LINE: usize = 4096;

/// Continues a command if this process dies, even of SIGKILL at any moment.
#[derive(Debug)]
pub(super) struct Guardian {
    shell: Child,
    pipe: ChildStdin,
}

impl Guardian {
    /// For a command in a control group, or in none.
    pub(super) fn spawn(group: Option<&GroupFiles>) -> io::Result<Self> {
        let disks = group.map_or(&[][..], |group| &group.disks);
        let disks: Vec<String> = disks.iter().map(ToString::to_string).collect();
        let mut shell = Command::new("/bin/sh")
            .arg("-c")
            .arg(GUARDIAN)
            .arg("sh")
            .arg(group.map_or(Path::new(""), |group| &group.directory))
            .arg(disks.join(" "))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A terminal's signals, or a kill of this process's group, don't reach it.
            .process_group(0)
            .spawn()?;
        let pipe = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { shell, pipe })
    }

    /// Notes that the command is about to be stopped, with the processes that get SIGSTOP. The
    /// guardian reads the pipe to its end.
    pub(super) fn hold(&mut self, pids: &[i32]) -> io::Result<()> {
        lines(pids).iter().try_for_each(|line| self.pipe.write_all(line.as_bytes()))
    }

    /// Notes that the command runs.
    pub(super) fn run(&mut self) -> io::Result<()> {
        self.pipe.write_all(b"run\n")
    }

    /// Ends the guardian. It continues processes that are noted as stopped.
    pub(super) fn dismiss(self) {
        let Self { mut shell, pipe } = self;
        drop(pipe);
        let _ = shell.wait();
    }
}

fn lines(pids: &[i32]) -> Vec<String> {
    let mut lines = vec!["hold".to_owned()];
    for pid in pids {
        let word = format!(" {pid}");
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < LINE => line.push_str(&word),
            _ => lines.push(format!("hold{word}")),
        }
    }
    for line in &mut lines {
        line.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use floodwall_host::SysRoot;
    use floodwall_model::DeviceId;
    use floodwall_testing::until;
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// A process that runs until it is dropped.
    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Self {
            Self(Command::new("sleep").arg("1000").spawn().unwrap())
        }

        fn stop(&self) {
            kill_process(Pid::from_child(&self.0), Signal::STOP).unwrap();
            until(Duration::from_secs(20), "it is stopped", || self.is_stopped()).unwrap();
        }

        fn is_stopped(&self) -> bool {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            stat.contains(") T ")
        }

        fn pid(&self) -> i32 {
            self.0.id().cast_signed()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_line_is_one_write() {
        assert_eq!(lines(&[1, 22, 333]), ["hold 1 22 333\n"]);
        let pids: Vec<i32> = (1_000_000..1_002_000).collect();
        let lines = lines(&pids);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= LINE));
        let words: Vec<String> = lines
            .iter()
            .flat_map(|line| line.strip_prefix("hold ").unwrap().split_whitespace())
            .map(str::to_owned)
            .collect();
        assert_eq!(words, pids.iter().map(ToString::to_string).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_held_goes_on_at_its_end_and_nothing_else() {
        let sleepers: Vec<Sleeper> = (0..3).map(|_| Sleeper::new()).collect();
        sleepers.iter().for_each(Sleeper::stop);
        let mut guardian = Guardian::spawn(None).unwrap();
        guardian.hold(&[sleepers[0].pid()]).unwrap();
        guardian.run().unwrap();
        guardian.hold(&[sleepers[1].pid()]).unwrap();
        guardian.hold(&[i32::MAX, sleepers[2].pid()]).unwrap();
        guardian.dismiss();
        let stopped: Vec<bool> = sleepers.iter().map(Sleeper::is_stopped).collect();
        assert_eq!(stopped, [true, false, false]);
    }

    #[test]
    fn a_group_is_thawed_and_has_no_limit_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["cgroup.freeze", "memory.high", "io.max"] {
            fs::write(dir.path().join(name), "1").unwrap();
        }
        let disks = [0, 16].map(|minor| DeviceId { major: 8, minor });
        let files = GroupFiles::of(&SysRoot::new(dir.path()).unwrap(), "/", &disks);
        Guardian::spawn(Some(&files)).unwrap().dismiss();
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(text("cgroup.freeze"), "0\n");
        assert_eq!(text("memory.high"), "max\n");
        assert_eq!(text("io.max"), "8:16 wbps=max\n");
    }
}
