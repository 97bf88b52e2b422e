//! The page holds the tables, and nothing of them is mark-up.

#[path = "support/elements.rs"]
mod elements;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use elements::{decoded, elements};
use layerscope_report::export::parquet;
use layerscope_report::page::{self, Served, Settings};
use layerscope_report::{Column, Manifest, Run, Table};
use serde_json::{Value, json};

const HOSTILE: &str = "</script><script>alert(1)</script><!--\u{2028}\"'";

fn run(name: &str) -> Run {
    let texts = |text: &str| Column::text(vec![Some(text), None]);
    let layers = Table::new([
        ("layer", Column::Integer(vec![Some(0), None])),
        ("measure", texts(HOSTILE)),
        ("value", Column::Real(vec![Some(0.1), None])),
    ]);
    let groups = Table::new([
        ("layer", Column::Integer(vec![Some(0), Some(0), Some(1)])),
        ("point", Column::text(vec![Some("embedding"), Some("embedding"), Some("block")])),
        ("group_id", Column::Integer(vec![Some(7), Some(-8), Some(7)])),
        ("group", Column::text(vec![Some("often"), Some(HOSTILE), Some("often")])),
        ("n", Column::Integer(vec![Some(90), Some(2), Some(90)])),
        ("v", Column::Real(vec![Some(1.5), None, Some(2.5)])),
    ]);
    Run {
        folder: PathBuf::from(format!("runs/{name}")),
        manifest: manifest(json!({"model": {"name": HOSTILE}, "warnings": [HOSTILE]})),
        layers: layers.unwrap(),
        groups: Some(groups.unwrap()),
        components: None,
        spectra: None,
        tokens: None,
        norms: None,
    }
}

fn manifest(json: Value) -> Manifest {
    serde_json::from_value(json).unwrap()
}

fn written(runs: &[Run], settings: &Settings) -> String {
    let mut page = Vec::new();
    page::write(runs, settings, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn no_text_of_a_run_is_markup() {
    let page = written(&[run("a"), run("b")], &Settings { frequency: Some(3..=50), ..Settings::default() });
    assert!(!page.contains("alert(1)</script>"));
    assert_eq!(page.matches("<script>").count(), 1, "one program");
    let blocks = page.matches("<script type=\"application/octet-stream\"").count();
    assert_eq!(page.matches("</script>").count(), 1 + blocks);
    assert_eq!(blocks, 1 + 2 * (2 + 2), "index; layers, groups and two points of each run");
    assert!(page.contains("<title>&lt;/script&gt;"));
    let titled = written(&[run("a")], &Settings { title: Some("<b>".into()), ..Settings::default() });
    assert!(titled.contains("<title>&lt;b&gt; · Layerscope</title>"));
}

/// A folder of runs that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("layerscope-page-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Writes a run and reads it back.
    fn stored(&self, name: &str, run: &Run) -> Run {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).unwrap();
        let tables = [("layers", Some(&run.layers)), ("groups", run.groups.as_ref()), ("tokens", run.tokens.as_ref())];
        for (name, table) in tables.into_iter().filter_map(|(name, table)| table.map(|table| (name, table))) {
            let mut bytes = Vec::new();
            parquet::write(table, &mut bytes).unwrap();
            fs::write(folder.join(format!("{name}.parquet.new")), bytes).unwrap();
            fs::rename(folder.join(format!("{name}.parquet.new")), folder.join(format!("{name}.parquet"))).unwrap();
        }
        fs::write(folder.join("manifest.json"), serde_json::to_vec(&run.manifest).unwrap()).unwrap();
        Run::open(&folder).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A run of several Parquet row groups, whose points begin and end inside them, with states of tokens between.
fn long(groups: i64) -> Run {
    let rows: Vec<(i64, i64)> = (0..5).flat_map(|layer| (0..groups).map(move |id| (layer, id))).collect();
    let table = Table::new([
        ("layer", Column::Integer(rows.iter().map(|(layer, _)| Some(*layer)).collect())),
        ("point", Column::text(rows.iter().map(|(layer, _)| Some(if *layer == 0 { "embedding" } else { "block" })))),
        ("group_id", Column::Integer(rows.iter().map(|(_, id)| Some(*id)).collect())),
        ("group", Column::text(rows.iter().map(|(_, id)| Some(format!("word {id}"))))),
        ("n", Column::Integer(rows.iter().map(|(_, id)| Some(1 + id * 7919 % 1000)).collect())),
        ("v", Column::Real(rows.iter().map(|(layer, id)| (id % 5 > 0).then_some((layer * groups + id) as f64)).collect())),
    ]);
    let tokens = Table::new([
        ("layer", Column::Integer(vec![Some(0), Some(1), Some(0)])),
        ("point", Column::text(vec![Some("embedding"), Some("block"), Some("embedding")])),
        ("x", Column::Real(vec![Some(0.1), Some(0.2), None])),
    ]);
    Run { groups: Some(table.unwrap()), tokens: Some(tokens.unwrap()), ..run("long") }
}

#[test]
fn a_served_page_asks_for_points_and_gets_what_the_whole_page_has() {
    let folder = Folder::new("served");
    let runs = [folder.stored("a", &run("a")), folder.stored("b", &long(40_000))];
    let served = Served::open(&[folder.0.join("a"), folder.0.join("b")]).unwrap();
    let mut page = Vec::new();
    served.write(&Settings::default(), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains(&format!("content=\"{}\"", Served::policy())) && page.contains("name=\"layerscope-blocks\""));
    assert!(Served::policy().starts_with("default-src 'none'; connect-src 'self'; script-src 'sha256-"));
    let whole = written(&runs, &Settings::default());
    let (shell, whole) = (elements(&page), elements(&whole));
    assert_eq!(shell.len(), 1 + 2 + 2, "the index; layers and groups of each run");
    assert!(shell.iter().all(|(name, element)| whole[name] == *element));
    let rest: Vec<&&str> = whole.keys().filter(|name| !shell.contains_key(*name)).collect();
    assert_eq!(rest.len(), 2 + 5 + 2, "points of groups and of tokens");
    for name in rest {
        assert!(served.block(name).unwrap().unwrap() == decoded(whole[*name]), "{name}");
    }
    for stranger in [
        "run2.groups.0",
        "run0.groups.2",
        "run0.groups.00",
        "run0.groups.+1",
        "run0.groups",
        "index",
        "../manifest.json",
        "run0.groups.",
        "",
    ] {
        assert_eq!(served.block(stranger).unwrap(), None, "{stranger}");
    }
}

#[test]
fn a_page_of_some_views_has_what_they_read_and_nothing_else() {
    let view = |name: &str| page::VIEWS.iter().find(|view| view.name == name).unwrap();
    let runs = [run("a"), long(40)];
    let whole = written(&runs, &Settings::default());
    let index = |page: &str| -> Value { serde_json::from_slice(&decoded(elements(page)["index"])).unwrap() };
    let names: Vec<&str> = page::VIEWS.iter().map(|view| view.name).collect();
    assert_eq!(index(&whole)["views"], json!(names));
    for (only, kept, left) in [
        (vec![view("layers"), view("tokens")], "groups", json!(["tokens", "layers"])),
        (vec![view("pca")], "tokens", json!(["pca"])),
        (vec![view("method")], "nothing", json!(["method"])),
    ] {
        let page = written(&runs, &Settings { only, ..Settings::default() });
        let own = index(&page);
        assert_eq!(own["views"], left);
        assert!(page.len() < whole.len());
        let (some, all) = (elements(&page), elements(&whole));
        let wanted = |name: &str| name.ends_with(".layers") || name.contains(&format!(".{kept}"));
        let expected: BTreeSet<&str> = all.keys().copied().filter(|name| *name != "index" && wanted(name)).collect();
        let found: BTreeSet<&str> = some.keys().copied().filter(|name| *name != "index").collect();
        assert_eq!(found, expected);
        assert!(found.iter().all(|name| some[name] == all[name]), "the same numbers");
        let points = own["runs"][1]["points"].as_object().unwrap();
        assert!(points.keys().all(|kind| kind == kept), "{points:?}");
    }
}

#[test]
fn what_was_asked_of_the_runs_is_in_the_page() {
    let text = |text: &str| Column::text(vec![Some(text)]);
    let findings = Table::new([("statement", text(HOSTILE)), ("verdict", text("agrees"))]).unwrap();
    let page = written(&[run("a")], &Settings { findings: Some(findings), ..Settings::default() });
    let block = decoded(elements(&page)["findings"]);
    assert!(String::from_utf8_lossy(&block).contains("agrees"));
    assert!(!page.contains("alert(1)</script>"));
    assert!(!elements(&written(&[run("a")], &Settings::default())).contains_key("findings"));
}

#[test]
fn a_trajectory_has_the_tables_of_its_steps() {
    let folder = Folder::new("steps");
    folder.stored("t/steps/step0", &long(10));
    folder.stored("t/steps/step8", &long(20));
    let entry = |step: i64, status: &str| json!({"revision": format!("step{step}"), "step": step, "status": status, "folder": format!("steps/step{step}")});
    let manifest =
        manifest(json!({"model": {"name": "t"}, "trajectory": [entry(8, "measured"), entry(0, "measured"), entry(4, "missing")]}));
    let matrices = Table::new([
        ("point", Column::text(vec![Some("input_embedding"); 3])),
        ("group_id", Column::Integer(vec![Some(5), Some(6), Some(5)])),
        ("x", Column::Real(vec![Some(0.5), Some(1.5), Some(2.5)])),
        ("y", Column::Real(vec![Some(0.0); 3])),
        ("step", Column::Integer(vec![Some(0), Some(0), Some(8)])),
    ]);
    let mut bytes = Vec::new();
    parquet::write(&matrices.unwrap(), &mut bytes).unwrap();
    fs::write(folder.0.join("t/projections.parquet"), bytes).unwrap();
    let whole = folder.stored("t", &Run { manifest, groups: None, ..run("t") });
    let page = written(&[whole], &Settings::default());
    let elements = elements(&page);
    let index: serde_json::Value = serde_json::from_slice(&decoded(elements["index"])).unwrap();
    let steps = index["runs"][0]["steps"].as_array().unwrap();
    assert_eq!(steps.iter().map(|step| step["step"].as_i64().unwrap()).collect::<Vec<_>>(), [0, 8]);
    assert_eq!(steps[1]["groups"], "run0.step1.groups");
    assert_eq!(steps[1]["points"]["groups"][4], json!({"layer": 4, "point": "block", "block": "run0.step1.groups.4"}));
    let header = |name: &str| -> serde_json::Value {
        let block = decoded(elements[name]);
        let length = u32::from_le_bytes(block[..4].try_into().unwrap()) as usize;
        serde_json::from_slice(&block[4..4 + length]).unwrap()
    };
    let sizes = [
        "run0.step0.groups",
        "run0.step1.groups",
        "run0.step1.groups.4",
        "run0.step0.tokens.0",
        "run0.projections.0",
        "run0.projections.1",
    ];
    assert_eq!(sizes.map(|name| header(name)["rows"].as_u64().unwrap()), [10, 20, 20, 2, 2, 1]);
    // A server has the same.
    let served = Served::open(&[folder.0.join("t")]).unwrap();
    for name in elements.keys().filter(|name| name.contains(".step") || name.contains("projections")) {
        assert!(served.block(name).unwrap().unwrap() == decoded(elements[*name]), "{name}");
    }
    for stranger in ["run0.step2.groups", "run0.step1.groups.5", "run0.projections.2", "run0.step1"] {
        assert_eq!(served.block(stranger).unwrap(), None, "{stranger}");
    }
    fs::write(folder.0.join("t/steps/step8/manifest.json"), "{\"other\": 1}").unwrap();
    assert_eq!(served.is_current(), Some(false), "a step was measured anew");
}

#[test]
fn blocks_are_columns_by_their_layout() {
    let folder = Folder::new("layout");
    folder.stored("a", &run("a"));
    let served = Served::open(&[folder.0.join("a")]).unwrap();
    let block = served.block("run0.groups.0").unwrap().unwrap();
    let length = u32::from_le_bytes(block[..4].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&block[4..4 + length]).unwrap();
    assert_eq!((header["rows"].as_u64(), header["columns"][0]["name"].as_str()), (Some(2), Some("v")));
    let at = 4 + length + header["columns"][0]["at"].as_u64().unwrap() as usize;
    let values: Vec<f64> = block[at..at + 16].chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert!(values[0].is_nan() && values[1] == 1.5, "rarest first, undefined as NaN: {values:?}");
}

#[test]
#[cfg_attr(windows, ignore = "not every Windows lets a file be replaced while somebody has it open")]
fn a_run_that_is_replaced_stays_what_it_was_for_those_who_look_at_it() {
    let folder = Folder::new("replaced");
    folder.stored("a", &long(100));
    let folders = [folder.0.join("a")];
    let served = Served::open(&folders).unwrap();
    let before = served.block("run0.groups.3").unwrap();
    assert_eq!(served.is_current(), Some(true));
    fs::remove_file(folder.0.join("a/manifest.json")).unwrap();
    assert_eq!(served.is_current(), None);
    folder.stored("a", &Run { manifest: manifest(json!({"model": {"name": "another"}})), ..long(50) });
    assert_eq!(served.is_current(), Some(false));
    assert_eq!(served.block("run0.groups.3").unwrap(), before);
    let fresh = Served::open(&folders).unwrap();
    assert_ne!(fresh.version(), served.version());
    assert_ne!(fresh.block("run0.groups.3").unwrap(), before);
}

#[test]
#[cfg(unix)]
fn tables_behind_links_are_refused() {
    let folder = Folder::new("links");
    folder.stored("a", &long(10));
    folder.stored("b", &long(10));
    fs::remove_file(folder.0.join("a/groups.parquet")).unwrap();
    std::os::unix::fs::symlink(folder.0.join("b/groups.parquet"), folder.0.join("a/groups.parquet")).unwrap();
    let line = Served::open(&[folder.0.join("a")]).err().unwrap().to_string();
    assert!(line.contains("a/groups.parquet: a symbolic link that leads out of the run's folder"), "{line}");
    // A link to the run itself is as good as its folder.
    std::os::unix::fs::symlink(folder.0.join("b"), folder.0.join("c")).unwrap();
    assert!(Served::open(&[folder.0.join("c")]).is_ok());
    let line = Served::open(&[folder.0.join("nowhere")]).err().unwrap().to_string();
    assert!(line.contains("there is no such folder"), "{line}");
}

#[test]
fn the_code_is_small_and_its_policy_forbids_the_rest() {
    let empty = Run { groups: None, ..run("a") };
    let page = written(&[empty], &Settings::default());
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    let policy = page.split("content=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    for request in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(request), "{request}");
    }
}
