//! The data inside a page.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine as _;

/// The elements of data in a page: names and contents.
pub fn elements(page: &str) -> BTreeMap<&str, &str> {
    let pieces = page.split("<script type=\"application/octet-stream\" id=\"").skip(1);
    pieces.map(|piece| piece.split("</script>").next().unwrap().split_once('"').unwrap()).collect()
}

/// The bytes of an element.
pub fn decoded(element: &str) -> Vec<u8> {
    let (coding, text) = element.strip_prefix(" data-coding=\"").unwrap().split_once("\">").unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    if coding == "identity" {
        return bytes;
    }
    let mut inflated = Vec::new();
    flate2::read::DeflateDecoder::new(&bytes[..]).read_to_end(&mut inflated).unwrap();
    inflated
}
