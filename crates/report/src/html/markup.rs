//! Text that is safe in HTML and SVG, and the few elements that many parts of the page need.

use std::fmt::Display;

use floodwall_model::printable;

/// With the characters escaped that HTML and XML take for markup, in text and in attributes. Unsafe
/// characters, some of them forbidden in XML, are shown as escapes; line feeds and tabs stay.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if printable::is_unsafe(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// JSON that may stand in a `script` element: nothing in it can end the element.
pub(super) fn json_for_script(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    printable::json(&json).replace('<', "\\u003c")
}

/// `<dt>` and `<dd>`.
pub(super) fn fact(label: &str, value: impl Display) -> String {
    format!("<dt>{}</dt><dd>{}</dd>\n", escaped(label), escaped(&value.to_string()))
}

/// A name that may stand in a file name, an `id` or a link: lower-case letters, digits and hyphens.
pub(crate) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let out = out.trim_end_matches('-').to_owned();
    if out.is_empty() { "x".into() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_text() {
        assert_eq!(
            escaped("<b a=\"1\" b='2'>&amp;\u{1b}[0m\n\u{202e}"),
            "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;amp;\\u{1b}[0m\n\\u{202e}"
        );
    }

    #[test]
    fn json_can_not_end_its_script() {
        assert_eq!(json_for_script(&"</script><!--"), "\"\\u003c/script>\\u003c!--\"");
        assert_eq!(json_for_script(&"\u{2028}\u{202e}"), r#""\u2028\u202e""#);
        assert_eq!(json_for_script(&f64::NAN), "null");
    }

    #[test]
    fn slugs() {
        assert_eq!(
            ["Limit 0.5 s (120 MiB)", "…", "a--b"].map(slug),
            ["limit-0-5-s-120-mib", "x", "a-b"]
        );
    }
}
