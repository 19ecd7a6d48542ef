//! No content of any file makes a reader panic.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use floodwall_host::findings::{Facts, JournalFacts, look};
use floodwall_host::status::{Observation, status};
use floodwall_host::{HostFacts, Sampler, capture, locate, managers, settings_in_force};
use proptest::prelude::*;

use crate::support::Machine;

/// Every regular file of a tree, in a fixed order.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap()).collect();
    entries.sort_by_key(|e| e.file_name());
    for entry in entries {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.set_len(0).unwrap();
    file.write_all(bytes).unwrap();
}

/// Everything that this crate can do with a tree; rates both from a sane machine to this one and
/// back.
fn read_all(machine: &Machine, sane: &Observation) {
    let root = machine.root();
    let now = Observation::read(&root);
    let managers = managers::read(&root);
    for (before, after) in [(sane, &now), (&now, sane), (&now, &now)] {
        let status = status(&root, before, after, 1.0, false);
        let _ = look(Facts {
            status: &status,
            journal: &JournalFacts::default(),
            managers: &managers,
            disk_users: &[],
        });
    }
    for path in ["/", "/srv", "/backup", "/build", "/mnt/archive copies"] {
        if let Ok(location) = locate(&root, Path::new(path)) {
            let _ = HostFacts::read(&root, &location);
            let _ = settings_in_force(
                &root,
                location.queue_device,
                location.bdi.value().map(String::as_str),
            );
        }
    }
    let _ = capture::entries(&root);
}

fn sample_all(samplers: &mut [Sampler]) {
    for sampler in samplers {
        sampler.sample();
    }
}

/// Bytes at random, numbers too large for anything, and lines of the right shape with the wrong
/// content.
fn nasty() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        Just(b"99999999999999999999999999".to_vec()),
        Just(b"18446744073709551615\n".to_vec()),
        Just(b"18446744073709551615:18446744073709551615\n".to_vec()),
        Just(b"Dirty: 18446744073709551615 kB\nBdiWritten: 18446744073709551615 kB\n".to_vec()),
        Just(b"write_bytes: 18446744073709551615\ncancelled_write_bytes: 0\n".to_vec()),
        Just(b"22 22 0:0 / / rw - \n22 1 8:0 / / - - - -\n".to_vec()),
        Just(b"1 1 8:2 / \\777\\400\\0 rw,=,, - ext4 /dev/../../x a=b=c\n".to_vec()),
        Just(
            b"8 16 sdb 18446744073709551615 1 18446744073709551615 1 1 1 18446744073709551615 1 1 \
            18446744073709551615 1\n"
                .to_vec()
        ),
        "[ -~\n]{0,200}".prop_map(String::into_bytes),
    ]
}

#[test]
fn garbage_in_any_files_is_survived() {
    let machine = Machine::copy_of("server-md-crypt-lvm");
    let root = machine.root();
    let sane = Observation::read(&root);
    let mut all = Vec::new();
    files(machine.path(), &mut all);
    let picks = prop::collection::vec((0..all.len(), nasty()), 1..12);
    let config =
        ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&picks, |picks| {
        let mut samplers = ["8:16", "0:0"].map(|id| Sampler::new(root.clone(), id.parse().ok()));
        sample_all(&mut samplers);
        let originals: Vec<Vec<u8>> =
            picks.iter().map(|(i, _)| fs::read(&all[*i]).unwrap()).collect();
        for (i, bytes) in &picks {
            overwrite(&all[*i], bytes);
        }
        read_all(&machine, &sane);
        sample_all(&mut samplers);
        for ((i, _), bytes) in picks.iter().zip(&originals) {
            overwrite(&all[*i], bytes);
        }
        sample_all(&mut samplers);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn garbage_in_every_file_at_once_is_survived() {
    for name in ["server-md-crypt-lvm", "ubuntu-24.04", "rhel-8"] {
        let machine = Machine::copy_of(name);
        let sane = Observation::read(&machine.root());
        let mut all = Vec::new();
        files(machine.path(), &mut all);
        for bytes in [&b""[..], b"\xff\xfe\0\x01", b"18446744073709551615", b"-1", b"[", b"]["] {
            all.iter().for_each(|path| overwrite(path, bytes));
            read_all(&machine, &sane);
        }
    }
}

/// Numbers alone, so that everything else of the tree still makes sense: what is counted with them
/// must not overflow.
#[test]
fn absurd_numbers_in_every_file_of_one_number_are_survived() {
    for name in ["server-md-crypt-lvm", "ubuntu-24.04", "rhel-9"] {
        let machine = Machine::copy_of(name);
        let sane = Observation::read(&machine.root());
        let mut all = Vec::new();
        files(machine.path(), &mut all);
        all.retain(|path| {
            fs::read_to_string(path).is_ok_and(|text| text.trim().parse::<u64>().is_ok())
        });
        for bytes in [
            &b"18446744073709551615\n"[..],
            b"9223372036854775807\n",
            b"0\n",
            b"-9223372036854775808\n",
            b"1\n",
        ] {
            all.iter().for_each(|path| overwrite(path, bytes));
            read_all(&machine, &sane);
        }
    }
}
