//! Wrong command lines: each is answered with one line that names the fault and a remedy.

use std::fs;

use super::{floodwall, stderr};

/// Words of parsers, libraries and the kernel's tables, which mean nothing to a user.
const FOREIGN: [&str; 10] = [
    "error:",
    "os error",
    "invalid digit",
    "expected",
    "serde",
    "invalid type",
    "missing field",
    "unexpected argument",
    "For more information",
    "is not in ",
];

#[test]
fn each_error_is_one_line_that_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("bad.toml", "x = \n"),
        ("key.toml", "nme = \"x\"\n"),
        ("cut.json", "{\"a\":"),
        ("knob.toml", "[settings]\nfoo.bar = \"1\"\n"),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    fs::create_dir(dir.path().join("folder")).unwrap();
    for (line, what) in [
        ("benhc", "did you mean 'bench'?"),
        ("guard staus", "'status'?"),
        ("bench --quik", "did you mean '--quick'?"),
        ("bench --rounds x", "'x' is not a whole number"),
        ("bench --rounds -1", "'-1' is negative"),
        ("bench --measure 5", "write a number and a unit"),
        ("bench DIR/none", "check its name"),
        ("bench DIR/cut.json", "is not a directory; name one"),
        ("bench --scenario copy-vs-databse DIR", "did you mean 'copy-vs-database'?"),
        ("bench --scenario DIR/none.toml DIR", "check its name"),
        ("bench --scenario DIR/bad.toml DIR", "'x =' is not TOML; write KEY = VALUE"),
        ("bench --scenario DIR/key.toml DIR", "did you mean 'name'?"),
        ("bench --victim comit DIR", "did you mean 'commit'?"),
        ("bench --victim commit,thread=4 DIR", "did you mean 'threads'?"),
        ("bench --out /none/x.json DIR", "make it first"),
        ("compare --each schedulr DIR", "did you mean 'scheduler'?"),
        ("compare --set schedular=bfq --set default DIR", "did you mean scheduler?"),
        ("tune --resume DIR/cut.json DIR", "it is cut off"),
        ("tune --resume DIR/none DIR", "check its name"),
        ("sim", "--device PRESET|FILE.toml is missing"),
        ("sim --device hdd-720", "did you mean 'hdd-7200'?"),
        ("sim --device DIR/bad.toml", "is not TOML"),
        ("sim --device hdd-7200 --ram 5", "needs a unit"),
        ("sim sweep DIR/none.toml", "check its name"),
        ("sim sweep DIR/bad.toml", "is not TOML"),
        ("report DIR/folder", "name a regular file"),
        ("report DIR/cut.json", "it is cut off"),
        ("status --rot /", "did you mean '--root'?"),
        ("status --seconds 1ms", "write 50ms to 1h"),
        ("fix --tune", "is missing"),
        ("fix DIR --tune --dry-run", "--tune can't go with --dry-run"),
        ("fix DIR --tune --time x", "write a number and a unit"),
        ("fix DIR/bad.toml --tune --yes", "is no directory: a search needs one"),
        ("probe no-such", "name one as in lsblk"),
        ("probe --source perff", "did you mean 'perf'?"),
        ("probe --count 0", "give 1 or more"),
        ("watch no-such", "a mount point or a path (/srv)"),
        ("watch /proc", "is on proc, which no disk holds"),
        ("watch --sim hdd-720", "did you mean 'hdd-7200'?"),
        ("watch --dir DIR --begin noon", "'noon' is not a moment"),
        ("watch --sim hdd-7200", "watch needs a terminal"),
        ("guard --sim hdd-720", "did you mean 'hdd-7200'?"),
        ("guard --config DIR/bad.toml --dry-run", "is not TOML"),
        ("compat vmstat 1", "known here: iostat"),
        ("compat iostat -xs 1", "nearest: -x has these columns"),
        ("apply", "SETTING is missing"),
        ("apply vm.dirty_byts=64MiB --dry-run", "did you mean vm.dirty_bytes"),
        ("apply vm.dirty_bytes=64MX --dry-run", "write a number and a unit"),
        ("apply preset:popo --dry-run", "did you mean preset:popos?"),
        ("apply DIR/bad.toml --dry-run", "is not TOML"),
        ("apply DIR/knob.toml --dry-run", "floodwall explain lists all"),
        ("apply DIR/none.toml --dry-run", "check its name"),
        ("size --link 1G", "such as 1Gbit/s"),
        ("export --format udv scheduler=bfq", "did you mean 'udev'?"),
        ("explain schedlr", "did you mean scheduler?"),
        ("explain FW999", "did you mean FW049"),
        ("lab show hdd-720", "did you mean 'hdd-7200'?"),
        ("lab seeks DIR/folder --out x.svg", "name a regular file"),
    ] {
        let line = line.replace("DIR", dir.path().to_str().unwrap());
        let output = floodwall(&line.split(' ').collect::<Vec<_>>());
        let said = stderr(&output);
        assert!(said.starts_with("floodwall: ") && said.contains(what), "{line}: {said}");
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
        let foreign = FOREIGN.iter().find(|word| said.contains(**word));
        assert_eq!(foreign, None, "{line}: {said}");
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
    }
}
