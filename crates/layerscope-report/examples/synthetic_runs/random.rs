//! The same numbers and names on every machine.

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal: twelve uniforms.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// The name of the group of this rank.
pub fn word(rank: usize, random: &mut Random) -> String {
    const FIRST: [&str; 12] = ["the", "of", "and", "to", "was", "once", "winked", "river", "night", "he", "she", "said"];
    const SYLLABLES: [&str; 16] =
        ["ka", "lo", "mi", "ren", "sta", "vel", "tor", "un", "ish", "der", "pho", "qua", "bel", "nor", "ex", "ly"];
    if let Some(first) = FIRST.get(rank) {
        return (*first).into();
    }
    let syllables = 1 + (random.next() % 3) as usize;
    let name: String = (0..=syllables).map(|_| SYLLABLES[(random.next() % 16) as usize]).collect();
    format!("{name}{rank}")
}
