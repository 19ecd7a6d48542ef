//! Two samples and their reports, figure by figure. The figures were computed by hand, the layout
//! is that of sysstat 12.6.1.

use super::*;

/// Two disks at 100.00 s and at 102.00 s: one worked, one did not.
const FIRST: (&str, &str, &str) = (
    "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\n",
    "8 0 sda 100 10 2001 50 200 20 3000 70 0 90 130 5 1 4100 3 7 9\n\
     8 16 sdb 10 0 80 5 0 0 0 0 0 5 5 0 0 0 0 0 0\n",
    "100.00 1.00",
);
const SECOND: (&str, &str, &str) = (
    "cpu  200 0 100 900 100 0 0 50 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\n",
    "8 0 sda 150 60 6097 250 300 20 7096 570 1 1090 1630 7 3 8196 7 17 29\n\
     8 16 sdb 10 0 80 5 0 0 0 0 0 5 5 0 0 0 0 0 0\n",
    "102.00 1.00",
);

fn sample((stat, disks, uptime): (&str, &str, &str)) -> Sample {
    Sample::parse(stat, disks, uptime).unwrap()
}

/// All that is printed, with both samples if there is an interval.
fn printed(line: &str) -> String {
    let options = Options::parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
    let has_interval = options.interval_s.is_some();
    let machine = Machine {
        nodename: "db1".into(),
        sysname: "Linux".into(),
        release: "6.1.0".into(),
        machine: "x86_64".into(),
    };
    let mut report = Report::new(options);
    let mut text = report.header(&machine, &sample(FIRST), "11/27/26");
    text += &report.next(sample(FIRST), &Partitions::default(), "11/27/26 09:00:00");
    if has_interval {
        text += &report.next(sample(SECOND), &Partitions::default(), "11/27/26 09:00:02");
    }
    assert_eq!(report.is_done(), !has_interval || line.ends_with(" 1 2"), "{line}");
    text + report.footer()
}

const HEADER: &str = "Linux 6.1.0 (db1) \t11/27/26 \t_x86_64_\t(2 CPU)\n\n";

#[test]
fn the_report_since_boot_has_both_parts() {
    let wanted = "\
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          10.00    0.00    5.00    5.00    0.00   80.00

Device             tps    kB_read/s    kB_wrtn/s    kB_dscd/s    kB_read    kB_wrtn    kB_dscd
sda               3.05        10.01        15.00        20.50       1000       1500       2050
sdb               0.10         0.40         0.00         0.00         40          0          0


";
    assert_eq!(printed(""), format!("{HEADER}{wanted}"));
}

#[test]
fn an_intervals_figures_are_differences_a_second_in_megabytes() {
    let wanted = "
11/27/26 09:00:02
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          28.57    0.00   14.29   14.29   14.29   28.57

Device             tps    MB_read/s    MB_wrtn/s    MB_dscd/s    MB_read    MB_wrtn    MB_dscd
sda              76.00         1.00         1.00         1.00          2          2          2


";
    assert_eq!(printed("-mytz 2"), format!("{HEADER}{wanted}"));
}

#[test]
fn extended_columns_are_by_kind_in_a_table_and_by_figure_in_json() {
    let wanted = "
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  \
%wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  \
aqu-sz  %util
sda             25.00   1024.00    25.00  50.00    4.00    40.96   50.00   1024.00     0.00   \
0.00    5.00    20.48    1.00   1024.00     1.00  50.00    2.00  1024.00    5.00    2.00    \
0.75  50.00
sdb              0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   \
0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    \
0.00   0.00


";
    assert_eq!(printed("-dxy 1"), format!("{HEADER}{wanted}"));
    let row = "{\"disk_device\": \"sda\", \"r/s\": 25.00, \"w/s\": 50.00, \"d/s\": 1.00, \
\"f/s\": 5.00, \"rMB/s\": 1.00, \"wMB/s\": 1.00, \"dMB/s\": 1.00, \"rrqm/s\": 25.00, \
\"wrqm/s\": 0.00, \"drqm/s\": 1.00, \"rrqm\": 50.00, \"wrqm\": 0.00, \"drqm\": 50.00, \
\"r_await\": 4.00, \"w_await\": 5.00, \"d_await\": 2.00, \"f_await\": 2.00, \"rareq-sz\": 40.96, \
\"wareq-sz\": 20.48, \"dareq-sz\": 1024.00, \"aqu-sz\": 0.75, \"util\": 50.00}";
    let text = printed("-dxmyz sda -o JSON 1");
    assert!(text.contains(row), "{text}");
}

#[test]
fn json_has_the_originals_names_and_indentation() {
    let wanted = "{\"sysstat\": {
\t\"hosts\": [
\t\t{
\t\t\t\"nodename\": \"db1\",
\t\t\t\"sysname\": \"Linux\",
\t\t\t\"release\": \"6.1.0\",
\t\t\t\"machine\": \"x86_64\",
\t\t\t\"number-of-cpus\": 2,
\t\t\t\"date\": \"11/27/26\",
\t\t\t\"statistics\": [
\t\t\t\t{
\t\t\t\t\t\"timestamp\": \"11/27/26 09:00:00\",
\t\t\t\t\t\"avg-cpu\":  {\"user\": 10.00, \"nice\": 0.00, \"system\": 5.00, \"iowait\": 5.00, \
\"steal\": 0.00, \"idle\": 80.00},
\t\t\t\t\t\"disk\": [
\t\t\t\t\t\t{\"disk_device\": \"sdb\", \"tps\": 0.10, \"kB_read/s\": 0.40, \"kB_wrtn/s\": 0.00, \
\"kB_dscd/s\": 0.00, \"kB_read\": 40, \"kB_wrtn\": 0, \"kB_dscd\": 0}
\t\t\t\t\t]
\t\t\t\t},
\t\t\t\t{
\t\t\t\t\t\"timestamp\": \"11/27/26 09:00:02\",
\t\t\t\t\t\"avg-cpu\":  {\"user\": 28.57, \"nice\": 0.00, \"system\": 14.29, \"iowait\": 14.29, \
\"steal\": 14.29, \"idle\": 28.57},
\t\t\t\t\t\"disk\": [

\t\t\t\t\t]
\t\t\t\t}
\t\t\t]
\t\t}
\t]
}}
";
    assert_eq!(printed("-tz sdb -o JSON 1 2"), wanted);
    let parsed: serde_json::Value = serde_json::from_str(&printed("-o JSON -y 1")).unwrap();
    assert_eq!(parsed["sysstat"]["hosts"][0]["statistics"][0]["disk"][0]["tps"], 76.0);
}

#[test]
fn the_processors_alone_and_unsafe_names() {
    assert!(printed("-c").ends_with("80.00\n\n\n\n"));
    let disks = "7 0 a\u{202e}b 1 0 8 0 0 0 0 0 0 0 0\n";
    let sample = Sample::parse("cpu  1 2 3 4\n", disks, "1.00 1").unwrap();
    let mut report = Report::new(Options::parse(&["-d"]).unwrap());
    let text = report.next(sample, &Partitions::default(), "");
    assert!(text.contains("a\\u{202e}b"), "{text}");
}
