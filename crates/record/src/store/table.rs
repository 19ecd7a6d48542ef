//! A list of objects as columns: what repeats in each row is written once.
//!
//! ```text
//! [{"pid":7,"name":"db","throttled_ms":3},{"pid":8,"name":"cp"}]
//!    ▼ as it is stored
//! {"#":[2],"pid":[7,8],"name":["db","cp"],"throttled_ms":{"?":"10","=":[3]}}
//! ```
//!
//! - `#` numbers of rows: a list of objects becomes an object of columns.
//! - `?` rows that have a field (`1`) and rows that lack it (`0`); `=` its values.
//!
//! A field that is `null` reads back as absent. To a [`Frame`](floodwall_model::frame::Frame) they
//! are the same.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::text::whole;

/// An object of JSON.
pub(super) type Object = Map<String, Value>;

const ROWS: &str = "#";
const HAS: &str = "?";
const VALUES: &str = "=";
/// A frame has no more rows: a small one can't ask for all memory.
const MOST_ROWS: usize = 1 << 20;

/// Rows as columns.
pub(super) fn columns(rows: Vec<Object>) -> Object {
    let count = rows.len();
    let mut fields: Map<String, Value> = Map::new();
    let mut values: HashMap<String, Vec<Option<Value>>> = HashMap::new();
    for (at, row) in rows.into_iter().enumerate() {
        for (field, value) in row {
            if !value.is_null() {
                let column = values.entry(field).or_insert_with(|| vec![None; count]);
                column[at] = Some(value);
            }
        }
    }
    for (field, column) in values {
        fields.insert(field, stored_column(column));
    }
    fields
}

/// A column in its stored form.
fn stored_column(column: Vec<Option<Value>>) -> Value {
    let has: String = column.iter().map(|v| if v.is_some() { '1' } else { '0' }).collect();
    let is_full = column.iter().all(Option::is_some);
    match stored_values(column.into_iter().flatten().collect()) {
        values if is_full => values,
        Value::Object(mut table) => {
            table.insert(HAS.to_owned(), has.into());
            table.into()
        }
        values => [(HAS.to_owned(), has.into()), (VALUES.to_owned(), values)].into_iter().collect(),
    }
}

/// The values of a column, absent ones left out.
fn stored_values(values: Vec<Value>) -> Value {
    if values.iter().all(Value::is_object) {
        return columns(values.into_iter().filter_map(object).collect()).into();
    }
    let is_list =
        |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_object));
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    if values.iter().all(is_empty) || !values.iter().all(is_list) {
        return values.into_iter().map(shortened).collect();
    }
    let mut counts = Vec::with_capacity(values.len());
    let mut all = Vec::new();
    for value in values {
        let Value::Array(list) = value else { continue };
        counts.push(Value::from(list.len()));
        all.extend(list.into_iter().filter_map(object));
    }
    let mut table = columns(all);
    table.insert(ROWS.to_owned(), counts.into());
    table.into()
}

fn object(value: Value) -> Option<Object> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// The shortest decimal fraction that reads back as the same 32-bit one: 12.3, which a 64-bit one
/// would show as 12.300000190734863.
fn shortened(value: Value) -> Value {
    let Some(wide) = value.as_f64().filter(|_| value.is_f64()) else { return value };
    let narrow = wide as f32;
    if f64::from(narrow) != wide {
        return value;
    }
    narrow.to_string().parse::<f64>().map_or(value, Value::from)
}

/// Columns as rows; `None` if they don't fit each other.
pub(super) fn rows(columns: Object, count: usize) -> Option<Vec<Object>> {
    let mut rows = vec![Object::new(); Some(count).filter(|count| *count <= MOST_ROWS)?];
    for (field, column) in columns {
        let values = values(column, count)?;
        for (row, value) in rows.iter_mut().zip(values) {
            if let Some(value) = value {
                row.insert(field.clone(), value);
            }
        }
    }
    Some(rows)
}

/// The values of a column, one a row.
fn values(column: Value, count: usize) -> Option<Vec<Option<Value>>> {
    let Value::Object(mut table) = column else {
        let Value::Array(values) = column else { return None };
        let values = values.into_iter().map(|value| Some(whole(value)));
        return Some(values.collect::<Vec<_>>()).filter(|values| values.len() == count);
    };
    if let Some(has) = table.remove(HAS) {
        let has = has.as_str().filter(|has| has.len() == count)?;
        let present = has.bytes().filter(|has| *has == b'1').count();
        let inner = table.remove(VALUES).unwrap_or(Value::Object(table));
        let mut present = values(inner, present)?.into_iter();
        let value = |has| if has == b'1' { present.next().map(Option::Some) } else { Some(None) };
        return has.bytes().map(value).map(|value| value.map(Option::flatten)).collect();
    }
    if table.contains_key(ROWS) {
        let counts = take_counts(&mut table).filter(|counts| counts.len() == count)?;
        let mut rows = rows(table, counts.iter().sum())?.into_iter().map(Value::Object);
        let lists = counts.into_iter().map(|count| Some(rows.by_ref().take(count).collect()));
        return Some(lists.collect());
    }
    Some(rows(table, count)?.into_iter().map(|row| Some(Value::Object(row))).collect())
}

/// How many rows each list has; `None` if they are too many.
pub(super) fn take_counts(table: &mut Object) -> Option<Vec<usize>> {
    let Value::Array(counts) = table.remove(ROWS)? else { return None };
    let counts: Option<Vec<usize>> = counts.iter().map(index).collect();
    let sum = counts.as_ref()?.iter().try_fold(0_usize, |sum, n| sum.checked_add(*n))?;
    counts.filter(|_| sum <= MOST_ROWS)
}

/// A number that counts things.
pub(super) fn index(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object_of(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn rows_that_lack_a_field_and_short_fractions() {
        let rows = json!({"rows": [{"a": 0.5_f32}, {"a": 12.3_f32, "b": "x"}, {}]});
        let stored = columns(vec![object_of(rows)]);
        let expected = r##"{"#":[3],"a":{"=":[0.5,12.3],"?":"110"},"b":{"=":["x"],"?":"010"}}"##;
        assert_eq!(stored["rows"].to_string(), expected);
    }

    /// Columns that claim more than they hold.
    #[test]
    fn claims_of_columns_are_checked() {
        for stored in [
            json!({"a": [1, 2]}),
            json!({"a": 1}),
            json!({"a": {"#": [u64::MAX, 2]}}),
            json!({"a": {"#": [1_u64 << 40]}}),
            json!({"a": {"#": [2], "b": [1]}}),
            json!({"a": {"?": "1", "=": []}}),
            json!({"a": {"?": "111", "=": [1, 2, 3]}}),
        ] {
            assert_eq!(rows(object_of(stored.clone()), 1), None, "{stored}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            // A fraction that is whole reads back as a whole number.
            any::<i16>().prop_map(|whole| Value::from(f64::from(whole) + 0.5)),
            any::<bool>().prop_map(Value::from),
            "[a-c\"#?]{0,3}".prop_map(Value::from),
            Just(json!([[3, 4], [5, 6]])),
            Just(json!([])),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            let object = proptest::collection::btree_map("[a-d]", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect()));
            let list = proptest::collection::vec(object.clone(), 0..5).prop_map(Value::from);
            prop_oneof![object, list]
        })
    }

    proptest! {
        #[test]
        fn columns_become_the_same_rows(
            list in proptest::collection::vec(
                proptest::collection::btree_map("[a-d]", value(), 1..5), 1..4
            )
        ) {
            let list: Vec<Object> = list.into_iter().map(|row| row.into_iter().collect()).collect();
            let text = Value::from(columns(list.clone())).to_string();
            let read = rows(serde_json::from_str(&text).unwrap(), list.len()).unwrap();
            prop_assert_eq!(read, list);
        }
    }
}
