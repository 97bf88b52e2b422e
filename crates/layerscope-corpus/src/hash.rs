//! SipHash-2-4 (Aumasson and Bernstein, 2012), 64 and 128 bits: keyed, portable, and stable for ever.
//!
//! Samples, repeats and fingerprints depend on these bits, so they are ours rather than a library's; the tests hold the
//! authors' own vectors.

/// A running SipHash-2-4 with a 128-bit result.
#[derive(Clone, Debug)]
pub struct Hasher128(State);

impl Hasher128 {
    /// Starts with a key of two words.
    pub fn new(key: [u64; 2]) -> Self {
        let mut state = State::new(key);
        state.v[1] ^= 0xee;
        Hasher128(state)
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The hash of everything added; its low half is the first word of the definition.
    pub fn finish(&self) -> u128 {
        let mut state = self.0.clone();
        let low = state.finish(0xee);
        state.v[1] ^= 0xdd;
        state.rounds(4);
        u128::from(low) | u128::from(state.folded()) << 64
    }
}

/// SipHash-2-4 of `bytes`, 64 bits.
pub fn hash64(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = State::new(key);
    state.write(bytes);
    state.finish(0xff)
}

/// SipHash-2-4 of `bytes`, 128 bits.
pub fn hash128(key: [u64; 2], bytes: &[u8]) -> u128 {
    let mut hasher = Hasher128::new(key);
    hasher.write(bytes);
    hasher.finish()
}

#[derive(Clone, Debug)]
struct State {
    v: [u64; 4],
    tail: [u8; 8],
    length: u64,
}

impl State {
    fn new([low, high]: [u64; 2]) -> Self {
        let v = [low ^ 0x736f_6d65_7073_6575, high ^ 0x646f_7261_6e64_6f6d, low ^ 0x6c79_6765_6e65_7261, high ^ 0x7465_6462_7974_6573];
        State { v, tail: [0; 8], length: 0 }
    }

    fn write(&mut self, mut bytes: &[u8]) {
        let pending = (self.length % 8) as usize;
        self.length += bytes.len() as u64;
        if pending > 0 {
            let taken = bytes.len().min(8 - pending);
            self.tail[pending..pending + taken].copy_from_slice(&bytes[..taken]);
            if pending + taken < 8 {
                return;
            }
            self.absorb(u64::from_le_bytes(self.tail));
            bytes = &bytes[taken..];
        }
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.absorb(u64::from_le_bytes(*word)));
        self.tail[..rest.len()].copy_from_slice(rest);
    }

    fn absorb(&mut self, word: u64) {
        self.v[3] ^= word;
        self.rounds(2);
        self.v[0] ^= word;
    }

    fn finish(&mut self, marker: u64) -> u64 {
        let pending = (self.length % 8) as usize;
        self.tail[pending..].fill(0);
        self.tail[7] = self.length as u8;
        self.absorb(u64::from_le_bytes(self.tail));
        self.v[2] ^= marker;
        self.rounds(4);
        self.folded()
    }

    fn folded(&self) -> u64 {
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }

    fn rounds(&mut self, count: usize) {
        let [mut a, mut b, mut c, mut d] = self.v;
        for _ in 0..count {
            a = a.wrapping_add(b);
            c = c.wrapping_add(d);
            b = b.rotate_left(13) ^ a;
            d = d.rotate_left(16) ^ c;
            a = a.rotate_left(32).wrapping_add(d);
            c = c.wrapping_add(b);
            d = d.rotate_left(21) ^ a;
            b = b.rotate_left(17) ^ c;
            c = c.rotate_left(32);
        }
        self.v = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    /// From the reference implementation's vectors.h: key 00..0f, message 00, 01, 02, ...
    #[test]
    fn the_authors_vectors() {
        let message: Vec<u8> = (0..64).collect();
        let short: [(usize, [u8; 8]); 5] = [
            (0, [0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72]),
            (1, [0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74]),
            (7, [0x37, 0xd1, 0x01, 0x8b, 0xf5, 0x00, 0x02, 0xab]),
            (8, [0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93]),
            (15, [0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1]),
        ];
        for (length, expected) in short {
            assert_eq!(hash64(KEY, &message[..length]).to_le_bytes(), expected, "{length} bytes");
        }
        let empty = [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93];
        assert_eq!(hash128(KEY, &[]).to_le_bytes(), empty);
        let one = [0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45];
        assert_eq!(hash128(KEY, &message[..1]).to_le_bytes(), one);
    }

    #[test]
    fn pieces_do_not_matter() {
        let message: Vec<u8> = (0..100).map(|byte| byte * 7).collect();
        for cut in 0..message.len() {
            for second in [cut, (cut + 3).min(100), 100] {
                let mut hasher = Hasher128::new([5, 6]);
                hasher.write(&message[..cut]);
                hasher.write(&message[cut..second]);
                hasher.write(&message[second..]);
                assert_eq!(hasher.finish(), hash128([5, 6], &message));
            }
        }
    }
}
