//! Numbered notes: why a value is not known. The same reason gets the same number.

use floodwall_model::Reading;

/// The reasons given so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    reasons: Vec<String>,
}

impl Notes {
    /// The value as `show` writes it, or `?[n]` with the reason noted.
    pub(super) fn cell<T>(
        &mut self,
        reading: &Reading<T>,
        show: impl FnOnce(&T) -> String,
    ) -> String {
        match (reading.value(), reading.why()) {
            (Some(value), _) => show(value),
            (None, why) => self.unknown(why.unwrap_or_default()),
        }
    }

    /// `?[n]` for a reason.
    pub(super) fn unknown(&mut self, why: String) -> String {
        let place = self.reasons.iter().position(|r| *r == why).unwrap_or_else(|| {
            self.reasons.push(why);
            self.reasons.len() - 1
        });
        format!("?[{}]", place + 1)
    }

    /// All reasons with their numbers, in the order in which they were first given.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.reasons.iter().enumerate().map(|(i, r)| (i + 1, r.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_a_reason_and_zero_is_a_value() {
        let mut notes = Notes::default();
        let show = |n: &u64| n.to_string();
        assert_eq!(notes.cell(&Reading::Value(0), show), "0");
        assert_eq!(notes.cell(&Reading::Absent("x".into()), show), "?[1]");
        assert_eq!(notes.cell(&Reading::Unreadable("x".into()), show), "?[2]");
        assert_eq!(notes.cell(&Reading::Absent("x".into()), show), "?[1]");
        let all: Vec<_> = notes.numbered().collect();
        assert_eq!(all, [(1, "absent: x"), (2, "unreadable: x")]);
    }
}
