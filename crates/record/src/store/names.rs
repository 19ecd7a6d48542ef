//! A frame in its stored form: columns, and names that the chunk knows already as numbers.
//!
//! ```text
//! {"processes":[{"pid":7,"name":"db","throttled_ms":3},{"pid":8,"name":"cp"}]}
//!    ▼ as it is stored
//! {"@":{"#":[2],"pid":[7,8],"name":["db","cp"]},
//!  "processes":{"#":[2],"@":[0,1],"throttled_ms":{"?":"10","=":[3]}}}
//! ```
//!
//! - `@` processes that the chunk has not named before; in a row, its place among the named ones.
//! - `/` control groups that the chunk has not named before; a row has its place instead of a path.

use std::collections::HashMap;

use serde_json::Value;

use super::table::{Object, columns, index, rows, take_counts};

/// Fields that tell what a process is. They seldom change while it lives.
const IDENTITY: [&str; 4] = ["pid", "name", "workload", "disk"];
const WHO: &str = "@";
const GROUPS: &str = "/";

/// Processes and control groups that a chunk has named, for its writer.
#[derive(Default)]
pub(super) struct Named {
    processes: HashMap<String, usize>,
    groups: HashMap<String, usize>,
}

impl Named {
    /// A frame in its stored form.
    pub(super) fn fold(&mut self, mut frame: Object) -> Object {
        let (mut processes, mut groups) = (Vec::new(), Vec::new());
        for row in rows_of(&mut frame, "processes") {
            let identity: Object = IDENTITY
                .iter()
                .filter_map(|field| row.remove_entry(*field))
                .filter(|(_, value)| !value.is_null())
                .collect();
            let identity = Value::Object(identity);
            let who = place(&mut self.processes, identity.to_string(), identity, &mut processes);
            row.insert(WHO.to_owned(), who);
            if let Some(path) = path_of(row) {
                let name = path.take();
                *path = place(&mut self.groups, name.to_string(), name, &mut groups);
            }
        }
        for (field, new) in [(WHO, processes), (GROUPS, groups)] {
            if !new.is_empty() {
                frame.insert(field.to_owned(), new.into());
            }
        }
        columns(vec![frame])
    }
}

/// The place of a name among the known ones. A new one is added to `new` as well.
fn place(
    known: &mut HashMap<String, usize>,
    name: String,
    value: Value,
    new: &mut Vec<Value>,
) -> Value {
    let next = known.len();
    let place = *known.entry(name).or_insert(next);
    if place == next {
        new.push(value);
    }
    place.into()
}

/// Processes and control groups that a chunk has named, for its reader.
#[derive(Default)]
pub(super) struct Names {
    processes: Vec<Object>,
    groups: Vec<Value>,
}

impl Names {
    /// Takes the names from a stored frame before the wanted one; `None` if it is not a frame.
    pub(super) fn learn(&mut self, stored: &mut Object) -> Option<()> {
        if let Some(new) = stored.remove(WHO) {
            let Value::Object(mut new) = new else { return None };
            let count = take_counts(&mut new)?.first().copied()?;
            self.processes.extend(rows(new, count)?);
        }
        if let Some(new) = stored.remove(GROUPS) {
            let Value::Array(new) = new.get(0)?.clone() else { return None };
            self.groups.extend(new);
        }
        Some(())
    }

    /// A frame from its stored form; `None` if it is not one.
    pub(super) fn unfold(&mut self, mut stored: Object) -> Option<Object> {
        self.learn(&mut stored)?;
        let mut frame = rows(stored, 1)?.pop()?;
        for row in rows_of(&mut frame, "processes") {
            let who = index(&row.remove(WHO)?)?;
            row.extend(self.processes.get(who)?.clone());
            if let Some(path) = path_of(row) {
                *path = self.groups.get(index(path)?)?.clone();
            }
        }
        Some(frame)
    }
}

/// The path of a process's control group.
fn path_of(row: &mut Object) -> Option<&mut Value> {
    row.get_mut("group")?.get_mut("path")
}

/// The objects of a list.
fn rows_of<'a>(object: &'a mut Object, list: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = object.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
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
    fn a_chunk_names_a_process_and_its_control_group_once() {
        let frame = |pids: &[u64]| {
            let row = |pid: &u64| {
                let (waits, group) = (json!([{"count": pid * 2}]), json!({"path": "user"}));
                json!({"pid": pid, "name": "cp", "waits": waits, "group": group})
            };
            object_of(json!({"at": 5, "processes": pids.iter().map(row).collect::<Vec<_>>()}))
        };
        let mut named = Named::default();
        let first = named.fold(frame(&[7, 9]));
        let expected = json!({
            "at": [5],
            "@": {"#": [2], "pid": [7, 9], "name": ["cp", "cp"]},
            "/": [["user"]],
            "processes": {
                "#": [2],
                "@": [0, 1],
                "group": {"path": [0, 0]},
                "waits": {"#": [1, 1], "count": [14, 18]},
            },
        });
        assert_eq!(Value::from(first.clone()), expected);
        let second = named.fold(frame(&[9, 8]));
        assert_eq!(second["@"], json!({"#": [1], "pid": [8], "name": ["cp"]}));
        assert_eq!(second["processes"]["@"], json!([1, 2]));
        assert_eq!(second.get("/"), None);
        let mut names = Names::default();
        names.learn(&mut first.clone()).unwrap();
        assert_eq!(names.unfold(second), Some(frame(&[9, 8])));
    }

    #[test]
    fn a_number_without_a_name_is_no_frame() {
        for stored in [
            json!({"processes": {"#": [1], "@": [0]}}),
            json!({"processes": {"#": [1], "pid": [0]}}),
            json!({"@": {"#": [1], "pid": [7]}, "processes":
                {"#": [1], "@": [0], "group": {"path": [0]}}}),
            json!({"/": "user"}),
        ] {
            assert_eq!(Names::default().unfold(object_of(stored.clone())), None, "{stored}");
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
            let field = "[#?=@/a]|processes|group|path";
            proptest::collection::btree_map(field, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn any_stored_form_is_answered(stored in stored()) {
            if let Value::Object(stored) = stored {
                let _ = Names::default().unfold(stored);
            }
        }
    }
}
