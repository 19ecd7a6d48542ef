//! The language of the guard's socket: one JSON document a line, each with the version that it is
//! written in.
//!
//! ```text
//! ▶ {"version":1,"do":"status"}                      ◀ {"version":1,"status":{…}}
//! ▶ {"version":1,"do":"history","last":20}           ◀ {"version":1,"history":[…]}
//! ▶ {"version":1,"do":"pause","seconds":600}         ◀ {"version":1,"paused":{"left_s":600.0}}
//!                                                      and "held":[…] if not all is back yet
//! ▶ {"version":1,"do":"resume"}                      ◀ {"version":1,"resumed":{"was_paused":true}}
//! ▶ {"version":1,"do":"yield","knobs":[{"device":"8:0","knob":"nr_requests"}]}
//!                                                    ◀ {"version":1,"yielded":{"back":[…]}}
//!                                                      and "waiting":[…] if not all is back yet
//! ▶ {"version":1,"do":"paced","device":"8:0"}        ◀ {"version":1,"beside":{"victims":[…]}}
//!                                                    ◀ {"version":1,"error":"…"}
//! ```

use std::time::Duration;

use floodwall_plant::KnobName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{Beside, Entry, Paused, Status};

/// Of this language.
const VERSION: u64 = 1;
/// Bytes of a request: some thousand knobs.
pub(crate) const MAX_REQUEST: usize = 128 << 10;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// How it stands.
    Status,
    /// The guard's decisions, oldest first.
    History {
        /// Only so many, the newest; an answer has 1000 at most.
        #[serde(skip_serializing_if = "Option::is_none")]
        last: Option<usize>,
    },
    /// Put everything back and do nothing.
    Pause {
        /// For so long; absent: until told to resume.
        #[serde(skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
    },
    /// Go on.
    Resume,
    /// Put some knobs back, and leave them alone from then on.
    Yield {
        /// Each by its device's number and its name: `nr_requests`, `journal.ioprio`, or
        /// `GROUP:io.max` for a control group's. `GROUP:memory.high` and `pid:4711:ioprio`, the
        /// priority of a process, have no device.
        knobs: Vec<KnobName>,
    },
    /// The process that asks is a flood of a device, with its children, and paces itself. Its word
    /// counts for three seconds.
    Paced {
        /// The device's number: `8:0`.
        device: String,
        /// The process that has connected, as the kernel tells it.
        #[serde(skip)]
        pid: u32,
    },
}

impl Request {
    /// Whether it changes what the guard does.
    pub(crate) fn commands(&self) -> bool {
        matches!(self, Self::Pause { .. } | Self::Resume | Self::Yield { .. })
    }
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// How it stands.
    Status(Box<Status>),
    /// The guard's decisions, oldest first.
    History(Vec<Entry>),
    /// It is paused.
    Paused(Paused),
    /// It goes on.
    Resumed {
        /// It was paused before.
        was_paused: bool,
    },
    /// It leaves knobs alone from now on.
    Yielded {
        /// Knobs that have the administrator's value again.
        back: Vec<KnobName>,
        /// Knobs that do not yet, because their queue has to run dry first. To be asked again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        waiting: Vec<KnobName>,
    },
    /// The disk beside the flood that paces itself.
    Beside(Beside),
    /// The error in the request.
    Error(String),
}

#[derive(Serialize)]
struct Line<T> {
    version: u64,
    #[serde(flatten)]
    body: T,
}

/// A document as a line.
pub(crate) fn line<T: Serialize>(body: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Line { version: VERSION, body }).map(|text| text + "\n")
}

/// A request out of a line.
///
/// # Errors
/// The error, in words for the sender.
pub fn request(line: &[u8]) -> Result<Request, String> {
    let value = versioned(line)?;
    let request = serde_json::from_value(value).map_err(|e| {
        format!("not understood: {e}; ask for status, history, pause, resume, yield or paced")
    })?;
    if let Request::Pause { seconds: Some(s) } = request
        && !(s > 0.0 && Duration::try_from_secs_f64(s).is_ok())
    {
        return Err(format!("can't pause for {s} s; name a time above zero, or none"));
    }
    Ok(request)
}

/// A reply out of a line.
///
/// # Errors
/// The error, in words.
pub(crate) fn reply(line: &[u8]) -> Result<Reply, String> {
    let mut value = versioned(line)?;
    if let Some(object) = value.as_object_mut() {
        object.remove("version");
    }
    serde_json::from_value(value).map_err(|e| format!("its answer is not understood: {e}"))
}

fn versioned(line: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(line).map_err(|e| format!("no JSON: {e}"))?;
    match value.get("version").map(Value::as_u64) {
        Some(Some(VERSION)) => Ok(value),
        Some(_) => Err(format!(
            "version {} is not spoken here, only {VERSION}; use the floodwall that the guard was \
             started from",
            value["version"]
        )),
        None => Err(format!("no version; write {{\"version\":{VERSION},\"do\":\"status\"}}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nr_requests() -> KnobName {
        KnobName { device: Some("8:0".into()), knob: "nr_requests".into() }
    }

    fn limit() -> KnobName {
        KnobName { device: None, knob: "system.slice/backup.service:memory.high".into() }
    }

    #[test]
    fn what_is_sent_is_what_arrives() {
        for asked in [
            Request::Status,
            Request::History { last: Some(3) },
            Request::History { last: None },
            Request::Pause { seconds: Some(1.5) },
            Request::Pause { seconds: None },
            Request::Resume,
            Request::Yield { knobs: vec![nr_requests(), limit()] },
            Request::Paced { device: "8:0".into(), pid: 0 },
        ] {
            assert_eq!(request(line(&asked).unwrap().as_bytes()), Ok(asked));
        }
        for answered in [
            Reply::Status(Box::default()),
            Reply::History(vec![Entry { why: "paused".into(), ..Entry::default() }]),
            Reply::Paused(Paused { left_s: Some(3.0), ..Paused::default() }),
            Reply::Paused(Paused {
                left_s: None,
                held: vec!["sda.nr_requests 8 (yours: 64)".into()],
            }),
            Reply::Resumed { was_paused: false },
            Reply::Yielded { back: vec![limit()], waiting: vec![nr_requests()] },
            Reply::Beside(Beside {
                victims: vec!["postgres (41)".into()],
                wait_us: Some(8500.0),
                ..Beside::default()
            }),
            Reply::Error("no".into()),
        ] {
            let line = line(&answered).unwrap();
            assert!(line.starts_with("{\"version\":1,") && line.ends_with("}\n"), "{line}");
            assert_eq!(reply(line.as_bytes()), Ok(answered));
        }
    }

    #[test]
    fn the_documented_lines_are_understood() {
        assert_eq!(request(br#"{"version":1,"do":"status"}"#), Ok(Request::Status));
        assert_eq!(
            request(br#"{"version":1,"do":"pause","seconds":600}"#),
            Ok(Request::Pause { seconds: Some(600.0) })
        );
        assert_eq!(
            request(br#"{"version":1,"do":"history"}"#),
            Ok(Request::History { last: None })
        );
        let limit = b"{\"version\":1,\"do\":\"yield\",\
            \"knobs\":[{\"knob\":\"system.slice/backup.service:memory.high\"}]}";
        assert_eq!(request(limit), Ok(Request::Yield { knobs: vec![self::limit()] }));
        for (knobs, named) in [
            (r#"[{"knob":"pid:4711:ioprio"}]"#, (None, "pid:4711:ioprio")),
            (r#"[{"device":"8:0","knob":"journal.ioprio"}]"#, (Some("8:0"), "journal.ioprio")),
        ] {
            let priority = format!(r#"{{"version":1,"do":"yield","knobs":{knobs}}}"#);
            let name = KnobName { device: named.0.map(str::to_owned), knob: named.1.to_owned() };
            assert_eq!(request(priority.as_bytes()), Ok(Request::Yield { knobs: vec![name] }));
        }
        // The process is the one that has connected, whatever it says.
        let paced = br#"{"version":1,"do":"paced","device":"8:0","pid":7}"#;
        assert_eq!(request(paced), Ok(Request::Paced { device: "8:0".into(), pid: 0 }));
        let text = line(&Request::Yield { knobs: vec![nr_requests()] }).unwrap();
        let documented =
            r#"{"version":1,"do":"yield","knobs":[{"device":"8:0","knob":"nr_requests"}]}"#;
        assert_eq!(text.trim_end(), documented);
    }

    #[test]
    fn nonsense_is_answered_with_what_to_write() {
        for (sent, expected) in [
            ("", "no JSON"),
            ("status", "no JSON"),
            ("{\"do\":\"status\"}", "no version; write {\"version\":1"),
            ("{\"version\":2,\"do\":\"status\"}", "version 2 is not spoken here"),
            ("{\"version\":\"1\",\"do\":\"status\"}", "version \"1\" is not spoken here"),
            (
                "{\"version\":1,\"do\":\"stop\"}",
                "ask for status, history, pause, resume, yield or paced",
            ),
            ("{\"version\":1}", "not understood"),
            ("{\"version\":1,\"do\":\"yield\"}", "missing field `knobs`"),
            ("{\"version\":1,\"do\":\"yield\",\"knobs\":[\"sda\"]}", "not understood"),
            ("[1]", "no version"),
            ("{\"version\":1,\"do\":\"pause\",\"seconds\":0}", "can't pause for 0 s"),
            ("{\"version\":1,\"do\":\"pause\",\"seconds\":-1}", "can't pause for -1 s"),
            ("{\"version\":1,\"do\":\"pause\",\"seconds\":1e300}", "can't pause"),
        ] {
            let said = request(sent.as_bytes()).unwrap_err();
            assert!(said.contains(expected), "{sent}: {said}");
        }
        assert!(request(&[0xff, 0xfe]).is_err());
    }
}
