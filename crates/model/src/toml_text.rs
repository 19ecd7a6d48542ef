//! What a TOML file's author is told: the line, and the known name nearest to a misspelt one.

/// More of a line that is not understood says no more.
const SHOWN_CHARS: usize = 40;

/// The known name nearest to a misspelt one, if any is near.
#[must_use]
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(wrong, k), k))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

/// Adds the nearest known name to serde's "unknown field `x`, expected one of `a`, `b`".
fn explain(message: &str) -> String {
    let mistyped =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "));
    if let Some((found, expected)) = mistyped {
        let expected = match expected {
            "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
            "f32" | "f64" => "a number",
            "a boolean" => "true or false",
            other => other,
        };
        return format!("{} is not {expected}", bare(found));
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    if !message.starts_with("unknown ") {
        return message.replace('`', "'").replace('\n', " ");
    }
    let what = if message.starts_with("unknown variant") { "value" } else { "key" };
    let Some(wrong) = quoted.next() else { return message.to_owned() };
    let known: Vec<&str> = quoted.collect();
    match nearest(wrong, known.iter().copied()) {
        Some(near) => format!("unknown {what} '{wrong}'; did you mean '{near}'?"),
        None => format!("unknown {what} '{wrong}'; known here: {}", known.join(", ")),
    }
}

/// A value as its author wrote it, from serde's `string "ten"` or ``integer `4` ``.
fn bare(found: &str) -> String {
    let text = found.strip_prefix("string \"").and_then(|rest| rest.strip_suffix('"'));
    text.map_or_else(|| found.replace('`', "'"), |text| format!("'{text}'"))
}

/// The place and the fault of a text: the line, counted from 1, and the message, with the nearest
/// known name for an unknown key or value.
#[must_use]
pub fn place_and_message(text: &str, error: &toml::de::Error) -> (usize, String) {
    let at = error.span().map_or(0, |s| s.start).min(text.len());
    let line = text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
    (line, of_syntax(text, line, error).unwrap_or_else(|| message(error)))
}

/// The message where the text is no TOML at all: the line itself instead of the parser's grammar.
fn of_syntax(text: &str, line: usize, error: &toml::de::Error) -> Option<String> {
    let is_toml = text.parse::<toml::Table>().is_ok();
    if is_toml || error.message().contains("duplicate") {
        return None;
    }
    let written = text.lines().nth(line - 1).unwrap_or_default().trim();
    let shown: String = written.chars().take(SHOWN_CHARS).collect();
    Some(format!("'{shown}' is not TOML; write KEY = VALUE, and text in quotation marks"))
}

/// The message alone, for a text that has no lines.
#[must_use]
pub fn message(error: &toml::de::Error) -> String {
    explain(error.message().trim())
}

/// The message behind the key that it is about, for a text that has no lines.
#[must_use]
pub fn message_of_key(error: &toml::de::Error) -> String {
    // The library tells the key in its text alone: a last line "in `threads`".
    let text = error.to_string();
    let key = text.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    let message = message(error);
    key.map_or_else(|| message.clone(), |key| format!("{key}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_name_is_offered_only_if_it_is_near() {
        let known = ["threads", "block", "size"];
        assert_eq!(nearest("thread", known), Some("threads"));
        assert_eq!(nearest("xyzzy", known), None);
        assert_eq!(
            explain("unknown field `xyzzy`, expected one of `threads`, `block`"),
            "unknown key 'xyzzy'; known here: threads, block"
        );
        assert_eq!(explain("invalid `x`\nthere"), "invalid 'x' there");
        let at =
            |text: &str| place_and_message(text, &toml::from_str::<toml::Table>(text).unwrap_err());
        let not_toml = "is not TOML; write KEY = VALUE, and text in quotation marks";
        assert_eq!(at("a = 1\nb = fast\n"), (2, format!("'b = fast' {not_toml}")));
        assert_eq!(at("[a\n"), (1, format!("'[a' {not_toml}")));
        assert_eq!(at("a = 1\na = 2\n"), (2, "duplicate key".to_owned()));
        let mistyped = explain(r#"invalid type: string "ten", expected u32"#);
        assert_eq!(mistyped, "'ten' is not a whole number");
    }
}
