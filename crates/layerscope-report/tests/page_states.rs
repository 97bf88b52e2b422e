//! The page has the typical states beside all of them, and says which come first.

#[path = "support/elements.rs"]
mod elements;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use elements::{decoded, elements};
use layerscope_report::export::parquet;
use layerscope_report::page::{self, Served, Settings};
use layerscope_report::{Column, Run, Table};
use serde_json::{Value, json};

/// A folder of one run that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, tables: Vec<(&str, Table)>) -> Folder {
        let path = std::env::temp_dir().join(format!("layerscope-states-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        for (name, table) in tables {
            let mut bytes = Vec::new();
            parquet::write(&table, &mut bytes).unwrap();
            fs::write(path.join(format!("{name}.parquet")), bytes).unwrap();
        }
        fs::write(path.join("manifest.json"), r#"{"model": {"name": "m"}}"#).unwrap();
        Folder(path)
    }

    /// The blocks of its page, which a server has too.
    fn blocks(&self) -> BTreeMap<String, Vec<u8>> {
        let mut html = Vec::new();
        page::write(&[Run::open(&self.0).unwrap()], &Settings::default(), &mut html).unwrap();
        let html = String::from_utf8(html).unwrap();
        let blocks: BTreeMap<String, Vec<u8>> =
            elements(&html).into_iter().map(|(name, element)| (name.to_owned(), decoded(element))).collect();
        let served = Served::open(std::slice::from_ref(&self.0)).unwrap();
        for (name, block) in blocks.iter().filter(|(name, _)| name.matches('.').count() > 1) {
            assert_eq!(served.block(name).unwrap().as_ref(), Some(block), "{name}");
        }
        blocks
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn integers(values: &[i64]) -> Column {
    Column::Integer(values.iter().copied().map(Some).collect())
}

fn reals(values: &[f64]) -> Column {
    Column::Real(values.iter().copied().map(Some).collect())
}

fn texts(values: &[&str]) -> Column {
    Column::text(values.iter().map(|text| Some(*text)))
}

/// Q of all and of typical states at two layers: at layer 1, 10 of 100 states carry nine tenths.
fn layers(selections: [&str; 2]) -> Table {
    Table::new([
        ("layer", integers(&[0, 0, 1, 1, 1])),
        ("point", texts(&["embedding", "embedding", "block", "block", "block"])),
        ("selection", texts(&["all", "typical", "all", "typical", selections[0]])),
        ("measure", texts(&["q"; 5])),
        ("variant", Column::Text(vec![None; 5])),
        ("value", reals(&[1.0, 1.0, 9.0, 1.0, 1.0])),
        ("n", integers(&[100, 100, 100, 90, 80])),
        ("step", Column::Integer(vec![None; 5])),
        ("se", Column::Real(vec![None; 5])),
        ("model", texts(&[selections[1]; 5])),
    ])
    .unwrap()
}

/// Three groups, the last of massive states only; at layer 1 one more has some.
fn groups() -> Table {
    Table::new([
        ("layer", integers(&[0, 0, 0, 1, 1, 1, 1, 1])),
        ("point", texts(&["embedding", "embedding", "embedding", "block", "block", "block", "block", "block"])),
        ("group_id", integers(&[5, 6, 7, 5, 6, 7, 6, 5])),
        ("group", texts(&["a", "b", "<s>", "a", "b", "<s>", "b", "a"])),
        ("n", integers(&[40, 50, 10, 40, 50, 10, 45, 40])),
        ("q", reals(&[1.0, 2.0, 3.0, 1.5, 9.0, 90.0, 2.5, 1.5])),
        ("special", integers(&[0, 0, 1, 0, 0, 1, 0, 0])),
        ("selection", texts(&["all", "all", "all", "all", "all", "all", "typical", "typical"])),
    ])
    .unwrap()
}

/// Two components of each group at layer 1.
fn token_components() -> Table {
    let of = |selection: &'static str, id: i64, mean: f64| (0..2).map(move |i| (selection, id, i, mean + i as f64));
    let rows: Vec<(&str, i64, i64, f64)> = of("all", 5, 1.0)
        .chain(of("all", 6, 4.0))
        .chain(of("all", 7, 9.0))
        .chain(of("typical", 5, 1.0))
        .chain(of("typical", 6, 2.0))
        .collect();
    Table::new([
        ("layer", integers(&vec![1; rows.len()])),
        ("point", texts(&vec!["block"; rows.len()])),
        ("group_id", integers(&rows.iter().map(|row| row.1).collect::<Vec<_>>())),
        ("token", texts(&rows.iter().map(|row| if row.1 == 7 { "<s>" } else { "x" }).collect::<Vec<_>>())),
        ("component", integers(&rows.iter().map(|row| row.2).collect::<Vec<_>>())),
        ("q", reals(&rows.iter().map(|row| row.3 * row.3 + 0.5).collect::<Vec<_>>())),
        ("mean", reals(&rows.iter().map(|row| row.3).collect::<Vec<_>>())),
        ("variance", reals(&vec![0.5; rows.len()])),
        ("selection", texts(&rows.iter().map(|row| row.0).collect::<Vec<_>>())),
    ])
    .unwrap()
}

/// A column of a block as numbers; undefined is NaN.
fn column(block: &[u8], name: &str) -> Vec<f64> {
    let length = u32::from_le_bytes(block[..4].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&block[4..4 + length]).unwrap();
    let rows = header["rows"].as_u64().unwrap() as usize;
    let own = header["columns"].as_array().unwrap().iter().find(|column| column["name"] == name);
    let own = own.unwrap_or_else(|| panic!("no column {name} in {header}"));
    let at = 4 + length + own["at"].as_u64().unwrap() as usize;
    let four = |i: usize| -> [u8; 4] { block[at + 4 * i..at + 4 * i + 4].try_into().unwrap() };
    let value = |i: usize| match own["type"].as_str().unwrap() {
        "f64" => f64::from_le_bytes(block[at + 8 * i..at + 8 * i + 8].try_into().unwrap()),
        "f32" => f64::from(f32::from_le_bytes(four(i))),
        _ => Some(u32::from_le_bytes(four(i))).filter(|code| *code != u32::MAX).map_or(f64::NAN, f64::from),
    };
    (0..rows).map(value).collect()
}

#[test]
fn points_have_blocks_of_the_typical_states_where_some_are_massive() {
    let folder = Folder::new(
        "blocks",
        vec![("layers", layers(["typical_selected", "m"])), ("groups", groups()), ("token_components", token_components())],
    );
    let blocks = folder.blocks();
    let index: Value = serde_json::from_slice(&blocks["index"]).unwrap();
    let points = &index["runs"][0]["points"];
    assert_eq!(points["groups"][0], json!({"layer": 0, "point": "embedding", "block": "run0.groups.0"}));
    assert_eq!(points["groups"][1], json!({"layer": 1, "point": "block", "block": "run0.groups.1", "typical": "run0.groups.1.typical"}));
    // Groups are named once, by all their states, rarest first; which are special is part of that.
    assert_eq!(column(&blocks["run0.groups"], "n"), [10.0, 40.0, 50.0]);
    assert_eq!(column(&blocks["run0.groups"], "special"), [1.0, 0.0, 0.0]);
    assert_eq!(column(&blocks["run0.groups.1"], "q"), [90.0, 1.5, 9.0]);
    // Only what differs: the group without typical states, and the one with fewer.
    let typical = &blocks["run0.groups.1.typical"];
    assert_eq!((column(typical, "place"), column(typical, "n")), (vec![0.0, 2.0], vec![0.0, 45.0]));
    let q = column(typical, "q");
    assert!(q[0].is_nan() && q[1] == 2.5, "{q:?}");
    // The token whose components are the same is not repeated; the one that is all massive has a row without component.
    let (all, typical) = (&blocks["run0.token_components.0"], &blocks["run0.token_components.0.typical"]);
    assert_eq!(column(all, "mean"), [1.0, 2.0, 4.0, 5.0, 9.0, 10.0]);
    assert_eq!(column(typical, "group_id"), [6.0, 6.0, 7.0]);
    assert_eq!(column(typical, "mean")[..2], [2.0, 3.0]);
    assert!(column(typical, "component")[2].is_nan() && column(typical, "mean")[2].is_nan());
    let served = Served::open(std::slice::from_ref(&folder.0)).unwrap();
    for stranger in ["run0.groups.0.typical", "run0.groups.1.typical.typical", "run0.groups.1.all", "run0.groups.typical", "index.typical"]
    {
        assert_eq!(served.block(stranger).unwrap(), None, "{stranger}");
    }
}

#[test]
fn the_index_says_which_states_come_first_and_why() {
    let index = |name: &str, layers: Table| -> Value {
        let folder = Folder::new(name, vec![("layers", layers)]);
        serde_json::from_slice(&folder.blocks()["index"]).unwrap()
    };
    let new = index("new", layers(["typical_selected", "m"]));
    assert_eq!((&new["states"], &new["runs"][0]["has_typical"]), (&json!("typical"), &json!(true)));
    assert_eq!(new["selections"], json!(layerscope_report::lead::SELECTIONS), "in the order of everything else that shows values");
    assert_eq!(new["runs"][0]["massive"], "10 of 100 states are massive and carry 90.0 % of Q at layer 1");
    let old = index("old", layers(["selected", "m"]));
    assert_eq!((&old["states"], &old["runs"][0]["has_typical"]), (&json!("all"), &json!(false)));
    assert!(old["runs"][0]["massive"].is_string());
    let only_all = Table::new([
        ("layer", integers(&[1])),
        ("point", texts(&["block"])),
        ("selection", texts(&["all"])),
        ("measure", texts(&["q"])),
        ("value", reals(&[1.0])),
        ("n", integers(&[3])),
    ]);
    let none = index("none", only_all.unwrap());
    assert_eq!((&none["states"], &none["runs"][0]["massive"]), (&json!("all"), &Value::Null));
}

#[test]
fn a_file_has_some_points_of_the_largest_table_and_a_server_all() {
    let rows: Vec<(i64, i64)> = (0..5).flat_map(|layer| (0..500_000).map(move |component| (layer, component))).collect();
    let table = Table::new([
        ("layer", integers(&rows.iter().map(|row| row.0).collect::<Vec<_>>())),
        ("point", texts(&vec!["block"; rows.len()])),
        ("group_id", integers(&vec![1; rows.len()])),
        ("token", texts(&vec!["x"; rows.len()])),
        ("component", integers(&rows.iter().map(|row| row.1).collect::<Vec<_>>())),
        ("mean", reals(&vec![0.0; rows.len()])),
        ("variance", reals(&vec![0.0; rows.len()])),
    ]);
    let folder = Folder::new("large", vec![("layers", layers(["selected", "m"])), ("token_components", table.unwrap())]);
    let mut html = Vec::new();
    page::write(&[Run::open(&folder.0).unwrap()], &Settings::default(), &mut html).unwrap();
    let html = String::from_utf8(html).unwrap();
    let index: Value = serde_json::from_slice(&decoded(elements(&html)["index"])).unwrap();
    let points = index["runs"][0]["points"]["token_components"].as_array().unwrap();
    assert_eq!(points.iter().map(|point| point["layer"].as_i64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 4], "two million rows");
    assert_eq!(index["runs"][0]["left_out"]["token_components"], 1);
    let served = Served::open(std::slice::from_ref(&folder.0)).unwrap();
    assert!(served.block("run0.token_components.4").unwrap().is_some());
}
