//! udev rules as text: one rule a line, `KEY=="match", KEY{attribute}="assignment", …` (udev(7)).

use super::super::redact;

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
    pub(super) attribute: Option<String>,
    pub(super) operator: Operator,
    pub(super) value: String,
    /// `i"…"`: case does not matter.
    pub(super) ignore_case: bool,
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

/// Every key of udev(7); a rule with another one is ignored as a whole.
const KEYS: [&str; 31] = [
    "ACTION",
    "ATTR",
    "ATTRS",
    "CONST",
    "DEVPATH",
    "DRIVER",
    "DRIVERS",
    "ENV",
    "GOTO",
    "GROUP",
    "IMPORT",
    "KERNEL",
    "KERNELS",
    "LABEL",
    "MODE",
    "NAME",
    "OPTIONS",
    "OWNER",
    "PROGRAM",
    "RESULT",
    "RUN",
    "SECLABEL",
    "SUBSYSTEM",
    "SUBSYSTEMS",
    "SYMLINK",
    "SYSCTL",
    "TAG",
    "TAGS",
    "TEST",
    "WAIT_FOR",
    "WAIT_FOR_SYSFS",
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

impl Rule {
    /// The rule with the assignments that are wanted, without what identifies a disk; `None` if it
    /// has none of them.
    pub(super) fn kept(&self, wanted: impl Fn(&Token) -> bool) -> Option<String> {
        if !self.assignments().any(&wanted) {
            return None;
        }
        let all = self.tokens.iter().filter(|t| t.operator != Operator::Remove);
        let all = all.filter(|t| t.operator != Operator::Set || wanted(t));
        Some(all.map(Token::kept).collect::<Vec<_>>().join(", "))
    }
}

impl Token {
    fn kept(&self) -> String {
        let operator = match self.operator {
            Operator::Is => "==",
            Operator::IsNot => "!=",
            Operator::Set => "=",
            Operator::Remove => "-=",
        };
        let attribute = self.attribute.as_ref().map_or_else(String::new, |name| format!("{{{name}}}"));
        let prefix = if self.ignore_case { "i" } else { "" };
        let value = redact::value(self.attribute.as_deref(), &self.value).replace('"', "\\\"");
        format!("{}{attribute}{operator}{prefix}\"{value}\"", self.key)
    }
}

/// The rules of a file, and the invalid lines with the reason.
pub(super) fn parse(text: &str) -> (Vec<Rule>, Vec<(u32, String)>) {
    let (mut rules, mut wrong) = (Vec::new(), Vec::new());
    for (line, text) in logical_lines(text) {
        match tokens(&text) {
            Ok(tokens) if tokens.is_empty() => {}
            Ok(tokens) => rules.push(Rule { line, tokens }),
            Err(why) => wrong.push((line, why)),
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
        let (text, goes_on) = match text.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (first, mut whole) = begun.take().unwrap_or((number, String::new()));
        whole.push_str(text);
        if goes_on { begun = Some((first, whole)) } else { lines.push((first, whole)) }
    }
    lines.extend(begun);
    lines
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', ',']);
    while !rest.trim().is_empty() {
        let (token, after) = token(rest)?;
        tokens.push(token);
        rest = after.trim_start_matches([' ', '\t', ',']);
    }
    Ok(tokens)
}

fn token(text: &str) -> Result<(Token, &str), String> {
    let at = text.find(['{', '=', '!', '+', '-', ':', ' ', '\t']).ok_or("a key without a value")?;
    let key = &text[..at];
    if !KEYS.contains(&key) {
        return Err(format!("'{}' is not a key", key.escape_debug()));
    }
    let mut rest = &text[at..];
    let mut attribute = None;
    if let Some(inner) = rest.strip_prefix('{') {
        let (name, after) = inner.split_once('}').ok_or("an attribute without its end")?;
        attribute = Some(name.to_owned());
        rest = after;
    }
    rest = rest.trim_start();
    let operators = [
        ("==", Operator::Is),
        ("!=", Operator::IsNot),
        ("+=", Operator::Set),
        ("-=", Operator::Remove),
        (":=", Operator::Set),
        ("=", Operator::Set),
    ];
    let (operator, after) = operators
        .iter()
        .find_map(|(sign, operator)| Some((*operator, rest.strip_prefix(sign)?)))
        .ok_or("a key without an operator")?;
    let after = after.trim_start();
    let (prefix, quoted) = after.split_once('"').ok_or("a value without quotes")?;
    if !prefix.chars().all(|c| matches!(c, 'e' | 'i')) {
        return Err("a value without quotes".to_owned());
    }
    let (value, after) = until_quote(quoted).ok_or("a value without its end")?;
    let token = Token { key: key.to_owned(), attribute, operator, value, ignore_case: prefix.contains('i') };
    Ok((token, after))
}

/// Up to the quote that has no backslash before it; `\"` is a quote.
fn until_quote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                value.push('"');
                chars.next();
            }
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_comments_and_continued_lines() {
        let (rules, wrong) = parse(
            "# a comment\nACTION==\"add|change\", KERNEL==\"sd[a-z]\", \\\n# within\n  ATTR{queue/rotational}==\"1\",ATTR{queue/scheduler}=\"bfq\"\n\nLABEL=\"end\"\n",
        );
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(
            rules.iter().map(|rule| (rule.line, rule.tokens.len())).collect::<Vec<_>>(),
            [(2, 4), (6, 1)]
        );
        let set = rules[0].assignments().next().unwrap();
        assert_eq!((set.key.as_str(), set.attribute.as_deref()), ("ATTR", Some("queue/scheduler")));
        assert_eq!(rules[1].set("LABEL"), Some("end"));
    }

    #[test]
    fn quotes_prefixes_and_operators() {
        let (rules, _) = parse(r#"KERNEL != i"SDA" RUN+="/bin/sh -c \"echo 1 > /x\"", ENV{A}:="b""#);
        let [first, run, env] = rules[0].tokens.as_slice() else { panic!("{rules:?}") };
        assert!(first.ignore_case && first.operator == Operator::IsNot);
        assert_eq!((run.value.as_str(), run.operator), ("/bin/sh -c \"echo 1 > /x\"", Operator::Set));
        assert_eq!(env.attribute.as_deref(), Some("A"));
    }

    #[test]
    fn what_udev_ignores_is_told() {
        for text in
            ["DEVTYPE==\"disk\", ATTR{a}=\"1\"", "KERNEL=sda", "KERNEL==\"sda", "ATTR{a=\"1\"", "KERNEL"]
        {
            let (rules, wrong) = parse(text);
            assert!(rules.is_empty() && wrong.len() == 1, "{text}: {rules:?}");
        }
    }
}
