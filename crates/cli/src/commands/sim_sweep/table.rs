//! A sweep's table as a Parquet file: the sweep in its metadata, columns that may all be empty,
//! compressed with Snappy.
//!
//! The same rows give the same bytes: nothing of when, where, or by how many threads they were made
//! is in the file.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use floodwall_sim::sweep::{Column, ColumnKind, Key, Shard, Value};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::types::Type;

use crate::output;

/// Rows that are compressed and can be skipped together.
const ROW_GROUP: usize = 65_536;
/// What the keys of the metadata begin with.
const PREFIX: &str = "floodwall.sweep.";

/// Which sweep a table is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its name.
    pub(super) name: String,
    /// Digest of everything that the table depends on.
    pub(super) fingerprint: Key,
    /// The program's version.
    pub(super) version: String,
    /// Cells of the whole sweep.
    pub(super) cells: u64,
    /// Which part of it this is.
    pub(super) shard: Shard,
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) facts: Facts,
    pub(super) columns: Vec<Column>,
    /// Ordered by the cell, each with a field for every column.
    pub(super) rows: Vec<Vec<Option<Value>>>,
}

impl Facts {
    fn to_metadata(&self) -> Vec<KeyValue> {
        let pair = |key: &str, value: String| KeyValue::new(format!("{PREFIX}{key}"), value);
        vec![
            pair("name", self.name.clone()),
            pair("fingerprint", self.fingerprint.to_string()),
            pair("version", self.version.clone()),
            pair("cells", self.cells.to_string()),
            pair("shard", self.shard.to_string()),
        ]
    }

    fn from_metadata(pairs: Option<&Vec<KeyValue>>) -> Option<Self> {
        let get = |key: &str| {
            let pair = pairs?.iter().find(|pair| pair.key.strip_prefix(PREFIX) == Some(key))?;
            pair.value.clone()
        };
        Some(Self {
            name: get("name")?,
            fingerprint: get("fingerprint")?.parse().ok()?,
            version: get("version")?,
            cells: get("cells")?.parse().ok()?,
            shard: get("shard")?.parse().ok()?,
        })
    }
}

impl Table {
    /// Writes it whole or not at all.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let bytes = self.encode().context("can't encode the table")?;
        output::write_file(path, |out| Ok(out.write_all(&bytes)?))
    }

    /// Which sweep a file is of.
    ///
    /// # Errors
    /// If it can't be read or is no sweep's table.
    pub(super) fn facts_of(path: &Path) -> anyhow::Result<Facts> {
        Ok(open(path)?.1)
    }

    /// Reads a table back.
    ///
    /// # Errors
    /// If it can't be read or is no sweep's table.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let (reader, facts) = open(path)?;
        let damaged = || format!("'{}' is damaged", path.display());
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let mut columns = Vec::new();
        for column in schema.columns() {
            let kind = match column.physical_type() {
                Physical::INT64 => ColumnKind::Integer,
                Physical::DOUBLE => ColumnKind::Real,
                Physical::BYTE_ARRAY => ColumnKind::Text,
                other => {
                    bail!("'{}' has a column of {other}, as no sweep's table has", path.display())
                }
            };
            columns.push(Column { name: column.name().to_owned(), kind });
        }
        let mut rows = Vec::new();
        for row in reader.get_row_iter(None).with_context(damaged)? {
            let row = row.with_context(damaged)?;
            let fields = row.get_column_iter().map(|(_, field)| match field {
                Field::Null => Ok(None),
                Field::Long(n) => Ok(Some(Value::Integer(*n))),
                Field::Double(n) => Ok(Some(Value::Real(*n))),
                Field::Str(text) => Ok(Some(Value::Text(text.clone()))),
                other => bail!("'{}' holds {other}, as no sweep's table does", path.display()),
            });
            rows.push(fields.collect::<anyhow::Result<Vec<_>>>()?);
        }
        Ok(Self { facts, columns, rows })
    }

    fn encode(&self) -> anyhow::Result<Vec<u8>> {
        let fields = self.columns.iter().map(|column| {
            let (physical, logical) = match column.kind {
                ColumnKind::Integer => (Physical::INT64, None),
                ColumnKind::Real => (Physical::DOUBLE, None),
                ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(&column.name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical);
            Ok(Arc::new(field.build()?))
        });
        let fields = fields.collect::<anyhow::Result<Vec<_>>>()?;
        let schema = Arc::new(Type::group_type_builder("sweep").with_fields(fields).build()?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_key_value_metadata(Some(self.facts.to_metadata()))
            .build();
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
        for rows in self.rows.chunks(ROW_GROUP) {
            let mut group = writer.next_row_group()?;
            for (i, column) in self.columns.iter().enumerate() {
                match column.kind {
                    ColumnKind::Integer => {
                        write_column::<Int64Type>(&mut group, rows, i, |value| match value {
                            Value::Integer(n) => Some(*n),
                            _ => None,
                        })?
                    }
                    ColumnKind::Real => {
                        write_column::<DoubleType>(&mut group, rows, i, |value| match value {
                            Value::Real(n) => Some(*n),
                            _ => None,
                        })?
                    }
                    ColumnKind::Text => {
                        write_column::<ByteArrayType>(&mut group, rows, i, |value| match value {
                            Value::Text(text) => Some(ByteArray::from(text.as_str())),
                            _ => None,
                        })?
                    }
                }
            }
            group.close()?;
        }
        writer.close()?;
        Ok(bytes)
    }
}

fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    rows: &[Vec<Option<Value>>],
    column: usize,
    of: impl Fn(&Value) -> Option<T::T>,
) -> anyhow::Result<()> {
    let (mut values, mut present) = (Vec::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        let value = row.get(column).and_then(Option::as_ref).and_then(&of);
        present.push(i16::from(value.is_some()));
        values.extend(value);
    }
    let mut writer = group.next_column()?.context("the schema has fewer columns than the rows")?;
    writer.typed::<T>().write_batch(&values, Some(&present), None)?;
    Ok(writer.close()?)
}

fn open(path: &Path) -> anyhow::Result<(SerializedFileReader<File>, Facts)> {
    let file = File::open(path).with_context(|| format!("can't read '{}'", path.display()))?;
    let none = || format!("'{}' is no sweep's table", path.display());
    let reader = SerializedFileReader::new(file).with_context(none)?;
    let facts = Facts::from_metadata(reader.metadata().file_metadata().key_value_metadata());
    let facts = facts.with_context(none)?;
    Ok((reader, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn table(rows: usize) -> Table {
        let column = |name: &str, kind| Column { name: name.into(), kind };
        let row = |i: usize| {
            vec![
                Some(Value::Integer(i as i64)),
                (!i.is_multiple_of(3)).then(|| Value::Text(format!("text {} ü", i % 5))),
                (!i.is_multiple_of(2)).then(|| Value::Real(1.0 / i as f64)),
                None,
            ]
        };
        Table {
            facts: Facts {
                name: "x".into(),
                fingerprint: Key(u128::MAX - 1),
                version: "0.1.0".into(),
                cells: rows as u64,
                shard: Shard::WHOLE,
            },
            columns: vec![
                column("cell", ColumnKind::Integer),
                column("vm.dirty_bytes", ColumnKind::Text),
                column("victim_kept", ColumnKind::Real),
                column("error", ColumnKind::Text),
            ],
            rows: (0..rows).map(row).collect(),
        }
    }

    #[test]
    fn a_table_reads_back_as_it_was_written_and_is_the_same_bytes_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        // One row group and a bit, and none at all.
        for rows in [ROW_GROUP + 3, 0] {
            let written = table(rows);
            written.write(&path).unwrap();
            let read = Table::read(&path).unwrap();
            assert_eq!((&read.facts, &read.columns), (&written.facts, &written.columns));
            assert!(read.rows == written.rows);
            assert_eq!(Table::facts_of(&path).unwrap(), written.facts);
            assert!(read.encode().unwrap() == std::fs::read(&path).unwrap());
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        std::fs::write(&path, "PAR1 and nothing else").unwrap();
        let message = format!("{:#}", Table::facts_of(&path).unwrap_err());
        assert!(message.contains("is no sweep's table"), "{message}");
        assert!(Table::read(&dir.path().join("missing")).is_err());
    }
}
