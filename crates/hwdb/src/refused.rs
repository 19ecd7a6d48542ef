//! Why a submission is refused.

/// A submission has less than 2 kB.
pub const MOST_BYTES: usize = 16 << 10;
/// Characters of a refused text that a message repeats.
const SHOWN: usize = 40;

/// Why a submission is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too long, or not text.
    #[error("it has more than {MOST_BYTES} bytes, or is not UTF-8; no submission is")]
    Size,
    /// Not the JSON of a submission: syntax, a missing, double or unknown field, a wrong type.
    #[error("it is not a submission: {0}")]
    Json(String),
    /// A field's value.
    #[error("{field} '{value}': {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value, shortened, without characters that a terminal obeys.
        value: String,
        /// The reason.
        why: String,
    },
}

impl Refused {
    pub(crate) fn field(field: &'static str, value: &str, why: &str) -> Self {
        let mut shown: String = value.chars().take(SHOWN).flat_map(char::escape_default).collect();
        if value.chars().nth(SHOWN).is_some() {
            shown.push('…');
        }
        Self::Field { field, value: shown, why: why.to_owned() }
    }
}
