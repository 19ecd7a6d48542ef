//! Characters with their paint, and lines of them.

use floodwall_model::printable::printable;

/// How a character looks on a colour terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Paint {
    #[default]
    Plain,
    Bold,
    Code,
}

/// Characters, each with its paint.
pub(super) type Line = Vec<(char, Paint)>;

/// Adds text, unsafe characters escaped.
pub(super) fn push(line: &mut Line, text: &str, paint: Paint) {
    line.extend(printable(text).chars().map(|c| (c, paint)));
}

/// Breaks a text at blanks. Code that fits into a line is not broken, because people copy it; a
/// word longer than a line stays whole. At least one line.
pub(super) fn wrap(text: &Line, width: usize) -> Vec<Line> {
    let mut lines = vec![Line::new()];
    let words = text.split(|c| *c == (' ', Paint::Plain) || *c == (' ', Paint::Bold));
    let words = words.flat_map(|word| {
        // Code that is longer than a line.
        let long = word.len() > width;
        word.split(move |(c, _)| long && *c == ' ')
    });
    for word in words.filter(|word| !word.is_empty()) {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.extend_from_slice(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push((' ', Paint::Plain));
            line.extend_from_slice(word);
        } else {
            lines.push(word.to_vec());
        }
    }
    lines
}

/// A line as it is printed.
pub(super) fn painted(line: &Line, color: bool) -> String {
    let mut text = String::new();
    let mut now = Paint::Plain;
    let change = |text: &mut String, from: Paint, to: Paint| {
        if color && from != to {
            if from != Paint::Plain {
                text.push_str("\x1b[0m");
            }
            text.push_str(match to {
                Paint::Plain => "",
                Paint::Bold => "\x1b[1m",
                Paint::Code => "\x1b[36m",
            });
        }
    };
    for (c, paint) in line {
        change(&mut text, now, *paint);
        now = *paint;
        text.push(*c);
    }
    change(&mut text, now, Paint::Plain);
    text
}
