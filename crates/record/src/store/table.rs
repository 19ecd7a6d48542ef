//! A frame as columns: what repeats in each row of a list is written once.
//!
//! ```text
//! {"processes":[{"pid":7,"name":"db","throttled_ms":3},{"pid":8,"name":"cp"}]}
//!    ▼ as it is stored
//! {"@":{"#":[2],"pid":[7,8],"name":["db","cp"]},
//!  "processes":{"#":[2],"@":[0,1],"throttled_ms":{"?":"10","=":[3]}}}
//! ```
//!
//! - `#` numbers of rows: a list of objects becomes an object of columns. A frame is a list of one.
//! - `?` rows that have a field (`1`) and rows that lack it (`0`); `=` its values.
//! - `@` processes that the chunk has not named before; in a row, its place among the named ones.
//!
//! A field that is `null` reads back as absent, and so do an empty object and an empty list of
//! objects. To a [`Frame`](floodwall_model::frame::Frame) they are the same.

use std::collections::HashMap;

use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// Fields that tell what a process is. They seldom change while it lives.
const IDENTITY: [&str; 4] = ["pid", "name", "workload", "disk"];
const WHO: &str = "@";
const ROWS: &str = "#";
const HAS: &str = "?";
const VALUES: &str = "=";
/// A frame has no more rows: a small one can't ask for all memory.
const MOST_ROWS: usize = 1 << 20;

/// The processes that a chunk has named, for its writer.
#[derive(Default)]
pub(super) struct Named(HashMap<String, usize>);

impl Named {
    /// A frame in its stored form.
    pub(super) fn fold(&mut self, mut frame: Object) -> Object {
        let mut new = Vec::new();
        for row in rows_of(&mut frame, "processes") {
            let identity: Object = IDENTITY
                .iter()
                .filter_map(|field| row.remove_entry(*field))
                .filter(|(_, value)| !value.is_null())
                .collect();
            let next = self.0.len();
            let who = *self.0.entry(Value::Object(identity.clone()).to_string()).or_insert(next);
            if who == next {
                new.push(Value::Object(identity));
            }
            row.insert(WHO.to_owned(), who.into());
        }
        if !new.is_empty() {
            frame.insert(WHO.to_owned(), new.into());
        }
        columns(vec![frame])
    }
}

/// The processes that a chunk has named, for its reader.
#[derive(Default)]
pub(super) struct Names(Vec<Object>);

impl Names {
    /// Takes the names from a stored frame that comes before the wanted one; `None` if it is none.
    pub(super) fn learn(&mut self, stored: &mut Object) -> Option<()> {
        let Some(new) = stored.remove(WHO) else { return Some(()) };
        let Value::Object(mut new) = new else { return None };
        let count = take_counts(&mut new)?.first().copied()?;
        self.0.extend(rows(new, count)?);
        Some(())
    }

    /// A frame from its stored form; `None` if it is none.
    pub(super) fn unfold(&mut self, mut stored: Object) -> Option<Object> {
        self.learn(&mut stored)?;
        let mut frame = rows(stored, 1)?.pop()?;
        for row in rows_of(&mut frame, "processes") {
            let who = usize::try_from(row.remove(WHO)?.as_u64()?).ok()?;
            row.extend(self.0.get(who)?.clone());
        }
        Some(frame)
    }
}

/// The objects of a list.
fn rows_of<'a>(object: &'a mut Object, list: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = object.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Rows as columns.
fn columns(rows: Vec<Object>) -> Object {
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

fn stored_column(column: Vec<Option<Value>>) -> Value {
    let is = |what: fn(&Value) -> bool| column.iter().flatten().all(what);
    if is(Value::is_object) {
        return columns(column.into_iter().map(object).collect()).into();
    }
    let is_list = |value: &Value| {
        value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_object))
    };
    if is(is_list) {
        let mut counts = Vec::with_capacity(column.len());
        let mut all = Vec::new();
        for value in column {
            let Some(Value::Array(list)) = value else {
                counts.push(Value::from(0));
                continue;
            };
            counts.push(list.len().into());
            all.extend(list.into_iter().map(|value| object(Some(value))));
        }
        let mut table = columns(all);
        table.insert(ROWS.to_owned(), counts.into());
        return table.into();
    }
    if column.iter().all(Option::is_some) {
        return column.into_iter().flatten().map(shortened).collect();
    }
    let has: String = column.iter().map(|v| if v.is_some() { '1' } else { '0' }).collect();
    let values: Value = column.into_iter().flatten().map(shortened).collect();
    [(HAS.to_owned(), has.into()), (VALUES.to_owned(), values)].into_iter().collect()
}

fn object(value: Option<Value>) -> Object {
    match value {
        Some(Value::Object(object)) => object,
        _ => Object::new(),
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
fn rows(columns: Object, count: usize) -> Option<Vec<Object>> {
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
    let values: Vec<Option<Value>> = match column {
        Value::Array(values) => values.into_iter().map(Some).collect(),
        Value::Object(mut table) if table.contains_key(HAS) => {
            let Value::Array(values) = table.remove(VALUES)? else { return None };
            let mut values = values.into_iter();
            let has = table.get(HAS)?.as_str()?.bytes();
            let values: Option<Vec<_>> = has
                .map(|has| if has == b'1' { values.next().map(Some) } else { Some(None) })
                .collect();
            values?
        }
        Value::Object(mut table) if table.contains_key(ROWS) => {
            let counts = take_counts(&mut table)?;
            let mut rows = rows(table, counts.iter().sum())?.into_iter().map(Value::Object);
            counts.into_iter().map(|count| Some(rows.by_ref().take(count).collect())).collect()
        }
        Value::Object(table) => {
            rows(table, count)?.into_iter().map(|row| Some(Value::Object(row))).collect()
        }
        _ => return None,
    };
    (values.len() == count).then_some(values)
}

/// How many rows each list has; `None` if they are too many.
fn take_counts(table: &mut Object) -> Option<Vec<usize>> {
    let Value::Array(counts) = table.remove(ROWS)? else { return None };
    let counts: Option<Vec<usize>> =
        counts.iter().map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok())).collect();
    let sum = counts.as_ref()?.iter().try_fold(0_usize, |sum, n| sum.checked_add(*n))?;
    counts.filter(|_| sum <= MOST_ROWS)
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
    fn rows_become_columns_and_what_is_known_is_not_repeated() {
        let frame = |pids: &[u64]| {
            let row = |pid: &u64| json!({"pid": pid, "name": "cp", "waits": [{"count": pid * 2}]});
            object_of(json!({"at": 5, "processes": pids.iter().map(row).collect::<Vec<_>>()}))
        };
        let mut named = Named::default();
        let first = named.fold(frame(&[7, 9]));
        let expected = json!({
            "at": [5],
            "@": {"#": [2], "pid": [7, 9], "name": ["cp", "cp"]},
            "processes": {"#": [2], "@": [0, 1], "waits": {"#": [1, 1], "count": [14, 18]}},
        });
        assert_eq!(Value::from(first.clone()), expected);
        let second = named.fold(frame(&[9, 8]));
        assert_eq!(second["@"], json!({"#": [1], "pid": [8], "name": ["cp"]}));
        assert_eq!(second["processes"]["@"], json!([1, 2]));
        let mut names = Names::default();
        names.learn(&mut first.clone()).unwrap();
        assert_eq!(names.unfold(second), Some(frame(&[9, 8])));
    }

    #[test]
    fn rows_that_lack_a_field_and_short_fractions() {
        let rows = json!({"rows": [{"a": 0.5_f32}, {"a": 12.3_f32, "b": "x"}, {}]});
        let stored = Named::default().fold(object_of(rows));
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
            json!({"processes": {"#": [1], "@": [0]}}),
            json!({"processes": {"#": [1], "pid": [0]}}),
        ] {
            assert_eq!(Names::default().unfold(object_of(stored.clone())), None, "{stored}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<i16>().prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
            any::<bool>().prop_map(Value::from),
            "[a-c\"#?]{0,3}".prop_map(Value::from),
            Just(json!([[3, 4], [5, 6]])),
            Just(json!([])),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            let object = proptest::collection::btree_map("[a-d]|processes", inner, 1..5)
                .prop_map(|map| Value::Object(map.into_iter().collect()));
            prop_oneof![
                object.clone(),
                proptest::collection::vec(object, 1..5).prop_map(Value::from)
            ]
        })
    }

    /// Without fields that are empty: those read back as absent, or the other way round.
    fn bare(value: Value) -> Value {
        match value {
            Value::Array(list) => list.into_iter().map(bare).collect(),
            Value::Object(fields) => {
                let is_empty = |value: &Value| *value == json!({}) || *value == json!([]);
                let fields = fields.into_iter().map(|(field, value)| (field, bare(value)));
                Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
            }
            leaf => leaf,
        }
    }

    /// Any JSON, as likely as not with the marks of columns.
    fn stored() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            (0..3_u64).prop_map(Value::from),
            "[01]{0,3}".prop_map(Value::from),
            proptest::collection::vec(0..3_u64, 0..3).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 4, |inner| {
            let field = "[#?=@a]|processes";
            proptest::collection::btree_map(field, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn what_is_folded_unfolds(
            fields in proptest::collection::btree_map("[a-d]", value(), 1..5)
        ) {
            let frame: Object = fields.into_iter().collect();
            let stored = Named::default().fold(frame.clone());
            let text = Value::from(stored).to_string();
            let stored = serde_json::from_str(&text).unwrap();
            let unfolded = Names::default().unfold(stored).unwrap();
            prop_assert_eq!(bare(unfolded.into()), bare(frame.into()));
        }

        #[test]
        fn any_stored_form_is_answered(stored in stored()) {
            if let Value::Object(stored) = stored {
                let _ = Names::default().unfold(stored);
            }
        }
    }
}
