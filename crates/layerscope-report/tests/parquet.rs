//! Stored tables: what is written is read, and damage is one line.

use std::fs;
use std::path::PathBuf;

use layerscope_report::export::parquet;
use layerscope_report::{Column, Error, Table};

/// A file that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Scratch(std::env::temp_dir().join(format!("layerscope-report-{}-{name}.parquet", std::process::id())))
    }

    fn read(&self, bytes: &[u8]) -> Result<Table, Error> {
        fs::write(&self.0, bytes).unwrap();
        parquet::read(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn stored(table: &Table) -> Vec<u8> {
    let mut bytes = Vec::new();
    parquet::write(table, &mut bytes).unwrap();
    bytes
}

/// Rows of every type, one in seven of them null.
fn table(rows: usize) -> Table {
    let some = |i: usize| i % 7 != 3;
    Table::new([
        ("layer", Column::Integer((0..rows).map(|i| some(i).then_some(i as i64 - 50)).collect())),
        ("value", Column::Real((0..rows).map(|i| some(i + 1).then(|| (i as f64).sin() * 1e-300)).collect())),
        ("group", Column::text((0..rows).map(|i| some(i + 2).then(|| format!("字\u{202e}\0 {}", i % 1000))))),
        ("a.b é", Column::Text(vec![None; rows])),
    ])
    .unwrap()
}

#[test]
fn what_is_written_is_read() {
    let scratch = Scratch::new("trip");
    for rows in [0, 1, 10, 4096, 100_000] {
        let table = table(rows);
        assert!(scratch.read(&stored(&table)).unwrap() == table, "{rows} rows");
    }
}

#[test]
fn a_table_is_read_in_pieces() {
    let scratch = Scratch::new("pieces");
    for rows in [0, 10, 150_000] {
        let table = table(rows);
        scratch.read(&stored(&table)).unwrap();
        let stored = parquet::StoredTable::open(&scratch.0).unwrap();
        assert_eq!(stored.pieces(), rows.div_ceil(1 << 16).max(1));
        let pieces: Vec<Table> = (0..stored.pieces()).map(|at| stored.piece(at, None).unwrap()).collect();
        let places: Vec<(usize, usize)> =
            pieces.iter().enumerate().flat_map(|(at, piece)| (0..piece.rows()).map(move |row| (at, row))).collect();
        assert!(Table::gather(&pieces.iter().collect::<Vec<_>>(), &places).unwrap() == table, "{rows} rows");
        let last = stored.piece(stored.pieces() - 1, Some(&["group", "layer"])).unwrap();
        assert!(last == pieces[pieces.len() - 1].without(&["value", "a.b é"]));
    }
}

#[test]
fn extreme_values_survive() {
    let numbers = [f64::MAX, f64::MIN, 5e-324, -0.0, 0.1];
    let texts = ["", "'=1+1", "</script>", "\u{10ffff}", "\r\n"];
    let long = "é".repeat(10_000);
    let table = Table::new([
        ("r", Column::Real(numbers.map(Some).into_iter().chain([None]).collect())),
        ("i", Column::Integer(vec![Some(i64::MIN), Some(i64::MAX), Some(0), None, None, None])),
        ("t", Column::text(texts.iter().map(|&text| Some(text)).chain([Some(long.as_str())]))),
    ])
    .unwrap();
    let read = Scratch::new("extreme").read(&stored(&table)).unwrap();
    assert!(read == table);
    let Some(Column::Real(reals)) = read.column("r") else { panic!("not reals") };
    assert_eq!(reals[3].map(f64::to_bits), Some((-0.0_f64).to_bits()));
}

#[test]
fn the_same_table_is_the_same_bytes() {
    let bytes = stored(&table(100_000));
    assert!(bytes == stored(&table(100_000)));
    let has = |words: &[u8]| bytes.windows(words.len()).any(|window| window == words);
    assert!(has(b"layerscope") && !has(b"parquet-rs"));
}

#[test]
fn damage_is_one_line() {
    let scratch = Scratch::new("damaged");
    let bytes = stored(&table(40));
    let refused = |bytes: &[u8]| {
        let line = scratch.read(bytes).unwrap_err().to_string();
        assert!(line.starts_with(&format!("{}: ", scratch.0.display())) && line.lines().count() == 1, "{line}");
        line
    };
    for length in (0..bytes.len()).step_by(7) {
        refused(&bytes[..length]);
    }
    refused(b"");
    refused(b"PAR1PAR1");
    refused(&b"PAR1 and then nothing like it\xff\xff\xff\x7fPAR1"[..]);
    let line = refused("a,b\n1,2\n".repeat(100).as_bytes());
    assert!(line.contains("not a Parquet table, or damaged ("), "{line}");
    // A flipped bit may spoil a value that nobody can check, but must not take the program down.
    for place in (0..bytes.len()).step_by(3) {
        let mut spoiled = bytes.clone();
        spoiled[place] ^= 1 << (place % 8);
        if let Err(error) = scratch.read(&spoiled) {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = parquet::read("/nowhere/layers.parquet".as_ref()).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/layers.parquet: cannot be opened ("), "{error}");
    assert!(parquet::read(&std::env::temp_dir()).is_err());
}

#[test]
fn tables_of_others_must_fit() {
    use ::parquet::data_type::DoubleType;
    use ::parquet::file::writer::SerializedFileWriter;
    let scratch = Scratch::new("others");
    let with = |schema: &str, values: &[f64]| {
        let schema = ::parquet::schema::parser::parse_message_type(schema).unwrap();
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema.into(), Default::default()).unwrap();
        if !values.is_empty() {
            let mut group = writer.next_row_group().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<DoubleType>().write_batch(values, None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
        }
        writer.close().unwrap();
        scratch.read(&bytes)
    };
    let required = "message m { REQUIRED DOUBLE q; }";
    assert_eq!(with(required, &[1.0, 2.0]).unwrap(), Table::new([("q", Column::Real(vec![Some(1.0), Some(2.0)]))]).unwrap());
    for (schema, values, problem) in [
        (required, &[1.0, f64::NAN][..], "column `q`, row 2: not a finite number"),
        ("message m { OPTIONAL BOOLEAN yes; }", &[], "column `yes` is BOOLEAN, neither text nor a 64-bit number"),
        ("message m { OPTIONAL INT64 t (TIMESTAMP(NANOS, true)); }", &[], "column `t` is INT64"),
        ("message m { OPTIONAL GROUP g { OPTIONAL DOUBLE x; } }", &[], "column `x` is nested"),
        ("message m { REPEATED DOUBLE x; }", &[], "column `x` is nested"),
    ] {
        let line = with(schema, values).unwrap_err().to_string();
        assert!(line.contains(problem), "{line}");
    }
}
