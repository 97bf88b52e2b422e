//! Tags that may stand in Wikipedia's text.

/// What to do with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// It goes with all it encloses, which is not mark-up of ours.
    Drop,
    /// It goes with all it encloses, which may hold others of its kind.
    Table,
    /// It goes, what it encloses stays as it is.
    Literal,
    /// It becomes the end of a line.
    Break,
    /// It goes, what it encloses stays.
    Plain,
}

const DROP: [&str; 25] = [
    "math",
    "code",
    "source",
    "syntaxhighlight",
    "pre",
    "ref",
    "gallery",
    "timeline",
    "imagemap",
    "score",
    "hiero",
    "chem",
    "ce",
    "graph",
    "mapframe",
    "maplink",
    "style",
    "script",
    "templatedata",
    "templatestyles",
    "inputbox",
    "categorytree",
    "references",
    "section",
    "indicator",
];
const BREAK: [&str; 16] = ["br", "hr", "p", "div", "li", "ul", "ol", "dl", "dt", "dd", "blockquote", "center", "h1", "h2", "h3", "h4"];
const PLAIN: [&str; 36] = [
    "a",
    "abbr",
    "b",
    "bdi",
    "bdo",
    "big",
    "cite",
    "del",
    "dfn",
    "em",
    "font",
    "i",
    "ins",
    "kbd",
    "mark",
    "noinclude",
    "includeonly",
    "onlyinclude",
    "poem",
    "q",
    "rb",
    "rp",
    "rt",
    "ruby",
    "s",
    "samp",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "sup",
    "tt",
    "u",
    "var",
    "wbr",
];

/// The tag of this name in lower case; `None` where it is only text between pointed brackets.
pub(super) fn tag(name: &str) -> Option<(Tag, &'static str)> {
    let among = |names: &[&'static str], tag| names.iter().find(|known| **known == name).map(|known| (tag, *known));
    match name {
        "table" => Some((Tag::Table, "table")),
        "nowiki" => Some((Tag::Literal, "nowiki")),
        // Parts of tables whose beginning was lost.
        "tr" | "td" | "th" | "caption" | "tbody" | "thead" => Some((Tag::Break, "tr")),
        _ => among(&DROP, Tag::Drop).or_else(|| among(&BREAK, Tag::Break)).or_else(|| among(&PLAIN, Tag::Plain)),
    }
}

/// Namespaces of links that are media or categories, in the languages with the most pages.
const HIDDEN: [&str; 22] = [
    "file",
    "image",
    "media",
    "category",
    "datei",
    "bild",
    "kategorie",
    "fichier",
    "catégorie",
    "archivo",
    "imagen",
    "categoría",
    "immagine",
    "categoria",
    "ficheiro",
    "imagem",
    "bestand",
    "afbeelding",
    "categorie",
    "plik",
    "grafika",
    "kategoria",
];

/// Whether a link with this prefix shows nothing where it stands; without a label, links to other languages do not either.
pub(super) fn is_hidden(prefix: &str, has_label: bool) -> bool {
    let prefix = prefix.trim();
    let lower = prefix.to_lowercase();
    let language = |prefix: &str| {
        let first = prefix.split('-').next().unwrap_or("");
        (2..=3).contains(&first.len()) && prefix.len() <= 12 && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    HIDDEN.contains(&lower.as_str()) || (!has_label && (language(prefix) || prefix == "simple"))
}
