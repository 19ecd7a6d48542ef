//! Command lines and job files that can't be followed, each with what to write.

/// A command line or job file that can't be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// An option of the tool that is not supported.
    #[error("fio: {place}'{what}' is not supported here; nearest: {nearest}")]
    Unsupported {
        /// The job file and section, if it is in one.
        place: String,
        /// As it was written.
        what: String,
        /// The words to write in its place.
        nearest: &'static str,
    },
    /// No option of the tool.
    #[error("fio: {place}there is no option '{option}'; nearest: {nearest}")]
    Unknown {
        /// The job file and section, if it is in one.
        place: String,
        /// As it was written.
        option: String,
        /// The one that it resembles most.
        nearest: String,
    },
    /// A value that its option can't have.
    #[error("fio: {place}{option}={value}: the value is not {wanted}")]
    Value {
        /// The job file and section, if it is in one.
        place: String,
        /// Its name.
        option: String,
        /// As it was written.
        value: String,
        /// Values that would do.
        wanted: &'static str,
    },
    /// An option without the value that it needs.
    #[error("fio: {place}{option} needs a value; write {option}=VALUE")]
    NoValue {
        /// The job file and section, if it is in one.
        place: String,
        /// Its name.
        option: String,
    },
    /// A warning that shall end the run.
    #[error("{0}; take --warnings-fatal out, or heed it")]
    Fatal(String),
    /// An option before the first section of a job file.
    #[error("fio: {file}: '{line}' is in no section; write [global] or [NAME] before it")]
    NoSection {
        /// The file.
        file: String,
        /// The line.
        line: String,
    },
    /// A line that opens a section and does not close it.
    #[error("fio: {file}: '{line}' is no section; write [NAME]")]
    BadSection {
        /// The file.
        file: String,
        /// The line.
        line: String,
    },
    /// A job file that can't be read.
    #[error("fio: can't read the job file '{file}': {why}; check its name")]
    File {
        /// Its name.
        file: String,
        /// The system's error.
        why: String,
    },
    /// Job files that include each other.
    #[error("fio: job files include each other more than {0} deep; take one include out")]
    Nested(usize),
    /// No job.
    #[error("fio: no job is defined; write --name=NAME before its options, or name a job file")]
    NoJob,
    /// `--section` names one that is not there.
    #[error("fio: there is no section '{0}' in the job files; check --section")]
    NoSuchSection(String),
    /// Options of a job that contradict each other.
    #[error("fio: job '{job}': {what}")]
    Job {
        /// Its name.
        job: String,
        /// The fault, and the words to write.
        what: &'static str,
    },
    /// More processes than `--max-jobs`.
    #[error("fio: {wanted} jobs are more than --max-jobs={most}; raise it or lower numjobs")]
    TooMany {
        /// So many are asked for.
        wanted: u64,
        /// The limit.
        most: u64,
    },
}
