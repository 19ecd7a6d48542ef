//! A command line and its job files.
//!
//! ```text
//! words ─┬▶ options of the command
//!        ├▶ options before the first --name: of all jobs
//!        ├▶ --name=NAME and what follows: a job
//!        └▶ job files ─▶ sections ─▶ jobs
//! jobs ─▶ numjobs clones each ─▶ stages, groups
//! ```

use super::super::report::Formats;
use super::error::OptionError;
use super::ini::{self, Host};
use super::options::JobOptions;
use super::refused::{lacking, refused};
use super::table::{Known, Takes, Text, known};

/// The section whose options are those of all jobs after it.
const GLOBAL: &str = "global";

/// A command line, parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Command {
    /// `--version`: its name is printed, nothing else.
    pub version: bool,
    /// `--parse-only`: nothing is run.
    pub parse_only: bool,
    /// `--output`: the report goes to this file.
    pub output: Option<String>,
    /// `--output-format`, `--minimal`, `--append-terse`.
    pub formats: Formats,
    /// Options of all jobs, as they were written, without flags.
    pub global_options: Vec<(String, String)>,
    /// Every process or thread.
    pub jobs: Vec<JobSpec>,
    /// Faults of which fio only warns.
    pub warnings: Vec<String>,
    /// `--readonly`: nothing is written, and no file is made.
    pub is_read_only: bool,
    /// `--warnings-fatal`.
    warnings_end: bool,
    /// `--section`.
    sections: Vec<String>,
    /// `--max-jobs`.
    max_jobs: Option<u64>,
}

/// One process or thread.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// Its options.
    pub options: JobOptions,
    /// Its own options as they were written, without flags.
    pub given: Vec<(String, String)>,
    /// Its number among the clones of a job.
    pub clone: u32,
    /// The reporting group.
    pub group: u32,
    /// It begins when all jobs of lower stages have ended.
    pub stage: u32,
}

/// Options in the making: of all jobs, or of one.
#[derive(Clone, Default)]
struct Draft {
    options: JobOptions,
    given: Vec<(String, String)>,
}

impl Draft {
    /// A job that begins with these.
    fn job(&self) -> Self {
        Self { options: self.options.clone(), given: Vec::new() }
    }

    fn set(&mut self, place: &str, known: &Known, text: Option<&str>) -> Result<(), OptionError> {
        (known.set)(&mut self.options, Text(text.unwrap_or("1"))).map_err(|wanted| {
            OptionError::Value {
                place: place.to_owned(),
                option: known.name.to_owned(),
                value: text.unwrap_or_default().to_owned(),
                wanted,
            }
        })?;
        if let Some(text) = text {
            self.given.retain(|(name, _)| name != known.name);
            self.given.push((known.name.to_owned(), text.to_owned()));
        }
        Ok(())
    }
}

impl Command {
    /// From the words after the tool's name.
    ///
    /// # Errors
    /// [`OptionError`] with the word that is wrong.
    pub fn parse<S: AsRef<str>>(words: &[S], host: &mut dyn Host) -> Result<Self, OptionError> {
        let mut command = Self::default();
        let (mut global, mut drafts) = (Draft::default(), Vec::<Draft>::new());
        let mut files: Vec<&str> = Vec::new();
        let mut words = words.iter().map(AsRef::as_ref);
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                files.push(word);
                continue;
            };
            let option = option.strip_prefix('-').unwrap_or(option);
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let Some(known) = known(name) else {
                command.set(word, name, value, &mut words)?;
                continue;
            };
            let value = match known.takes {
                Takes::Flag => value,
                Takes::Value | Takes::ValueOrLine => {
                    Some(value.or_else(|| words.next()).ok_or_else(|| lacking(known.name))?)
                }
            };
            if known.name == "name" && value != Some(GLOBAL) {
                drafts.push(global.job());
            }
            drafts.last_mut().unwrap_or(&mut global).set("", known, value)?;
        }
        command.global_options = std::mem::take(&mut global.given);
        for (number, file) in files.iter().enumerate() {
            let before = drafts.len();
            command.add_file(file, &global, &mut drafts, host)?;
            if number > 0
                && let Some(first) = drafts.get_mut(before)
            {
                first.options.stonewall = true;
            }
        }
        command.settle(drafts)?;
        Ok(command)
    }

    /// An option of the command itself.
    fn set<'w>(
        &mut self,
        word: &str,
        name: &str,
        value: Option<&'w str>,
        words: &mut impl Iterator<Item = &'w str>,
    ) -> Result<(), OptionError> {
        let mut value = || value.or_else(|| words.next()).ok_or_else(|| lacking(name));
        let wrong = |value: &str, wanted| OptionError::Value {
            place: String::new(),
            option: name.to_owned(),
            value: value.to_owned(),
            wanted,
        };
        match name {
            "version" | "v" => self.version = true,
            "parse-only" => self.parse_only = true,
            "output" => self.output = Some(value()?.to_owned()),
            "minimal" => self.formats = Formats { terse: true, normal: false, ..self.formats },
            "append-terse" => self.formats.terse = true,
            "output-format" => {
                self.formats = Formats { normal: false, ..Formats::default() };
                let value = value()?;
                for format in value.split(',').map(str::trim) {
                    *(match format {
                        "normal" => &mut self.formats.normal,
                        "terse" | "minimal" => &mut self.formats.terse,
                        "json" => &mut self.formats.json,
                        "json+" => &mut self.formats.json_plus,
                        _ => return Err(wrong(value, "a list of normal, terse, json, json+")),
                    }) = true;
                }
            }
            "terse-version" => match value()? {
                "3" => {}
                other => return Err(wrong(other, "3, which alone is supported")),
            },
            // There is no line of progress.
            "eta" => match value()? {
                "auto" | "always" | "never" => {}
                other => return Err(wrong(other, "one of auto, always, never")),
            },
            "eta-newline" | "eta-interval" | "alloc-size" => value().map(drop)?,
            "warnings-fatal" => self.warnings_end = true,
            "readonly" => self.is_read_only = true,
            "section" => self.sections.push(value()?.to_owned()),
            "max-jobs" => {
                let text = value()?;
                self.max_jobs = Some(text.parse().map_err(|_| wrong(text, "a whole number"))?);
            }
            _ => return Err(refused("", word.split('=').next().unwrap_or(word), name, "--")),
        }
        Ok(())
    }

    /// The jobs of a file. Its `[global]` sections are of this file alone.
    fn add_file(
        &mut self,
        file: &str,
        global: &Draft,
        drafts: &mut Vec<Draft>,
        host: &mut dyn Host,
    ) -> Result<(), OptionError> {
        let mut global = global.job();
        for section in ini::sections(file, host)? {
            let is_global = section.name == GLOBAL;
            if !is_global && !self.sections.is_empty() && !self.sections.contains(&section.name) {
                continue;
            }
            let mut job = global.job();
            job.options.name.clone_from(&section.name);
            let draft = if is_global { &mut global } else { &mut job };
            let place = format!("{}: [{}]: ", section.file, section.name);
            for (name, value) in &section.lines {
                let known = known(name).ok_or_else(|| refused(&place, name, name, ""))?;
                if known.takes == Takes::Value && value.is_none() {
                    return Err(OptionError::NoValue { place, option: name.clone() });
                }
                draft.set(&place, known, value.as_deref())?;
            }
            if !is_global {
                drafts.push(job);
            }
        }
        self.global_options.append(&mut global.given);
        Ok(())
    }

    /// Checks the jobs, and makes their clones, stages and groups.
    fn settle(&mut self, drafts: Vec<Draft>) -> Result<(), OptionError> {
        if self.version {
            return Ok(());
        }
        if drafts.is_empty() {
            let section = self.sections.first().cloned();
            return Err(section.map_or(OptionError::NoJob, OptionError::NoSuchSection));
        }
        let wanted = drafts.iter().map(|draft| u64::from(draft.options.jobs)).sum();
        if let Some(most) = self.max_jobs.filter(|most| wanted > *most) {
            return Err(OptionError::TooMany { wanted, most });
        }
        let (mut stage, mut group, mut clones) = (0, 0, 0);
        for mut draft in drafts {
            self.warnings.extend(draft.options.settle(self.is_read_only)?);
            let JobOptions { stonewall, new_group, .. } = draft.options;
            // A barrier before the first job is none.
            if clones > 0 && (stonewall || new_group) {
                (group, clones) = (group + 1, 0);
                stage += u32::from(stonewall);
            }
            for clone in 0..draft.options.jobs {
                let Draft { options, given } = draft.clone();
                self.jobs.push(JobSpec { options, given, clone, group, stage });
                clones += 1;
            }
        }
        let ends = self.warnings_end && !self.parse_only;
        self.warnings
            .first()
            .filter(|_| ends)
            .cloned()
            .map_or(Ok(()), |warning| Err(OptionError::Fatal(warning)))
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
