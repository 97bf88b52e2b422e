//! Checks names before they become part of a path or an address. They come from users, servers and downloaded files; none may
//! lead out of the cache.

/// Checks a model id: `org/name` or `name`.
pub(super) fn id(id: &str) -> Result<(), String> {
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        part.chars().all(inner) && edge(part.chars().next()) && edge(part.chars().last()) && !part.contains("--") && !part.contains("..")
    };
    let parts: Vec<_> = id.split('/').collect();
    match parts.len() <= 2 && id.len() <= 96 && parts.iter().all(|name| part(name)) {
        true => Ok(()),
        false => Err("not a hub id; ids look like `org/name`, with letters, digits, `-`, `_` and `.`".to_owned()),
    }
}

/// Checks a branch, tag or commit; branches may hold slashes.
pub(super) fn revision(revision: &str) -> Result<(), String> {
    let part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(|c| !c.is_control() && !r#"\:*?"<>|~^"#.contains(c));
    match revision.len() <= 200 && revision.split('/').all(part) {
        true => Ok(()),
        false => Err(format!("{revision:?} is not a revision; give a branch, tag or commit")),
    }
}

/// Whether this is a full commit hash.
pub(super) fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
}

/// Whether this names a file of the repository's top folder and nothing else.
pub(super) fn is_plain_file(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && name.chars().all(allowed)
}

/// The bare tag of an `ETag` header: no weakness mark, no quotes, nothing that means something in a path.
pub(super) fn etag(header: &str) -> Option<String> {
    let tag = header.trim().trim_start_matches("W/").trim_matches('"');
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (!tag.is_empty() && tag.len() <= 128 && tag.bytes().all(allowed)).then(|| tag.to_owned())
}

/// Escapes what is not allowed in one segment of an address, slashes included.
pub(super) fn escape(segment: &str) -> String {
    let mut escaped = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(byte as char),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
