//! Results on stdout, everything else on stderr. A reader that went away (`| head`, a closed
//! terminal) is no reason to panic.
//!
//! ```text
//! result, screen, notice ─▶ localised ─▶ people: ASCII where the locale is not UTF-8
//! document, json, files ───────────────▶ programs: UTF-8 always
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use floodwall_model::{message, printable};
use floodwall_report::status::table::fold;
use indicatif::ProgressStyle;
use rustix::fs::OFlags;
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::exit::UsageError;
use crate::{ascii, terminal};

/// Of a new file, less the umask: a result is no secret.
const NEW_FILE_MODE: u32 = 0o666;
/// As many symbolic links as the kernel follows (path_resolution(7)).
const MAX_LINKS: u32 = 40;

/// Writes a result for people to stdout. Unsafe characters in it, which come from names, are
/// escaped.
///
/// # Errors
/// If stdout can't be written, except that a closed pipe is the reader's choice and no error.
pub(crate) fn result(text: &str) -> anyhow::Result<()> {
    screen(&printable::lines(text))
}

/// Writes a result whose lines fit a terminal. Elsewhere they stay whole, for programs.
///
/// # Errors
/// As [`result`].
pub(crate) fn folded(text: &str) -> anyhow::Result<()> {
    match terminal::height() {
        Some(_) => screen(&fold(text, terminal::width())),
        None => result(text),
    }
}

/// Writes a page whose names are escaped already, because it has colours.
///
/// # Errors
/// As [`result`].
pub(crate) fn screen(page: &str) -> anyhow::Result<()> {
    result_with(|out| Ok(out.write_all(ascii::localised(page).as_bytes())?))
}

/// Writes a result in a format of files, such as Markdown. Unsafe characters are escaped.
///
/// # Errors
/// As [`result`].
pub(crate) fn document(text: &str) -> anyhow::Result<()> {
    result_with(|out| Ok(out.write_all(printable::lines(text).as_bytes())?))
}

/// Writes a JSON document to stdout, with unsafe characters as JSON's own escapes.
///
/// # Errors
/// As [`result`].
pub(crate) fn json(text: &str) -> anyhow::Result<()> {
    result_with(|out| Ok(out.write_all(printable::json(text).as_bytes())?))
}

/// Writes a result to stdout as it is: figures in a format of Floodwall, too large to be held as
/// one text.
///
/// # Errors
/// As [`result`], and what `write` says.
pub(crate) fn result_with(
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    part_with(write).map(drop)
}

/// Writes a part of a result that goes on, at once; whether there is still a reader.
///
/// # Errors
/// As [`result_with`].
pub(crate) fn part_with(
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    let is_closed_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    match written {
        Err(error) if error.chain().any(is_closed_pipe) => {
            // Text still in the buffer would be tried again when it is dropped.
            let _ = out.into_parts();
            Ok(false)
        }
        other => other.map(|()| true).context("can't write to stdout"),
    }
}

/// Writes one line to stderr, with unsafe characters escaped; a closed stderr is ignored.
pub(crate) fn notice(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", ascii::localised(&printable::lines(line)));
}

/// An error with its causes in one line. One that ends with the kernel's words alone gets what to
/// do.
pub(crate) fn message(error: &anyhow::Error) -> String {
    with_action(&without_number(&message::line(error.as_ref())))
}

/// Without the number that the standard library puts behind the kernel's words: ` (os error 2)`.
fn without_number(line: &str) -> String {
    let mut parts = line.split(" (os error ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.find(')').filter(|end| part[..*end].bytes().all(|b| b.is_ascii_digit()));
        match number {
            Some(end) => text.push_str(&part[end + 1..]),
            None => text.extend([" (os error ", part]),
        }
    }
    text
}

fn with_action(line: &str) -> String {
    let action = match line.rsplit(": ").next().unwrap_or_default() {
        "No such file or directory" => "check its name",
        "Is a directory" => "name a file",
        "Not a directory" => "name a directory",
        "Permission denied" => "run as root, or as its owner",
        "No space left on device" => "make room, or name another place",
        "Read-only file system" => "name another place",
        _ => return line.to_owned(),
    };
    format!("{line}; {action}")
}

/// Whether stderr is a terminal on which a progress bar may move.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// How a bar on stderr looks.
pub(crate) fn bar_style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    if ascii::is_utf8() { style } else { style.progress_chars("#>-") }
}

/// Writes a file whole or not at all: into a temporary neighbour, synced, then renamed over the
/// name. A symbolic link's target is replaced, not the link, unless the link is another user's. A
/// target that is not a regular file (a pipe, `/dev/null`) is written in place.
///
/// # Errors
/// With the path, if it can't be written; a regular file that was there before is then still there.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let fail = || format!("can't write '{}'", path.display());
    let target = target_of(path, is_trusted).with_context(fail)?;
    if fs::metadata(&target).is_ok_and(|m| !m.is_file()) {
        let before = fs::metadata(&target).with_context(fail)?;
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let mut file = OpenOptions::new()
            .write(true)
            .custom_flags(no_link)
            .open(&target)
            .with_context(fail)?;
        let after = file.metadata().with_context(fail)?;
        if after.is_file() || (after.dev(), after.ino()) != (before.dev(), before.ino()) {
            return Err(io::Error::other("it has just become another file")).with_context(fail);
        }
        return write(&mut file).with_context(fail);
    }
    replace(&target, write).with_context(fail)
}

fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut temporary = temporary_beside(path)?;
    let mut buffered = BufWriter::new(temporary.as_file_mut());
    write(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    sync_directory(path);
    Ok(())
}

/// Makes a new file's name durable too. Not every filesystem can do that; the file is there in any
/// case.
pub(crate) fn sync_directory(path: &Path) {
    let _ = File::open(directory_of(path)).and_then(|directory| directory.sync_all());
}

/// A new file in the same directory with an unpredictable name. It is made with `O_EXCL` and has
/// the mode of any new file. It goes with its handle.
fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let mode = fs::Permissions::from_mode(NEW_FILE_MODE);
    tempfile::Builder::new().prefix(".floodwall-").permissions(mode).tempfile_in(directory_of(path))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The users whose links are followed: the caller and root. In other people's directories a link
/// leads wherever they like.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// Where a path leads, through links of users who are trusted.
fn target_of(path: &Path, is_trusted: impl Fn(u32) -> bool) -> io::Result<PathBuf> {
    let mut here = path.to_owned();
    for _ in 0..MAX_LINKS {
        let meta = match fs::symlink_metadata(&here) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(here),
            other => other?,
        };
        if !meta.is_symlink() {
            return Ok(here);
        }
        if !is_trusted(meta.uid()) {
            let link = here.display();
            return Err(io::Error::other(format!(
                "'{link}' is a symbolic link of user {}; name its target, or remove it",
                meta.uid()
            )));
        }
        let next = directory_of(&here).join(fs::read_link(&here)?);
        // A link of /proc/PID/fd leads to a pipe that has no name.
        if here.exists() && !next.exists() {
            return Ok(here);
        }
        here = next;
    }
    Err(Errno::LOOP.into())
}

/// Checks that a file could be written later, so that an hour's measurement is not lost for a
/// misspelt directory. Makes a temporary neighbour and removes it again: in some directories, such
/// as /proc, only the attempt tells. A file that is there is not touched. Returns the path behind
/// links.
///
/// # Errors
/// [`UsageError`] with the reason.
pub(crate) fn check_writable(path: &Path) -> anyhow::Result<PathBuf> {
    let usage =
        |why: String| Err(UsageError(format!("can't write '{}': {why}", path.display())).into());
    let target = match target_of(path, is_trusted) {
        Ok(target) => target,
        Err(e) => return usage(e.to_string()),
    };
    match fs::metadata(&target) {
        Ok(meta) if meta.is_dir() => return usage("it is a directory; name a file".into()),
        Ok(meta) if meta.is_file() => {
            // Not only its mode may forbid it: chattr(1), a read-only mount.
            if let Err(e) = OpenOptions::new().write(true).open(&target) {
                return usage(format!("it can't be written ({e}); name another file"));
            }
        }
        // To open a pipe would wait for its reader, and to close it would tell him that all is
        // over.
        Ok(_) => match rustix::fs::access(&target, rustix::fs::Access::WRITE_OK) {
            Ok(()) => return Ok(target),
            Err(e) => {
                return usage(format!(
                    "it can't be written ({}); name another file",
                    io::Error::from(e)
                ));
            }
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return usage(format!("{e}; name another file")),
    }
    let parent = directory_of(&target);
    if !parent.is_dir() {
        return usage(format!("there is no directory '{}'; make it first", parent.display()));
    }
    match temporary_beside(&target) {
        Ok(_) => Ok(target),
        Err(e) => usage(format!("no file can be made in its directory ({e}); name another file")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
        write_file(path, |out| Ok(out.write_all(text.as_bytes())?))
    }

    #[test]
    fn the_kernels_words_come_without_their_number_and_with_what_to_do() {
        let said = |number: i32| {
            let error = anyhow::Error::from(io::Error::from_raw_os_error(number));
            message(&error.context("can't read 'x'"))
        };
        assert_eq!(said(2), "can't read 'x': No such file or directory; check its name");
        assert_eq!(said(21), "can't read 'x': Is a directory; name a file");
        assert_eq!(said(13), "can't read 'x': Permission denied; run as root, or as its owner");
        assert_eq!(said(5), "can't read 'x': Input/output error");
        let own = anyhow::anyhow!("the name 'a (os error x)' is odd");
        assert_eq!(message(&own), "the name 'a (os error x)' is odd");
    }

    #[test]
    fn a_cause_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("can't open 'x': {source}; name another")]
        struct Quoting {
            source: io::Error,
        }
        let quoting = Quoting { source: io::Error::from_raw_os_error(2) };
        let text = "can't open 'x': No such file or directory; name another";
        assert_eq!(message(&anyhow::Error::from(quoting)), text);
        assert_eq!(message(&anyhow::anyhow!("inner").context("outer")), "outer: inner");
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        write_text(&path, "one").unwrap();
        write_text(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let broken = write_file(&path, |out| {
            out.write_all(b"half")?;
            anyhow::bail!("no more")
        });
        assert!(broken.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_followed_and_what_is_no_file_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::File::create(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_text(&link, "through").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "through");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        // Any device node would do; this one is everywhere, and a rename over it would be noticed
        // at once.
        use std::os::unix::fs::FileTypeExt;
        let null = dir.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        write_text(&null, "gone").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_temporary_name_can_not_be_foreseen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        // What a neighbour may have put where the next temporary file would be, if it knew its
        // name.
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let foreseen = dir.path().join(format!("result.json.tmp-{}", std::process::id()));
        std::os::unix::fs::symlink(&victim, &foreseen).unwrap();
        let mut names = BTreeSet::new();
        for _ in 0..3 {
            write_file(&path, |out| {
                names.extend(fs::read_dir(dir.path())?.map(|entry| entry.unwrap().file_name()));
                Ok(out.write_all(b"result")?)
            })
            .unwrap();
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        let temporary =
            names.iter().filter(|name| name.to_string_lossy().starts_with(".floodwall-"));
        assert_eq!(temporary.count(), 3, "{names:?}");
        let umask = rustix::process::umask(rustix::fs::Mode::empty());
        rustix::process::umask(umask);
        let mode = fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o666 & !umask.bits(), "as any new file");
    }

    #[test]
    fn somebody_elses_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link, again) =
            (dir.path().join("target"), dir.path().join("link"), dir.path().join("again"));
        fs::write(&target, "mine").unwrap();
        std::os::unix::fs::symlink("target", &link).unwrap();
        std::os::unix::fs::symlink("link", &again).unwrap();
        let us = rustix::process::geteuid().as_raw();
        assert_eq!(target_of(&again, is_trusted).unwrap(), target);
        for path in [&again, &link] {
            let said = target_of(path, |user| user != us).unwrap_err().to_string();
            assert!(
                said.contains(&format!("is a symbolic link of user {us}; name its target")),
                "{said}"
            );
        }
        assert!(!is_trusted(us + 1));
    }

    #[test]
    fn a_path_that_can_not_be_written_is_noticed_before_the_work() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &Path| check_writable(path).unwrap_err().to_string();
        let missing = dir.path().join("missing");
        let no_directory = format!("there is no directory '{}'", missing.display());
        assert!(said(&missing.join("result.json")).contains(&no_directory));
        assert!(said(dir.path()).contains("it is a directory"));
        // Nothing in its mode says so.
        let in_proc = said(Path::new("/proc/result.json"));
        assert!(in_proc.contains("no file can be made in its directory"), "{in_proc}");
        assert!(said(&dir.path().join("x".repeat(300))).contains("too long"));
    }

    #[test]
    fn a_check_leaves_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        check_writable(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "of an hour").unwrap();
        check_writable(&path).unwrap();
        check_writable(Path::new("/dev/null")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "of an hour");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
