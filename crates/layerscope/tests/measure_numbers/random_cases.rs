//! Random models, texts and settings, split, interrupted and merged at random: every table against the definitions.
//!
//! `LAYERSCOPE_CASES` says how many cases there are, `LAYERSCOPE_SEED` which is the first: what fails names its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use layerscope_model::families::FAMILIES;

use super::comparison::{Comparison, compare};
use super::literal::{Counting, Document, literal};
use crate::support::measure::{command, end, measured, model, random, run, sentences, start, wide_model};
use crate::support::{empty_folder, root};
use crate::{flags, write};

/// Cases of every test run; `make test-all` asks for a thousand.
const CASES: u64 = 50;

/// Numbers that follow from a seed, one after another.
struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.drawn += 1;
        (random(self.seed, self.drawn) % count as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// How a run comes about.
#[derive(Clone, Copy, Debug)]
enum Making {
    Whole,
    Killed { times: usize },
    Shards { count: usize },
    Devices,
}

#[derive(Debug)]
struct Case {
    checkpoint: PathBuf,
    documents: Vec<Document>,
    counting: Counting<'static>,
    flags: String,
    making: Making,
}

impl Case {
    fn new(seed: u64, folder: &Path) -> Case {
        let mut draw = Draw { seed, drawn: 0 };
        let checkpoint = checkpoint(&mut draw, folder);
        let documents = documents(&mut draw);
        let counting = Counting {
            grouping: draw.one_of(&["token", "surface", "word", "position", "sequence", "none", "column:kind"]),
            specials: draw.one_of(&["exclude", "include", "count"]),
            skip_first: draw.one_of(&[0, 0, 0, 1, 2]),
            window: draw.one_of(&[None, None, Some(20), Some(33)]),
        };
        let Counting { grouping, specials, skip_first, window } = counting;
        let mut more = format!("--group {grouping} --specials {specials} --skip-first {skip_first} --threads {}", 1 + draw.below(3));
        window.into_iter().for_each(|window| more += &format!(" --window {window}"));
        more += &format!(" --batch-tokens {}", draw.one_of(&[1, 37, 150, 1000, 100_000]));
        more += draw.one_of(&["", "", " --order block", " --order block --stretch-tokens 90"]);
        let making = match draw.below(8) {
            0..3 => Making::Whole,
            3..5 => Making::Killed { times: 1 + draw.below(3) },
            5..7 => Making::Shards { count: 2 + draw.below(3) },
            _ => Making::Devices,
        };
        // The last of two equal flags counts.
        Case { checkpoint, documents, counting, flags: flags(&more).replacen("--batch-tokens 200 ", "", 1), making }
    }

    /// Measures the corpus in the way of this case.
    fn measure(&self, seed: u64, corpus: &Path, out: &Path) {
        let mut draw = Draw { seed, drawn: 1 << 20 };
        match self.making {
            Making::Whole => drop(measured(&self.checkpoint, corpus, out, &self.flags)),
            Making::Devices => drop(measured(&self.checkpoint, corpus, out, &format!("{} --device cpu,cpu", self.flags))),
            Making::Killed { times } => {
                let flags = format!("{} --checkpoint-seconds 0", self.flags);
                for _ in 0..times {
                    let mut process = start(&command(&self.checkpoint, corpus, out, &flags));
                    std::thread::sleep(Duration::from_millis(draw.below(80) as u64));
                    let _ = process.kill();
                    end(process);
                }
                measured(&self.checkpoint, corpus, out, &flags);
            }
            Making::Shards { count } => {
                let shard = |number: usize| out.with_extension(format!("{number}-of-{count}"));
                let mut words = vec!["merge".to_owned(), "--quiet".to_owned(), "--out".to_owned(), out.display().to_string()];
                for number in 0..count {
                    measured(&self.checkpoint, corpus, &shard(number), &format!("{} --shard {number}/{count}", self.flags));
                    words.insert(1 + draw.below(number + 1), shard(number).display().to_string());
                }
                let merged = run(&words);
                assert_eq!(merged.status, 0, "{}", merged.stderr);
            }
        }
    }
}

/// A fixture of some family, or an encoder of some size.
fn checkpoint(draw: &mut Draw, folder: &Path) -> PathBuf {
    let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
    if draw.below(3) == 0 {
        return wide_model(&format!("{name}-model"), 1 + draw.below(3), draw.one_of(&[16, 32, 64, 96]), draw.one_of(&[0.02, 0.3, 2.0]));
    }
    let family = FAMILIES[draw.below(FAMILIES.len())].model_types[0];
    let variants = std::fs::read_dir(root().join("fixtures").join(family)).expect("fixtures");
    let mut variants: Vec<String> = variants.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8")).collect();
    variants.sort();
    model(&format!("{family}/{}", variants[draw.below(variants.len())]), &format!("{name}-model"))
}

/// Sentences, some twice, some longer than a window, some with letters that no vocabulary has.
fn documents(draw: &mut Draw) -> Vec<Document> {
    let mut texts = sentences(3 + draw.below(60), draw.seed);
    for _ in 0..draw.below(4) {
        let at = draw.below(texts.len());
        let changed = match draw.below(4) {
            0 => texts[at].clone(),
            1 => texts.join(" "),
            2 => format!("{} \u{e9}t\u{e9}\u{a0}\u{4e2d} {}", texts[at], texts[0]),
            _ => "the ".repeat(40),
        };
        texts.insert(at, changed);
    }
    texts.into_iter().enumerate().map(|(number, text)| (text, ["prose", "verse", "drama"][number % 3].to_owned())).collect()
}

#[test]
fn random_cases_equal_the_definitions() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse().expect("a number"));
    let (first, cases): (u64, u64) = (number("LAYERSCOPE_SEED").unwrap_or(1), number("LAYERSCOPE_CASES").unwrap_or(CASES));
    let mut seen = Comparison::default();
    for seed in first..first + cases {
        let folder = empty_folder(&format!("random-case-{}", seed % 2));
        let case = Case::new(seed, &folder);
        println!("LAYERSCOPE_SEED={seed} LAYERSCOPE_CASES=1: {}, {:?}, {}", case.checkpoint.display(), case.making, case.flags);
        let (corpus, out) = (write(&case.documents, &folder), folder.join("run"));
        case.measure(seed, &corpus, &out);
        let has_frequency = ["token", "surface", "word"].contains(&case.counting.grouping);
        compare(&case.checkpoint, &out, &literal(&case.checkpoint, &case.documents, case.counting), has_frequency, &mut seen);
    }
    println!("{cases} cases, {} values, worst deviation {:.1e}: {}", seen.compared, seen.worst.0, seen.worst.1);
}
