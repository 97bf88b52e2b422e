//! Files that figures leave behind, and what must be true of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("layerscope-figures-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    pub fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// The rows of a CSV file by the names of its columns.
    pub fn csv(&self, file: &str) -> Vec<BTreeMap<String, String>> {
        let mut records = parse_csv(&self.text(file)).into_iter();
        let names = records.next().unwrap();
        records.map(|record| names.iter().cloned().zip(record).collect()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => field.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            _ => field.push(character),
        }
    }
    records
}

/// What is written in an SVG, without its tags.
pub fn characters(svg: &str) -> String {
    svg.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text).collect()
}

/// Well-formed: tags are ours, closed in order, and no character is forbidden in XML.
pub fn check_svg(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let known = ["svg", "title", "style", "rect", "circle", "path", "text", "tspan", "image", "clipPath", "g"];
    for piece in svg.split('<').skip(1) {
        let tag = piece.split_once('>').expect("a tag ends").0;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            let name = tag.split([' ', '/']).next().unwrap();
            assert!(known.contains(&name), "<{name}>");
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty() && !svg.chars().any(|character| character.is_control() && character != '\n'));
    let text = svg.split("</style>").last().unwrap();
    assert!(text.contains("<text") && text.contains("</text>"), "text stays text");
    assert!(!svg.replace("http://www.w3.org/2000/svg", "").contains("http"), "nothing is fetched");
}

/// The cross-reference table points at the objects, and every font is embedded with its characters.
pub fn check_pdf(pdf: &[u8]) {
    assert!(pdf.starts_with(b"%PDF-1.7") && pdf.ends_with(b"%%EOF"));
    let text = String::from_utf8_lossy(pdf);
    let start: usize = text.rsplit_once("startxref").unwrap().1.lines().nth(1).unwrap().parse().unwrap();
    let table = std::str::from_utf8(&pdf[start..]).unwrap();
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("xref"));
    let count: usize = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    for (object, entry) in lines.take(count).enumerate().skip(1) {
        let offset: usize = entry[..10].parse().unwrap();
        assert!(pdf[offset..].starts_with(format!("{object} 0 obj").as_bytes()), "object {object}");
    }
    let fonts = text.matches("/CIDFontType2").count();
    assert!(fonts >= 1 && fonts == text.matches("/FontFile2").count() && fonts == text.matches("/ToUnicode").count());
    assert!(!text.contains("/Type3"));
}

/// 300 dots per inch, and not empty.
pub fn check_png(png: &[u8]) {
    assert!(png.starts_with(b"\x89PNG"));
    let place = png.windows(4).position(|name| name == b"pHYs").expect("its resolution");
    assert_eq!(u32::from_be_bytes(png[place + 4..place + 8].try_into().unwrap()), 11811);
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    let colours: BTreeSet<&[u8]> = pixels.chunks_exact(3).collect();
    assert!(colours.len() > 10, "only {} colours", colours.len());
}
