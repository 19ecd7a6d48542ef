//! The words that every part of Floodwall shares, as types.
//!
//! ```text
//! units      Bytes, Rate, DeviceId: parsed from and printed with their units
//! counts     numbers of things, as they are printed
//! latency    the log-linear buckets in which every latency is counted
//! histogram  latencies being counted, one by one
//! kept_request   requests that are kept one by one, for logs
//! hdr        counted latencies as HdrHistograms, their stored form
//! scenario   victims + floods + sizes + durations, from TOML, a command line or the built-in list
//! setting    a set of knob values
//! calendar   moments as dates
//! control_group  which control group holds which
//! diagnosis  who waits for a disk, because of what, and what can be done
//! frame      one window of a machine, as it is shown, stored and counted
//! finding    something about a machine that somebody should know, with evidence and remedy
//! managers   other hands on the same knobs: who sets what, and who has the last word
//! message    what people are told of an error
//! printable  names and messages made safe for a terminal
//! reading    a value of the kernel, or why it is missing
//! stall      a disk whose victims waited too long, with who and why
//! status     a machine's write path at one moment
//! toml_text  what the author of a TOML file is told
//! trial      one scenario run under one setting, with everything measured
//! runner     whatever can run a trial
//! workload   the unit, container and pod that a process runs in
//! plant      whatever a controller steers: sensors and knobs
//! priority   a thread's I/O priority, as text
//! proc_stat  a line of /proc/PID/stat
//! ```
//!
//! Pure: no file, no clock, no environment. Times are nanoseconds (`_ns`), seconds (`_s`) or
//! [`std::time::Duration`]; sizes are bytes.

pub mod calendar;
pub mod control_group;
pub mod counts;
pub mod diagnosis;
pub mod finding;
pub mod frame;
pub mod hdr;
pub mod histogram;
mod kept_request;
pub mod latency;
pub mod managers;
pub mod message;
mod moments;
pub mod plant;
pub mod printable;
pub mod priority;
pub mod proc_stat;
mod reading;
pub mod runner;
pub mod scenario;
pub mod setting;
pub mod stall;
pub mod status;
pub mod toml_text;
pub mod trial;
pub mod units;
pub mod workload;

pub use finding::{Finding, Severity};
pub use kept_request::KeptRequest;
pub use latency::LatencyCounts;
pub use managers::Managers;
pub use moments::Moments;
pub use plant::Plant;
pub use priority::Priority;
pub use reading::Reading;
pub use runner::{Runner, RunnerError, Watch};
pub use scenario::{Flood, Scenario, Timing, Victim};
pub use setting::Setting;
pub use trial::{HostSample, Interval, Phase, PhaseKind, Trial};
pub use units::{Bytes, DeviceId, Rate};
