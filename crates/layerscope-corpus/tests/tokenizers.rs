//! The same ids as the reference library, and names that people can read.

mod common;

use common::{data, sentences, tokenizer};
use layerscope_corpus::{Tokenizer, Wrap};
use serde_json::Value;

/// Ids around and of every sentence equal the reference library's (tools/make_tokenizers.py), and so does what is special.
fn equals_golden(tokenizer: &Tokenizer, golden: &str) {
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(data(golden)).unwrap()).unwrap();
    let numbers = |value: &Value| -> Vec<u32> { value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as u32).collect() };
    for (number, sentence) in sentences().iter().enumerate() {
        let body = tokenizer.encode(sentence).unwrap();
        let ids = [tokenizer.prefix(), &body, tokenizer.suffix()].concat();
        assert_eq!(ids, numbers(&golden["ids"][number]), "{sentence}");
        let special = numbers(&golden["special"][number]);
        let (before, after) = (tokenizer.prefix().len(), tokenizer.suffix().len());
        let expected: Vec<u32> = (0..ids.len()).map(|at| (at < before || at >= ids.len() - after).into()).collect();
        assert_eq!(special, expected, "{sentence}");
    }
}

#[test]
fn tiny_tokenizers_agree_with_the_reference_library() {
    for name in ["wordpiece", "byte-level", "metaspace", "prepended"] {
        equals_golden(&tokenizer(name, Wrap::Model), &format!("{name}/golden.json"));
    }
}

/// Truncation and padding at 128 must not act; the tokenizer itself is not in the repository.
#[test]
fn minilm_agrees_with_the_reference_library() {
    let Some(folder) = std::env::var_os("LAYERSCOPE_MINILM") else {
        eprintln!("skipped: LAYERSCOPE_MINILM does not name the folder of all-MiniLM-L6-v2");
        return;
    };
    let minilm = Tokenizer::load(folder.as_ref(), Wrap::Model).unwrap();
    equals_golden(&minilm, "golden-minilm.json");
    assert!(minilm.encode(&"word ".repeat(500)).unwrap().len() == 500);
}

#[test]
fn wrapping() {
    let around = |name, wrap| {
        let tokenizer = tokenizer(name, wrap);
        let raw = |ids: &[u32]| ids.iter().map(|&id| tokenizer.raw(id)).collect::<Vec<_>>().join(" ");
        (raw(tokenizer.prefix()), raw(tokenizer.suffix()))
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(around("wordpiece", Wrap::Model), pair("[CLS]", "[SEP]"));
    assert_eq!(around("wordpiece", Wrap::BosEos), pair("[CLS]", "[SEP]"));
    assert_eq!(around("metaspace", Wrap::BosEos), pair("<s>", "</s>"));
    assert_eq!(around("byte-level", Wrap::Model), pair("", ""));
    assert_eq!(around("byte-level", Wrap::BosEos), pair("<|endoftext|>", "<|endoftext|>"));
    assert_eq!(around("prepended", Wrap::Model), pair("<s>", ""));
    assert_eq!(around("prepended", Wrap::BosEos), pair("<s>", "</s>"));
    assert_eq!(around("wordpiece", Wrap::None), pair("", ""));
}

#[test]
fn ends_come_from_the_files_beside_or_from_the_tokenizer() {
    let folder = common::Folder::new();
    let copy = |name: &str| std::fs::copy(data(name).join("tokenizer.json"), folder.path("tokenizer.json")).unwrap();
    let load = || Tokenizer::load(&folder.0, Wrap::BosEos);
    copy("metaspace");
    let tokenizer = load().unwrap(); // no file beside: what the post-processor puts there
    assert_eq!((tokenizer.raw(tokenizer.prefix()[0]), tokenizer.raw(tokenizer.suffix()[0])), ("<s>".into(), "</s>".into()));
    copy("byte-level");
    let line = load().err().unwrap().to_string();
    assert!(line.ends_with("names no token for the start or end of a text; use --wrap model or --wrap none"), "{line}");
    folder.file("special_tokens_map.json", r#"{"eos_token": {"content": "<|endoftext|>"}}"#);
    let tokenizer = load().unwrap(); // one of the two serves both ends
    assert_eq!(tokenizer.prefix(), tokenizer.suffix());
    folder.file("tokenizer_config.json", r#"{"bos_token": "<s>"}"#);
    let line = load().err().unwrap().to_string();
    assert!(line.ends_with("bos_token is `<s>`, which is not in tokenizer.json; use --wrap model or --wrap none"), "{line}");
}

#[test]
fn tokens_read_as_text() {
    let byte_level = tokenizer("byte-level", Wrap::Model);
    let euro = byte_level.encode(" €").unwrap();
    let names: Vec<String> = euro.iter().map(|&id| byte_level.readable(id)).collect();
    assert_eq!(names, [" \\xe2", "\\x82", "\\xac"]);
    let the = byte_level.encode(" the").unwrap();
    assert_eq!((byte_level.raw(the[0]), byte_level.readable(the[0])), ("Ġthe".into(), " the".into()));
    assert_eq!(byte_level.readable(0), "<|endoftext|>");
    let metaspace = tokenizer("metaspace", Wrap::Model);
    let the = metaspace.encode("the").unwrap();
    assert_eq!((metaspace.raw(the[0]), metaspace.readable(the[0])), ("▁the".into(), " the".into()));
    let prepended = tokenizer("prepended", Wrap::Model);
    let smile = prepended.encode("🙂").unwrap();
    assert_eq!(prepended.readable(smile[1]), "<0xF0>");
}

#[test]
fn no_tokenizer_no_run() {
    let folder = common::Folder::new();
    let line = |wrap| Tokenizer::load(&folder.0, wrap).err().unwrap();
    let missing = line(Wrap::Model);
    let expected = "no tokenizer.json; write one with AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER) of transformers";
    assert_eq!(missing.to_string(), format!("{}: {expected}", folder.0.display()));
    assert_eq!(missing.kind(), layerscope_error::ErrorKind::Model);
    let file = folder.file("tokenizer.json", "{\"version\": \"1.0\"");
    assert!(line(Wrap::Model).to_string().starts_with(&format!("{file}: cannot be read: ")));
}

/// A tokenizer of the tests with these tokens at the end of its vocabulary; the keys of all of them.
fn surfaces_with(name: &str, tokens: &[&str], special: Option<&str>) -> Vec<String> {
    let folder = common::Folder::new();
    let mut json: Value = serde_json::from_str(&std::fs::read_to_string(data(name).join("tokenizer.json")).unwrap()).unwrap();
    let first = 1000;
    for (id, token) in (first..).zip(tokens) {
        match &mut json["model"]["vocab"] {
            Value::Object(ids) => {
                ids.insert((*token).to_owned(), id.into());
            }
            // Ids of the list are places.
            Value::Array(pieces) => pieces.push(serde_json::json!([token, -9.0])),
            _ => unreachable!("a vocabulary"),
        }
    }
    let first = json["model"]["vocab"].as_array().map_or(first, |pieces| pieces.len() - tokens.len());
    if let Some(content) = special {
        let token = serde_json::json!({ "id": 2000, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true });
        json["added_tokens"].as_array_mut().unwrap().push(token);
    }
    folder.file("tokenizer.json", json.to_string());
    let tokenizer = Tokenizer::load(&folder.0, Wrap::None).unwrap();
    (first..)
        .zip(tokens)
        .map(|(id, token)| {
            assert_eq!(tokenizer.raw(id as u32), *token);
            tokenizer.surface(id as u32)
        })
        .collect()
}

#[test]
fn surfaces_lose_only_the_marks_of_their_own_vocabulary() {
    let tokens = ["##qz", "Ġqz", "▁qz", "qz", "##", "####", "Ġ", "ĠĠ", "▁", "▁▁", "##Ġqz"];
    let keys = |name| surfaces_with(name, &tokens, None);
    assert_eq!(keys("wordpiece"), ["qz", "Ġqz", "▁qz", "qz", "##", "##", "Ġ", "ĠĠ", "▁", "▁▁", "Ġqz"]);
    assert_eq!(keys("byte-level"), ["##qz", "qz", "▁qz", "qz", "##", "####", "Ġ", "Ġ", "▁", "▁▁", "##Ġqz"]);
    assert_eq!(keys("prepended"), ["##qz", "Ġqz", "qz", "qz", "##", "####", "Ġ", "ĠĠ", "▁", "▁", "##Ġqz"]);
    // Its vocabulary has `▁` already.
    assert_eq!(surfaces_with("metaspace", &["##qz", "Ġqz", "▁qz", "####", "▁▁"], None), ["##qz", "Ġqz", "qz", "####", "▁"]);
}

#[test]
fn special_tokens_share_a_surface_with_nothing() {
    // `<s>` is special; a text of the same letters stays another group.
    assert_eq!(surfaces_with("byte-level", &["Ġ<s>", "<s", "Ġ<s"], Some("<s>")), ["Ġ<s>", "<s", "<s"]);
    assert_eq!(surfaces_with("byte-level", &["Ġ<s>", "<s", "Ġ<s"], None), ["<s>", "<s", "<s"]);
}
