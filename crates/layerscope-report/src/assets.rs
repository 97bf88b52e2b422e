//! What the program carries compressed (see `build.rs`), unpacked once where it is asked for.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

/// The built page: mark-up, style and program, without data.
pub(crate) static PAGE: LazyLock<String> =
    LazyLock::new(|| String::from_utf8(unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/page.html.gz")))).expect("the page is text"));

/// The fonts: regular, semi-bold, italic.
pub(crate) static FONTS: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    [
        unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/regular.ttf.gz"))),
        unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/semibold.ttf.gz"))),
        unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/italic.ttf.gz"))),
    ]
});

fn unpacked(compressed: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut content).expect("compressed when the program was built");
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_what_lies_in_their_folder() {
        assert_eq!(*PAGE, include_str!("../assets/page.html"));
        assert_eq!(FONTS[0], include_bytes!("../assets/fonts/regular.ttf"));
        assert_eq!(FONTS[1], include_bytes!("../assets/fonts/semibold.ttf"));
        assert_eq!(FONTS[2], include_bytes!("../assets/fonts/italic.ttf"));
    }
}
