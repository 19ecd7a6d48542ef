//! Shares as frames have them.

/// With one decimal: further digits of a share mean nothing, and cost space in a recording.
pub(super) fn rounded(percent: f64) -> f32 {
    ((percent * 10.0).round() / 10.0) as f32
}
