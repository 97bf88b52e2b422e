//! The figures of a machine and a model on one screen.

use std::fmt;

use super::{Bench, Statistics};
use crate::text::{bytes, counted, grouped, short};

impl fmt::Display for Bench {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: String| writeln!(out, "{name:<12} {value}");
        let size = format!("{} of width {}, {} parameters", counted(self.layers as u64, "layer"), self.width, short(self.parameters));
        row("model", format!("{} ({}), {size}", self.model, self.family))?;
        row("loaded in", format!("{:.1} s", self.load_seconds))?;
        let peaks: Vec<String> = self.peaks.iter().map(|peak| format!("{:.0} on {}", peak.gflops, threads(peak.threads))).collect();
        row("peak", format!("{} GFLOP/s, {}", peaks.join(", "), self.isa))?;
        let (tokens, each) = (grouped(self.tokens), self.tokens as f64 / self.documents.max(1) as f64);
        row(
            "text",
            format!(
                "{}, {tokens} tokens, {each:.0} on average, {:.3} GFLOP each",
                counted(self.documents as u64, "sequence"),
                self.flops_per_token / 1e9
            ),
        )?;
        let weights = bytes(self.parameters * size_of::<f32>());
        let most = self.peak_memory_bytes.map_or(String::new(), |most| format!("; {} at most just now", bytes(most as usize)));
        row("memory", format!("{weights} of weights, {} per worker{most}", bytes(self.worker_bytes)))?;

        writeln!(out, "\nthe model alone, tokens/s (share of the peak)")?;
        let headings: String = self.peaks.iter().map(|peak| format!("{:>18}", threads(peak.threads))).collect();
        writeln!(out, "{:<12}{headings}", "batch")?;
        for batch in super::forward::BATCHES {
            let cells: String = self.peaks.iter().map(|peak| format!("{:>18}", self.cell(peak.threads, peak.gflops, batch))).collect();
            writeln!(out, "{:<12}{cells}", grouped(batch))?;
        }
        if !self.statistics.is_empty() {
            writeln!(
                out,
                "\n{:<18}{:>10}{:>10}{:>18}{:>10}{:>10}",
                "with statistics", "tokens", "tokens/s", "x the model alone", "pilot", "tables"
            )?;
            self.statistics.iter().try_for_each(|statistics| writeln!(out, "{}", line(statistics)))?;
        }
        if let Some(note) = &self.note {
            writeln!(out, "\n{note}")?;
        }
        writeln!(out, "\nrecommended: --threads {} --batch-tokens {}", self.recommended.threads, self.recommended.batch_tokens)
    }
}

impl Bench {
    /// `8,289 (97 %)`; a dash where one batch would have taken too long.
    fn cell(&self, threads: usize, gflops: f64, batch: usize) -> String {
        let found = self.forward.iter().find(|speed| (speed.threads, speed.batch_tokens) == (threads, batch));
        found.map_or("-".to_owned(), |speed| {
            let share = speed.tokens_per_second * self.flops_per_token / 1e9 / gflops;
            format!("{} ({:.0} %)", grouped(speed.tokens_per_second.round() as usize), 100.0 * share)
        })
    }
}

fn threads(count: usize) -> String {
    counted(count as u64, "thread")
}

fn line(statistics: &Statistics) -> String {
    let Statistics { measures, tokens, tokens_per_second, over_forward, timings } = statistics;
    let speed = grouped(tokens_per_second.round() as usize);
    let (pilot, tables) = (format!("{:.1} s", timings.pilot), format!("{:.1} s", timings.all_tables()));
    format!("{measures:<18}{:>10}{speed:>10}{over_forward:>18.2}{pilot:>10}{tables:>10}", grouped(*tokens as usize))
}

#[cfg(test)]
mod tests {
    use layerscope_report::manifest::Timings;

    use super::super::{Peak, Recommended, Speed};
    use super::*;

    #[test]
    fn one_calm_screen() {
        let timings = Timings { pilot: 0.26, tables: [("norm".to_owned(), 1.5), ("cosine".to_owned(), 0.5)].into(), ..Timings::default() };
        let bench = Bench {
            model: "tiny".into(),
            family: "made-up",
            layers: 12,
            width: 768,
            parameters: 110_000_000,
            isa: "Avx512".into(),
            peaks: vec![Peak { threads: 1, gflops: 100.0 }, Peak { threads: 16, gflops: 1600.0 }],
            load_seconds: 0.52,
            documents: 1000,
            tokens: 25_000,
            flops_per_token: 170e6,
            forward: vec![
                Speed { threads: 1, batch_tokens: 128, tokens_per_second: 500.0 },
                Speed { threads: 16, batch_tokens: 256, tokens_per_second: 8289.4 },
            ],
            statistics: vec![Statistics {
                measures: "norm,cosine".into(),
                tokens: 20_000,
                tokens_per_second: 7000.0,
                over_forward: 1.18,
                timings,
            }],
            note: None,
            recommended: Recommended { threads: 16, batch_tokens: 256 },
            worker_bytes: 3 << 20,
            peak_memory_bytes: Some(1 << 30),
        };
        let shown = bench.to_string();
        assert!(shown.lines().count() <= 24 && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let says = |line: &str| assert!(shown.lines().any(|shown| shown == line), "`{line}` is not in:\n{shown}");
        says("model        tiny (made-up), 12 layers of width 768, 110 M parameters");
        says("loaded in    0.5 s");
        says("peak         100 on 1 thread, 1600 on 16 threads GFLOP/s, Avx512");
        says("batch                 1 thread        16 threads");
        says("128                 500 (85 %)                 -");
        says("256                          -      8,289 (88 %)");
        says("norm,cosine           20,000     7,000              1.18     0.3 s     2.0 s");
        says("recommended: --threads 16 --batch-tokens 256");
    }
}
