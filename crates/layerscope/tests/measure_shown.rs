//! What a user sees: presets, hints, progress, results, and the tables in every format.

mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::measure::{command, corpus, manifest, measured, model, run, sentences};
use support::{Outcome, empty_folder, layerscope, layerscope_with};

fn case(name: &str) -> (PathBuf, PathBuf, PathBuf) {
    (model("bert/base", &format!("{name}-model")), corpus(&format!("{name}-text"), &sentences(200, 61)), empty_folder(name))
}

fn show(folder: &Path, flags: &str) -> Outcome {
    let mut words = vec!["show", folder.to_str().expect("UTF-8")];
    words.extend(flags.split_whitespace());
    let outcome = layerscope(&words);
    assert_eq!(outcome.status, 0, "{flags}: {}", outcome.stderr);
    outcome
}

/// What is shown, without the lines that say how long it took.
fn untimed(shown: &str) -> Vec<&str> {
    shown.lines().filter(|line| !line.starts_with("time: ") && !line.starts_with("      ")).collect()
}

#[test]
fn presets_say_what_they_set_and_flags_go_over_them() {
    let (model, text, folder) = case("presets");
    let outcome = measured(&model, &text, &folder.join("paper"), "--preset paper --sample 1.0");
    let line = outcome.stderr.lines().next().expect("a line");
    assert_eq!(line, "layerscope: preset paper: --group surface --lowercase true --max-words 63 --specials count --wrap bos-eos");
    let settings = manifest(&folder.join("paper"))["settings"].clone();
    let setting = |name: &str| {
        (settings[name]["value"].as_str().unwrap_or("none").to_owned(), settings[name]["from"].as_str().expect("who").to_owned())
    };
    assert_eq!(setting("group"), ("surface".into(), "preset paper".into()));
    assert_eq!(setting("sample"), ("1.0".into(), "flag".into()));
    assert_eq!(setting("massive"), ("10".into(), "default".into()));
    assert_eq!(manifest(&folder.join("paper"))["grouping"], "surface");
    // The preset is nothing but its flags.
    let same = "--group surface --lowercase --max-words 63 --specials count --wrap bos-eos";
    measured(&model, &text, &folder.join("flags"), same);
    assert_eq!(support::measure::differing(&folder.join("paper"), &folder.join("flags")).filter(|name| name.ends_with("parquet")), None);

    let outcome = measured(&model, &text, &folder.join("ethayarajh"), "--preset ethayarajh");
    let line = outcome.stderr.lines().next().expect("a line");
    assert!(line.starts_with("layerscope: preset ethayarajh: --dedup true --frequency 5:100000"), "{line}");
    assert_eq!(manifest(&folder.join("ethayarajh"))["frequency"], serde_json::json!({ "minimum": 5, "maximum": 100_000 }));
    let outcome = run(&command(&model, &text, &folder.join("unknown"), "--preset papers"));
    assert_eq!(outcome.status, 2);
    assert!(outcome.stderr.contains("--preset `papers` is not understood"), "{}", outcome.stderr);
}

/// A word that is not quite one of those that a setting takes.
#[test]
fn slips_are_recognized() {
    let (model, text, folder) = case("slips");
    let (run, out) = (folder.join("run"), folder.join("out"));
    measured(&model, &text, &run, "--measures norm");
    let (run, out) = (run.to_str().expect("UTF-8"), out.to_str().expect("UTF-8"));
    for (words, setting, given, meant) in [
        (vec!["figures", run, "--out", out], "theme", "drak", "dark"),
        (vec!["figures", run, "--out", out], "width-mm", "acl-colum", "acl-column"),
        (vec!["figures", run, "--out", out], "depth", "relatve", "relative"),
        (vec!["figures", run, "--out", out], "only", "fg5", "fig5"),
        (vec!["report", run, "--out", out], "only", "tokns", "tokens"),
        (vec!["show", run], "states", "typicl", "typical"),
        (vec!["show", run], "format", "jsn", "json"),
        (vec!["show", run], "table", "layrs", "layers"),
        (vec!["prune", run], "states", "pakced", "packed"),
        (vec!["prune", run], "keep", "tabels", "tables"),
        (vec!["import", "x.npy", "--out", out], "layers-from", "nams", "names"),
        (vec!["measure", "--model", "x", "--corpus", "y", "--out", out], "clean", "wki", "wiki"),
        (vec!["measure", "--model", "x", "--corpus", "y", "--out", out], "order", "blok", "block"),
        (vec!["measure", "--model", "x", "--corpus", "y", "--out", out], "group", "wrod", "word"),
        (vec!["measure", "--model", "x", "--corpus", "y", "--out", out], "group", "clustr:5", "cluster:5"),
        (vec!["measure", "--model", "x", "--corpus", "y", "--out", out], "split", "colum:genre", "column:genre"),
        (vec!["measure", "--model", "x", "--corpus", "y", "--out", out], "device", "cdua", "cuda"),
        (vec!["measure", "--model", "x", "--corpus", "y", "--out", out], "ablate", "finalnorm", "final-norm"),
        (vec!["measure", "--model", "x", "--corpus", "y", "--out", out], "layers", "al", "all"),
        (vec!["measure", "--model", "x", "--corpus", "y", "--out", out], "preset", "papers", "paper"),
        (vec!["compare", run, run], "format", "jsn", "json"),
    ] {
        let flag = format!("--{setting}");
        let outcome = support::layerscope(&[words, vec![&flag, given]].concat());
        let said = format!("{flag} `{given}` is not understood (did you mean `{meant}`?); give ");
        assert!(outcome.status == 2 && outcome.stderr.contains(&said), "{}", outcome.stderr);
    }
}

#[test]
fn schedulers_are_hinted_at_and_obeyed_when_asked() {
    let (model, text, folder) = case("schedulers");
    let measure = |out: &str, flags: &str, variables: &[(&str, &str)]| {
        let words = command(&model, &text, &folder.join(out), flags);
        layerscope_with(&words.iter().map(String::as_str).collect::<Vec<_>>(), variables)
    };
    let slurm = [("SLURM_ARRAY_TASK_ID", "1"), ("SLURM_ARRAY_TASK_COUNT", "3")];
    let outcome = measure("hint", "", &slurm);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("SLURM_ARRAY_TASK_ID is set but ignored; measure this task's part alone with --shard auto"),
        "{}",
        outcome.stderr
    );
    assert_eq!(manifest(&folder.join("hint"))["shard"], serde_json::json!({ "index": 0, "count": 1 }));
    let outcome = measure("auto", "--shard auto", &slurm);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("ignored"));
    assert_eq!(manifest(&folder.join("auto"))["shard"], serde_json::json!({ "index": 1, "count": 3 }));
    assert_eq!(measure("given", "--shard auto/4", &[("JOB_COMPLETION_INDEX", "3")]).status, 0);
    assert_eq!(manifest(&folder.join("given"))["shard"], serde_json::json!({ "index": 3, "count": 4 }));
    assert_eq!(measure("none", "--shard auto", &[]).status, 2);
}

/// Nothing of a run is that fast or that slow: the seconds are told as they stand in the manifest.
#[test]
fn the_time_of_every_part_is_told() {
    let (model, text, folder) = case("timed");
    let (out, joined) = (folder.join("run"), folder.join("joined"));
    let outcome = measured(&model, &text, &out, "--json --measures norm,cosine");
    let result: Value = serde_json::from_str(outcome.stdout.lines().last().expect("a line")).expect("JSON");
    let mut known = manifest(&out);
    assert_eq!(result["manifest"]["timings"], known["timings"]);
    for part in ["read", "tokenize", "load", "pilot", "forward", "sketches", "write"] {
        assert!(known["timings"][part].as_f64().is_some_and(|seconds| seconds > 0.0), "{part}: {}", known["timings"]);
    }
    assert!(known["timings"]["tables"].as_object().expect("by family").values().all(|seconds| seconds.as_f64() > Some(0.0)));

    known["timings"] = serde_json::json!({
        "read": 0.26, "tokenize": 0.5, "load": 1.2, "pilot": 0.0, "forward": 21.4, "sketches": 1.1,
        "tables": { "norm": 2.0, "dimension": 1.25 }, "write": 0.2,
    });
    std::fs::write(out.join("manifest.json"), known.to_string()).expect("written");
    support::measure::without_digests(&out);
    let lines = "\ntime: read 0.3 s, tokenize 0.5 s, load 1.2 s, model 21 s, sketches 1.1 s,\n      tables 3.2 s, write 0.2 s\n";
    let shown = show(&out, "").stdout;
    assert!(shown.contains(lines), "{shown}");

    // Shards add up: no part of them is run again.
    let parts: Vec<PathBuf> = (0..2).map(|shard| folder.join(format!("part{shard}"))).collect();
    parts.iter().enumerate().for_each(|(shard, part)| drop(measured(&model, &text, part, &format!("--shard {shard}/2"))));
    let outcome = layerscope(&[
        "merge",
        parts[0].to_str().expect("UTF-8"),
        parts[1].to_str().expect("UTF-8"),
        "--out",
        joined.to_str().expect("UTF-8"),
    ]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let forward = |run: &Path| manifest(run)["timings"]["forward"].as_f64().expect("seconds");
    assert!((forward(&joined) - forward(&parts[0]) - forward(&parts[1])).abs() < 1e-9);
}

#[test]
fn quiet_json_and_lines() {
    let (model, text, folder) = case("shown");
    let outcome = measured(&model, &text, &folder.join("lines"), "");
    assert!(outcome.stderr.lines().all(|line| line.starts_with("layerscope: ")), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("memory estimate") && !outcome.stderr.contains('\r'), "no bar without a terminal: {}", outcome.stderr);
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
    for heading in ["layer", "M/Q", "V_W/Q", "V_B/Q", "C.V.", "slope", "R^2", "200 documents"] {
        assert!(outcome.stdout.contains(heading), "{heading}: {}", outcome.stdout);
    }
    let quiet = measured(&model, &text, &folder.join("quiet"), "--quiet");
    assert_eq!((quiet.stderr.as_str(), untimed(&quiet.stdout)), ("", untimed(&outcome.stdout)));

    let json = measured(&model, &text, &folder.join("json"), "--json --preset ethayarajh");
    assert_eq!(json.stderr, "");
    let events: Vec<Value> = json.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    assert_eq!(events[0]["event"], "note");
    assert!(events[0]["text"].as_str().expect("text").starts_with("preset ethayarajh"));
    let result = events.last().expect("a result");
    assert_eq!(result["event"], "result");
    assert_eq!(result["manifest"], manifest(&folder.join("json")));
}

#[test]
fn every_table_in_every_format() {
    let (model, text, folder) = case("formats");
    let out = folder.join("run");
    measured(&model, &text, &out, "--quiet --frequency 5:60");
    assert_eq!(show(&out, "").stdout, measured(&model, &text, &out, "--quiet --frequency 5:60").stdout, "show is what measure said");
    for (name, heading) in [
        ("layers", "model,revision,layer,point,selection,measure,variant,value,se,n,step"),
        ("groups", "layer,point,group_id,group,raw,subwords,n,q,m,v,self_similarity,mean_norm,selection,special"),
        ("components", "layer,point,component,mean,variance,second_moment,variance_within,variance_between,cosine_contribution"),
        ("identities", "layer,point,selection,identity,residual,n"),
    ] {
        let csv = show(&out, &format!("--table {name} --format csv")).stdout;
        let mut lines = csv.lines();
        assert!(lines.next().expect("a heading").starts_with(heading), "{name}: columns are stable, new ones go last");
        let rows = lines.count();
        let json: Value = serde_json::from_str(&show(&out, &format!("--table {name} --format json")).stdout).expect("JSON");
        let lines = show(&out, &format!("--table {name} --format jsonl")).stdout;
        let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!((json.as_array().expect("a list"), objects.len()), (&objects, rows), "{name}");
        let markdown = show(&out, &format!("--table {name}")).stdout;
        assert_eq!(markdown.lines().filter(|line| line.starts_with('|')).count(), rows + 2, "{name}");
        let latex = show(&out, &format!("--table {name} --format latex")).stdout;
        assert!(latex.contains("\\begin{tabular}") && latex.contains("\\end{tabular}"), "{name}");
    }
    for (flags, status) in [("--table nonsense", 2), ("--format nonsense", 2), ("--frequency 9", 2), ("--table groups --frequency 1:9", 2)]
    {
        let mut words = vec!["show", out.to_str().expect("UTF-8")];
        words.extend(flags.split_whitespace());
        let outcome = layerscope(&words);
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (status, 1), "{flags}: {}", outcome.stderr);
    }
    let nowhere = layerscope(&["show", folder.join("nowhere").to_str().expect("UTF-8")]);
    assert_ne!(nowhere.status, 0);
    assert!(nowhere.stderr.contains("nowhere: there is no such folder") && nowhere.stderr.lines().count() == 1, "{}", nowhere.stderr);
}

/// Draws figures of a run; the folder with their numbers.
fn drawn(run: &Path, out: PathBuf, flags: &str) -> PathBuf {
    let mut words = vec!["figures", run.to_str().expect("UTF-8"), "--out", out.to_str().expect("UTF-8")];
    words.extend(flags.split_whitespace());
    let outcome = layerscope(&words);
    assert_eq!(outcome.status, 0, "{flags}: {}", outcome.stderr);
    out
}

#[test]
fn figures_of_another_frequency_are_those_of_another_run() {
    let (model, text, folder) = case("drawn");
    let (one, other) = (folder.join("one"), folder.join("other"));
    measured(&model, &text, &one, "--quiet --frequency 5:60 --tokens none");
    measured(&model, &text, &other, "--quiet --frequency 12:1000 --tokens none");
    let figures = ["fig2", "fig4", "fig5", "fig6", "fig17", "fig18", "fig19", "fig20"];
    let only = format!("--only {}", figures.join(","));
    let again = drawn(&one, folder.join("again"), &format!("{only} --frequency 12:1000"));
    let measured = drawn(&other, folder.join("measured"), &only);
    let own = drawn(&one, folder.join("own"), &only);
    let read = |folder: &Path, file: &str| std::fs::read_to_string(folder.join(file)).expect(file);
    for figure in figures {
        let file = format!("{figure}.csv");
        assert_eq!(read(&again, &file), read(&measured, &file), "{figure}");
        assert_ne!(read(&again, &file), read(&own, &file), "{figure}");
    }
    let captions = read(&again, "figures.tex");
    assert_eq!(captions.matches("groups with 12 to 1{,}000 states").count(), figures.len(), "{captions}");
    assert_eq!(captions, read(&measured, "figures.tex"));
    for (flags, problem) in [("--states typical", ""), ("--states none", "--states `none` is not understood; give typical or all")] {
        let words = ["figures", one.to_str().expect("UTF-8"), "--out", own.to_str().expect("UTF-8"), "--only", "fig4"];
        let words: Vec<&str> = words.into_iter().chain(flags.split_whitespace()).collect();
        let outcome = layerscope(&words);
        assert_eq!(outcome.status, if problem.is_empty() { 0 } else { 2 }, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(problem), "{}", outcome.stderr);
    }
}

#[test]
fn another_frequency_is_that_of_another_run() {
    let (model, text, folder) = case("frequencies");
    let (one, other) = (folder.join("one"), folder.join("other"));
    measured(&model, &text, &one, "--quiet --frequency 5:60 --tokens none");
    measured(&model, &text, &other, "--quiet --frequency 12:1000 --tokens none");
    for name in ["layers", "identities"] {
        let recomputed = show(&one, &format!("--table {name} --format csv --frequency 12:1000")).stdout;
        assert_eq!(recomputed, show(&other, &format!("--table {name} --format csv")).stdout, "{name}");
        assert_ne!(recomputed, show(&one, &format!("--table {name} --format csv")).stdout, "{name}");
    }
    // The header stays; the seconds are those of each run.
    let shown = |run: &Path, flags: &str| {
        show(run, flags).stdout.lines().filter(|line| !line.starts_with("time:")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shown(&one, "--frequency 12:1000"), shown(&other, ""));
}
