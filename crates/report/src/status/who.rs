//! The waiters and writers of disks, as two tables. Both name the disk and list the disks in the
//! same order: the one that was waited for longest comes first, its heaviest users on top.

use std::time::Duration;

use floodwall_model::counts::count;
use floodwall_model::status::{Waiter, Writer};
use floodwall_model::units::human_duration;
use floodwall_model::{Rate, Reading};

use super::notes::Notes;
use super::table::{Column, table};
use crate::numbers::percent;

/// Rows of each table; a screen has no more, `--json` has all.
const ROWS: usize = 12;
/// Columns of a process's name and number.
const NAME: usize = 28;
/// Columns of a disk's name.
const DEVICE: usize = 14;
/// Columns of a figure.
const FIGURE: usize = 12;
/// Where nothing is to be told.
const NONE: &str = "–";

/// The disks of both tables in their order.
pub(super) struct Disks<'a>(Vec<(&'a Reading<String>, f64, f64)>);

impl<'a> Disks<'a> {
    pub(super) fn of(waiters: &'a [Waiter], writers: &'a [Writer]) -> Self {
        let mut disks: Vec<(&Reading<String>, f64, f64)> = Vec::new();
        let waits = waiters.iter().map(|one| (&one.device, one.waited_us, 0.0));
        let writes = writers.iter().map(|one| (&one.device, 0.0, one.dirtied_bytes_per_s));
        for (device, waited, dirtied) in waits.chain(writes) {
            match disks.iter_mut().find(|(of, ..)| *of == device) {
                Some(sums) => (sums.1, sums.2) = (sums.1 + waited, sums.2 + dirtied),
                None => disks.push((device, waited, dirtied)),
            }
        }
        disks.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.2.total_cmp(&a.2)));
        Self(disks)
    }

    /// The heaviest rows, disk by disk.
    fn sorted<'r, T>(
        &self,
        rows: &'r [T],
        device: impl Fn(&T) -> &Reading<String>,
        weight: impl Fn(&T) -> f64,
    ) -> Vec<&'r T> {
        let mut rows: Vec<&T> = rows.iter().collect();
        rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        rows.truncate(ROWS);
        rows.sort_by_key(|row| self.0.iter().position(|(of, ..)| *of == device(row)));
        rows
    }
}

/// The processes that waited.
pub(super) fn waits(
    waiters: &[Waiter],
    disks: &Disks<'_>,
    notes: &mut Notes,
    width: usize,
) -> Vec<String> {
    if waiters.is_empty() {
        return Vec::new();
    }
    let columns = [
        Column::words("WHO WAITS", NAME),
        Column::words("DEVICE", DEVICE),
        Column::words("FOR", FIGURE),
        Column::figures("/s", FIGURE).rank(2),
        Column::figures("p50", FIGURE).rank(3),
        Column::figures("p99", FIGURE),
        Column::figures("max", FIGURE).rank(4),
        Column::figures("share", FIGURE),
        Column::figures("now", 24).rank(1),
    ];
    let us = |figure: &Reading<f64>| figure.value().map_or_else(|| NONE.into(), micros);
    let row = |one: &Waiter| {
        vec![
            who(one.pid, &one.name),
            notes.cell(&one.device, String::clone),
            one.call.value().map_or_else(|| NONE.into(), |call| call.replace('_', " ")),
            count(one.calls_per_s),
            us(&one.p50_us),
            us(&one.p99_us),
            us(&one.max_us),
            format!("{} %", percent(one.waited_percent / 100.0)),
            match one.waiting_calls {
                0 => String::new(),
                waiting => format!("{waiting} for {}", micros(&one.oldest_us)),
            },
        ]
    };
    let rows = disks.sorted(waiters, |one| &one.device, |one| one.waited_us);
    let rows: Vec<Vec<String>> = rows.into_iter().map(row).collect();
    with_rest(table(&columns, &rows, width), waiters.len())
}

/// The processes that wrote.
pub(super) fn writes(
    writers: &[Writer],
    disks: &Disks<'_>,
    notes: &mut Notes,
    width: usize,
) -> Vec<String> {
    if writers.is_empty() {
        return Vec::new();
    }
    let taken_back = writers.iter().any(|one| one.cancelled_bytes_per_s > 0.0);
    let columns = [
        Column::words("WHO WRITES", NAME),
        Column::words("DEVICE", DEVICE),
        Column::figures("dirtied", FIGURE),
        Column::figures("taken back", FIGURE).rank(2),
        Column::figures("throttled", FIGURE).rank(1),
    ];
    let columns = columns.into_iter().filter(|column| taken_back || column.title != "taken back");
    let rate = |bytes_per_s: f64| Rate(bytes_per_s).to_string();
    let row = |one: &Writer| {
        let name = match one.comm.value() {
            Some(name) => who(one.pid, name),
            None => format!("{} ({})", notes.cell(&one.comm, String::clone), one.pid),
        };
        let mut row =
            vec![name, notes.cell(&one.device, String::clone), rate(one.dirtied_bytes_per_s)];
        row.extend(taken_back.then(|| rate(one.cancelled_bytes_per_s)));
        row.push(
            notes.cell(&one.throttled_percent, |share| format!("{} %", percent(share / 100.0))),
        );
        row
    };
    let rows = disks.sorted(writers, |one| &one.device, |one| one.dirtied_bytes_per_s);
    let rows: Vec<Vec<String>> = rows.into_iter().map(row).collect();
    with_rest(table(&columns.collect::<Vec<_>>(), &rows, width), writers.len())
}

fn with_rest(mut lines: Vec<String>, rows: usize) -> Vec<String> {
    if rows > ROWS {
        lines.push(format!("and {} more rows; --json has all", rows - ROWS));
    }
    lines
}

/// Its name and number. Number 0 is no process: all that were too many to be told apart.
fn who(pid: u32, name: &str) -> String {
    if pid == 0 { name.to_owned() } else { format!("{name} ({pid})") }
}

fn micros(us: &f64) -> String {
    human_duration(Duration::try_from_secs_f64(*us / 1e6).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(name: &str, device: &str, waited_us: f64) -> Waiter {
        Waiter {
            pid: 7,
            name: name.to_owned(),
            device: Reading::Value(device.to_owned()),
            call: Reading::Value("fsync".to_owned()),
            calls_per_s: 2.0,
            p50_us: Reading::Value(waited_us),
            p99_us: Reading::Value(waited_us),
            max_us: Reading::Value(waited_us),
            waited_us,
            waited_percent: (waited_us / 1e4).min(100.0),
            waiting_calls: 0,
            oldest_us: 0.0,
        }
    }

    fn writer(name: &str, device: &str, dirtied_bytes_per_s: f64) -> Writer {
        Writer {
            pid: 9,
            comm: Reading::Value(name.to_owned()),
            dirtied_bytes_per_s,
            cancelled_bytes_per_s: 0.0,
            device: Reading::Value(device.to_owned()),
            throttled_percent: Reading::Value(12.0),
        }
    }

    #[test]
    fn both_tables_have_the_disk_first_that_is_waited_for_longest() {
        let waiters = [
            waiter("bash", "sda", 2e3),
            waiter("mysqld", "sdb", 4e5),
            waiter("postgres", "sda", 6e5),
        ];
        let writers = [writer("cp", "sdb", 9e8), writer("rsync", "sda", 1e8)];
        let disks = Disks::of(&waiters, &writers);
        let notes = &mut Notes::default();
        let both = [waits(&waiters, &disks, notes, 80), writes(&writers, &disks, notes, 80)];
        insta::assert_snapshot!(both.concat().join("\n"), @"
        WHO WAITS     DEVICE  FOR    /s      p50      p99      max   share  now
        postgres (7)  sda     fsync   2   600 ms   600 ms   600 ms    60 %
        bash (7)      sda     fsync   2  2.00 ms  2.00 ms  2.00 ms  0.20 %
        mysqld (7)    sdb     fsync   2   400 ms   400 ms   400 ms    40 %
        WHO WRITES  DEVICE   dirtied  throttled
        rsync (9)   sda     100 MB/s       12 %
        cp (9)      sdb     900 MB/s       12 %
        ");
        assert_eq!(notes.numbered().count(), 0);
    }

    #[test]
    fn what_is_under_way_counts_before_its_first_call_has_ended() {
        let mut hangs = waiter("sqlite3", "sda", 0.0);
        let absent = || Reading::Absent("none ended".to_owned());
        hangs.call = Reading::Absent("the first call is under way".to_owned());
        (hangs.p50_us, hangs.p99_us, hangs.max_us) = (absent(), absent(), absent());
        (hangs.calls_per_s, hangs.waiting_calls, hangs.oldest_us) = (0.0, 1, 7e6);
        (hangs.waited_us, hangs.waited_percent) = (1e6, 100.0);
        let waiters = [waiter("bash", "sda", 2e3), hangs];
        let disks = Disks::of(&waiters, &[]);
        let lines = waits(&waiters, &disks, &mut Notes::default(), 160);
        insta::assert_snapshot!(lines.join("\n"), @"
        WHO WAITS    DEVICE  FOR    /s      p50      p99      max   share           now
        sqlite3 (7)  sda     –       0        –        –        –   100 %  1 for 7.00 s
        bash (7)     sda     fsync   2  2.00 ms  2.00 ms  2.00 ms  0.20 %
        ");
    }

    #[test]
    fn rows_that_do_not_fit_are_counted() {
        let many: Vec<Writer> = (0..15).map(|n| writer("tar", "sda", f64::from(n))).collect();
        let lines = writes(&many, &Disks::of(&[], &many), &mut Notes::default(), 80);
        assert_eq!(lines.len(), 1 + ROWS + 1);
        assert_eq!(lines.last().map(String::as_str), Some("and 3 more rows; --json has all"));
    }
}
