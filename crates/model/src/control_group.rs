//! Paths of control groups below their mount, with or without slashes at both ends.

/// Whether a control group is `above`, or is below it. All groups are in the root group, whose path
/// is empty.
#[must_use]
pub fn is_in(group: &str, above: &str) -> bool {
    let (group, above) = (group.trim_matches('/'), above.trim_matches('/'));
    let rest = group.strip_prefix(above);
    rest.is_some_and(|rest| above.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_in_itself_and_in_those_above_it() {
        for (group, above, is_so) in [
            ("a/b", "a/b", true),
            ("a/b", "a", true),
            ("a", "a/b", false),
            ("ab", "a", false),
            ("b/a", "a", false),
            ("/a/b", "a/", true),
            ("a", "", true),
            ("", "/", true),
            ("", "a", false),
        ] {
            assert_eq!(is_in(group, above), is_so, "{group} in {above}");
        }
    }
}
