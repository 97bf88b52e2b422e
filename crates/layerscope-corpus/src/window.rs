//! Long documents become windows; every token is read at least once and counted exactly once.

use std::ops::Range;

/// On which side of a token its context lies: decides which of several overlapping windows counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Context {
    /// Before it (causal models): the window in which most tokens precede it.
    Left,
    /// On both sides: the window in which it is farthest from the nearer edge, not counting edges that are the document's own.
    #[default]
    Both,
}

/// How documents are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Tokens of text a window has room for, beside the special tokens.
    pub room: usize,
    /// Tokens from one window's start to the next one's, at most `room`; windows do not overlap without it.
    pub stride: Option<usize>,
    /// Where context lies.
    pub context: Context,
}

/// One window of a document, in tokens of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What is read.
    pub read: Range<usize>,
    /// What of it is counted.
    pub counted: Range<usize>,
}

impl Windows {
    /// Cuts a document of `tokens` tokens. Windows begin and end only where an item does: `starts(i)` says whether token `i` is the
    /// first of its item. An item longer than a window is an error, which says where it starts.
    pub fn cut(&self, tokens: usize, starts: impl Fn(usize) -> bool) -> Result<Vec<Span>, usize> {
        let reads = self.reads(tokens, &starts)?;
        let mut spans: Vec<Span> = match self.context {
            Context::Left => {
                let ends = std::iter::once(0).chain(reads.iter().map(|read| read.end));
                reads.iter().zip(ends).map(|(read, counted)| Span { read: read.clone(), counted: counted..read.end }).collect()
            }
            Context::Both => centred(&reads, tokens, starts),
        };
        spans.retain(|span| !span.counted.is_empty());
        Ok(spans)
    }

    fn reads(&self, tokens: usize, starts: &impl Fn(usize) -> bool) -> Result<Vec<Range<usize>>, usize> {
        let mut reads = Vec::new();
        let mut start = 0;
        while start < tokens {
            let mut end = tokens.min(start + self.room);
            while end < tokens && end > start && !starts(end) {
                end -= 1;
            }
            if end == start {
                return Err(start);
            }
            reads.push(start..end);
            if end == tokens {
                break;
            }
            start = end.min(start + self.stride.unwrap_or(self.room).max(1));
            while start < end && !starts(start) {
                start += 1;
            }
        }
        Ok(reads)
    }
}

/// How far an item is from the nearer edge of a window, where an edge that is the document's own is no edge.
fn context(read: &Range<usize>, tokens: usize, item: &Range<usize>) -> usize {
    let left = if read.start == 0 { usize::MAX } else { item.start - read.start };
    let right = if read.end == tokens { usize::MAX } else { read.end - item.end };
    left.min(right)
}

/// Gives every item to the window with the most context, the earliest of equals. Later windows win later items, so what a window
/// counts is one range.
fn centred(reads: &[Range<usize>], tokens: usize, starts: impl Fn(usize) -> bool) -> Vec<Span> {
    let mut spans: Vec<Span> = reads.iter().map(|read| Span { read: read.clone(), counted: 0..0 }).collect();
    let (mut oldest, mut start) = (0, 0);
    while start < tokens {
        let end = (start + 1..tokens).find(|&at| starts(at)).unwrap_or(tokens);
        let item = start..end;
        while reads[oldest].end < end {
            oldest += 1;
        }
        let mut best = oldest;
        for window in oldest + 1..reads.len() {
            if reads[window].start > start {
                break;
            }
            if context(&reads[window], tokens, &item) > context(&reads[best], tokens, &item) {
                best = window;
            }
        }
        let counted = &mut spans[best].counted;
        *counted = if counted.start == counted.end { item } else { counted.start..end };
        start = end;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(room: usize, stride: Option<usize>, context: Context, tokens: usize) -> Vec<(Range<usize>, Range<usize>)> {
        let cut = Windows { room, stride, context }.cut(tokens, |_| true).unwrap();
        cut.into_iter().map(|span| (span.read, span.counted)).collect()
    }

    #[test]
    fn without_stride_windows_follow_each_other() {
        for context in [Context::Left, Context::Both] {
            assert_eq!(spans(4, None, context, 10), [(0..4, 0..4), (4..8, 4..8), (8..10, 8..10)]);
            assert_eq!(spans(4, None, context, 4), [(0..4, 0..4)]);
            assert_eq!(spans(4, None, context, 0), []);
        }
    }

    #[test]
    fn with_stride_tokens_are_counted_with_the_most_context() {
        assert_eq!(spans(6, Some(2), Context::Left, 9), [(0..6, 0..6), (2..8, 6..8), (4..9, 8..9)]);
        assert_eq!(spans(6, Some(2), Context::Both, 10), [(0..6, 0..4), (2..8, 4..6), (4..10, 6..10)]);
    }

    #[test]
    fn items_stay_whole() {
        let starts = |at: usize| [0, 3, 5, 6].contains(&at);
        let cut = |room| Windows { room, stride: None, context: Context::Left }.cut(8, starts);
        let reads: Vec<_> = cut(4).unwrap().into_iter().map(|span| span.read).collect();
        assert_eq!(reads, [0..3, 3..6, 6..8]);
        assert_eq!(cut(2), Err(0));
    }

    /// Every shape up to a size: counted once, never split, chosen by the most context, and no token left unread.
    #[test]
    fn every_token_is_counted_exactly_once() {
        for seed in 0..400u64 {
            let random = |index: u64| crate::hash::hash64([seed, index], b"window");
            let tokens = (random(0) % 40) as usize;
            let room = 4 + (random(1) % 12) as usize;
            let stride = (random(2) % 3 > 0).then(|| 1 + (random(3) as usize % room));
            // Items of one to four tokens.
            let mut first = vec![true; tokens];
            for at in 1..tokens {
                first[at] = !random(100 + at as u64).is_multiple_of(3) || (at >= 3 && !first[at - 1] && !first[at - 2] && !first[at - 3]);
            }
            for context_side in [Context::Left, Context::Both] {
                let windows = Windows { room, stride, context: context_side };
                let spans = windows.cut(tokens, |at| first[at]).unwrap();
                let mut counted = vec![0; tokens];
                for span in &spans {
                    assert!(span.read.len() <= room);
                    assert!(span.read.start <= span.counted.start && span.counted.end <= span.read.end);
                    for edge in [span.read.start, span.read.end, span.counted.start, span.counted.end] {
                        assert!(edge == tokens || first[edge], "an item was split");
                    }
                    span.counted.clone().for_each(|at| counted[at] += 1);
                }
                assert!(counted.iter().all(|&times| times == 1), "{windows:?} {tokens} {counted:?}");
                for at in (0..tokens).filter(|&at| first[at]) {
                    let item = at..(at + 1..tokens).find(|&next| first[next]).unwrap_or(tokens);
                    let reading = windows.reads(tokens, &|at| first[at]).unwrap();
                    let inside = reading.iter().filter(|read| read.start <= item.start && item.end <= read.end);
                    let score = |read: &Range<usize>| match context_side {
                        Context::Left => item.start - read.start,
                        Context::Both => context(read, tokens, &item),
                    };
                    let chosen = spans.iter().find(|span| span.counted.contains(&at)).unwrap();
                    assert_eq!(Some(score(&chosen.read)), inside.map(score).max());
                }
            }
        }
    }
}
