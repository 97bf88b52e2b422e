//! The .npz format: a ZIP archive of .npy arrays. Stored arrays stay in the file; compressed ones are taken out of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use super::arrays::Described;
use super::npy;

const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
/// The longest end record: its own 22 bytes and a comment.
const LONGEST_END: u64 = 22 + 65535;

/// The arrays of an archive by name, without `.npy`.
pub(super) fn describe(file: &File, size: u64) -> Result<BTreeMap<String, Described>, String> {
    let tail = bytes(file, size.saturating_sub(LONGEST_END), size.min(LONGEST_END) as usize)?;
    let end = (0..tail.len().saturating_sub(21)).rev().find(|&at| tail[at..].starts_with(&END));
    let end = end.ok_or("it is no .npz archive, or truncated")?;
    let (mut count, mut directory) = (u64::from(u16_at(&tail, end + 10)), u64::from(u32_at(&tail, end + 16)));
    if count == 0xffff || directory == 0xffff_ffff {
        let at = (0..end).rev().find(|&at| tail[at..].starts_with(&END_64)).ok_or("its directory is not readable")?;
        (count, directory) = (u64_at(&tail, at + 32), u64_at(&tail, at + 48));
    }
    let length = size.checked_sub(directory).ok_or("its directory lies outside the file")?;
    let entries = bytes(file, directory, length.min(1 << 28) as usize)?;
    let mut arrays = BTreeMap::new();
    let mut at = 0;
    for _ in 0..count {
        let header = entries.get(at..at + 46).filter(|header| header.starts_with(&ENTRY)).ok_or("its directory is not readable")?;
        let (method, name_length, extra_length) = (u16_at(header, 10), usize::from(u16_at(header, 28)), usize::from(u16_at(header, 30)));
        let (mut packed, mut plain, mut start) =
            (u64::from(u32_at(header, 20)), u64::from(u32_at(header, 24)), u64::from(u32_at(header, 42)));
        let rest = entries.get(at + 46..at + 46 + name_length + extra_length).ok_or("its directory is not readable")?;
        let (name, extra) = rest.split_at(name_length);
        wide(extra, [&mut plain, &mut packed, &mut start]);
        at += 46 + name_length + extra_length + usize::from(u16_at(header, 32));
        let name = String::from_utf8_lossy(name);
        let name = name.trim_end_matches(".npy");
        // The local header repeats the name, with an extra field of its own length.
        let local = bytes(file, start, 30)?;
        let data = start + 30 + u64::from(u16_at(&local, 26)) + u64::from(u16_at(&local, 28));
        let array = match method {
            0 => npy::describe(file, data, size),
            8 => npy::describe_bytes(inflated(file, data, packed, plain, size)?),
            _ => Err("it is compressed in an unknown way".to_owned()),
        };
        arrays.insert(name.to_owned(), array.map_err(|problem| format!("`{name}`: {problem}"))?);
    }
    Ok(arrays)
}

fn inflated(file: &File, start: u64, packed: u64, plain: u64, size: u64) -> Result<Vec<u8>, String> {
    if start + packed > size || plain > 1100 * (packed + 1) {
        return Err("a compressed array does not fit the file".to_owned()); // deflate never does better than 1032 to 1
    }
    let held = bytes(file, start, packed as usize)?;
    let mut out = Vec::with_capacity(plain as usize);
    flate2::read::DeflateDecoder::new(held.as_slice())
        .take(plain)
        .read_to_end(&mut out)
        .map_err(|_| "a compressed array is damaged".to_owned())?;
    Ok(out)
}

/// Sizes that do not fit 32 bits stand in an extra field, those that need it in this order.
fn wide(mut extra: &[u8], values: [&mut u64; 3]) {
    while extra.len() >= 4 {
        let (kind, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let Some(mut content) = extra.get(4..4 + length) else { return };
        if kind == 1 {
            for value in values {
                if *value == 0xffff_ffff && content.len() >= 8 {
                    *value = u64_at(content, 0);
                    content = &content[8..];
                }
            }
            return;
        }
        extra = &extra[4 + length..];
    }
}

fn bytes(file: &File, start: u64, length: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, start).map_err(|_| "it is truncated".to_owned())?;
    Ok(bytes)
}

/// Numbers at a place; 0 past the end.
fn number<const W: usize>(bytes: &[u8], at: usize) -> [u8; W] {
    bytes.get(at..at + W).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; W])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(number(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}
