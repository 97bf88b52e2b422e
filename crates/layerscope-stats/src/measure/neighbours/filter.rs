//! What tells of nearly all pairs that they are far apart, at little cost: products of rounded rows, with a bound on what is lost.

use layerscope_compute::cpu::{ByteRows, Epilogue, Floats, Isa, Panels, Part, Rows, multiply};

use super::cloud::{BLOCK, Cloud, ROUNDING};
use crate::vectors::square_distance_narrow;
use layerscope_compute::parallel::in_order;

/// Columns looked at together.
pub(super) const STRIP: usize = 32;

/// Products of bytes are worth while as long as they let fewer than one pair in so many pass.
const ONE_IN: usize = 16;

/// Pairs looked at to find that out: so many rows with so many others.
const LEFT: usize = 96;
const RIGHT: usize = 256;

/// The rows of a block as the filter sees them.
pub(super) struct Side {
    /// Of its rows in the cloud.
    pub places: Vec<u32>,
    numbers: Numbers,
    /// ||a||^2 less what is lost, padded to whole strips: a product p of two rows shows that ||a - b||^2 >= low_a + low_b - 2 p.
    pub lows: Vec<f32>,
}

enum Numbers {
    Bytes(ByteRows),
    Floats(Vec<f32>, Panels),
}

/// All rows of a cloud, block by block.
pub(super) struct Filter {
    pub sides: Vec<Side>,
    margin: f64,
}

impl Filter {
    /// Rounded to bytes where the machine is fast at them.
    pub fn new(cloud: &Cloud, threads: usize) -> Filter {
        Filter::of(cloud, ByteRows::available(cloud.dim), threads)
    }

    fn of(cloud: &Cloud, bytes: bool, threads: usize) -> Filter {
        let all: Vec<u32> = (0..cloud.len() as u32).collect();
        let blocks: Vec<&[u32]> = all.chunks(BLOCK).collect();
        let mut sides = in_order(threads, blocks.len(), |block| Side::new(cloud, bytes, blocks[block]));
        let margin = sides.iter().map(|side| side.margin(cloud.dim)).fold(0.0, f64::max);
        sides.iter_mut().for_each(|side| side.set_lows(cloud, margin));
        Filter { sides, margin }
    }

    /// The same, or one that loses less where this one would let too many pairs pass, given how far (squared) neighbours will be looked for.
    pub fn or_better(self, isa: Isa, cloud: &Cloud, bounds: &[f32], threads: usize) -> Filter {
        let bytes = self.sides.iter().any(Side::is_bytes);
        let poor = bytes && self.passing(isa, cloud, bounds) > 1.0 / ONE_IN as f64;
        if poor { Filter::of(cloud, false, threads) } else { self }
    }

    /// Share of pairs that it would let pass, from a look at some.
    fn passing(&self, isa: Isa, cloud: &Cloud, bounds: &[f32]) -> f64 {
        let spread =
            |count: usize, first: usize| (0..count).map(move |at| at * cloud.len() / count + first).filter(|place| *place < cloud.len());
        let passes = |a: usize, b: usize| {
            let lost = (cloud.squares[a] + cloud.squares[b]) * self.margin;
            square_distance_narrow(isa, cloud.row(a), cloud.row(b)) - lost as f32 <= bounds[a].max(bounds[b])
        };
        let pairs = spread(LEFT, 0).flat_map(|a| spread(RIGHT, 1).map(move |b| (a, b)));
        let (all, passing) = pairs.fold((0, 0), |(all, passing), (a, b)| (all + 1, passing + usize::from(passes(a, b))));
        passing as f64 / f64::from(all.max(1))
    }

    /// The rows at these places as a side, to be multiplied with those of this filter.
    pub fn side(&self, cloud: &Cloud, places: &[u32]) -> Side {
        let mut side = Side::new(cloud, self.sides.iter().any(Side::is_bytes), places);
        // Its rows are among those that the margin was made for.
        side.set_lows(cloud, self.margin);
        side
    }
}

impl Side {
    fn new(cloud: &Cloud, bytes: bool, places: &[u32]) -> Side {
        let mut rows = Vec::with_capacity(places.len() * cloud.dim);
        places.iter().for_each(|place| rows.extend_from_slice(cloud.row(*place as usize)));
        let numbers = match bytes {
            true => Numbers::Bytes(ByteRows::new(&rows, cloud.dim)),
            false => {
                let panels = Panels::from_rows(&rows, places.len(), cloud.dim);
                Numbers::Floats(rows, panels)
            }
        };
        Side { places: places.to_vec(), numbers, lows: Vec::new() }
    }

    fn is_bytes(&self) -> bool {
        matches!(self.numbers, Numbers::Bytes(_))
    }

    /// Share of ||a||^2 + ||b||^2 >= 2 |a||b| by which ||a||^2 + ||b||^2 - 2 p may exceed ||a - b||^2, p the product of a and b as computed.
    fn margin(&self, dim: usize) -> f64 {
        let product = match &self.numbers {
            // With rows off by at most r |a|, products are off by at most (2 r + r^2) |a||b|; the rest is for the roundings of scales.
            Numbers::Bytes(bytes) => bytes.error() * (2.0 + bytes.error()) + 32.0 * ROUNDING,
            // |fl(a.b) - a.b| <= d u |a||b| with u = 2^-24.
            Numbers::Floats(..) => dim as f64 * ROUNDING,
        };
        // The rest is for rounding states, squares and bounds to f32.
        product + 32.0 * ROUNDING
    }

    /// ||a||^2 less the margin, and a little more for what underflows.
    fn set_lows(&mut self, cloud: &Cloud, margin: f64) {
        let low = |place: &u32| (cloud.squares[*place as usize] * (1.0 - margin) - 1e-37) as f32;
        self.lows = self.places.iter().map(low).collect();
        self.lows.resize(self.places.len().next_multiple_of(STRIP), f32::INFINITY);
    }

    /// Products of all rows with those of another side of the same filter, in rows of [`BLOCK`].
    pub fn multiply(&self, isa: Isa, other: &Side, products: &mut [f32], packed: &mut Floats) {
        match (&self.numbers, &other.numbers) {
            (Numbers::Bytes(own), Numbers::Bytes(other)) => own.multiply(other, products, BLOCK),
            (Numbers::Floats(rows, _), Numbers::Floats(_, panels)) => {
                let rows = Rows { data: rows, stride: panels.k, count: self.places.len() };
                multiply(isa, rows, panels, &Part::all(panels), products, BLOCK, Epilogue::default(), packed);
            }
            _ => unreachable!("all sides of a filter are of one kind"),
        }
    }
}
