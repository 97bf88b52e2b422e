//! Bad text, bad tokenizers and bad states: one line, the right status, and nothing lost.

mod support;

use std::path::{Path, PathBuf};

use layerscope_report::{Column, Table};
use support::measure::{corpus, manifest, measure, measured, model, number, sentences, table, text};
use support::{Outcome, empty_folder};

const FLAGS: &str = "--quiet --frequency 1:1000 --measures norm,cosine --tokens none";

/// The program's one line, less its name.
#[track_caller]
fn line(outcome: &Outcome, status: i32) -> String {
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (status, 1), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("panic") && outcome.stdout.is_empty(), "{}", outcome.stderr);
    outcome.stderr.trim_end().strip_prefix("layerscope: ").unwrap_or_else(|| panic!("{}", outcome.stderr)).to_owned()
}

/// A gzip file whose data is stored as it is.
fn gzip(data: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    let length = data.len() as u16;
    file.extend(length.to_le_bytes());
    file.extend((!length).to_le_bytes());
    file.extend(data);
    file.extend(crc32fast::hash(data).to_le_bytes());
    file.extend((data.len() as u32).to_le_bytes());
    file
}

struct Case {
    model: PathBuf,
    folder: PathBuf,
}

impl Case {
    fn new(name: &str) -> Case {
        Case { model: model("bert/base", &format!("{name}-model")), folder: empty_folder(name) }
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    fn measure(&self, text: &Path, flags: &str) -> Outcome {
        let out = self.folder.join("run");
        let _ = std::fs::remove_dir_all(&out);
        let outcome = measure(&self.model, text, &out, &format!("{FLAGS} {flags}"));
        assert_eq!(out.join("manifest.json").exists(), outcome.status == 0);
        outcome
    }

    /// Status 4, and a line that starts with the file and contains `said`.
    #[track_caller]
    fn refused(&self, text: &Path, flags: &str, said: &str) {
        let line = line(&self.measure(text, flags), 4);
        let shown = text.display().to_string();
        assert!(
            line.contains(said) && (line.starts_with(&shown) || said.starts_with("nothing is left") || said.starts_with("the corpus")),
            "{line}"
        );
    }
}

#[test]
fn files() {
    let case = Case::new("bad-files");
    case.refused(&case.folder.join("absent.txt"), "", ": no such file");
    case.refused(&case.folder.join("absent*.txt"), "", ": no file matches this pattern");
    case.refused(&case.folder, "", ": this is a folder; name its files");
    // Reading its first page is an error for everybody, the administrator too.
    std::os::unix::fs::symlink("/proc/self/mem", case.folder.join("unreadable.txt")).expect("a link");
    case.refused(&case.folder.join("unreadable.txt"), "", "unreadable.txt: ");
    let packed = gzip(sentences(300, 1).join("\n").as_bytes());
    assert_eq!(case.measure(&case.file("whole.txt.gz", &packed), "").status, 0);
    case.refused(&case.file("cut.txt.gz", &packed[..packed.len() / 2]), "", "the gzip data is cut short after line ");
    case.refused(&case.file("cut.txt.gz", &packed[..packed.len() / 2]), "--on-error skip", "the gzip data is cut short after line ");
    case.refused(&case.file("no.parquet", "no parquet at all"), "", "not a Parquet file, or truncated");
    case.refused(&case.file("no.txt.zst", "not packed"), "", "the zstd data is damaged");
}

#[test]
fn records() {
    let case = Case::new("bad-records");
    let bad = case.file("bad.txt", b"the house\nthe \xff day\nold time\n");
    case.refused(&bad, "", "bad.txt: line 2: not UTF-8 (byte 4 of the line is 0xff)");
    case.refused(&case.file("bad.jsonl", "{\"text\": \"the\"}\n{\"text\": \n"), "", "bad.jsonl: line 2: not JSON");
    case.refused(&case.file("no.jsonl", "{\"text\": \"the\"}\n{\"body\": \"it\"}\n"), "", "line 2: no column `text` (it has `body`)");
    case.refused(&case.file("a.jsonl", "{\"text\": \"the\"}\n"), "--group column:kind", "column `kind`");
    case.refused(&case.file("a.txt", "the\n"), "--group column:kind", "lines of text have no columns");

    // Skipped, counted, warned of, and everything else measured.
    assert_eq!(case.measure(&bad, "--on-error skip").status, 0);
    let skipped = case.folder.join("skipped");
    std::fs::rename(case.folder.join("run"), &skipped).expect("renamed");
    let found = manifest(&skipped);
    assert_eq!((&found["corpus"]["skipped"], &found["corpus"]["documents"]), (&serde_json::json!({ "not readable": 1 }), &2.into()));
    assert_eq!(found["warnings"][0], "1 document was left out: not readable");
    let shown = support::layerscope(&["show", skipped.to_str().expect("UTF-8")]);
    assert!(shown.stdout.contains("warning: 1 document was left out"), "{}", shown.stdout);
    assert_eq!(case.measure(&case.file("good.txt", "the house\nold time\n"), "").status, 0);
    for name in ["layers.parquet", "groups.parquet", "components.parquet"] {
        let bytes = |folder: &Path| std::fs::read(folder.join(name)).expect("a table");
        assert!(bytes(&skipped) == bytes(&case.folder.join("run")), "{name}");
    }
}

#[test]
fn nothing_to_measure() {
    let case = Case::new("bad-nothing");
    case.refused(&case.file("empty.txt", ""), "", "the corpus is empty: no record in any input");
    let file = case.file("few.txt", "the old house\n\n  \n");
    case.refused(&file, "--max-words 2", "nothing is left of the corpus: 3 records read, 2 blank, 1 with more words than --max-words 2");
    case.refused(&file, "--sample 0.000001", "nothing is left of the corpus: 3 records read, 3 left out by --sample 0.000001");
    let digits = case.file("digits.txt", "1 2 3\n!\n");
    case.refused(&digits, "--group word", "nothing is left of the corpus: 2 records read, 2 without words");
    // One document without words among others is counted.
    let file = case.file("some.txt", "the house\n1 2 3\n");
    assert_eq!(case.measure(&file, "--group word").status, 0);
    let found = manifest(&case.folder.join("run"));
    assert_eq!((&found["corpus"]["skipped"], &found["corpus"]["documents"]), (&serde_json::json!({ "without words": 1 }), &1.into()));
}

#[test]
fn merged_shards_know_what_each_of_them_skipped() {
    let case = Case::new("bad-merged");
    let file = case.file("some.txt", b"the house\n1 2 3\n\xff\n4 5\nold day\n6 7\n".as_slice());
    let shard = |index: u32| {
        let out = case.folder.join(format!("shard-{index}"));
        measured(&case.model, &file, &out, &format!("{FLAGS} --group word --on-error skip --shard {index}/2"));
        out.to_str().expect("UTF-8").to_owned()
    };
    let merged = case.folder.join("merged");
    let outcome = support::layerscope(&["merge", &shard(0), &shard(1), "--out", merged.to_str().expect("UTF-8")]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let found = manifest(&merged);
    assert_eq!(found["corpus"]["skipped"], serde_json::json!({ "not readable": 1, "without words": 3 }));
    assert_eq!((&found["corpus"]["documents"], &found["corpus"]["records"]), (&2.into(), &6.into()));
}

#[test]
fn tokenizers() {
    let case = Case::new("bad-tokenizers");
    let text = case.file("a.txt", "the house of the cat\n");
    let file = case.model.join("tokenizer.json");
    let mut tokenizer = support::measure::tokenizer_json();
    let write = |bytes: &str| std::fs::write(&file, bytes).expect("written");
    // An id that the model has no embedding for, in a later document.
    tokenizer["model"]["vocab"]["cat"] = 80.into();
    write(&tokenizer.to_string());
    let said = line(&case.measure(&text, ""), 3);
    assert!(said.contains("tokenizer.json: token `cat` has id 80, outside the model's vocabulary of 80"), "{said}");
    for broken in ["{", "[]", "{\"version\": \"1.0\"}", "\u{0}"] {
        write(broken);
        let said = line(&case.measure(&text, ""), 3);
        assert!(said.starts_with(&format!("{}: cannot be read", file.display())), "{said}");
    }
    // What the library panics on, and normalizers that fill the memory.
    let mut template = support::measure::tokenizer_json();
    template["post_processor"]["special_tokens"] = serde_json::json!({});
    let mut second = support::measure::tokenizer_json();
    second["post_processor"]["single"] = serde_json::json!([{ "Sequence": { "id": "B", "type_id": 0 } }]);
    let replacing = |pattern: &str, times: usize| {
        let replace = serde_json::json!({ "type": "Replace", "pattern": { "String": pattern }, "content": "ee" });
        let mut tokenizer = support::measure::tokenizer_json();
        tokenizer["normalizer"] = serde_json::json!({ "type": "Sequence", "normalizers": vec![replace; times] });
        tokenizer
    };
    for unusable in [template, second, replacing("", 1), replacing("e", 20)] {
        write(&unusable.to_string());
        let said = line(&case.measure(&text, ""), 3);
        assert!(said.contains("tokenizer.json: ") && !said.contains("internal error"), "{said}");
    }
    // Every part of the file taken away in turn: an error in one line, or a run.
    let whole = support::measure::tokenizer_json();
    for key in whole.as_object().expect("an object").keys() {
        let mut less = whole.clone();
        less[key] = serde_json::Value::Null;
        write(&less.to_string());
        let outcome = case.measure(&text, "");
        if outcome.status != 0 {
            line(&outcome, 3);
        }
    }
    std::fs::remove_file(&file).expect("removed");
    assert!(line(&case.measure(&text, ""), 3).contains("no tokenizer.json"));
}

/// The reader of Parquet files panics on some damaged ones: none of that is seen.
#[test]
fn damaged_parquet_says_one_line() {
    let case = Case::new("bad-parquet");
    let texts: Vec<Option<String>> = sentences(60, 5).into_iter().map(Some).collect();
    let mut whole = Vec::new();
    let rows = Table::new([("text", Column::text(texts))]).expect("a table");
    layerscope_report::export::parquet::write(&rows, &mut whole).expect("written");
    assert_eq!(case.measure(&case.file("whole.parquet", &whole), "").status, 0);
    let (mut refused, mut tried) = (0, 0);
    for at in (4..whole.len()).step_by(whole.len() / 60) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        let outcome = case.measure(&case.file("damaged.parquet", bytes), "");
        tried += 1;
        if outcome.status != 0 {
            line(&outcome, 4);
            refused += 1;
        }
    }
    assert!(refused > tried / 4, "{refused} of {tried}");
}

/// The row of one token's embedding in a copy of the checkpoint, replaced.
fn spoil_embedding(folder: &Path, token: usize, value: f32) {
    let path = folder.join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("weights");
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..start]).expect("a header");
    let tensor = &header["embeddings.word_embeddings.weight"];
    let width = tensor["shape"][1].as_u64().expect("a width") as usize;
    let first = start + tensor["data_offsets"][0].as_u64().expect("an offset") as usize + token * width * 4;
    bytes[first..first + width * 4].as_chunks_mut::<4>().0.iter_mut().for_each(|place| *place = value.to_le_bytes());
    std::fs::write(&path, bytes).expect("written");
}

#[test]
fn states_that_are_not_finite() {
    let case = Case::new("bad-states");
    // The sum of so large components overflows inside the first norm.
    let id = support::measure::tokenizer_json()["model"]["vocab"]["z"].as_u64().expect("an id") as usize;
    spoil_embedding(&case.model, id, 3.0e38);
    let mut lines = sentences(50, 6);
    lines.retain(|line| !line.to_lowercase().contains("zebra"));
    let good = corpus("bad-states-good", &lines);
    lines.insert(7, "the old zebra said it".to_owned());
    lines.push("zebra".to_owned());
    let bad = case.file("zebras.txt", lines.join("\n"));

    let said = line(&case.measure(&bad, "--threads 1"), 4);
    assert!(said.starts_with(&format!("{}: line 8: ", bad.display())), "{said}");
    assert!(said.contains("token 3 are not finite at embedding") && said.ends_with("--on-error skip"), "{said}");
    let said = line(&case.measure(&bad, "--threads 1 --layers 2"), 4);
    assert!(said.contains("line 8: ") && said.contains("not finite at block 2"), "{said}");

    let (skipped, clean) = (case.folder.join("skipped"), case.folder.join("clean"));
    let outcome = measured(&case.model, &bad, &skipped, &format!("{FLAGS} --on-error skip"));
    measured(&case.model, &good, &clean, FLAGS);
    // At the embedding one state of each zebra, after it all tokens of both sentences: 4 words and 5 letters, and 5 letters.
    let points = manifest(&skipped)["points"].as_array().expect("points").len() as u64;
    let expected = format!("{} states were not finite and left out", 2 + (points - 1) * 14);
    assert_eq!(manifest(&skipped)["warnings"][0], serde_json::json!(expected));
    assert!(outcome.stdout.contains(&format!("warning: {expected}")), "{}", outcome.stdout);
    let (ours, theirs) = (table(&skipped, "groups"), table(&clean, "groups"));
    let rows = |table: &Table| -> Vec<usize> { (0..table.rows()).filter(|&row| number(table, "layer", row) > Some(0.0)).collect() };
    let (ours_rows, theirs_rows) = (rows(&ours), rows(&theirs));
    assert_eq!(ours_rows.len(), theirs_rows.len());
    for (&a, &b) in ours_rows.iter().zip(&theirs_rows) {
        for column in ["layer", "raw", "n"] {
            assert_eq!(text(&ours, column, a), text(&theirs, column, b));
        }
        let q = number(&theirs, "q", b).expect("a value");
        for (column, scale) in [("q", q), ("m", q), ("v", q), ("mean_norm", q.sqrt())] {
            let (x, y) = (number(&ours, column, a).expect("a value"), number(&theirs, column, b).expect("a value"));
            assert!((x - y).abs() <= 1e-12 * scale, "{column}: {x} {y}");
        }
    }
    // The embeddings of the other words of those sentences count.
    let states = |folder: &Path| {
        let layers = table(folder, "layers");
        let row = (0..layers.rows()).find(|&row| text(&layers, "measure", row).as_deref() == Some("states")).expect("a row");
        number(&layers, "value", row).expect("a count")
    };
    assert_eq!(states(&skipped), states(&clean) + 12.0);
}

/// Whatever is wrong with a request, the folder that it names is not there afterwards, nor those above it.
#[test]
fn a_command_that_fails_leaves_nothing() {
    let case = Case::new("leaves-nothing");
    let (good, empty) = (case.file("good.txt", sentences(20, 3).join("\n")), case.file("empty.txt", ""));
    let states = case.file("states.npy", "no array");
    let run = case.folder.join("run");
    assert_eq!(case.measure(&good, "").status, 0);
    let [good, empty, states, run, model] = [&good, &empty, &states, &run, &case.model].map(|path| path.to_str().expect("UTF-8"));
    let measure = format!("measure --quiet --model {model}");
    let track = format!("track --quiet --revisions *a* --model {model}");
    for (words, status) in [
        (format!("{measure} --corpus {good} --group wrod"), 2),
        (format!("{measure} --corpus {good} --window 100000"), 2),
        (format!("{measure} --corpus {good} --layers 99"), 2),
        (format!("{measure} --corpus {good} --resume"), 5),
        (format!("{measure} --corpus {good} --device cpu,cpu --shard 0/2"), 2),
        (format!("{measure} --corpus {good} --skip-first 1000"), 2),
        (format!("{measure} --corpus {good} --group column:genre"), 4),
        (format!("{measure} --corpus {good} --tokens xyzzy"), 2),
        (format!("{measure} --corpus {good} --max-memory 1M"), 5),
        (format!("{measure} --corpus {good} --max-memory 1M --order block"), 5),
        (format!("{measure} --corpus {empty}"), 4),
        (format!("{measure} --corpus {empty} --device cpu,cpu"), 4),
        (format!("{measure} --corpus {}/nowhere.txt", case.folder.display()), 4),
        (format!("measure --quiet --model {}/nowhere --corpus {good}", case.folder.display()), 3),
        (format!("{track} --corpus {good}"), 2),
        (format!("{track} --corpus {good} --group wrod"), 2),
        (format!("merge --quiet {run} {}/nowhere", case.folder.display()), 5),
        (format!("import --quiet {states}"), 1),
        (format!("import --quiet {states} --frequency 5"), 2),
        (format!("figures {run} --only fig99"), 2),
        (format!("figures {run} --only fig1"), 2),
        (format!("figures {run} --layers 77"), 2),
        (format!("figures {run} --theme pink"), 2),
        (format!("figures {}/nowhere", case.folder.display()), 1),
        (format!("report {run} --frequency 5"), 2),
        (format!("report {run} --only nothing"), 2),
        (format!("compare {run} {run} --measures nothing"), 2),
        (format!("compare {run} {run} --only fig1"), 2),
    ] {
        let out = case.folder.join("new/folders/out");
        let words: Vec<&str> = words.split(' ').chain(["--out", out.to_str().expect("UTF-8")]).collect();
        let outcome = support::layerscope(&words);
        assert_eq!(outcome.status, status, "{words:?}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{words:?}: {}", outcome.stderr);
        assert!(!case.folder.join("new").exists(), "{words:?} leaves something");
    }
    let outcome = support::layerscope(&["figures", run, "--only", "fig1", "--out", "nowhere"]);
    assert!(outcome.stderr.contains("no figure was drawn; fig1: "), "{}", outcome.stderr);
    let outcome = case.measure(good.as_ref(), "--group wrod");
    assert!(outcome.stderr.contains("`wrod`") && outcome.stderr.contains("cluster:K"), "{}", outcome.stderr);
}

#[test]
fn the_sample_of_a_preset_leaves_little() {
    let case = Case::new("preset-sample");
    let text = case.file("text.txt", sentences(300, 5).join("\n"));
    let run = case.folder.join("run");
    let outcome = case.measure(&text, "--preset paper --sample 0.1 --quiet");
    assert!(!outcome.stderr.contains("preset's"), "the user chose: {}", outcome.stderr);
    let flags = "--quiet --measures norm --tokens none --preset paper --wrap model --specials exclude --group token --seed 3";
    let outcome = measured(&case.model, &text, &case.folder.join("paper"), flags);
    let kept = manifest(&case.folder.join("paper"))["corpus"]["documents"].as_u64().expect("a number");
    let expected = format!("{kept} of 300 documents are left by the preset's --sample 0.01; add --sample 1");
    assert_eq!(outcome.stderr.trim_end(), format!("layerscope: warning: {expected}"));
    assert_eq!(manifest(&case.folder.join("paper"))["warnings"][0], expected.as_str());
    let limited = measured(&case.model, &text, &case.folder.join("limited"), &format!("{flags} --limit {kept}"));
    assert_eq!(limited.stderr, "", "a larger sample would leave no more");
    // Few groups are a warning too, and their slopes are marked; for another range the rest of the overview stays.
    let shown = |frequency: &str| {
        let words = ["show", run.to_str().expect("UTF-8"), "--frequency", frequency];
        support::layerscope(&words[..if frequency.is_empty() { 2 } else { 4 }]).stdout
    };
    assert_eq!(case.measure(&text, "").status, 0);
    let (whole, few) = (shown(""), shown("100:200"));
    let header = |text: &str| text.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(header(&whole), header(&few));
    assert!(header(&whole)[1].starts_with("300 documents, "), "{whole}");
    assert!(!whole.contains("selected by") && few.contains("selected by --frequency 100:200: slopes over fewer than 30"), "{whole}{few}");
    assert!(!whole.contains('*') && few.ends_with("* over fewer than 30 groups: a few of them decide\n"), "{whole}{few}");
}
