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
        match one(&pattern[p..], text[t]) {
            Step::Star => {
                star = Some((p + 1, t));
                p += 1;
            }
            Step::Fits(length) => {
                p += length;
                t += 1;
            }
            Step::Differs => match star {
                Some((after, swallowed)) => {
                    star = Some((after, swallowed + 1));
                    (p, t) = (after, swallowed + 1);
                }
                None => return false,
            },
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

/// What the pattern's first element makes of a character.
enum Step {
    Star,
    /// It fits; so many characters of the pattern are used up.
    Fits(usize),
    Differs,
}

fn one(pattern: &[char], c: char) -> Step {
    let fits = |holds: bool, length| if holds { Step::Fits(length) } else { Step::Differs };
    match pattern {
        [] => Step::Differs,
        ['*', ..] => Step::Star,
        ['?', ..] => Step::Fits(1),
        ['\\', literal, ..] => fits(*literal == c, 2),
        ['[', rest @ ..] => match set(rest) {
            Some(Set { ranges, negated, length }) => {
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
                fits(inside != negated, length + 1)
            }
            // Without its end it is a plain character.
            None => fits(c == '[', 1),
        },
        [literal, ..] => fits(*literal == c, 1),
    }
}

/// The members of a set in brackets.
struct Set {
    /// From, to; a single character is both.
    ranges: Vec<(char, char)>,
    negated: bool,
    /// Up to and with the `]`.
    length: usize,
}

fn set(pattern: &[char]) -> Option<Set> {
    let negated = matches!(pattern.first(), Some('!' | '^'));
    let start = usize::from(negated);
    // A `]` right at the beginning is a member.
    let end = (start + 1..pattern.len()).find(|at| pattern[*at] == ']')?;
    let mut ranges = Vec::new();
    let mut at = start;
    while at < end {
        if at + 2 < end && pattern[at + 1] == '-' {
            ranges.push((pattern[at], pattern[at + 2]));
            at += 3;
        } else {
            ranges.push((pattern[at], pattern[at]));
            at += 1;
        }
    }
    Some(Set { ranges, negated, length: end + 1 })
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
