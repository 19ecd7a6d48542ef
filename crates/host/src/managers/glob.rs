//! Shell patterns as udev, TuneD, systemd and fnmatch(3) use them: `*`, `?`, `[a-z]`, `[!a-z]`, and
//! a backslash that takes the next character literally.

/// Whether a whole text fits a pattern.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where the last star is, and how much of the text it has swallowed: going back to an earlier
    // star never helps.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            p += 1;
            star = Some((p, t));
        } else if let Some(length) = fitting(&pattern[p..], text[t]) {
            p += length;
            t += 1;
        } else if let Some((after, swallowed)) = star {
            star = Some((after, swallowed + 1));
            (p, t) = (after, swallowed + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Whether a text fits one of several patterns with `|` between them.
pub(super) fn matches_any(patterns: &str, text: &str) -> bool {
    patterns.split('|').any(|pattern| matches(pattern, text))
}

/// Whether a text has a pattern's special characters.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The length of the pattern's first element, if it fits a character.
fn fitting(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        [] => None,
        ['?', ..] => Some(1),
        ['\\', literal, ..] => (*literal == c).then_some(2),
        ['[', rest @ ..] => {
            let negated = matches!(rest.first(), Some('!' | '^'));
            let mut at = usize::from(negated);
            // A `]` right at the beginning is a member; without its end it is a plain character.
            let Some(end) = (at + 1..rest.len()).find(|at| rest[*at] == ']') else {
                return (c == '[').then_some(1);
            };
            let mut inside = false;
            while at < end {
                let is_range = at + 2 < end && rest[at + 1] == '-';
                let last = if is_range { at + 2 } else { at };
                inside |= (rest[at]..=rest[last]).contains(&c);
                at = last + 1;
            }
            (inside != negated).then_some(end + 2)
        }
        [literal, ..] => (*literal == c).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_and_what_does_not() {
        for (pattern, text, fits) in [
            ("sd[a-z]", "sda", true),
            ("sd[a-z]", "sda1", false),
            ("sd[a-z]*", "sda1", true),
            ("sd[!a-c]", "sdd", true),
            ("sd[!a-c]", "sda", false),
            ("nvme[0-9]*n[0-9]*", "nvme10n1", true),
            ("nvme[0-9]n[0-9]", "nvme10n1", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("?*", "", false),
            ("*a*b", "xaxxbxb", true),
            ("*a*b", "xaxxbx", false),
            ("[]x]", "]", true),
            ("a[b", "a[b", true),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            ("*bfq*", "none [bfq]", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
        assert!(matches_any("sd[a-z]*|mmcblk[0-9]*", "mmcblk0"));
        assert!(matches_any("add|change", "change") && !matches_any("add|change", "remove"));
    }

    #[test]
    fn many_stars_take_no_time() {
        assert!(!matches(&"*a".repeat(200), &"a".repeat(199)));
    }
}
