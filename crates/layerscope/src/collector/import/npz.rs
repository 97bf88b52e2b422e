//! The .npz format: a ZIP archive of .npy arrays. Stored arrays stay in the file; compressed ones are taken out of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};

use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::arrays::{Described, Location};
use super::npy;
use crate::text::bytes;

/// Deflate never does better than 1032 to 1.
const BEST_RATIO: u64 = 1100;

/// An archive in a file.
type Archive<'a> = ZipArchive<BufReader<&'a File>>;

/// The arrays of an archive by name, without `.npy`.
pub(super) fn describe(file: &File, size: u64, room: u64) -> Result<BTreeMap<String, Described>, String> {
    let unreadable = |_| "not an .npz archive, or truncated".to_owned();
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(unreadable)?;
    let entries = (0..archive.len()).map(|index| Ok(Entry::of(&archive.by_index_raw(index).map_err(unreadable)?)));
    let entries = entries.collect::<Result<Vec<Entry>, String>>()?;
    check_places(&entries)?;
    let unpacked = entries.iter().filter(|entry| entry.method != CompressionMethod::Stored).map(|entry| entry.plain);
    let unpacked = unpacked.fold(0u64, u64::saturating_add);
    let is_possible = entries.iter().all(Entry::is_possible);
    if is_possible && unpacked > room {
        return Err(format!("its compressed arrays need {} of memory, {} are left", bytes(unpacked as usize), bytes(room as usize)));
    }
    let mut arrays = BTreeMap::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let array = entry.array(file, size, &mut archive, index);
        let array = array.map_err(|problem| format!("`{}`: {problem}", entry.name))?;
        arrays.insert(entry.name, array);
    }
    Ok(arrays)
}

/// Refuses entries that share bytes: a small file could then stand for any number of arrays.
fn check_places(entries: &[Entry]) -> Result<(), String> {
    let mut places: Vec<(u64, u64, &str)> =
        entries.iter().filter_map(|entry| Some((entry.start?, entry.start?.saturating_add(entry.packed), entry.name.as_str()))).collect();
    places.sort_unstable();
    match places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(format!("`{}` and `{}` lie at the same place; the file may be damaged", pair[0].2, pair[1].2)),
        None => Ok(()),
    }
}

/// What the archive says about an array.
struct Entry {
    name: String,
    method: CompressionMethod,
    encrypted: bool,
    /// The first byte in the file.
    start: Option<u64>,
    /// Bytes in the file.
    packed: u64,
    /// Bytes of the array.
    plain: u64,
}

impl Entry {
    fn of<R: Read>(entry: &ZipFile<'_, R>) -> Entry {
        let name = String::from_utf8_lossy(entry.name_raw());
        Entry {
            name: name.trim_end_matches(".npy").to_owned(),
            method: entry.compression(),
            encrypted: entry.encrypted(),
            start: entry.data_start(),
            packed: entry.compressed_size(),
            plain: entry.size(),
        }
    }

    fn array(&self, file: &File, size: u64, archive: &mut Archive<'_>, index: usize) -> Result<Described, String> {
        if self.encrypted {
            return Err("it is encrypted".to_owned());
        }
        let end = self.start.and_then(|start| start.checked_add(self.packed)).filter(|end| *end <= size);
        let (Some(start), Some(end)) = (self.start, end) else {
            return Err("it does not fit the file; the file may be truncated".to_owned());
        };
        match self.method {
            CompressionMethod::Stored => {
                // Its numbers are read later and in pieces, when nothing compares them with the archive's checksum any more.
                let damaged = "its bytes do not match their checksum; the file is damaged";
                let mut entry = archive.by_index(index).map_err(|_| damaged)?;
                std::io::copy(&mut entry, &mut std::io::sink()).map_err(|_| damaged)?;
                drop(entry);
                stored(file, start, end)
            }
            CompressionMethod::Deflated => npy::describe_bytes(self.inflated(archive, index)?),
            _ => Err("it is compressed in an unknown way".to_owned()),
        }
    }

    /// Whether so many bytes can come out of those in the file.
    fn is_possible(&self) -> bool {
        self.plain <= BEST_RATIO.saturating_mul(self.packed.saturating_add(1))
    }

    /// The bytes of a compressed array. The archive's reader checks their sum and stops behind the stated size.
    fn inflated(&self, archive: &mut Archive<'_>, index: usize) -> Result<Vec<u8>, String> {
        if !self.is_possible() {
            return Err("its stated size is too large for its compressed bytes".to_owned());
        }
        let damaged = "its compressed bytes are damaged";
        let mut entry = archive.by_index(index).map_err(|_| damaged)?;
        let mut bytes = Vec::with_capacity(self.plain as usize);
        entry.read_to_end(&mut bytes).map_err(|_| damaged)?;
        Ok(bytes)
    }
}

/// An array that lies between two bytes of the file.
fn stored(file: &File, start: u64, end: u64) -> Result<Described, String> {
    let array = npy::describe(file, start, end)?;
    match array.place {
        Location::File(numbers) if array.bytes().is_none_or(|bytes| bytes > end - numbers) => {
            Err(format!("shape {:?} needs more bytes than the archive holds for it", array.shape))
        }
        _ => Ok(array),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::super::arrays::Arrays;
    use super::*;
    use crate::error::Result;

    /// Opens these bytes as a file.
    fn open(name: &str, bytes: &[u8]) -> Result<Arrays> {
        let path = std::env::temp_dir().join(format!("layerscope-{}-{name}.npz", std::process::id()));
        std::fs::write(&path, bytes).expect("a file");
        let arrays = Arrays::open(&path, u64::MAX);
        std::fs::remove_file(&path).expect("removable"); // what is open stays readable
        arrays
    }

    fn numbers() -> Vec<f32> {
        (0..600).map(|number| (number * number) as f32).collect()
    }

    /// `numbers()` as a .npy array of 150 rows of 4.
    fn npy() -> Vec<u8> {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (150, 4), }\n";
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(numbers().iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }

    /// An archive as numpy writes it: every local header has the sizes once more, in 64 bits.
    fn archive(method: CompressionMethod) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for name in ["states.npy", "again.npy"] {
            let options = SimpleFileOptions::default().compression_method(method).large_file(true);
            writer.start_file(name, options).expect("an entry");
            writer.write_all(&npy()).expect("written");
        }
        writer.finish().expect("an archive").into_inner()
    }

    /// An archive of one entry whose directory gives these sizes in 64 bits.
    fn claiming(method: u16, packed: u64, plain: u64) -> Vec<u8> {
        let (name, data) = (b"states.npy", npy());
        let sum = crc32fast::hash(&data);
        let (low, high) = (sum as u16, (sum >> 16) as u16);
        let mut bytes = Vec::new();
        let numbers = |bytes: &mut Vec<u8>, values: &[u16]| bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend(b"PK\x03\x04");
        numbers(&mut bytes, &[45, 0, method, 0, 0, low, high, 0xffff, 0xffff, 0xffff, 0xffff, name.len() as u16, 0]);
        bytes.extend(name);
        bytes.extend(&data);
        let directory = bytes.len() as u32;
        bytes.extend(b"PK\x01\x02");
        numbers(
            &mut bytes,
            &[45, 45, 0, method, 0, 0, low, high, 0xffff, 0xffff, 0xffff, 0xffff, name.len() as u16, 20, 0, 0, 0, 0, 0, 0, 0],
        );
        bytes.extend(name);
        numbers(&mut bytes, &[1, 16]);
        bytes.extend(plain.to_le_bytes());
        bytes.extend(packed.to_le_bytes());
        let length = bytes.len() as u32 - directory;
        bytes.extend(b"PK\x05\x06");
        numbers(&mut bytes, &[0, 0, 1, 1]);
        bytes.extend(length.to_le_bytes());
        bytes.extend(directory.to_le_bytes());
        numbers(&mut bytes, &[0]);
        bytes
    }

    fn refused(name: &str, bytes: &[u8]) -> String {
        let problem = open(name, bytes).err().expect("refused").to_string();
        assert!(!problem.contains('\n'), "{problem}");
        problem
    }

    #[test]
    fn stored_and_compressed_arrays_are_read() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let arrays = open(&format!("{method:?}"), &archive(method)).expect("arrays");
            for name in ["states", "again"] {
                let array = arrays.get(name).expect("an array");
                assert_eq!(array.shape(), [150, 4]);
                assert_eq!(matches!(array.described.place, Location::File(_)), method == CompressionMethod::Stored);
                assert_eq!(array.floats(0, 600).expect("numbers"), numbers());
                assert_eq!(array.floats(8, 12).expect("numbers"), numbers()[8..12]);
            }
        }
    }

    #[test]
    fn sizes_beyond_the_file_are_refused() {
        let held = npy().len() as u64;
        assert!(open("true", &claiming(0, held, held)).is_ok());
        for method in [0, 8] {
            for (packed, plain) in [(u64::MAX, u64::MAX), (u64::MAX, held), (u64::MAX - 40, held), (1 << 40, held)] {
                refused("beyond", &claiming(method, packed, plain));
            }
        }
        assert!(refused("bomb", &claiming(8, held, u64::MAX)).contains("too large"));
        assert!(refused("short", &claiming(0, held - 1, held - 1)).contains("damaged"));
        assert!(refused("unknown", &claiming(12, held, held)).contains("unknown way"));
    }

    #[test]
    fn a_flipped_bit_of_an_array_is_refused() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let whole = archive(method);
            let mut reader = ZipArchive::new(Cursor::new(&whole)).expect("an archive");
            let entry = Entry::of(&reader.by_index_raw(0).expect("an entry"));
            let start = entry.start.expect("its data");
            for place in (start..start + entry.packed).step_by(29) {
                let mut bytes = whole.clone();
                bytes[place as usize] ^= 4;
                assert!(refused("flipped", &bytes).contains("damaged"), "{method:?} {place}");
            }
        }
    }

    #[test]
    fn entries_at_the_same_place_and_too_large_ones_are_refused() {
        let whole = archive(CompressionMethod::Deflated);
        // The second entry of the directory says that it begins where the first one does.
        let second = whole.windows(4).enumerate().filter(|(_, start)| *start == b"PK\x01\x02").nth(1).expect("an entry").0;
        let mut bytes = whole.clone();
        bytes[second + 42..second + 46].fill(0);
        assert!(refused("overlapping", &bytes).contains("same place"));
        let path = std::env::temp_dir().join(format!("layerscope-{}-room.npz", std::process::id()));
        std::fs::write(&path, &whole).expect("a file");
        let problem = Arrays::open(&path, 1000).err().expect("refused").to_string();
        std::fs::remove_file(&path).expect("removable");
        assert!(problem.contains("need 4.8 KiB of memory, 1000 B are left"), "{problem}");
    }

    #[test]
    fn truncated_archives_are_refused() {
        let whole = archive(CompressionMethod::Deflated);
        for end in [0, 7, whole.len() / 2, whole.len() - 3] {
            assert!(refused("truncated", &whole[..end]).contains("not an .npz archive, or truncated"), "{end}");
        }
    }
}
