//! Texts without their numbers, so that layouts can be compared.

/// Each number with the blanks before it as its width, so that columns are compared too. JSON has
/// no columns.
pub(crate) fn masked(text: &str, is_json: bool) -> String {
    let (mut masked, mut blanks, mut width) = (String::new(), 0, 0);
    // The last character ends what is pending.
    for c in text.chars().chain(['\0']) {
        let goes_on = width > 0 && c == '.';
        if c.is_ascii_digit() || goes_on {
            width += 1;
            continue;
        }
        if width > 0 {
            masked += &if is_json { "#".to_owned() } else { format!("#{}", blanks + width) };
            (blanks, width) = (0, 0);
        }
        if c == ' ' {
            blanks += 1;
            continue;
        }
        masked.extend(std::iter::repeat_n(' ', blanks));
        blanks = 0;
        if c != '\0' {
            masked.push(c);
        }
    }
    masked
}
