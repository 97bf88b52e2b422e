//! Zip archives whose sizes and checksums are right, whatever is in them.

/// One entry.
pub struct Entry<'a> {
    pub name: &'a str,
    pub content: &'a [u8],
    /// As deflate writes what it cannot make shorter.
    pub deflated: bool,
}

/// The bytes of an archive.
pub fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let start = file.len() as u32;
        let data = if entry.deflated { deflated(entry.content) } else { entry.content.to_vec() };
        let mut facts = Vec::new();
        numbers(&mut facts, &[20, 0, if entry.deflated { 8 } else { 0 }, 0, 0]);
        facts.extend(crc32fast::hash(entry.content).to_le_bytes());
        facts.extend((data.len() as u32).to_le_bytes());
        facts.extend((entry.content.len() as u32).to_le_bytes());
        numbers(&mut facts, &[entry.name.len() as u16, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&facts);
        file.extend(entry.name.as_bytes());
        file.extend(data);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(facts);
        numbers(&mut directory, &[0, 0, 0, 0, 0]);
        directory.extend(start.to_le_bytes());
        directory.extend(entry.name.as_bytes());
    }
    let start = file.len() as u32;
    file.extend(&directory);
    file.extend(b"PK\x05\x06");
    numbers(&mut file, &[0, 0, entries.len() as u16, entries.len() as u16]);
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    numbers(&mut file, &[0]);
    file
}

fn numbers(out: &mut Vec<u8>, values: &[u16]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn deflated(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in content.chunks(0xffff) {
        out.push(0);
        numbers(&mut out, &[piece.len() as u16, !(piece.len() as u16)]);
        out.extend(piece);
    }
    out.extend([1, 0, 0, 0xff, 0xff]);
    out
}
