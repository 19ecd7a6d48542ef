//! `apply`, `diff`, `rollback`, `log`, `size`, `explain` on a captured machine: plain files,
//! changed and put back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Output;

use floodwall_knobs::journal::{Begin, Record};
use floodwall_testing::process::install;
use floodwall_testing::tree::{copy_host, put};
use serde_json::Value;

use crate::{floodwall, stderr, stdout};

/// A copy of a captured machine with a separate journal.
pub(crate) struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        copy_host("vm-virtio-ext4", &directory.path().join("tree")).unwrap();
        Self { directory }
    }

    /// The same with more files in its tree.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let machine = Self::new();
        for (path, text) in files {
            put(&machine.tree().join(path), text);
        }
        machine
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("tree")
    }

    fn journal(&self) -> PathBuf {
        self.tree().join("var/lib/floodwall/journal")
    }

    /// Runs a command on it.
    pub(crate) fn run(&self, command: &str) -> Output {
        let tree = self.tree();
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.extend(["--root", tree.to_str().unwrap()]);
        floodwall(&arguments)
    }

    /// Starts a command on it.
    pub(crate) fn start(&self, command: &str) -> std::process::Child {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_floodwall"));
        let quiet = std::process::Stdio::null;
        child.args(command.split_whitespace()).arg("--root").arg(self.tree());
        child.stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().unwrap()
    }

    /// Runs a command on it that reads a file from standard input.
    fn piped(&self, command: &str, file: &str) -> Output {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_floodwall"));
        child.args(command.split(' ')).arg("--root").arg(self.tree());
        child.stdin(fs::File::open(file).unwrap()).output().unwrap()
    }

    /// Runs a command that must succeed, and gives what it printed.
    pub(crate) fn done(&self, command: &str) -> String {
        let output = self.run(command);
        assert_eq!(output.status.code(), Some(0), "{command}: {}", stderr(&output));
        stdout(&output)
    }

    /// Runs a command that must fail with this status, and gives what it said.
    pub(crate) fn refused(&self, command: &str, status: i32) -> String {
        let output = self.run(command);
        assert_eq!(output.status.code(), Some(status), "{command}: {}", stderr(&output));
        stderr(&output)
    }

    fn vm(&self, name: &str) -> String {
        fs::read_to_string(self.tree().join("proc/sys/vm").join(name)).unwrap().trim().to_owned()
    }

    pub(crate) fn queue(&self, name: &str) -> String {
        fs::read_to_string(self.tree().join("sys/class/block/vda/queue").join(name))
            .unwrap()
            .trim()
            .to_owned()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[test]
fn a_change_is_shown_made_logged_and_put_back() {
    let machine = Machine::new();
    let shown =
        machine.done("apply vda.nr_requests=32 vm.dirty_expire_centisecs=10s --why trial --yes");
    assert!(shown.contains("vda.nr_requests: 256 -> 32"), "{shown}");
    assert_eq!(
        (machine.queue("nr_requests"), machine.vm("dirty_expire_centisecs")),
        ("32".into(), "1000".into())
    );
    let difference = machine.done("diff");
    assert!(difference.contains("vda.nr_requests: 256 -> 32"), "{difference}");
    let log = machine.done("log");
    assert!(
        log.contains("change 1, ") && log.contains(", stands\n") && log.contains("why: trial"),
        "{log}"
    );

    let back = machine.done("rollback");
    assert!(back.contains("vda.nr_requests: 256 again"), "{back}");
    assert_eq!(
        (machine.queue("nr_requests"), machine.vm("dirty_expire_centisecs")),
        ("256".into(), "3000".into())
    );
    assert_eq!(machine.done("rollback"), "nothing to put back\n");
    assert_eq!(machine.done("diff"), "no difference\n");
    let told = machine.done("log");
    assert!(told.contains(", put back 20") && told.contains("  by: "), "{told}");
    let log: Value = serde_json::from_str(&machine.done("log --json")).unwrap();
    assert!(
        log["changes"][0]["closed_at_unix_s"].as_u64() >= log["changes"][0]["at_unix_s"].as_u64()
    );
    assert_eq!(
        (&log["schema"], &log["changes"][0]["state"]),
        (&"floodwall/log/1".into(), &"put back".into())
    );
    assert_eq!(log["changes"][0]["settings"][0]["old"]["value"], "256");
}

#[test]
fn a_dry_run_prints_the_writes_and_makes_none() {
    let machine = Machine::new();
    let shown = machine.done("apply vda.nr_requests=32 --dry-run");
    assert!(shown.ends_with("echo 32 > /sys/dev/block/254:0/queue/nr_requests\n"), "{shown}");
    assert!(!machine.journal().exists());
    assert_eq!(machine.done("rollback --dry-run"), "nothing would be written\n");
    machine.done("apply vda.nr_requests=32 --yes");
    let shown = machine.done("rollback --dry-run");
    assert_eq!(shown, "echo 256 > /sys/dev/block/254:0/queue/nr_requests\n");
    assert_eq!(machine.queue("nr_requests"), "32");
}

#[test]
fn the_log_shows_the_newest_and_says_how_many_are_older() {
    let machine = Machine::new();
    for requests in 1..=22 {
        machine.done(&format!("apply vda.nr_requests={} --yes", 32 + requests));
    }
    let told = machine.done("log");
    assert!(
        told.starts_with("2 older: floodwall log --last 22 shows them too\nchange 3, "),
        "{told}"
    );
    let told = machine.done("log --last 1");
    assert!(told.starts_with("21 older: ") && told.contains("\nchange 22, "), "{told}");
    assert_eq!(machine.done("log --last 22").matches("\nchange ").count(), 21);
    let all = |command: &str| -> Value { serde_json::from_str(&machine.done(command)).unwrap() };
    assert_eq!(all("log --json")["changes"].as_array().unwrap().len(), 22);
    assert_eq!(all("log --json --last 2")["changes"][0]["id"], 21);
}

#[test]
fn the_trials_of_one_search_are_one_entry_of_the_log() {
    let machine = Machine::new();
    let is_root = rustix::process::geteuid().is_root();
    for requests in [32, 64] {
        machine.done(&format!("apply vda.nr_requests={requests} --yes"));
        machine.done("rollback");
    }
    // As if one process had made both.
    let journal = |id: u64| machine.journal().join(format!("{id:06}.jsonl"));
    let text = fs::read_to_string(journal(1)).unwrap();
    let Record::Begin(first) = first_record(&text) else { panic!("{text}") };
    let text = fs::read_to_string(journal(2)).unwrap();
    let Record::Begin(second) = first_record(&text) else { panic!("{text}") };
    assert_eq!(machine.done("log").matches("change ").count(), 2, "two processes");
    let same = Begin { pid: first.pid, pid_start_ticks: first.pid_start_ticks, ..second };
    let rest = text.split_once('\n').unwrap().1;
    fs::write(journal(2), format!("{}{rest}", Record::Begin(same).line())).unwrap();
    let told = machine.done("log");
    assert!(told.starts_with("changes 1 to 2, 2 changes of one process, first 20"), "{told}");
    assert!(told.contains(", put back 20"), "{told}");
    if is_root {
        assert!(told.contains("  by: root, "), "{told}");
    }
}

/// A journal's first record.
fn first_record(journal: &str) -> Record {
    let line: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    serde_json::from_value(line["record"].clone()).unwrap()
}

#[test]
fn a_list_of_settings_is_one_argument() {
    let machine = Machine::new();
    let shown = machine.done("apply vda.nr_requests=32,vda.read_ahead_kb=256 --dry-run");
    assert!(shown.contains("nr_requests") && shown.contains("read_ahead_kb"), "{shown}");
}

#[test]
fn a_rehearsed_rollback_says_what_it_would_leave_alone() {
    let machine = Machine::new();
    machine.done("apply vda.nr_requests=32 vda.read_ahead_kb=64 vm.dirty_bytes=64MiB --yes");
    fs::write(machine.tree().join("sys/class/block/vda/queue/nr_requests"), "48\n").unwrap();
    fs::write(machine.tree().join("proc/sys/vm/dirty_bytes"), "33554432\n").unwrap();
    let shown = machine.done("rollback --dry-run");
    assert_eq!(
        shown,
        "echo 8192 > /sys/dev/block/254:0/queue/read_ahead_kb
# change 1: would stay: vda.nr_requests: left at 48, which somebody else has set since (we had \
set 32)
# change 1: would stay: vm.dirty_bytes: left at dirty_bytes 33554432, which somebody else has set \
since (we had set dirty_bytes 67108864)
"
    );
    // The rollback does what its dry run said.
    let said = machine.done("rollback");
    assert!(
        said.contains("read_ahead_kb: 8192 again") && said.contains("nr_requests: left at 48"),
        "{said}"
    );

    machine.done("apply vda.nr_requests=32 --yes");
    let journal = machine.journal().join("000002.jsonl");
    fs::write(&journal, fs::read_to_string(&journal).unwrap().replace("\"48\"", "\"64\"")).unwrap();
    let shown = machine.done("rollback --dry-run");
    assert!(
        shown.starts_with(
            "nothing would be written\n# the journal 000002.jsonl is not to be believed ("
        ),
        "{shown}"
    );
    assert!(shown.ends_with("it would be kept aside, and what it had changed stays\n"), "{shown}");
}

#[test]
fn a_rehearsal_needs_no_journal_that_may_be_read() {
    let machine = Machine::new();
    machine.done("apply vda.nr_requests=32 --yes");
    let path = machine.tree();
    // For root another user than the owner of the journal.
    let other_user = 65_534;
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(machine.journal(), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let _ = fs::set_permissions(machine.directory.path(), fs::Permissions::from_mode(0o755));
    let program = machine.directory.path().join("floodwall");
    install(env!("CARGO_BIN_EXE_floodwall"), &program).unwrap();
    let run = |command: &str| {
        let mut child = std::process::Command::new(&program);
        child.args(command.split(' ')).arg("--root").arg(&path);
        if rustix::process::geteuid().is_root() {
            child.uid(other_user);
        }
        child.stdin(std::process::Stdio::null()).output().unwrap()
    };
    for command in ["apply vm.dirty_bytes=64MiB --dry-run", "size --link 1Gbit/s --apply --dry-run"]
    {
        let output = run(command);
        assert_eq!(output.status.code(), Some(0), "{command}: {}", stderr(&output));
        assert!(stderr(&output).contains("note: only root can read the journal"), "{output:?}");
        assert!(stdout(&output).contains("> /proc/sys/vm/dirty_bytes"), "{output:?}");
    }
    assert_eq!(run("apply vm.dirty_bytes=64MiB --yes").status.code(), Some(4));
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(machine.journal(), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn nobody_is_asked_without_a_terminal() {
    let machine = Machine::new();
    let said = machine.refused("apply vda.nr_requests=32", 2);
    assert!(said.contains("give --yes"), "{said}");
    assert_eq!(machine.queue("nr_requests"), "256");
    // A knob with the requested value needs no confirmation.
    assert_eq!(machine.done("apply vda.nr_requests=256"), "no difference\n");
}

#[test]
fn a_disks_defaults_are_those_that_every_disk_has() {
    let machine = Machine::new();
    assert_eq!(machine.done("diff default --device vda"), "no difference\n");
    machine.done("apply vda.bdi.max_ratio=20 vda.bdi.strict_limit=1 vda.nomerges=2 --yes");
    let shown = machine.done("diff default --device vda");
    for line in
        ["vda.bdi.strict_limit: 1 -> 0\n", "vda.nomerges: 2 -> 0\n", "-> max_ratio_fine 1000000\n"]
    {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn changes_are_put_back_down_to_a_number() {
    let machine = Machine::new();
    for value in ["128", "64", "32"] {
        machine.done(&format!("apply --device vda nr_requests={value} --yes"));
    }
    let back = machine.done("rollback --to 1");
    assert!(back.find("change 3").unwrap() < back.find("change 2").unwrap(), "{back}");
    assert_eq!(machine.queue("nr_requests"), "128");
}

#[test]
fn what_somebody_else_has_changed_is_left_and_said() {
    let machine = Machine::new();
    machine.done("apply vda.nr_requests=32 --yes");
    fs::write(machine.tree().join("sys/class/block/vda/queue/nr_requests"), "48\n").unwrap();
    assert!(machine.done("diff").contains(" 48 (not by this change)"));
    let back = machine.done("rollback");
    assert!(
        back.contains("left at 48, which somebody else has set since (we had set 32)"),
        "{back}"
    );
    assert_eq!(machine.queue("nr_requests"), "48");
}

#[test]
fn files_name_settings_as_people_write_them() {
    let machine = Machine::new();
    let file = machine.file(
        "limits.toml",
        "why = \"the night's backup\"\ndevice = \"vda\"\n[settings]\nnr_requests = 32\n\
         \"vda.read_ahead_kb\" = \"64KiB\"\nvm.dirty_bytes = \"64MiB\"\n\
         vm.dirty_background_bytes = \"16MiB\"\n",
    );
    let difference = machine.done(&format!("diff {file}"));
    assert_eq!(difference.lines().filter(|line| line.contains(" -> ")).count(), 4, "{difference}");
    machine.done(&format!("apply {file} --yes"));
    assert_eq!(
        (machine.vm("dirty_bytes"), machine.vm("dirty_ratio")),
        ("67108864".into(), "0".into())
    );
    assert!(machine.done("log").contains("why: the night's backup"));
    assert!(machine.done(&format!("diff {file}")).starts_with("no difference\n"));
    let default = machine.done("diff default");
    assert!(
        default.contains("vm.dirty_ratio: dirty_bytes 67108864 -> dirty_ratio 20"),
        "{default}"
    );
    machine.done("rollback");
    assert_eq!((machine.vm("dirty_bytes"), machine.vm("dirty_ratio")), ("0".into(), "20".into()));
    assert_eq!(machine.done("diff default"), "no difference\n");
}

#[test]
fn what_size_works_out_can_be_applied_and_presets_have_their_numbers() {
    let machine = Machine::new();
    let toml = machine.done("size --link 1Gibit/s --delay 0.25s --hard-delay 1.5s --toml");
    let file = machine.file("sized.toml", &toml);
    machine.done(&format!("apply {file} --yes"));
    assert_eq!(
        (machine.vm("dirty_bytes"), machine.vm("dirty_background_bytes")),
        ("201326592".into(), "33554432".into())
    );
    assert!(machine.done("diff preset:2016-bandwidth-delay").starts_with("no difference\n"));
    machine.done("rollback");
    // The lines for sysctl.d as well, with sizes in bytes as the kernel takes them.
    let lines = machine.file("sized.conf.toml", &machine.done("size --link 1Gbit/s"));
    let output = machine.piped("apply --dry-run -", &lines);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("dirty_ratio 20 -> dirty_bytes 187500000"), "{output:?}");
    let bare = machine.file("bare.toml", "[settings]\nvm.dirty_bytes = 201326592\n");
    assert!(machine.refused(&format!("apply {bare} --yes"), 2).contains("needs a unit"));
    let bare = machine.file("lines.toml", "vm.dirty_bytes = 201326592\n");
    assert!(machine.refused(&format!("apply {bare} --yes"), 2).contains("needs a unit"));
    let several = machine.done("size --rate vda=66MB/s --rate sdb=20MB/s");
    assert!(several.contains("floodwall apply sdb.bdi.max_ratio_fine=232"), "{several}");
}

#[test]
fn the_published_limits_are_exact() {
    let machine = Machine::new();
    let arguments = "size --link 1Gibit/s --delay 0.25s --hard-delay 1.5s";
    let lines = machine.done(arguments);
    assert!(
        lines.contains("\nvm.dirty_background_bytes = 33554432\nvm.dirty_bytes = 201326592\n"),
        "{lines}"
    );
    assert!(lines.lines().all(|line| line.starts_with('#') || line.starts_with("vm.")), "{lines}");
    let json: Value = serde_json::from_str(&machine.done(&format!("{arguments} --json"))).unwrap();
    assert_eq!(
        (&json["sizing"]["hard_bytes"], &json["sizing"]["background_bytes"]),
        (&201_326_592.into(), &33_554_432.into())
    );
}

#[test]
fn a_change_for_a_time_is_put_back_by_itself_and_nothing_is_laid_over_it() {
    let machine = Machine::new();
    machine.done("apply vda.read_ahead_kb=64 --yes");
    machine.done("apply vda.nr_requests=32 --for 2s --yes");
    assert_eq!(machine.queue("nr_requests"), "32");
    let said = machine.refused("apply vda.nr_requests=16 --yes", 1);
    assert!(said.contains("vda.nr_requests is set for a time by change 2"), "{said}");
    let said = machine.refused("apply vda.nr_requests=32 --yes", 1);
    assert!(said.contains("floodwall rollback --to 1 ends it"), "{said}");
    for _ in 0..200 {
        if machine.queue("nr_requests") == "256" && machine.done("log").contains("change 2") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(
        (machine.queue("nr_requests"), machine.queue("read_ahead_kb")),
        ("256".into(), "64".into())
    );
}

#[test]
fn a_timer_ends_with_a_change_that_was_put_back_by_hand() {
    let machine = Machine::new();
    let tree = machine.tree().to_str().unwrap().to_owned();
    let timer = || {
        let processes =
            fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
        let lines = processes.map(|path| fs::read(path).unwrap_or_default());
        lines
            .map(|line| String::from_utf8_lossy(&line).into_owned())
            .any(|line| line.contains("settings-timer") && line.contains(&tree))
    };
    machine.done("apply vda.nr_requests=32 --for 1h --yes");
    assert!(timer());
    machine.done("rollback");
    assert_eq!(machine.queue("nr_requests"), "256");
    for _ in 0..600 {
        if !timer() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the timer waits for an hour that is none of its business any more");
}

#[test]
fn settings_are_read_from_standard_input() {
    let machine = Machine::new();
    let file = machine.file("piped.toml", "device = \"vda\"\n[settings]\nnr_requests = 32\n");
    let piped = |command: &str, file: &str| machine.piped(command, file);
    assert!(stdout(&piped("diff -", &file)).starts_with("vda.nr_requests: 256 -> 32\n"));
    assert_eq!(piped("apply - --yes", &file).status.code(), Some(0));
    assert_eq!(machine.queue("nr_requests"), "32");
    let wrong = machine.file("wrong.toml", "[settings]\nnr_requests = [\n");
    let said = stderr(&piped("export --format udev -", &wrong));
    assert!(said.contains("standard input, line 2: "), "{said}");
}

#[test]
fn every_command_that_takes_settings_says_so_of_stdin() {
    for command in ["apply", "diff", "export", "persist"] {
        let help = stdout(&floodwall(&[command, "--help"]));
        // Wrapped where the width has it.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("or - for a file on stdin"), "{command}: {help}");
    }
}

#[test]
fn wrong_usage_is_told_with_a_remedy() {
    let machine = Machine::new();
    let empty = machine.file("empty.toml", "[settings]\n");
    let unknown = machine.file("unknown.toml", "reason = \"x\"\n[settings]\n");
    let list = machine.file("list.toml", "[settings]\nvm.dirty_bytes = [1]\n");
    let missing = format!("{empty}.missing.toml");
    let unread = format!("can't read '{missing}'");
    for (command, message) in [
        ("apply vm.dirty_byte=1MB --yes".to_owned(), "did you mean vm.dirty_bytes"),
        ("apply vm.dirty_bytes=15 --yes".to_owned(), "'15' needs a unit"),
        ("apply vm.dirty_bytes=1MB --yes".to_owned(), "out of range"),
        ("apply vm.dirty_bytes=9MB vm.dirty_ratio=5 --yes".to_owned(), "two names of one limit"),
        ("apply sdz.nr_requests=5 --yes".to_owned(), "no device is called 'sdz'"),
        ("apply nr_requests=5 --yes".to_owned(), "belongs to a device"),
        ("apply vda.scheduler=cfq --yes".to_owned(), "has no scheduler 'cfq'"),
        ("apply preset:popoz --yes".to_owned(), "did you mean preset:popos?"),
        (format!("apply {missing} --yes"), &unread),
        (format!("apply {empty} --yes"), "[settings] are empty"),
        (format!("apply {unknown} --yes"), "line 1: unknown key 'reason'"),
        (format!("apply {list} --yes"), "vm.dirty_bytes is neither text nor"),
        ("apply vda.nr_requests=32 --for 10 --yes".to_owned(), "10"),
        ("apply vda.nr_requests=32 --for 10ms --yes".to_owned(), "out of range"),
        ("apply --yes".to_owned(), "SETTING"),
        ("apply - --yes".to_owned(), "standard input: its [settings] are empty"),
        ("apply vm.dirty_bytes=-1 --yes".to_owned(), "-1 is negative; give at least"),
        ("apply vm.dirty_bytes=-1MiB --yes".to_owned(), "'-1MiB' is negative"),
        ("apply vda.nr_requests=32 --for -5s".to_owned(), "'-5s' is negative"),
        ("apply vda.nr_requests=32 --for=-5s".to_owned(), "'-5s' is negative"),
        ("size --link -1Gbit/s".to_owned(), "'-1Gbit/s' is negative"),
        ("size --link 1Gbit/s --delay 0s".to_owned(), "give a longer --delay"),
        ("size".to_owned(), "--link 1Gbit/s"),
        ("size --link 1GB".to_owned(), "not a link's speed"),
        ("size --rate 9MB/s --rate 9MB/s".to_owned(), "several devices need their names"),
        ("size --rate 1kB/s".to_owned(), "flusher's chunks"),
        ("size --link 1Gbit/s --delay 2s".to_owned(), "must be longer"),
        ("diff nonsense".to_owned(), "'nonsense' is not a setting"),
        ("diff default vm.dirty_bytes=5MB".to_owned(), "'journal' and 'default' stand alone"),
        ("diff preset:popos journal".to_owned(), "'journal' and 'default' stand alone"),
        ("size --link 0Mbit/s".to_owned(), "'0Mbit/s' is out of range"),
    ] {
        let said = machine.refused(&command, 2);
        assert!(said.contains(message), "{command}: {said}");
    }
    assert!(!machine.journal().exists());
}

#[test]
fn real_time_needs_an_end() {
    let machine = Machine::new();
    let put = |path: &str, text: &str| put(&machine.tree().join(path), text);
    put("proc/4711/stat", "4711 (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 815 0\n");
    put("proc/4711/ioprio", "none\n");
    for command in ["apply --yes", "apply --dry-run", "persist --yes"] {
        let said = machine.refused(&format!("{command} pid:4711.ioprio=rt/0"), 2);
        assert!(
            said.contains("pid:4711.ioprio=rt/0: real time") && said.contains("--for 10m"),
            "{said}"
        );
    }
    let shown = machine.done("apply --dry-run --for 10m pid:4711.ioprio=rt/0");
    assert!(shown.contains("rt/0"), "{shown}");
}

#[test]
fn a_group_whose_threads_were_raised_is_not_limited() {
    let machine = Machine::new();
    let put = |path: &str, text: &str| put(&machine.tree().join(path), text);
    put("proc/4711/stat", "4711 (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 815 0\n");
    put("proc/4711/comm", "postgres\n");
    put("proc/4711/cgroup", "0::/db/main\n");
    put("proc/4711/ioprio", "none\n");
    for (file, text) in [("high", "max\n"), ("current", "0\n"), ("stat", "file 0\nshmem 0\n")] {
        put(&format!("sys/fs/cgroup/db/memory.{file}"), text);
    }
    let limit = "apply --yes db:memory.high=1GiB";
    let said = machine.refused(&format!("{limit} pid:4711.ioprio=be/0"), 2);
    assert!(
        said.contains("db:memory.high is refused: these settings give process 4711 (postgres)"),
        "{said}"
    );
    machine.done("apply --yes pid:4711.ioprio=be/0");
    for command in [limit, "apply --dry-run db:memory.high=1GiB"] {
        let said = machine.refused(command, 2);
        assert!(said.contains("change 1 gave process 4711 (postgres) priority be/0"), "{said}");
        assert!(said.contains("--allow-victims"), "{said}");
    }
    machine.done(&format!("{limit} --allow-victims"));
    machine.done("rollback");
    machine.done(limit);
}

#[test]
fn a_rehearsal_tells_what_the_kernel_will_make_of_it_and_that_it_ends() {
    let machine = Machine::new();
    let note =
        "note: vda.nr_requests: the kernel will keep another value: numbers below 4 become 4\n";
    let told = machine.done("apply vda.nr_requests=1 --for 10m --dry-run");
    assert!(told.contains(note), "{told}");
    assert!(told.ends_with("\n# after 10 min 0 s it would be put back by itself\n"), "{told}");
    let told = machine.done("apply vda.nr_requests=4 --dry-run");
    assert!(!told.contains("note: vda.nr_requests") && !told.contains("put back"), "{told}");
    assert_eq!(machine.queue("nr_requests"), "256");
}

#[test]
fn what_the_machine_does_not_have_is_missing() {
    let machine = Machine::new();
    fs::remove_file(machine.tree().join("sys/class/block/vda/queue/wbt_lat_usec")).unwrap();
    let said = machine.refused("apply vda.wbt_lat_usec=2ms --yes", 4);
    assert!(said.contains("vda.wbt_lat_usec is not there"), "{said}");
}

#[test]
fn a_journal_that_others_can_write_is_refused_and_nothing_changed() {
    let machine = Machine::new();
    fs::create_dir_all(machine.journal()).unwrap();
    fs::set_permissions(machine.journal(), fs::Permissions::from_mode(0o777)).unwrap();
    for command in ["apply vda.nr_requests=32 --yes", "rollback", "log"] {
        let said = machine.refused(command, 1);
        assert!(said.contains("can be written by others"), "{command}: {said}");
    }
    assert_eq!(machine.queue("nr_requests"), "256");
}

#[test]
fn a_journal_that_is_not_to_be_believed_is_kept_aside() {
    let machine = Machine::new();
    machine.done("apply vda.nr_requests=32 --yes");
    let journal = machine.journal().join("000001.jsonl");
    let text = fs::read_to_string(&journal).unwrap().replace("\"256\"", "\"512\"");
    fs::write(&journal, text).unwrap();
    assert!(machine.done("log").contains("not to be believed"));
    let output = machine.run("rollback");
    assert!(
        stderr(&output).contains("kept as 000001.jsonl.bad, not replayed"),
        "{}",
        stderr(&output)
    );
    // Something was not put back.
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(machine.queue("nr_requests"), "32");

    // It does not vanish from the log, nor does its number come again.
    let log = machine.done("log");
    assert!(
        log.contains(
            "/000001.jsonl.bad: kept aside, not to be believed (line 1: its checksum is wrong)"
        ),
        "{log}"
    );
    let log: Value = serde_json::from_str(&machine.done("log --json")).unwrap();
    assert_eq!(log["changes"], serde_json::json!([]));
    assert_eq!(log["kept_aside"][0]["file"], "000001.jsonl.bad");
    machine.done("apply vda.nr_requests=64 --yes");
    assert!(machine.done("log").starts_with("change 2, "));
}

#[test]
fn an_interrupted_change_is_put_back_by_the_next_one_which_says_so() {
    let machine = Machine::new();
    machine.done("apply vda.nr_requests=32 --yes");
    // As a crash before its last record leaves it.
    let journal = machine.journal().join("000001.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let cut: Vec<&str> = text.lines().filter(|line| !line.contains("\"commit\"")).collect();
    fs::write(&journal, format!("{}\n", cut.join("\n"))).unwrap();
    let output = machine.run("apply vda.read_ahead_kb=64 --dry-run");
    assert!(stderr(&output).contains("change 1 was interrupted and would be put back first"));
    assert_eq!(machine.queue("nr_requests"), "32");
    let output = machine.run("apply vda.read_ahead_kb=64 --yes");
    assert!(stderr(&output).contains("change 1 had been interrupted"), "{}", stderr(&output));
    assert_eq!(
        (machine.queue("nr_requests"), machine.queue("read_ahead_kb")),
        ("256".into(), "64".into())
    );
}

#[test]
fn knobs_and_presets_are_explained() {
    let all = stdout(&floodwall(&["explain"]));
    assert!(all.contains("vm.dirty_bytes") && all.contains("preset:popos"), "{all}");
    let one = stdout(&floodwall(&["explain", "nr_requests"]));
    assert!(one.starts_with("nr_requests\n") && one.contains("- source: "), "{one}");
    for word in [&["drain", "time"][..], &["drain-times"], &["Drain Time"]] {
        let page = stdout(&floodwall(&[&["explain"], word].concat()));
        assert!(page.starts_with("drain time\n\nHow long the disk takes"), "{page}");
    }
    let misspelt = floodwall(&["explain", "victm"]);
    assert_eq!(misspelt.status.code(), Some(2));
    assert!(stderr(&misspelt).contains("did you mean victim?"), "{}", stderr(&misspelt));
    assert!(stdout(&floodwall(&["explain", "preset:2010-15MB"])).contains("vm.dirty_bytes=15MB"));
    let bare = floodwall(&["explain", "2010-15MB"]);
    assert_eq!(bare.status.code(), Some(2));
    assert!(stderr(&bare).contains("did you mean preset:2010-15MB?"), "{}", stderr(&bare));
    let misspelt = stderr(&floodwall(&["explain", "2016-bandwith-delay"]));
    assert!(misspelt.contains("did you mean preset:2016-bandwidth-delay?"), "{misspelt}");
    let unknown = floodwall(&["explain", "schedular"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("did you mean scheduler"), "{}", stderr(&unknown));
}

#[test]
fn settings_are_exported_and_no_file_of_somebody_else_is_overwritten() {
    let machine = Machine::new();
    let text = machine.done("export --format sysctl preset:2016-bandwidth-delay");
    assert!(text.contains("\nvm.dirty_bytes = 201326592\n"), "{text}");
    let said = machine.refused("export --format udev --device vda scheduler=none", 2);
    assert!(said.contains("vda has no serial number"), "{said}");
    fs::write(machine.tree().join("sys/class/block/vda/serial"), "S1\n").unwrap();
    let rule = machine.done("export --format udev --device vda scheduler=none");
    assert!(rule.contains("\nATTR{serial}==\"S1\", ") && !rule.contains("KERNEL"), "{rule}");
    assert!(rule.contains(", ATTR{queue/scheduler}=\"none\"\n"), "{rule}");
    let said = machine.refused("export --format sysctl vda.nr_requests=32", 2);
    assert!(said.contains("use --format udev"), "{said}");

    let foreign = machine.file("99-site.conf", "vm.dirty_ratio = 5\n");
    let said = machine.refused(&format!("export --format sysctl preset:popos -o {foreign}"), 2);
    assert!(said.contains("was not written by floodwall export"), "{said}");
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "vm.dirty_ratio = 5\n");
    let ours = machine.file("99-floodwall.conf", &text);
    machine.done(&format!("export --format sysctl preset:popos -o {ours}"));
    assert!(fs::read_to_string(&ours).unwrap().contains("vm.dirty_bytes = 268435456"));
}
