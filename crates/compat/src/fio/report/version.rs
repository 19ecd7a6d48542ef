//! Which fio's reports these are.

/// The version in all reports. Readers check that it begins with `fio-3`, and choose units and
/// names by it: `clat_ns` and not `clat`.
pub const VERSION: &str = "fio-3.33";
