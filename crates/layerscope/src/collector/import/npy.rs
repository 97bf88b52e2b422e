//! The .npy format (versions 1 to 3): a magic number, a header in Python's notation, then the numbers.

use std::fs::File;

use layerscope_files::Positioned;

use super::arrays::{Described, Dtype, Location};

const MAGIC: &[u8] = b"\x93NUMPY";
/// No header comes near this.
const LONGEST: usize = 1 << 20;

/// The array that begins at byte `start` of the file and ends before byte `end`.
pub(super) fn describe(file: &File, start: u64, end: u64) -> Result<Described, String> {
    let read = |bytes: &mut [u8], at: u64| file.read_exact_at(bytes, at).map_err(|_| "it ends within its header".to_owned());
    let (array, header) = parse(&mut |bytes, at| read(bytes, start + at))?;
    if start + header > end {
        return Err("it ends within its header".to_owned());
    }
    Ok(Described { place: Location::File(start + header), ..array })
}

/// The array in these bytes.
pub(super) fn describe_bytes(mut bytes: Vec<u8>) -> Result<Described, String> {
    let (array, header) = parse(&mut |out, at| {
        let at = at as usize;
        out.copy_from_slice(bytes.get(at..at + out.len()).ok_or("it ends within its header")?);
        Ok(())
    })?;
    bytes.drain(..header as usize);
    Ok(Described { place: Location::Memory(bytes), ..array })
}

/// Fills bytes from a place on.
type Reader<'a> = dyn FnMut(&mut [u8], u64) -> Result<(), String> + 'a;

/// What the header says, and its length.
fn parse(read: &mut Reader<'_>) -> Result<(Described, u64), String> {
    let mut start = [0; 10];
    read(&mut start, 0)?;
    if &start[..6] != MAGIC {
        return Err("it is no .npy array".to_owned());
    }
    let (length, begin) = match start[6] {
        1 => (usize::from(u16::from_le_bytes([start[8], start[9]])), 10),
        2 | 3 => {
            let mut length = [0; 4];
            read(&mut length, 8)?;
            (u32::from_le_bytes(length) as usize, 12)
        }
        version => return Err(format!("version {version} of the .npy format is unknown")),
    };
    if length > LONGEST {
        return Err(format!("a header of {length} bytes is too long"));
    }
    let mut header = vec![0; length];
    read(&mut header, begin)?;
    let text = String::from_utf8_lossy(&header);
    if value(&text, "fortran_order") != Some("True") && value(&text, "fortran_order") != Some("False") {
        return Err("its header is not readable".to_owned());
    }
    let shape = value(&text, "shape").ok_or("its header has no shape")?;
    let shape: Option<Vec<usize>> = shape
        .trim_matches(['(', ')'])
        .split(',')
        .map(str::trim)
        .filter(|extent| !extent.is_empty())
        .map(|extent| extent.trim_end_matches('L').parse().ok())
        .collect();
    let shape = shape.ok_or("its shape is not readable")?;
    if value(&text, "fortran_order") == Some("True") && shape.len() > 1 {
        return Err("its numbers are in Fortran order; save it with numpy.ascontiguousarray".to_owned());
    }
    let code = value(&text, "descr").ok_or("its header has no dtype")?.trim_matches(['\'', '"']);
    let dtype = dtype(code).ok_or_else(|| format!("numbers of dtype {code} are not supported"))?;
    Ok((Described { dtype, shape, place: Location::File(0) }, begin + length as u64))
}

/// The text behind a key of the header: a word, or everything in parentheses.
fn value<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let after = header.split(&format!("'{key}':")).nth(1)?.trim_start();
    let end = if after.starts_with('(') { after.find(')')? + 1 } else { after.find([',', '}'])? };
    Some(after[..end].trim())
}

fn dtype(code: &str) -> Option<Dtype> {
    let (order, kind) = code.split_at_checked(1)?;
    let one_byte = kind.ends_with('1');
    if order != "<" && order != "=" && !(order == "|" && one_byte) {
        return None;
    }
    Some(match kind {
        "f2" => Dtype::F16,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        "i1" | "i2" | "i4" | "i8" => Dtype::Signed(kind[1..].parse().ok()?),
        "u1" | "u2" | "u4" | "u8" => Dtype::Unsigned(kind[1..].parse().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(header: &str) -> Result<Described, String> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        describe_bytes(bytes)
    }

    #[test]
    fn headers_of_numpy_are_read() {
        let found = array("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n").expect("an array");
        assert_eq!((found.dtype, found.shape), (Dtype::F32, vec![3, 4]));
        let found = array("{'descr': '|i1', 'fortran_order': False, 'shape': (7,), }\n").expect("an array");
        assert_eq!((found.dtype, found.shape), (Dtype::Signed(1), vec![7]));
        for wrong in [
            "{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }",
            "{'descr': '<f4', 'shape': (3,), }",
            "",
            "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        ] {
            assert!(array(wrong).is_err(), "{wrong}");
        }
        assert!(array("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }").expect_err("columns first").contains("Fortran"));
    }
}
