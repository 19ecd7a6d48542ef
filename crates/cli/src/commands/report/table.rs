//! Tables that are no results, and the command that reads each: rows of `floodwall sim sweep`, and
//! the Parquet files that people make of them.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// The first bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";

/// The fields by which a row of a sweep is known.
#[derive(Deserialize)]
struct Row {
    #[serde(rename = "cell")]
    _cell: u64,
    #[serde(rename = "of_cells")]
    _of_cells: u64,
    #[serde(rename = "sweep")]
    _sweep: IgnoredAny,
}

/// Says what reads a table; `None` for anything else.
pub(super) fn reader(path: &Path, bytes: &[u8]) -> Option<String> {
    let path = path.display();
    if bytes.starts_with(PARQUET) {
        return Some(format!(
            "it is a Parquet file and no result; read it with duckdb -c \"from '{path}'\", or in \
             Python with pyarrow.parquet.read_table('{path}')"
        ));
    }
    let first = bytes.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice::<Row>(first).ok()?;
    Some(format!(
        "it holds the rows of a sweep and no result; read them with duckdb -c \"from \
         read_json('{path}', sample_size = -1)\", or in Python with \
         pyarrow.json.read_json('{path}')"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_named_with_what_reads_it() {
        let read = |bytes: &[u8]| reader(Path::new("t"), bytes);
        insta::assert_snapshot!(read(b"PAR1\x15\x00PAR1").unwrap(), @"it is a Parquet file and no \
            result; read it with duckdb -c \"from 't'\", or in Python with \
            pyarrow.parquet.read_table('t')");
        let rows = b"{\"cell\":7,\"sweep\":\"3f\",\"of_cells\":24}\n{\"cell\":8";
        insta::assert_snapshot!(read(rows).unwrap(), @"it holds the rows of a sweep and no result; \
            read them with duckdb -c \"from read_json('t', sample_size = -1)\", or in Python with \
            pyarrow.json.read_json('t')");
        for other in [&b"root:x:0:0\n"[..], b"", b"{\"schema\":\"floodwall/result/1\"}"] {
            assert_eq!(read(other), None);
        }
    }
}
