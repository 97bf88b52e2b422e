//! Headers in Thrift's compact protocol, walked with every count checked against the bytes that are left.

use std::io::{self, Read};

/// What a walk found wrong.
type Fault = &'static str;

/// How deep a header nests at most; the format itself needs six levels.
const DEEPEST: usize = 32;
/// How deep the groups of a schema nest at most: the library goes down into them by calling itself.
const DEEPEST_SCHEMA: usize = 200;
/// No compression makes a page so many times as small.
const BEST_RATIO: u64 = 1 << 16;

/// What kind of value a field has, field by field from number 1 on, in the structure at the end of a path. A list also has the kind of
/// its entries, in the upper four bits. The library reads what it expects whatever kind is stated: a header that states another is
/// not the one that it would read.
type Kinds = [(&'static [i64], &'static [u8])];

const FLAG: u8 = 1;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const TEXT: u8 = 8;
const LIST: u8 = 9;
const STRUCTURE: u8 = 12;
const I32S: u8 = LIST | I32 << 4;
const I64S: u8 = LIST | I64 << 4;
const TEXTS: u8 = LIST | TEXT << 4;
const STRUCTURES: u8 = LIST | STRUCTURE << 4;

const STATISTICS: &[u8] = &[TEXT, TEXT, I64, I64, TEXT, TEXT, FLAG, FLAG];

const PAGE: &Kinds = &[
    (&[], &[I32, I32, I32, I32, STRUCTURE, STRUCTURE, STRUCTURE, STRUCTURE]),
    (&[5], &[I32, I32, I32, I32, STRUCTURE]),
    (&[5, 5], STATISTICS),
    (&[7], &[I32, I32, FLAG]),
    (&[8], &[I32, I32, I32, I32, I32, I32, FLAG, STRUCTURE]),
    (&[8, 8], STATISTICS),
];

const FOOTER: &Kinds = &[
    (&[], &[I32, STRUCTURES, I64, STRUCTURES, STRUCTURES, TEXT, STRUCTURES, STRUCTURE, TEXT]),
    (&[2], &[I32, I32, I32, TEXT, I32, I32, I32, I32, I32, STRUCTURE]),
    (&[4], &[STRUCTURES, I64, I64, STRUCTURES, I64, I64, I16]),
    (&[4, 1], &[TEXT, I64, STRUCTURE, I64, I32, I64, I32, STRUCTURE, TEXT]),
    (&[4, 1, 3], &[I32, I32S, TEXTS, I32, I64, I64, I64, STRUCTURES, I64, I64, I64, STRUCTURE, STRUCTURES, I64, I32, STRUCTURE, STRUCTURE]),
    (&[4, 1, 3, 12], STATISTICS),
    (&[4, 1, 3, 16], &[I64, I64S, I64S]),
];

/// Checks the header of a page at the start of `input`, of which `left` bytes are in the file.
pub fn check_page(input: &mut dyn Read, left: u64) -> Result<(), Fault> {
    let mut page = Page::default();
    let mut walk = Walk { input, left, entries: left, kinds: PAGE };
    walk.structure(&mut Vec::new(), &mut |path, value| match *path {
        [2] => page.unpacked = value,
        [3] => page.packed = value,
        [7, 1] => page.dictionary = value,
        _ => {}
    })?;
    let Page { unpacked, packed, dictionary } = page;
    let most = BEST_RATIO.saturating_mul(packed.max(0).unsigned_abs().min(walk.left).saturating_add(1));
    match unpacked < 0 || unpacked.unsigned_abs() > most || !(0..=unpacked).contains(&dictionary) {
        true => Err("the header of a page states sizes that it cannot have"),
        false => Ok(()),
    }
}

/// Sizes that a page's header states: of its bytes before and after compression, and of a dictionary.
#[derive(Default)]
struct Page {
    unpacked: i64,
    packed: i64,
    dictionary: i64,
}

/// Checks a footer of `left` bytes.
pub fn check_footer(input: &mut dyn Read, left: u64) -> Result<(), Fault> {
    // Groups that are open in the schema, each with the children that are still to come.
    let (mut open, mut deepest) = (Vec::<i64>::new(), 0);
    Walk { input, left, entries: left, kinds: FOOTER }.structure(&mut Vec::new(), &mut |path, value| {
        if *path == [2, 5] && value > 0 {
            open.push(value);
        }
        deepest = deepest.max(open.len());
        if *path == [2, 4] {
            // A name: each element of the schema has one, before the number of its children.
            while let Some(children) = open.last_mut() {
                *children -= 1;
                if *children >= 0 {
                    break;
                }
                open.pop();
            }
        }
    })?;
    match deepest > DEEPEST_SCHEMA {
        true => Err("its schema nests too deep"),
        false => Ok(()),
    }
}

/// A walk over a header.
struct Walk<'a> {
    input: &'a mut dyn Read,
    /// Bytes that are left.
    left: u64,
    /// Entries of lists that may still come: each takes a byte, but for some that the library takes to have none.
    entries: u64,
    kinds: &'static Kinds,
}

/// Hears of every whole number, and of every text as 0, with the numbers of the fields that lead there.
type Listener<'a> = dyn FnMut(&[i64], i64) + 'a;

impl Walk<'_> {
    fn structure(&mut self, path: &mut Vec<i64>, hear: &mut Listener<'_>) -> Result<(), Fault> {
        let mut field = 0i64;
        loop {
            let start = self.byte()?;
            if start == 0 {
                return Ok(());
            }
            field = match start >> 4 {
                0 => self.whole()?,
                step => field + i64::from(step),
            };
            if i16::try_from(field).is_err() {
                return Err("a header has a field with too large a number");
            }
            let kinds = self.kinds.iter().find(|(at, _)| at == path).map_or(&[][..], |(_, kinds)| kinds);
            let expected = usize::try_from(field - 1).ok().and_then(|place| kinds.get(place)).copied();
            path.push(field);
            if expected.is_some_and(|expected| expected & 15 != if start & 15 == 2 { FLAG } else { start & 15 }) {
                return Err("a header has a field of another kind than its number says");
            }
            self.value(start & 15, expected.map(|expected| expected >> 4), path, hear)?;
            path.pop();
        }
    }

    /// A value of some kind; a list must have entries of a certain one.
    fn value(&mut self, kind: u8, of: Option<u8>, path: &mut Vec<i64>, hear: &mut Listener<'_>) -> Result<(), Fault> {
        if path.len() > DEEPEST {
            return Err("a header nests too deep");
        }
        match kind {
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => {
                let value = self.whole()?;
                let fits = match kind {
                    I16 => i16::try_from(value).is_ok(),
                    I32 => i32::try_from(value).is_ok(),
                    _ => true,
                };
                if !fits {
                    return Err("a header has a number that is too large for its kind");
                }
                hear(path, value);
            }
            7 => self.skip(8)?,
            8 => {
                let length = self.varint()?;
                self.skip(length)?;
                hear(path, 0);
            }
            9 | 10 => {
                let start = self.byte()?;
                let size = if start >> 4 == 15 { self.varint()? } else { u64::from(start >> 4) };
                if size > 0 && of.is_some_and(|of| of != start & 15) {
                    return Err("a header has a list of another kind than its number says");
                }
                for _ in 0..self.counted(size)? {
                    self.element(start & 15, path, hear)?;
                }
            }
            11 => {
                let size = self.varint()?;
                let kinds = if size > 0 { self.byte()? } else { 0 };
                for _ in 0..self.counted(size)? {
                    self.element(kinds >> 4, path, hear)?;
                    self.element(kinds & 15, path, hear)?;
                }
            }
            12 => self.structure(path, hear)?,
            13 => self.skip(16)?,
            _ => return Err("a header has a field of an unknown kind"),
        }
        Ok(())
    }

    /// An entry of a list: on the path of the list, except that lists in lists count as deeper.
    fn element(&mut self, kind: u8, path: &mut Vec<i64>, hear: &mut Listener<'_>) -> Result<(), Fault> {
        if !(9..=11).contains(&kind) {
            return self.value(kind, None, path, hear);
        }
        path.push(0);
        self.value(kind, None, path, hear)?;
        path.pop();
        Ok(())
    }

    /// A number of entries that the rest of the header can hold.
    fn counted(&mut self, size: u64) -> Result<u64, Fault> {
        self.entries = self.entries.checked_sub(size).ok_or("a header states more entries than it has bytes")?;
        Ok(size)
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        self.left = self.left.checked_sub(1).ok_or("a header ends past the end of the file")?;
        let mut byte = [0];
        self.input.read_exact(&mut byte).map_err(|_| "a header cannot be read")?;
        Ok(byte[0])
    }

    fn skip(&mut self, count: u64) -> Result<(), Fault> {
        self.left = self.left.checked_sub(count).ok_or("a header ends past the end of the file")?;
        let copied = io::copy(&mut (&mut *self.input).take(count), &mut io::sink());
        copied.map(drop).map_err(|_| "a header cannot be read")
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for place in 0..10 {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << (7 * place);
            if byte < 128 {
                return Ok(value);
            }
        }
        Err("a header has a number that is too long")
    }

    /// A whole number, positive and negative ones in turn.
    fn whole(&mut self) -> Result<i64, Fault> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: &[u8]) -> Result<(), Fault> {
        check_page(&mut &bytes[..], bytes.len() as u64)
    }

    #[test]
    fn pages_state_sizes_that_they_can_have() {
        // Kind 2, 12 bytes that were 40, and a dictionary of 5 numbers in a plain encoding.
        let sound = [0x15, 4, 0x15, 80, 0x15, 24, 0x4c, 0x15, 10, 0x15, 0, 0, 0];
        assert_eq!(page(&[&sound[..], &[7; 12]].concat()), Ok(()));
        let mut large = sound;
        large[8] = 82; // a dictionary of 41 numbers in 40 bytes
        assert!(page(&[&large[..], &[7; 12]].concat()).is_err());
        assert!(page(&sound[..5]).is_err(), "cut short");
        // A number of 64 bits, of which the library takes 32.
        let wide = [&sound[..8], &[0xf1; 9], &[8], &sound[9..], &[7; 12]].concat();
        assert!(page(&wide).expect_err("too large").contains("too large for its kind"));
        // A dictionary that states to be a truth value is read as a dictionary all the same.
        let mut other = sound;
        other[6] = 0x41;
        assert!(page(&[&other[..], &[7; 12]].concat()).expect_err("no structure").contains("another kind"));
        // A page that would become two gigabytes.
        assert!(page(&[0x15, 4, 0x15, 0xfe, 0xff, 0xff, 0xff, 0xf, 0x15, 2, 0, 1]).is_err());
    }

    #[test]
    fn lists_are_no_longer_than_the_file() {
        for kind in [1, 7, 8, 9, 12] {
            let list = [0xa9, 0xf0 | kind, 0xff, 0xff, 0xff, 0xff, 7];
            assert_eq!(page(&[&list[..], &[0; 40]].concat()), Err("a header states more entries than it has bytes"), "{kind}");
        }
        // Lists in lists, each of which would just fit by itself.
        let inner = [0xf1, 200, 1];
        let bytes = [&[0xa9, 0xf9, 60][..], &inner.repeat(60), &[0; 100]].concat();
        assert_eq!(page(&bytes), Err("a header states more entries than it has bytes"));
        let deep = [&[0xa9][..], &[0x19; 100]].concat();
        assert!(page(&deep).is_err());
    }

    #[test]
    fn schemas_nest_a_little() {
        // Elements of a schema: a name and one child each.
        let element = [0x48, 1, b'a', 0x15, 2, 0];
        let footer = |count: usize| {
            let mut bytes = vec![0x29, 0xfc, (count % 128 + 128) as u8, (count / 128) as u8];
            bytes.extend(element.repeat(count));
            bytes.push(0);
            check_footer(&mut bytes.as_slice(), bytes.len() as u64)
        };
        assert_eq!((footer(150), footer(10_000)), (Ok(()), Err("its schema nests too deep")));
    }
}
