//! Numbers stored in blocks of few bits, back as f32: to the bit what the `gguf` package gives.
//!
//! A block has one scale (and minimum) in f16 for 32 numbers, or, in the kinds that end in K, one of each for 256 and small
//! ones for parts of them.

use half::f16;

use super::Dtype;

/// The numbers of whole blocks, added to `values`.
pub(super) fn decode(dtype: Dtype, bytes: &[u8], values: &mut Vec<f32>) {
    let decode_block = match dtype {
        Dtype::Q8_0 => q8_0,
        Dtype::Q4_0 => q4_0,
        Dtype::Q4_1 => q4_1,
        Dtype::Q5_0 => q5_0,
        Dtype::Q5_1 => q5_1,
        Dtype::Q4K => q4_k,
        Dtype::Q5K => q5_k,
        Dtype::Q6K => q6_k,
        other => unreachable!("{other} is not stored in blocks"), // invariant: callers ask `Dtype::is_quantized`
    };
    for block in bytes.chunks_exact(dtype.block().bytes) {
        decode_block(block, values);
    }
}

/// The f16 at a byte of a block.
fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Half bytes: the lower ones of all bytes, then the upper ones.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|byte| byte & 15).chain(bytes.iter().map(|byte| byte >> 4))
}

fn q8_0(block: &[u8], values: &mut Vec<f32>) {
    let scale = half(block, 0);
    values.extend(block[2..].iter().map(|&byte| f32::from(byte as i8) * scale));
}

fn q4_0(block: &[u8], values: &mut Vec<f32>) {
    let scale = half(block, 0);
    values.extend(nibbles(&block[2..]).map(|bits| scale * f32::from(bits as i8 - 8)));
}

fn q4_1(block: &[u8], values: &mut Vec<f32>) {
    let (scale, minimum) = (half(block, 0), half(block, 2));
    values.extend(nibbles(&block[4..]).map(|bits| scale * f32::from(bits) + minimum));
}

/// Five bits: four in half bytes, the fifth of number `i` in bit `i` of a word before them.
fn five_bits(high: &[u8], low: &[u8]) -> impl Iterator<Item = u8> {
    let high = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    nibbles(low).enumerate().map(move |(i, bits)| bits | ((high >> i & 1) as u8) << 4)
}

fn q5_0(block: &[u8], values: &mut Vec<f32>) {
    let scale = half(block, 0);
    values.extend(five_bits(&block[2..6], &block[6..]).map(|bits| scale * f32::from(bits as i8 - 16)));
}

fn q5_1(block: &[u8], values: &mut Vec<f32>) {
    let (scale, minimum) = (half(block, 0), half(block, 2));
    values.extend(five_bits(&block[4..8], &block[8..]).map(|bits| scale * f32::from(bits) + minimum));
}

/// Scale and minimum of each eighth of a block, from six bits each: twelve bytes hold eight of both.
fn eighths(block: &[u8]) -> [(f32, f32); 8] {
    let (scale, minimum) = (half(block, 0), half(block, 2));
    let (first, second, third) = (&block[4..8], &block[8..12], &block[12..16]);
    std::array::from_fn(|part| {
        let (s, m) = match part {
            0..4 => (first[part] & 63, second[part] & 63),
            _ => {
                let at = part - 4;
                (third[at] & 15 | first[at] >> 6 << 4, third[at] >> 4 | second[at] >> 6 << 4)
            }
        };
        (scale * f32::from(s), minimum * f32::from(m))
    })
}

fn q4_k(block: &[u8], values: &mut Vec<f32>) {
    let parts = eighths(block);
    for (pair, bytes) in block[16..].chunks_exact(32).enumerate() {
        for (i, bits) in nibbles(bytes).enumerate() {
            let (scale, minimum) = parts[2 * pair + i / 32];
            values.push(scale * f32::from(bits) - minimum);
        }
    }
}

fn q5_k(block: &[u8], values: &mut Vec<f32>) {
    let parts = eighths(block);
    let high = &block[16..48];
    for (pair, bytes) in block[48..].chunks_exact(32).enumerate() {
        for (i, bits) in nibbles(bytes).enumerate() {
            let part = 2 * pair + i / 32;
            let bits = bits | (high[i % 32] >> part & 1) << 4;
            let (scale, minimum) = parts[part];
            values.push(scale * f32::from(bits) - minimum);
        }
    }
}

fn q6_k(block: &[u8], values: &mut Vec<f32>) {
    let scale = half(block, 208);
    for half_block in 0..2 {
        let low = &block[64 * half_block..][..64];
        let high = &block[128 + 32 * half_block..][..32];
        let scales = &block[192 + 8 * half_block..][..8];
        for (i, bits) in nibbles(low).enumerate() {
            let bits = bits | (high[i % 32] >> (2 * (i / 32)) & 3) << 4;
            values.push(scale * f32::from(scales[i / 16] as i8) * f32::from(bits as i8 - 32));
        }
    }
}
