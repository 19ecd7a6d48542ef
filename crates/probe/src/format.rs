//! A tracepoint's `format` file: its number, and the place of each field in a record.
//!
//! ```text
//! name: block_rq_issue
//! ID: 2104
//! format:
//!         field:dev_t dev;        offset:8;       size:4; signed:0;
//! ```
//!
//! Names, types, offsets and widths change from kernel to kernel: `bdi_dirty` became `wb_dirty`,
//! `rwbs` grew from 8 to 10 bytes. So nothing is known before the running kernel's file has been
//! read. Offsets and sizes are bytes.

/// One tracepoint as the running kernel lays it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name, without its group.
    pub name: String,
    /// Its number: what perf_event_open(2) takes as `config`, and the first two bytes of each
    /// record.
    pub id: u16,
    /// Its fields, in the order of the file, those common to all tracepoints first.
    pub fields: Vec<Field>,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its declaration without the name, as in C: `unsigned int`, `char[16]`.
    pub kind: String,
    /// Where it begins.
    pub offset: usize,
    /// How long it is.
    pub size: usize,
    /// Whether it is a signed number.
    pub signed: bool,
}

/// A format file that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// There is no line `name:` or `ID:`.
    #[error("the format file has no line '{0}'; is it that of a tracepoint?")]
    NoLine(&'static str),
    /// A field's line is not understood.
    #[error("line {line} of the format file is not understood: '{text}'")]
    Line {
        /// Which, from 1.
        line: usize,
        /// The text, at most 60 characters.
        text: String,
    },
    /// A field that is needed is not there, or no number of 1, 2, 4 or 8 bytes.
    #[error("tracepoint {tracepoint} has no field '{field}' that could be read on this kernel")]
    NoField {
        /// The tracepoint.
        tracepoint: String,
        /// Which.
        field: &'static str,
    },
}

impl Format {
    /// Reads a format file's text.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let after = |key: &'static str| {
            text.lines()
                .find_map(|l| l.strip_prefix(key))
                .map(str::trim)
                .ok_or(FormatError::NoLine(key))
        };
        let name = after("name:")?.to_owned();
        let id = after("ID:")?.parse().map_err(|_| FormatError::NoLine("ID:"))?;
        let mut fields = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let Some(rest) = line.trim().strip_prefix("field:") else { continue };
            let wrong = || FormatError::Line {
                line: index + 1,
                text: line.trim().chars().take(60).collect(),
            };
            fields.push(field(rest).ok_or_else(wrong)?);
        }
        Ok(Self { name, id, fields })
    }

    /// A field by its name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Where a number lies.
    ///
    /// # Errors
    /// [`FormatError::NoField`] without a field of that name and of a number's width.
    pub fn number(&self, name: &'static str) -> Result<Number, FormatError> {
        self.field(name)
            .filter(|f| matches!(f.size, 1 | 2 | 4 | 8))
            .map(|f| Number { offset: f.offset, size: f.size, signed: f.signed })
            .ok_or_else(|| self.lacks(name))
    }

    /// Where a text of fixed length lies.
    ///
    /// # Errors
    /// [`FormatError::NoField`] without a field of that name, or if it is not an array of
    /// characters inside the record.
    pub fn text(&self, name: &'static str) -> Result<Text, FormatError> {
        self.field(name)
            .filter(|f| f.kind.starts_with("char[") && f.size > 0)
            .map(|f| Text { offset: f.offset, size: f.size })
            .ok_or_else(|| self.lacks(name))
    }

    fn lacks(&self, field: &'static str) -> FormatError {
        FormatError::NoField { tracepoint: self.name.clone(), field }
    }
}

/// `unsigned int fd; offset:16; size:8; signed:0;`, with tabs.
fn field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", n)) => offset = n.parse().ok(),
            Some(("size", n)) => size = n.parse().ok(),
            Some(("signed", n)) => signed = Some(n == "1"),
            _ => {}
        }
    }
    // The array's length stands after the name: `char rwbs[10]`.
    let (head, array) = match declaration.find('[') {
        Some(at) if declaration.ends_with(']') && !declaration.starts_with("__data_loc") => {
            declaration.split_at(at)
        }
        _ => (declaration, ""),
    };
    let (kind, name) = head.trim_end().rsplit_once([' ', '*'])?;
    Some(Field {
        name: name.to_owned(),
        kind: format!("{}{array}", kind.trim()),
        offset: offset?,
        size: size?,
        signed: signed.unwrap_or(false),
    })
}

/// Where a number lies in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Number {
    /// The number in a record; `None` if the record is too short. Unsigned numbers above `i64::MAX`
    /// wrap.
    #[must_use]
    #[inline]
    pub fn read(&self, record: &[u8]) -> Option<i64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match (self.size, self.signed) {
            (8, _) => i64::from_ne_bytes(bytes.try_into().ok()?),
            (4, false) => i64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            (4, true) => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
            (2, false) => i64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            (2, true) => i64::from(i16::from_ne_bytes(bytes.try_into().ok()?)),
            (_, false) => i64::from(bytes[0]),
            (_, true) => i64::from(bytes[0] as i8),
        })
    }
}

/// Where a text lies in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    offset: usize,
    size: usize,
}

impl Text {
    /// The text in a record, up to its first zero byte; `None` if the record is too short.
    #[must_use]
    #[inline]
    pub fn read<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(&bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ISSUE: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n\
        \tfield:const char * buf;\toffset:24;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"field:%d;\", REC->dev\n";

    #[test]
    fn every_kind_of_declaration_is_understood() {
        let format = Format::parse(ISSUE).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("block_rq_issue", 2104));
        let shown: Vec<_> = format
            .fields
            .iter()
            .map(|f| (f.name.as_str(), f.kind.as_str(), f.offset, f.size))
            .collect();
        assert_eq!(
            shown,
            [
                ("common_type", "unsigned short", 0, 2),
                ("common_pid", "int", 4, 4),
                ("dev", "dev_t", 8, 4),
                ("sector", "sector_t", 16, 8),
                ("rwbs", "char[10]", 34, 10),
                ("cmd", "__data_loc char[]", 60, 4),
                ("buf", "const char *", 24, 8),
            ]
        );
        assert!(format.field("common_pid").unwrap().signed && !format.field("dev").unwrap().signed);
    }

    #[test]
    fn fields_are_read_where_they_lie_and_never_beyond_the_record() {
        let format = Format::parse(ISSUE).unwrap();
        let (sector, pid) =
            (format.number("sector").unwrap(), format.number("common_pid").unwrap());
        let rwbs = format.text("rwbs").unwrap();
        let mut record = vec![0; 44];
        record[4..8].copy_from_slice(&(-1i32).to_ne_bytes());
        record[16..24].copy_from_slice(&u64::MAX.to_ne_bytes());
        record[34..37].copy_from_slice(b"WS\0");
        assert_eq!(pid.read(&record), Some(-1));
        assert_eq!(sector.read(&record), Some(-1));
        assert_eq!(rwbs.read(&record), Some(&b"WS"[..]));
        assert_eq!((sector.read(&record[..23]), rwbs.read(&record[..43])), (None, None));
    }

    #[test]
    fn what_is_missing_is_named() {
        let format = Format::parse(ISSUE).unwrap();
        assert_eq!(
            format.number("bytes").unwrap_err().to_string(),
            "tracepoint block_rq_issue has no field 'bytes' that could be read on this kernel"
        );
        // A text is no number, and a field elsewhere in the record is no text.
        assert!(format.number("rwbs").is_err());
        assert!(format.text("cmd").is_err());
        assert_eq!(Format::parse("").unwrap_err(), FormatError::NoLine("name:"));
        assert_eq!(Format::parse("name: x\nID: many\n").unwrap_err(), FormatError::NoLine("ID:"));
        let broken = Format::parse("name: x\nID: 1\nformat:\n\tfield:int pid;\toffset:4;\n");
        assert_eq!(
            broken.unwrap_err(),
            FormatError::Line { line: 4, text: "field:int pid;\toffset:4;".into() }
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(name: x\n|ID: 7\n\
            |\tfield:|int|a|;|\\[|\\]|offset:|size:|[0-9]{1,22}|\\PC|\n){0,40}") {
            if let Ok(format) = Format::parse(&text) {
                for name in ["a", "int"] {
                    if let Ok(number) = format.number(name) {
                        let _ = number.read(&[0; 64]);
                    }
                }
            }
        }
    }
}
