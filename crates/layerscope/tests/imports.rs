//! States from files: which layer they are, and which rows. What is not one full list of one length a row of a Parquet file is refused by its
//! row, and never cut into other rows.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::writer::ColumnWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use support::measure::{number, table, text};
use support::{Outcome, empty_folder, layerscope};

/// A row of lists: nothing, or numbers of which some are missing.
type Row = Option<Vec<Option<f32>>>;

const LISTS: &str = "message m { optional group hidden_states (LIST) { repeated group list { optional float element; } } required int64 documents; required int64 positions; }";

fn write(file: &Path, schema: &str, columns: &[&dyn Fn(&mut ColumnWriter<'_>)]) {
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let out = std::fs::File::create(file).expect("a file");
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(WriterProperties::default())).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    for column in columns {
        let mut opened = group.next_column().expect("a column").expect("a column");
        column(opened.untyped());
        opened.close().expect("closed");
    }
    group.close().expect("closed");
    writer.close().expect("closed");
}

fn floats(writer: &mut ColumnWriter<'_>, values: &[f32], defined: &[i16], repeated: &[i16]) {
    let ColumnWriter::FloatColumnWriter(writer) = writer else { panic!("not floats") };
    writer.write_batch(values, Some(defined), Some(repeated)).expect("written");
}

fn numbers(writer: &mut ColumnWriter<'_>, values: &[i64]) {
    let ColumnWriter::Int64ColumnWriter(writer) = writer else { panic!("not whole numbers") };
    writer.write_batch(values, None, None).expect("written");
}

/// A file of these rows; their positions begin at `first`.
fn states(name: &str, rows: &[Row], first: i64) -> PathBuf {
    let file = empty_folder(name).join("states.parquet");
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let own = row.as_deref().unwrap_or_default();
        if own.is_empty() {
            defined.push(i16::from(row.is_some()));
            repeated.push(0);
        }
        for (place, value) in own.iter().enumerate() {
            defined.push(if value.is_some() { 3 } else { 2 });
            repeated.push(i16::from(place > 0));
            values.extend(value);
        }
    }
    let count = rows.len() as i64;
    write(
        &file,
        LISTS,
        &[&|writer| floats(writer, &values, &defined, &repeated), &|writer| numbers(writer, &vec![0; count as usize]), &|writer| {
            numbers(writer, &(first..first + count).collect::<Vec<i64>>())
        }],
    );
    file
}

fn import(file: &Path, out: &Path) -> Outcome {
    layerscope(&["import", file.to_str().expect("UTF-8"), "--out", out.to_str().expect("UTF-8"), "--quiet", "--measures", "norm"])
}

fn row(values: &[f32]) -> Row {
    Some(values.iter().copied().map(Some).collect())
}

#[test]
fn only_full_rows_of_one_length_are_states() {
    let out = empty_folder("imports-out");
    let good = states("imports-good", &[row(&[1.0, 2.0, 3.0]), row(&[4.0, 5.0, 6.0])], 0);
    let outcome = import(&good, &out.join("good"));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let layers = table(&out.join("good"), "layers");
    let q = (0..layers.rows())
        .find(|&at| text(&layers, "measure", at).as_deref() == Some("q") && text(&layers, "selection", at).as_deref() == Some("all"));
    assert_eq!(number(&layers, "value", q.expect("a row")), Some(45.5));
    for (name, second, said) in [
        ("ragged", row(&[4.0, 5.0, 6.0, 7.0, 8.0]), "row 2: 5 components; states before it have 3"),
        ("short", row(&[4.0]), "row 2: 1 components; states before it have 3"),
        ("null", None, "row 2: column `hidden_states` has no state there"),
        ("empty", Some(vec![]), "row 2: column `hidden_states` has no state there"),
        ("hole", Some(vec![Some(4.0), None, Some(6.0)]), "row 2: column `hidden_states` has a null"),
    ] {
        // Rows whose numbers could also be cut evenly.
        let file = states(&format!("imports-{name}"), &[row(&[1.0, 2.0, 3.0]), second, row(&[0.0; 3]), row(&[1.0; 3])], 0);
        let outcome = import(&file, &out.join(name));
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (2, 1), "{name}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
        assert!(!out.join(name).exists());
    }
    let wide = states("imports-wide", &[row(&[1.0]), row(&[2.0])], (1 << 32) - 1);
    let outcome = import(&wide, &out.join("wide"));
    assert_eq!(outcome.status, 2);
    assert!(outcome.stderr.contains("row 2: position 4294967296; positions must be below 2^32"), "{}", outcome.stderr);
}

#[test]
fn lists_of_lists_and_lists_of_ids_are_refused() {
    let folder = empty_folder("imports-nested");
    let nested = folder.join("nested.parquet");
    let schema = "message m { required group states (LIST) { repeated group list { required group element (LIST) { repeated group list { required float element; } } } } }";
    write(&nested, schema, &[&|writer| floats(writer, &[1.0, 2.0, 3.0, 4.0], &[2, 2, 2, 2], &[0, 2, 1, 2])]);
    let outcome = import(&nested, &folder.join("out"));
    assert_eq!(outcome.status, 2);
    assert!(outcome.stderr.contains("column `states` holds more than one list of numbers a row"), "{}", outcome.stderr);
    let ids = folder.join("ids.parquet");
    let schema = "message m { required group states (LIST) { repeated group list { required float element; } } required group token_ids (LIST) { repeated group list { required int64 element; } } }";
    let lists = |writer: &mut ColumnWriter<'_>| {
        let ColumnWriter::Int64ColumnWriter(writer) = writer else { panic!("not whole numbers") };
        writer.write_batch(&[7, 8], Some(&[1, 1, 0]), Some(&[0, 1, 0])).expect("written");
    };
    write(&ids, schema, &[&|writer| floats(writer, &[1.0, 2.0, 3.0, 4.0], &[1; 4], &[0, 1, 0, 1]), &lists]);
    let outcome = import(&ids, &folder.join("out"));
    assert_eq!(outcome.status, 2);
    assert!(outcome.stderr.contains("column `token_ids` must hold one value a row"), "{}", outcome.stderr);
}

/// A .npy file of zeros but for what `value` says.
fn npy(file: &Path, shape: &[usize], value: impl Fn(usize) -> f32) {
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({extents}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    (0..shape.iter().product::<usize>()).for_each(|at| bytes.extend(value(at).to_le_bytes()));
    std::fs::write(file, bytes).expect("written");
}

/// Layer, Q and number of states.
type LayerRow = (i64, f64, i64);

/// Imports files of a folder; what was said, and Q of every layer with the states it is of.
fn import_files(folder: &Path, files: &[&str], flags: &[&str]) -> Result<(String, Vec<LayerRow>), String> {
    let (files, out): (Vec<PathBuf>, _) = (files.iter().map(|file| folder.join(file)).collect(), folder.join("out"));
    let mut words = vec!["import"];
    words.extend(files.iter().map(|file| file.to_str().expect("UTF-8")));
    words.extend(["--out", out.to_str().expect("UTF-8"), "--overwrite", "--measures", "norm"]);
    words.extend(flags);
    let outcome = layerscope(&words);
    if outcome.status != 0 {
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (2, 1), "{}", outcome.stderr);
        return Err(outcome.stderr);
    }
    let layers = table(&out, "layers");
    let is_q =
        |at: &usize| text(&layers, "measure", *at).as_deref() == Some("q") && text(&layers, "selection", *at).as_deref() == Some("all");
    let whole = |name: &str, at: usize| layers.integer(name, at).expect("a number");
    let rows = (0..layers.rows()).filter(is_q).map(|at| (whole("layer", at), number(&layers, "value", at).expect("Q"), whole("n", at)));
    Ok((outcome.stderr.clone(), rows.collect()))
}

#[test]
fn files_are_the_layers_that_their_names_tell() {
    let folder = empty_folder("imports-layers");
    // Layer l is all l + 1: Q is 4 (l + 1)^2. Named so that the order of the alphabet is another one.
    for (file, layer) in [("layer_2.npy", 2), ("layer_10.npy", 10), ("layer_0.npy", 0), ("part_1.npy", 1), ("part_4.npy", 4)] {
        npy(&folder.join(file), &[5, 4], |_| (layer + 1) as f32);
    }
    let (said, q) = import_files(&folder, &["layer_10.npy", "layer_0.npy", "layer_2.npy"], &[]).expect("layers");
    assert_eq!(q, [(0, 4.0, 5), (2, 36.0, 5), (10, 484.0, 5)]);
    assert!(said.contains("layers 0, 2, 10, a file each; axes token,component; 4 components; no groups, no documents"), "{said}");
    assert!(said.contains("no states are kept without documents and positions"), "{said}");
    assert_eq!(import_files(&folder, &["layer_2.npy"], &[]).expect("a layer").1, [(2, 36.0, 5)]);
    let parts = ["--layer", "7", "--layers-from", "none"];
    assert_eq!(import_files(&folder, &["layer_0.npy", "layer_2.npy"], &parts).expect("one layer").1, [(7, 20.0, 10)]);
    assert_eq!(import_files(&folder, &["layer_0.npy"], &["--layer", "7"]).expect("a layer").1, [(7, 4.0, 5)]);
    let refused = |files: &[&str], flags: &[&str]| import_files(&folder, files, flags).expect_err("refused");
    let line = refused(&["layer_0.npy", "layer_2.npy"], &["--layer", "7"]);
    assert!(line.contains("--layer 7 contradicts the names of the files") && line.contains("--layers-from none"), "{line}");
    let line = refused(&["part_1.npy", "part_4.npy"], &[]);
    assert!(line.contains("are they layers, or parts of one? For layers give --layers-from names"), "{line}");
    let decided = |how: &str| import_files(&folder, &["part_1.npy", "part_4.npy"], &["--layers-from", how]).expect("decided").1;
    assert_eq!(decided("names"), [(1, 16.0, 5), (4, 100.0, 5)]);
    assert_eq!(decided("none"), [(0, 58.0, 10)]);
    assert!(refused(&["layer_0.npy", "part_1.npy"], &[]).contains("which layer is this?"));
    npy(&folder.join("layer_3.npy"), &[6, 4], |_| 1.0);
    let line = refused(&["layer_2.npy", "layer_3.npy"], &[]);
    assert!(line.contains("6 rows of 4 components, and 5 of 4 in") && line.contains("layers have the same rows"), "{line}");
}

#[test]
fn batches_are_sequences() {
    let folder = empty_folder("imports-batches");
    // (layer, batch, token, component): 2 x 3 x 5 x 4.
    npy(&folder.join("all.npy"), &[2, 3, 5, 4], |at| if at < 60 { 1.0 } else { 2.0 });
    let (said, q) = import_files(&folder, &["all.npy"], &[]).expect("four axes");
    assert_eq!(q, [(0, 4.0, 15), (1, 16.0, 15)]);
    assert!(said.contains("layers 0 to 1; axes layer,batch,token,component; 4 components; no groups, documents, positions"), "{said}");
    let manifest = std::fs::read_to_string(folder.join("out/manifest.json")).expect("a manifest");
    assert!(manifest.contains("\"documents\": 3") && manifest.contains("\"sequences\": 3"), "{manifest}");
    npy(&folder.join("layer_6.npy"), &[3, 5, 4], |_| 3.0);
    assert!(import_files(&folder, &["layer_6.npy"], &[]).expect_err("unclear").contains("Say it with --axes"));
    let (_, q) = import_files(&folder, &["layer_6.npy"], &["--axes", "batch,token,component"]).expect("a batch");
    assert_eq!(q, [(6, 36.0, 15)]);
    assert!(import_files(&folder, &["all.npy"], &["--axes", "layer,token,component"]).expect_err("four").contains("--axes names 3 axes"));
}
