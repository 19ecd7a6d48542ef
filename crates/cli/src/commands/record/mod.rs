//! `floodwall record`: keeps what `watch` shows, for days.

/// Where recordings are kept.
pub(crate) const DIRECTORY: &str = "/var/log/floodwall";
