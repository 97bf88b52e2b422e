//! The page holds the tables, and nothing of them is mark-up.

use std::path::PathBuf;

use layerscope_report::page::{self, Settings};
use layerscope_report::{Column, Run, Table};
use serde_json::json;

const HOSTILE: &str = "</script><script>alert(1)</script><!--\u{2028}\"'";

fn run(name: &str) -> Run {
    let texts = |text: &str| Column::Text(vec![Some(text.into()), None]);
    let layers = Table::new([
        ("layer", Column::Integer(vec![Some(0), None])),
        ("measure", texts(HOSTILE)),
        ("value", Column::Real(vec![Some(0.1), None])),
    ]);
    let groups = Table::new([
        ("layer", Column::Integer(vec![Some(0), Some(0), Some(1)])),
        ("point", Column::Text(vec![Some("embedding".into()), Some("embedding".into()), Some("block".into())])),
        ("group_id", Column::Integer(vec![Some(7), Some(-8), Some(7)])),
        ("group", Column::Text(vec![Some("often".into()), Some(HOSTILE.into()), Some("often".into())])),
        ("n", Column::Integer(vec![Some(90), Some(2), Some(90)])),
        ("v", Column::Real(vec![Some(1.5), None, Some(2.5)])),
    ]);
    Run {
        folder: PathBuf::from(format!("runs/{name}")),
        manifest: json!({"model": {"name": HOSTILE}, "warnings": [HOSTILE]}),
        layers: layers.unwrap(),
        groups: Some(groups.unwrap()),
        components: None,
        spectra: None,
        tokens: None,
        norms: None,
    }
}

fn written(runs: &[Run], settings: &Settings) -> String {
    let mut page = Vec::new();
    page::write(runs, settings, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn no_text_of_a_run_is_markup() {
    let page = written(&[run("a"), run("b")], &Settings { frequency: Some(3..=50), title: None });
    assert!(!page.contains("alert(1)</script>"));
    assert_eq!(page.matches("<script>").count(), 1, "one program");
    let blocks = page.matches("<script type=\"application/octet-stream\"").count();
    assert_eq!(page.matches("</script>").count(), 1 + blocks);
    assert_eq!(blocks, 1 + 2 * (2 + 2), "index; layers, groups and two points of each run");
    assert!(page.contains("<title>&lt;/script&gt;"));
    let titled = written(&[run("a")], &Settings { frequency: None, title: Some("<b>".into()) });
    assert!(titled.contains("<title>&lt;b&gt; · Layerscope</title>"));
}

#[test]
fn a_served_page_asks_for_points_and_gets_them() {
    let runs = [run("a"), run("b")];
    let mut page = Vec::new();
    page::write_shell(&runs, &Settings::default(), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(
        page.contains("content=\"default-src 'none'; connect-src 'self'; script-src 'sha256-")
            && page.contains("name=\"layerscope-blocks\"")
    );
    assert!(page.contains("id=\"run1.groups\"") && !page.contains("id=\"run1.groups.0\""));
    let block = page::block(&runs, "run1.groups.0").unwrap().unwrap();
    let length = u32::from_le_bytes(block[..4].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&block[4..4 + length]).unwrap();
    assert_eq!((header["rows"].as_u64(), header["columns"][0]["name"].as_str()), (Some(2), Some("v")));
    let at = 4 + length + header["columns"][0]["at"].as_u64().unwrap() as usize;
    let values: Vec<f64> = block[at..at + 16].chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert!(values[0].is_nan() && values[1] == 1.5, "rarest first, undefined as NaN: {values:?}");
    for stranger in ["run2.groups.0", "run0.groups.2", "index", "../manifest.json", "run0.groups."] {
        assert_eq!(page::block(&runs, stranger).unwrap(), None);
    }
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
