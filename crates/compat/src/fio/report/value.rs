//! JSON as fio lays it out: `"key" : value`, two blanks a level, six decimals.

use std::fmt::Write;

/// A value whose type a reader relies on: a whole number never has decimals, another always.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(u64),
    Float(f64),
    Text(String),
    Object(Vec<(String, Value)>),
    Array(Vec<Value>),
}

impl Value {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(0, &mut text);
        text + "\n"
    }

    fn write(&self, level: usize, text: &mut String) {
        match self {
            Self::Int(number) => _ = write!(text, "{number}"),
            Self::Float(number) => _ = write!(text, "{number:.6}"),
            Self::Text(string) => *text += &quoted(string),
            Self::Object(pairs) => {
                let pair = |(key, value): &(String, Self), text: &mut String| {
                    *text += &format!("{} : ", quoted(key));
                    value.write(level + 1, text);
                };
                list('{', pairs, '}', level, text, pair);
            }
            Self::Array(values) => {
                let one = |value: &Self, text: &mut String| value.write(level + 1, text);
                list('[', values, ']', level, text, one);
            }
        }
    }
}

fn quoted(string: &str) -> String {
    serde_json::Value::from(string).to_string()
}

fn list<T>(
    begin: char,
    parts: &[T],
    end: char,
    level: usize,
    text: &mut String,
    write_part: impl Fn(&T, &mut String),
) {
    text.push(begin);
    for (index, part) in parts.iter().enumerate() {
        *text += if index == 0 { "\n" } else { ",\n" };
        *text += &"  ".repeat(level + 1);
        write_part(part, text);
    }
    text.push('\n');
    *text += &"  ".repeat(level);
    text.push(end);
}

/// An object of these pairs.
pub(super) fn object<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
