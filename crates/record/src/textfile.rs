//! Metrics in a file, for the textfile collector of Prometheus' node_exporter.
//!
//! It reads `*.prom` files in Prometheus' text format, version 0.0.4 (`expfmt.TextParser` of
//! prometheus/common). OpenMetrics is another format: there a counter's type belongs to its name
//! without `_total`, and a type `info` makes the old parser refuse the whole file.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Readable for all: node_exporter runs as another user.
const MODE: u32 = 0o644;

/// A file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error(
    "can't write metrics to '{}'; name a file in the directory that node_exporter reads, such as \
     /var/lib/prometheus/node-exporter/floodwall.prom", .path.display()
)]
pub struct TextfileError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Replaces a file by an exposition in OpenMetrics' text format, converted. A reader sees the old
/// file or the new one, never a part. Nothing is synced: after a crash the next one replaces it.
/// Until then the new one has a fixed name, so that one that a kill has left goes as well.
///
/// # Errors
/// If the directory does not take a file.
pub fn write(path: &Path, exposition: &str) -> Result<(), TextfileError> {
    let replace = || -> io::Result<()> {
        // The collector leaves out names that don't end in .prom.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = path.with_file_name(format!(".{name}.tmp"));
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        // Only a file that this call makes is written: no link is followed.
        let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
        let written = file
            .write_all(converted(exposition).as_bytes())
            // A umask has no say in what another user has to read.
            .and_then(|()| file.set_permissions(Permissions::from_mode(MODE)))
            .and_then(|()| fs::rename(&new, path));
        written.inspect_err(|_| drop(fs::remove_file(&new)))
    };
    replace().map_err(|source| TextfileError { path: path.to_owned(), source })
}

/// OpenMetrics' text format as Prometheus' older one.
fn converted(exposition: &str) -> String {
    let mut out = String::with_capacity(exposition.len());
    let mut help = "";
    for line in exposition.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            // Its name depends on the type, which follows.
            help = text.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|text| text.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            // A string takes every write.
            let _ = write!(out, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_and_types_are_those_of_the_older_format() {
        let exposition = "# HELP f Which.\n# TYPE f info\nf_info{version=\"1\"} 1\n\
             # HELP f_read_bytes It read.\n# TYPE f_read_bytes counter\n# UNIT f_read_bytes bytes\n\
             f_read_bytes_total{device=\"# TYPE x info\"} 3.0\n\
             # HELP f_on 1 if on.\n# TYPE f_on gauge\nf_on 1.0\n# EOF\n";
        assert_eq!(
            converted(exposition),
            "# HELP f_info Which.\n# TYPE f_info gauge\nf_info{version=\"1\"} 1\n\
             # HELP f_read_bytes_total It read.\n# TYPE f_read_bytes_total counter\n\
             f_read_bytes_total{device=\"# TYPE x info\"} 3.0\n\
             # HELP f_on 1 if on.\n# TYPE f_on gauge\nf_on 1.0\n"
        );
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_readable_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("floodwall.prom");
        fs::write(&path, "old").unwrap();
        let held = fs::File::open(&path).unwrap();
        write(&path, "# EOF\n").unwrap();
        write(&path, "a 1\n# EOF\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a 1\n");
        assert_eq!(io::read_to_string(held).unwrap(), "old", "a reader keeps what it opened");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        // What a kill leaves, and what another user may put there.
        let new = dir.path().join(".floodwall.prom.tmp");
        fs::write(&new, "half").unwrap();
        write(&path, "b 1\n# EOF\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "b 1\n");
        let elsewhere = dir.path().join("elsewhere");
        symlink(&elsewhere, &new).unwrap();
        write(&path, "c 1\n# EOF\n").unwrap();
        assert!(!elsewhere.exists(), "a link is not followed");
        assert!(path.symlink_metadata().unwrap().is_file());
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn a_directory_that_is_not_there_is_named_with_a_better_one() {
        let error = write(Path::new("/nowhere/x.prom"), "").unwrap_err();
        assert!(error.to_string().starts_with("can't write metrics to '/nowhere/x.prom'; name a"));
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
    }
}
