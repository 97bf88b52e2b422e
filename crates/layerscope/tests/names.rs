//! What documents and models are called in the tables.

mod support;

use layerscope::internals::model_name;
use support::measure::{corpus, measured, model, number, sentences, table, text};
use support::{empty_folder, root};

/// `file:record` of the text that was read, and the token there.
#[test]
fn kept_states_say_which_document_they_are_from() {
    let folder = empty_folder("names-documents");
    let lines = sentences(150, 95);
    let texts = folder.join("texts");
    std::fs::create_dir_all(&texts).expect("a folder");
    let (first, second) = lines.split_at(60);
    std::fs::write(texts.join("a.txt"), first.join("\n")).expect("written");
    std::fs::write(texts.join("b.txt"), second.join("\n")).expect("written");
    let (model, out) = (model("bert/base", "names-model"), folder.join("run"));
    measured(&model, &texts.join("*.txt"), &out, "--quiet --frequency 5:1000 --tokens the,house --token-states 40 --limit 140");
    let tokens = table(&out, "tokens");
    let mut files = std::collections::BTreeSet::new();
    for row in 0..tokens.rows() {
        let document = text(&tokens, "document", row);
        assert_eq!(document.is_some(), text(&tokens, "role", row).as_deref() == Some("state"));
        let Some(document) = document else { continue };
        let (file, record) = document.split_once(':').expect("file:record");
        let line = [first, second][file.parse::<usize>().expect("a file")][record.parse::<usize>().expect("a record")].to_lowercase();
        // One token a word and one a mark; the letters of unknown words are tokens of their own, and come after none of these.
        let word = text(&tokens, "group", row).expect("a token");
        assert!(line.contains(&word), "{document} is `{line}`, without {word}");
        let position = number(&tokens, "position", row).expect("a place") as usize;
        let tokens_before = line.find(&word).map(|at| line[..at].split_whitespace().count()).expect("as above");
        assert!(position > tokens_before, "after [CLS] and the words before it: {document} {position}");
        files.insert(file.to_owned());
    }
    assert_eq!(files.into_iter().collect::<Vec<_>>(), ["0", "1"], "states of both files are kept");
}

#[test]
fn pieces_of_a_record_have_a_number_each() {
    let folder = empty_folder("names-pieces");
    let text_file = corpus("names-pieces-text", &[sentences(40, 96).join(" ")]);
    let (model, out) = (model("bert/base", "names-pieces-model"), folder.join("run"));
    measured(&model, &text_file, &out, "--quiet --chunk-chars 60 --frequency 2:1000 --tokens the --token-states 40");
    let tokens = table(&out, "tokens");
    let documents: std::collections::BTreeSet<String> = (0..tokens.rows()).filter_map(|row| text(&tokens, "document", row)).collect();
    assert!(documents.len() > 3 && documents.iter().all(|name| name == "0:0" || name.starts_with("0:0:")), "{documents:?}");
}

#[test]
fn models_are_called_by_what_says_something() {
    let folder = empty_folder("names-models");
    let name = |path: &str, config: &str| {
        let model = folder.join(path);
        std::fs::create_dir_all(&model).expect("a folder");
        std::fs::write(model.join("config.json"), config).expect("written");
        model_name(model.to_str().expect("UTF-8"))
    };
    // The folder's own name, whatever it was made from.
    assert_eq!(name("my-encoder", r#"{"_name_or_path": "org/base"}"#), "my-encoder");
    assert_eq!(name("my-encoder/model", r#"{"_name_or_path": "org/base"}"#), "my-encoder");
    assert_eq!(name("my-encoder/checkpoints/Final/", "{}"), "my-encoder");
    assert_eq!(name("hub/models--org--some--name/snapshots/0123456789abcdef", "{}"), "org/some--name");
    let nameless = |config: &str| name("models/checkpoint/output/model", config);
    assert_eq!(nameless(r#"{"_name_or_path": "org/base"}"#), "org/base");
    assert_eq!(nameless(r#"{"_name_or_path": "base"}"#), "base");
    for path in ["/home/me/base", "./base", "../x", "a/b/c", "~/base", "C:\\models\\base", "", "model"] {
        assert_eq!(nameless(&serde_json::json!({ "_name_or_path": path }).to_string()), "model", "{path}");
    }
    assert_eq!((nameless("{}"), nameless("not JSON")), ("model".to_owned(), "model".to_owned()));
    // Hub ids and names of embedded models stay as they are.
    assert_eq!((model_name("org/name"), model_name("pocket-gpt")), ("org/name".to_owned(), "pocket-gpt".to_owned()));
    let pocket = root().join("pocket/pocket-gpt/../pocket-bert/.");
    assert_eq!(model_name(pocket.to_str().expect("UTF-8")), "pocket-bert");
}

#[test]
fn a_folder_called_model_is_named_after_the_one_around_it() {
    let folder = empty_folder("names-around");
    let source = model("bert/base", "names-around-source");
    std::fs::rename(source, folder.join("model")).expect("moved");
    let (text_file, out) = (corpus("names-around-text", &sentences(30, 97)), folder.join("run"));
    let outcome = measured(&folder.join("model"), &text_file, &out, "--quiet --measures norm --tokens none");
    assert!(outcome.stdout.starts_with("names-around (bert), "), "{}", outcome.stdout);
    assert_eq!(text(&table(&out, "layers"), "model", 0).as_deref(), Some("names-around"));
}
