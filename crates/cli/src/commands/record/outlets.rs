//! Where frames and stalls go besides the recording: metrics over HTTP, metrics in a file, and a
//! command. None of them makes the recorder wait, save for the lock of the totals.
//!
//! ```text
//! Frame, Stall ─▶ Totals (locked) ─┬▶ HTTP: a text for each request
//!             │                    └▶ thread "textfile": a file, every five seconds at most
//!             └▶ Hook ─▶ sh -c COMMAND
//! ```

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use floodwall_daemon::{Listen, Served, serve};
use floodwall_model::frame::Frame;
use floodwall_model::stall::Stall;
use floodwall_record::metrics::{Limits, Totals};
use floodwall_record::textfile;

use super::hook::{Event, Hook};
use crate::exit::UsageError;

/// Where a recorder usually serves metrics; the guard has the port before it.
const PORT: u16 = 9751;
/// How long a textfile is left as it is; node_exporter is usually asked every 15 s or minute.
const TEXTFILE_EVERY: Duration = Duration::from_secs(5);

/// Options of a recorder.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct OutletArgs {
    /// Serve metrics for Prometheus at a loopback port (127.0.0.1:9751), or at unix:/path
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<String>,
    /// Write metrics to a .prom file in the directory that node_exporter reads
    #[arg(long, value_name = "FILE")]
    pub(crate) textfile: Option<PathBuf>,
    /// Run a command when a stall has lasted a second, and when it is over
    ///
    /// sh runs it, with FLOODWALL_EVENT=began or ended, FLOODWALL_DISK, FLOODWALL_VICTIM,
    /// FLOODWALL_FLOOD and FLOODWALL_SECONDS, and with the stall as JSON on its standard input. It
    /// may take 30 s. Events that happen meanwhile are dropped, and counted in the log.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Option<String>,
}

/// See the [module](self). A socket's name goes when it is dropped, and a command is ended.
pub(crate) struct Outlets {
    totals: Arc<Mutex<Totals>>,
    _served: Option<Served>,
    textfile: Option<SyncSender<()>>,
    hook: Option<Hook>,
}

impl Outlets {
    /// Opens what the options ask for. `log` gets what happens later, a line at a time, from other
    /// threads.
    ///
    /// # Errors
    /// [`UsageError`] for a wrong address or a wrong file's name; a port that is taken; a directory
    /// that can't be written.
    pub(crate) fn open(
        args: &OutletArgs,
        log: impl Fn(&str) + Clone + Send + 'static,
    ) -> anyhow::Result<Self> {
        let totals = Arc::new(Mutex::new(Totals::new(Limits::default())));
        let mut served = None;
        if let Some(address) = &args.metrics {
            let listen = Listen::parse(address, PORT).map_err(|e| UsageError(format!("--{e}")))?;
            let totals = Arc::clone(&totals);
            served = Some(serve(&listen, move || Some(exposition(&totals)))?);
        }
        let textfile = match &args.textfile {
            Some(path) => Some(keep_written(path, &totals, log.clone())?),
            None => None,
        };
        let hook = match &args.exec {
            Some(command) => {
                Some(Hook::new(command.clone(), log).context("can't start a thread for --exec")?)
            }
            None => None,
        };
        Ok(Self { totals, _served: served, textfile, hook })
    }

    /// A frame.
    pub(crate) fn frame(&self, frame: &Frame) {
        self.with(|totals| totals.frame(frame));
    }

    /// Frames that could not be recorded.
    pub(crate) fn frames_lost(&self, frames: u64) {
        self.with(|totals| totals.frames_lost(frames));
    }

    /// A stall that has lasted a second.
    pub(crate) fn stall_began(&self, stall: &Stall) {
        self.with(|totals| totals.stall_began(stall));
        self.run(Event::Began, stall);
    }

    /// A stall that is over.
    pub(crate) fn stall_ended(&self, stall: &Stall) {
        self.with(|totals| totals.stall_ended(stall));
        self.run(Event::Ended, stall);
    }

    fn run(&self, event: Event, stall: &Stall) {
        if let Some(hook) = &self.hook {
            hook.event(event, stall);
        }
    }

    fn with(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.totals.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(changed) = &self.textfile {
            // Full: the thread has been told already.
            let _ = changed.try_send(());
        }
    }
}

fn exposition(totals: &Mutex<Totals>) -> String {
    totals.lock().unwrap_or_else(PoisonError::into_inner).exposition()
}

/// Writes a file now, and again in a thread whenever the totals have changed: a flooded disk may
/// make it wait.
fn keep_written(
    path: &Path,
    totals: &Arc<Mutex<Totals>>,
    log: impl Fn(&str) + Send + 'static,
) -> anyhow::Result<SyncSender<()>> {
    if path.extension().is_none_or(|extension| extension != "prom") {
        let what = "node_exporter reads only files whose names end in .prom";
        return Err(UsageError(format!("--textfile '{}': {what}", path.display())).into());
    }
    textfile::write(path, &exposition(totals))?;
    let (sender, changed) = mpsc::sync_channel(1);
    let (path, totals) = (path.to_owned(), Arc::clone(totals));
    let keep = move || {
        let mut is_told = false;
        while changed.recv().is_ok() {
            match textfile::write(&path, &exposition(&totals)) {
                Ok(()) => is_told = false,
                Err(e) if !is_told => {
                    log(&format!("{e}: {}", e.source));
                    is_told = true;
                }
                Err(_) => {}
            }
            thread::sleep(TEXTFILE_EVERY);
        }
    };
    let thread = thread::Builder::new().name("textfile".into());
    thread.spawn(keep).context("can't start a thread for --textfile")?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use floodwall_model::frame::Disk;

    use super::*;

    fn open(args: &OutletArgs) -> anyhow::Result<Outlets> {
        Outlets::open(args, |line| panic!("{line}"))
    }

    #[test]
    fn frames_and_stalls_reach_every_outlet() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, file) = (dir.path().join("m.sock"), dir.path().join("floodwall.prom"));
        let (lines, logged) = mpsc::channel();
        let args = OutletArgs {
            metrics: Some(format!("unix:{}", socket.display())),
            textfile: Some(file.clone()),
            exec: Some("echo $FLOODWALL_DISK".into()),
        };
        let outlets = Outlets::open(&args, move |line| drop(lines.send(line.to_owned()))).unwrap();
        let first = std::fs::read_to_string(&file).unwrap();
        assert!(first.contains("\nfloodwall_frames_total 0.0\n"), "{first}");
        let disk = Disk { name: "sda".into(), ..Disk::default() };
        outlets.frame(&Frame { disks: vec![disk], ..Frame::default() });
        outlets.frames_lost(2);
        outlets.stall_began(&Stall { disk: "sda".into(), ..Stall::default() });
        let line = logged.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(line, "--exec, began on sda: exit status: 0: sda");

        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        for line in [
            "HTTP/1.1 200 OK",
            "floodwall_frames_total 1.0",
            "floodwall_frames_lost_total 2.0",
            "floodwall_device_stalled{device=\"sda\"} 1.0",
            "# EOF",
        ] {
            assert!(answer.lines().any(|l| l == line), "{line} is not in\n{answer}");
        }
        floodwall_testing::until(Duration::from_secs(30), "the file has a frame", || {
            std::fs::read_to_string(&file).unwrap().contains("\nfloodwall_frames_total 1.0\n")
        })
        .unwrap();
        drop(outlets);
        assert!(!socket.exists());
    }

    #[test]
    fn what_can_not_be_is_said_at_the_start() {
        let said = |args: &OutletArgs| open(args).err().unwrap();
        let metrics =
            |text: &str| OutletArgs { metrics: Some(text.into()), ..OutletArgs::default() };
        let textfile =
            |text: &str| OutletArgs { textfile: Some(text.into()), ..OutletArgs::default() };
        let wrong = said(&metrics("9751"));
        assert!(wrong.is::<UsageError>());
        assert!(wrong.to_string().contains("write 127.0.0.1:9751, [::1]:9751"), "{wrong}");
        assert!(said(&metrics("0.0.0.0:9751")).to_string().contains("from elsewhere"));
        let wrong = said(&textfile("/tmp/floodwall.txt"));
        assert!(wrong.is::<UsageError>());
        assert!(wrong.to_string().ends_with("names end in .prom"), "{wrong}");
        assert!(!said(&textfile("/nowhere/floodwall.prom")).is::<UsageError>());
        assert!(open(&OutletArgs::default()).is_ok(), "nothing is asked for, nothing is opened");
    }
}
