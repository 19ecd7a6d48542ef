//! A figure of several rounds in a cell of a table.

/// The median of the rounds, and in brackets the figure of each round if there are several.
pub(crate) fn cell(mut values: Vec<f64>, digits: usize) -> String {
    let each: Vec<String> = values.iter().map(|value| format!("{value:.digits$}")).collect();
    values.sort_by(f64::total_cmp);
    let middle = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    match each.as_slice() {
        [_] => format!("{middle:.digits$}"),
        _ => format!("{middle:.digits$} ({})", each.join(", ")),
    }
}
