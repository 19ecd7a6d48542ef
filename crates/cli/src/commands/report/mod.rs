//! `floodwall report`: stored results → one HTML page, Markdown, JSON, or a file a figure. Needs no
//! privilege, and not the machine that was measured. With `--from` or `--last` a recording → the
//! page of a night.

mod files;
mod fonts;
mod night;
mod submit;
mod table;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{ArgGroup, Args};
use floodwall_report::html::{Figures, figures, page};
use floodwall_report::schema::Document;
use floodwall_report::seeks::{Recording, SeeksError, View, picture};
use floodwall_report::sheet::Sheet;
use floodwall_report::study::json;
use floodwall_report::{Study, contest, markdown, text};
use jiff::Zoned;

use crate::commands::record::DIRECTORY;
use crate::commands::span::asked;
use crate::exit::{Exit, UsageError};
use crate::input;
use crate::output::{self, notice};
use crate::terminal;

/// Stands for a result that is piped in.
const STDIN: &str = "-";
/// Marks of the seek picture inside a page: enough to see streams and seeks, and under half a
/// megabyte.
const PAGE_MARKS: usize = 5_000;

/// The generator's name in a page's head.
const GENERATOR: &str = "<meta name=\"generator\" content=\"floodwall ";
/// A page's head up to there is shorter.
const HEAD_BYTES: u64 = 4096;

/// Show stored results: one HTML page with charts and tables, or Markdown, JSON, SVG, PNG. With
/// --from or --last show what floodwall record has stored of a night.
///
/// The page is one file that loads nothing, for any browser, light and dark, on a screen and on a
/// phone. Takes results of bench, compare, tune and sim; the machine that was measured is not
/// needed. Without an option the result is printed as the command that measured it did.
///
/// With --from or --last the page has the stalls of that time, who waited and who flooded, each
/// disk over time and the worst minute; without --out its text is printed. floodwall stalls --json
/// and floodwall dump have the same for programs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  floodwall report tune.json --out tune.html
  floodwall report before.json after.json --out both.html
  floodwall report tune.json --seeks disk.csv --out tune.html
  floodwall report tune.json --markdown
  floodwall sim --device hdd-7200 --json | floodwall report - --out sim.html
  floodwall report tune.json --svg figures --png figures
  floodwall report bench.json --submit mine.json
  floodwall report --from 'yesterday 22:00' --to 06:00 --out night.html
  floodwall report --last 7d

A result is read up to 256 MiB (about two days of measuring), a recording up to 1 GiB; both must \
be regular files, but for a result on standard input. DuckDB and pyarrow read the rows of \
floodwall sim sweep.")]
#[command(args_override_self = true)]
#[command(group(ArgGroup::new("printed").args(["json", "markdown"])))]
#[command(group(ArgGroup::new("time").args(["last", "from"])))]
pub(crate) struct ReportArgs {
    /// Stored results; - is standard input.
    #[arg(value_name = "RESULT.json", conflicts_with_all = ["last", "from"])]
    results: Vec<PathBuf>,
    /// Write the HTML page to a file; only a page of floodwall report is overwritten.
    #[arg(long, short, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Print Markdown.
    #[arg(long, conflicts_with_all = ["last", "from"])]
    markdown: bool,
    /// Print the numbers behind the figures of results as one JSON document.
    #[arg(long)]
    json: bool,
    /// Write each figure as SVG into a directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["last", "from"])]
    svg: Option<PathBuf>,
    /// Write each figure as PNG into a directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["last", "from"])]
    png: Option<PathBuf>,
    /// The font of the PNGs; one of the system's if not given.
    #[arg(long, value_name = "FILE.ttf", requires = "png")]
    font: Option<PathBuf>,
    /// A lab's recording of the same time (floodwall lab record): shows what reached the device.
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["last", "from"])]
    seeks: Option<PathBuf>,
    /// Show what the result says of its disk, and write it into a file for others (floodwall hwdb
    /// merge): model, firmware, drain rate, best setting, without any name. Nothing is sent; - only
    /// shows it.
    #[arg(long, value_name = "FILE.json", conflicts_with_all = [
        "last", "from", "out", "json", "markdown", "svg", "png", "seeks",
    ])]
    submit: Option<PathBuf>,
    /// Show a recording of so long before now: 90m, 24h, 7d.
    #[arg(long, value_name = "SPAN")]
    last: Option<String>,
    /// Show a recording from this moment on: 03:10, 'yesterday 22:00', '2026-11-26 03:10'.
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// Show it up to this moment; now if it is not given.
    #[arg(long, value_name = "MOMENT", requires = "from")]
    to: Option<String>,
    /// Where the recording is: its directory, or a day's file in it (2026-11-27.frames) for that
    /// day.
    #[arg(long, value_name = "PATH", default_value = DIRECTORY, requires = "time")]
    dir: PathBuf,
}

/// A result that was read, and where it came from.
struct Stored {
    path: PathBuf,
    document: Document,
}

/// Runs the command.
///
/// # Errors
/// Any failure of the run; [`Exit::of`] turns it into a status.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    check(args)?;
    let now = Zoned::now();
    let time = asked(args.last.as_deref(), args.from.as_deref(), args.to.as_deref(), &now)?;
    if let Some(time) = time {
        return night::run(time, now.time_zone(), &args.dir, args.out.as_deref());
    }
    let stored: Vec<Stored> =
        args.results.iter().map(|p| read(p)).collect::<anyhow::Result<_>>()?;
    if let Some(out) = &args.submit {
        let [one] = stored.as_slice() else {
            return Err(UsageError("--submit takes one result".to_owned()).into());
        };
        return submit::run(&one.document, out);
    }
    let drawn = args.out.is_some() || args.svg.is_some() || args.png.is_some();
    let recording = args.seeks.as_deref().filter(|_| drawn).map(read_recording).transpose()?;
    let seeks = recording.as_ref().map(|r| seeks(r, &stored)).transpose()?.unwrap_or_default();
    let mut results: Vec<(Study<'_>, Figures)> = Vec::new();
    for (i, result) in stored.iter().enumerate() {
        // A report is for other people: it has the file's name without this machine's directories.
        let name = result.path.file_name().unwrap_or(result.path.as_os_str()).to_string_lossy();
        let study = Study::of(&result.document, name);
        let seeks = seeks.iter().find(|(of, _)| *of == i).map(|(_, sheet)| sheet.clone());
        let figures = if drawn { figures(&study, seeks)? } else { Figures::default() };
        results.push((study, figures));
    }
    if let Some(out) = &args.out {
        let html = page(&results);
        output::write_file(out, |file| Ok(file.write_all(html.as_bytes())?))?;
    }
    files::write(&results, args.svg.as_deref(), args.png.as_deref(), args.font.as_deref())?;
    print(args, &results)?;
    Ok(Exit::Done)
}

/// Refuses wrong arguments before anything is read.
fn check(args: &ReportArgs) -> anyhow::Result<()> {
    let is_night = args.from.is_some() || args.last.is_some();
    if is_night && args.json {
        let why = "--json is for results; 'floodwall stalls --json' prints the stalls of a time, \
            'floodwall dump --json' its frames";
        return Err(UsageError(why.to_owned()).into());
    }
    if !is_night && args.results.is_empty() {
        let why = "report: name a stored result (RESULT.json), or a time of a recording (--last \
            24h, --from 'yesterday 22:00')";
        return Err(UsageError(why.to_owned()).into());
    }
    let submitted = args.submit.as_ref().filter(|out| out.as_path() != Path::new(STDIN));
    let Some(out) = args.out.as_ref().or(submitted) else { return Ok(()) };
    output::check_writable(out)?;
    let is_out = |input: &PathBuf| {
        out.canonicalize().is_ok_and(|out| input.canonicalize().is_ok_and(|i| i == out))
    };
    match args.results.iter().chain(&args.seeks).find(|input| is_out(input)) {
        None if args.submit.is_some() => submit::check(out),
        None => check_ours(out).and_then(|()| check_name(out)),
        Some(input) => {
            let why = format!(
                "'{}' would be overwritten by its report; name another file",
                input.display()
            );
            Err(UsageError(why).into())
        }
    }
}

/// Refuses a name that promises another format than HTML.
fn check_name(path: &Path) -> anyhow::Result<()> {
    match path.extension().map(|extension| extension.to_string_lossy().to_lowercase()) {
        Some(extension) if !matches!(extension.as_str(), "html" | "htm") => {
            Err(UsageError(format!(
                "'{}': --out writes an HTML page; name it {}, or use --svg DIR or --png DIR for \
             pictures",
                path.display(),
                path.with_extension("html").display()
            ))
            .into())
        }
        _ => Ok(()),
    }
}

/// Refuses a file that is not a page of Floodwall. An absent or empty file and one that is no
/// regular file (`/dev/stdout`) will do.
fn check_ours(path: &Path) -> anyhow::Result<()> {
    if !path.is_file() {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.with_context(|| format!("can't read '{}'", path.display()))?;
    let head = String::from_utf8_lossy(&head);
    if head.is_empty() || (head.starts_with("<!doctype html>") && head.contains(GENERATOR)) {
        return Ok(());
    }
    let why = "was not written by floodwall report; name another file, or move it away";
    Err(UsageError(format!("'{}' {why}", path.display())).into())
}

/// Text for stdout: the requested forms, and the result as text if no form was requested.
fn print(args: &ReportArgs, results: &[(Study<'_>, Figures)]) -> anyhow::Result<()> {
    let studies: Vec<&Study<'_>> = results.iter().map(|(study, _)| study).collect();
    if args.json {
        let document = json::document(&studies);
        return output::json(&(serde_json::to_string_pretty(&document)? + "\n"));
    }
    if args.markdown {
        let pages: Vec<String> = studies.iter().map(|s| markdown::report(s)).collect();
        return output::document(&pages.join("\n"));
    }
    let text: Vec<String> = if args.out.is_none() && args.svg.is_none() && args.png.is_none() {
        let one = |s: &&Study<'_>| {
            if s.document.contest.is_some() {
                contest::text(s.document, terminal::width())
            } else {
                text::bench(s.document, terminal::width())
            }
        };
        studies.iter().map(one).collect()
    } else {
        return Ok(());
    };
    output::result(&text.join("\n"))
}

fn read(path: &Path) -> anyhow::Result<Stored> {
    let is_stdin = path == Path::new(STDIN);
    let name = if is_stdin { "standard input".into() } else { format!("'{}'", path.display()) };
    let bytes = if is_stdin { input::result_on_stdin() } else { input::result(path) };
    let unread = |e: std::io::Error| UsageError(format!("can't read the result {name}: {e}"));
    let bytes = bytes.map_err(unread)?;
    // A pipe has no name that another program could open.
    let file = if is_stdin { Path::new("FILE") } else { path };
    if let Some(reader) = table::reader(file, &bytes) {
        return Err(UsageError(format!("{name}: {reader}")).into());
    }
    let json = input::text(bytes).map_err(unread)?;
    let mut document = Document::read(&json).map_err(|e| UsageError(format!("{name}: {e}")))?;
    // An older version may have judged otherwise.
    document.judge();
    Ok(Stored { path: path.to_owned(), document })
}

fn read_recording(path: &Path) -> anyhow::Result<Recording> {
    let text = input::recording(path)
        .map_err(|e| UsageError(format!("can't read the recording '{}': {e}", path.display())))?;
    let recording = Recording::parse(&text)
        .map_err(|e| UsageError(format!("can't draw '{}': {e}", path.display())))?;
    if recording.cut {
        notice(&format!("floodwall: '{}' ends within a line, which is left out", path.display()));
    }
    Ok(recording)
}

/// The picture for each result that ran while the device was recorded.
fn seeks(recording: &Recording, stored: &[Stored]) -> anyhow::Result<Vec<(usize, Sheet)>> {
    let view = View { marks: PAGE_MARKS, ..View::default() };
    let mut pictures = Vec::new();
    let mut refused: Option<SeeksError> = None;
    for (i, result) in stored.iter().enumerate() {
        match picture(recording, Some(&result.document), &view) {
            Ok(sheet) => pictures.push((i, sheet)),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if pictures.is_empty() => Err(UsageError(format!("--seeks: {error}")).into()),
        _ => Ok(pictures),
    }
}
