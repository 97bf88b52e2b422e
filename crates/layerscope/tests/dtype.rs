//! `--dtype bf16`: near f32, the same on any number of threads, recorded, and never mixed with f32.

mod support;

use layerscope_compute::cpu::Bf16Kernel;
use support::empty_folder;
use support::measure::{corpus, differing, manifest, measure, measured, model, number, sentences, table, text};

#[test]
fn products_in_bf16_are_near_f32_and_say_what_computed_them() {
    let folder = empty_folder("dtype");
    let (checkpoint, lines) = (model("bert/base", "dtype-model"), corpus("dtype-text", &sentences(120, 27)));
    let run = |name: &str, flags: &str| {
        measured(&checkpoint, &lines, &folder.join(name), &format!("--quiet --frequency 10:300 {flags}"));
        folder.join(name)
    };
    let (wide, narrow) = (run("f32", ""), run("bf16", "--dtype bf16 --threads 1"));

    let (of_wide, of_narrow) = (table(&wide, "layers"), table(&narrow, "layers"));
    assert_eq!(of_wide.rows(), of_narrow.rows());
    let mut compared = 0;
    for row in 0..of_wide.rows() {
        let is = |column: &str, value: &str| text(&of_wide, column, row).as_deref() == Some(value);
        if is("measure", "q") && is("selection", "all") {
            let [a, b] = [&of_wide, &of_narrow].map(|table| number(table, "value", row).expect("a number"));
            assert!((a - b).abs() < 0.01 * a, "{a} and {b}");
            assert!(is("layer", "0") || a != b, "rounding leaves a trace");
            compared += 1;
        }
    }
    assert!(compared > 1);

    let kernel = Bf16Kernel::detect().to_string();
    let isa = |out| manifest(out)["host"]["isa"].as_str().expect("a name").to_owned();
    assert!(isa(&narrow).ends_with(&format!(", {kernel}")) && !isa(&wide).contains(&kernel), "{} {}", isa(&narrow), isa(&wide));
    assert_eq!(manifest(&narrow)["settings"]["dtype"]["value"], "bf16");

    assert_eq!(differing(&narrow, &run("bf16-threads", "--dtype bf16 --threads 3")), None);
    let refused = measure(&checkpoint, &lines, &wide, "--quiet --frequency 10:300 --dtype bf16");
    assert!(refused.status != 0 && refused.stderr.contains(r#"--dtype is "f32" there and "bf16" here"#), "{}", refused.stderr);
    let refused = measure(&checkpoint, &lines, &folder.join("plain"), "--device reference --dtype bf16");
    assert!(refused.status != 0 && refused.stderr.contains("--dtype"), "{}", refused.stderr);
}
