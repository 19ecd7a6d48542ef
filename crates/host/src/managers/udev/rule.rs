//! udev rules as text: one rule a line, `KEY=="match", KEY{attribute}="assignment", …` (udev(7)).

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    /// The line at which it begins.
    pub(super) line: u32,
    pub(super) tokens: Vec<Token>,
}

/// `ATTR{queue/rotational}=="1"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) key: String,
    /// Empty where the key has no attribute.
    pub(super) attribute: String,
    pub(super) operator: Operator,
    /// With its backslashes.
    pub(super) value: String,
    /// `i"…"`: case does not matter.
    pub(super) ignore_case: bool,
    /// All of it.
    pub(super) text: String,
}

/// What a token does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    /// `==`
    Is,
    /// `!=`
    IsNot,
    /// `=`, `+=` or `:=`
    Set,
    /// `-=`
    Remove,
}

const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Is),
    ("!=", Operator::IsNot),
    ("=", Operator::Set),
    ("+=", Operator::Set),
    (":=", Operator::Set),
    ("-=", Operator::Remove),
];

impl Rule {
    /// The tokens that must hold.
    pub(super) fn matches(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| matches!(token.operator, Operator::Is | Operator::IsNot))
    }

    /// The tokens that set something.
    pub(super) fn assignments(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| token.operator == Operator::Set)
    }

    /// The value set for a key without an attribute, such as `GOTO`.
    pub(super) fn set(&self, key: &str) -> Option<&str> {
        self.assignments().find(|token| token.key == key).map(|token| token.value.as_str())
    }
}

/// The rules of a file, and its lines that are no rules.
pub(super) fn parse(text: &str) -> (Vec<Rule>, Vec<(u32, String)>) {
    let (mut rules, mut wrong) = (Vec::new(), Vec::new());
    for (line, text) in logical_lines(text) {
        match tokens(&text) {
            Some(tokens) if tokens.is_empty() => {}
            Some(tokens) => rules.push(Rule { line, tokens }),
            None => wrong.push((line, text)),
        }
    }
    (rules, wrong)
}

/// Lines without comments, those that end in a backslash joined with the next.
fn logical_lines(text: &str) -> Vec<(u32, String)> {
    let mut lines = Vec::new();
    let mut begun: Option<(u32, String)> = None;
    for (number, text) in (1..).zip(text.lines()) {
        // A comment within a rule that goes on is left out (udev(7)).
        if text.trim_start().starts_with('#') {
            continue;
        }
        let (first, mut whole) = begun.take().unwrap_or((number, String::new()));
        match text.strip_suffix('\\') {
            Some(text) => begun = Some((first, whole + text)),
            None => {
                whole.push_str(text);
                lines.push((first, whole));
            }
        }
    }
    lines.extend(begun);
    lines
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let separators = [' ', '\t', ','];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(separators);
    while !rest.trim().is_empty() {
        let (token, after) = token(rest)?;
        tokens.push(token);
        rest = after.trim_start_matches(separators);
    }
    Some(tokens)
}

fn token(text: &str) -> Option<(Token, &str)> {
    let end = text.find(|c: char| !c.is_ascii_uppercase() && c != '_').filter(|end| *end > 0)?;
    let (key, rest) = text.split_at(end);
    let (attribute, rest) = match rest.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => ("", rest),
    };
    let rest = rest.trim_start();
    let (sign, operator) = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign))?;
    // A prefix says how the value is to be read: `e"…"`, `i"…"`.
    let (prefix, quoted) = rest[sign.len()..].split_once('"')?;
    if !prefix.trim().chars().all(|c| matches!(c, 'e' | 'i')) {
        return None;
    }
    // Up to the quote that has no backslash before it.
    let end =
        quoted.match_indices('"').map(|(at, _)| at).find(|at| !quoted[..*at].ends_with('\\'))?;
    let (value, after) = (&quoted[..end], &quoted[end + 1..]);
    let token = Token {
        key: key.to_owned(),
        attribute: attribute.to_owned(),
        operator: *operator,
        value: value.to_owned(),
        ignore_case: prefix.contains('i'),
        text: text[..text.len() - after.len()].to_owned(),
    };
    Some((token, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_comments_and_continued_lines() {
        let (rules, wrong) = parse(
            "# a comment\nACTION==\"add|change\", KERNEL==\"sd[a-z]\", \\\n# \
             within\n  ATTR{queue/rotational}==\"1\",ATTR{queue/scheduler}=\"bfq\"\n\n\
             LABEL=\"end\"\n",
        );
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(
            rules.iter().map(|rule| (rule.line, rule.tokens.len())).collect::<Vec<_>>(),
            [(2, 4), (6, 1)]
        );
        let set = rules[0].assignments().next().unwrap();
        assert_eq!((set.key.as_str(), set.attribute.as_str()), ("ATTR", "queue/scheduler"));
        assert_eq!(rules[1].set("LABEL"), Some("end"));
    }

    #[test]
    fn quotes_prefixes_and_operators() {
        let (rules, _) =
            parse(r#"KERNEL != i"SDA" RUN+="/bin/sh -c \"echo 1 > /x\"", ENV{A}:="b""#);
        let [first, run, env] = rules[0].tokens.as_slice() else { panic!("{rules:?}") };
        assert!(first.ignore_case && first.operator == Operator::IsNot);
        assert_eq!(
            (run.value.as_str(), run.operator),
            (r#"/bin/sh -c \"echo 1 > /x\""#, Operator::Set)
        );
        assert_eq!((env.attribute.as_str(), env.text.as_str()), ("A", r#"ENV{A}:="b""#));
    }

    #[test]
    fn what_is_no_rule_is_told() {
        for text in ["KERNEL=sda", "KERNEL==\"sda", "ATTR{a=\"1\"", "KERNEL", "kernel==\"sda\""] {
            let (rules, wrong) = parse(text);
            assert!(rules.is_empty() && wrong == [(1, text.to_owned())], "{text}: {rules:?}");
        }
    }
}
