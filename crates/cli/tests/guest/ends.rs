//! How guests end: interrupted, killed, hanging, in a panic, without a terminal; and that nothing
//! is left then.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_guest::{CommandIo, Guest, GuestError, Kernel, Order, Uml};
use rustix::process::Signal;

use crate::bed::{Bed, RAM, Who, end_of, equal, run, said, signal, text};
use crate::streams::Terminal;
use crate::{LANDLOCK, Once, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "Ctrl-C ends the command and its guest",
        who: Once::Both,
        needs: &["setsid"],
        body: ctrl_c,
    },
    Test {
        name: "a terminal that goes away",
        who: Once::Caller,
        needs: &["setsid"],
        body: hang_up,
    },
    Test {
        name: "a killed floodwall takes its guest along",
        who: Once::Both,
        needs: &[],
        body: killed,
    },
    Test {
        name: "a killed kernel takes its processes along",
        who: Once::Both,
        needs: &[LANDLOCK],
        body: killed_kernel,
    },
    Test { name: "a guest that panics", who: Once::Both, needs: &[], body: panic },
    Test { name: "a guest that hangs is ended", who: Once::Caller, needs: &[], body: hangs },
    Test {
        name: "what the command leaves running",
        who: Once::Both,
        needs: &["setsid"],
        body: daemonises,
    },
];

/// A shell command that says `ready` and then writes to a file of the host until it is stopped.
fn writes_to(file: &str) -> String {
    format!("echo ready; while :; do echo x >> {file}; done")
}

/// A guest whose command has said that it is ready.
fn ready(bed: &Bed, script: &str) -> Result<Child, String> {
    let mut child = bed.guest(&["--raw"], script).stdout(Stdio::piped()).spawn().map_err(text)?;
    let stdout = child.stdout.take().ok_or("no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(text)?;
    equal("the command", line.as_str(), "ready\n")?;
    Ok(child)
}

/// A directory of the user's that a guest can't change, and the file in it that it tries to.
fn file_of(bed: &Bed) -> Result<(tempfile::TempDir, String), String> {
    let dir = tempfile::tempdir().map_err(text)?;
    bed.give(dir.path())?;
    let file = dir.path().join("file").display().to_string();
    Ok((dir, file))
}

fn ctrl_c(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let (mut terminal, [stdin, stdout, stderr]) = Terminal::open()?;
    let script = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.1; done";
    let mut command = bed.guest_after(&["setsid", "--ctty"], &["--raw"], script);
    let mut child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().map_err(text)?;
    drop(command);
    terminal.shows("ready")?;
    terminal.keys.write_all(b"\x03").map_err(text)?;
    terminal.shows("asked")?;
    equal("status", end_of(&mut child)?.code(), Some(5))?;
    bed.nothing_is_left()
}

fn hang_up(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let (mut terminal, [stdin, stdout, stderr]) = Terminal::open()?;
    let mut command =
        bed.guest_after(&["setsid", "--ctty"], &["--raw"], "echo ready; exec sleep 1000");
    let mut child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().map_err(text)?;
    drop(command);
    terminal.shows("ready")?;
    drop(terminal);
    equal("status", end_of(&mut child)?.code(), Some(143))?;
    bed.nothing_is_left()
}

fn killed(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let (_dir, file) = file_of(&bed)?;
    let mut child = ready(&bed, &writes_to(&file))?;
    // setpriv has become floodwall.
    signal(child.id() as i32, Signal::KILL);
    end_of(&mut child)?;
    bed.nothing_is_left()?;
    equal("the command went on as a process of the host", fs::exists(&file).map_err(text)?, false)
}

/// Between the kernel's end and theirs its processes are the host's. Landlock keeps them from its
/// files.
fn killed_kernel(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let (_dir, file) = file_of(&bed)?;
    let mut child = ready(&bed, &writes_to(&file))?;
    signal(bed.kernel()?, Signal::KILL);
    equal("status", end_of(&mut child)?.code(), Some(1))?;
    bed.nothing_is_left()?;
    equal("the command wrote to a file of the host", fs::exists(&file).map_err(text)?, false)
}

fn panic(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let output = run(&mut bed.guest(&["--raw"], "echo c > /proc/sysrq-trigger; sleep 1000"), &[])?;
    let told = said(&output.stderr);
    equal(&told, output.status.code(), Some(1))?;
    if !told.contains("its last lines were") || !told.trim_end().ends_with("sysrq triggered crash")
    {
        return Err(told);
    }
    bed.nothing_is_left()
}

/// Through the library, with less patience than the program has.
fn hangs(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    let uml = Uml::find(std::env::var_os("PATH").as_deref(), None).map_err(text)?;
    let modules_dir = uml.modules.clone();
    let guest = Guest {
        kernel: Kernel::Uml { uml, memory_dir: bed.memory().to_owned() },
        program: bed.program(),
        init_args: ["lab-guest", "init"].map(str::to_owned).into(),
        launch_args: ["lab-guest", "launch"].map(str::to_owned).into(),
        ram: RAM,
        silence: Duration::from_secs(5),
        io: CommandIo::Inherit,
    };
    let order = Order {
        program: "/bin/sh".into(),
        args: ["-c", "sleep 1000"].map(Into::into).into(),
        dir: "/".into(),
        modules_dir,
        ..Order::default()
    };
    let never = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        let runs = scope.spawn(|| guest.run(&order, &never, &mut |_| {}));
        // The first process of the kernel, its command's, and those of the kernel itself.
        let booted = crate::bed::until("the guest has booted", || bed.kernels().len() > 5);
        let stopped = bed.kernel().map(|kernel| signal(kernel, Signal::STOP));
        let ended = runs.join().map_err(|_| "the guest's thread panicked".to_owned());
        booted.and(stopped).and(ended)
    })?;
    match ended {
        Err(GuestError::Died { how, .. }) => equal("it", how, "went silent and was ended")?,
        other => return Err(format!("{other:?}")),
    }
    bed.nothing_is_left()
}

fn daemonises(who: Who) -> Result<(), String> {
    let bed = Bed::new(who)?;
    // It holds the command's output open.
    let told = bed.prints(&["--raw"], "setsid sleep 1000 & echo done")?;
    equal("stdout", told.as_str(), "done\n")
}
