//! What tells of nearly all pairs that they are far apart, at little cost: products of rounded rows, with a bound on what is lost.

use layerscope_compute::cpu::{ByteRows, Epilogue, Floats, Isa, NearPairs, Panels, Part, Rows, multiply};

use super::cloud::{BLOCK, Cloud, ROUNDING};
use crate::vectors::square_distance_narrow;
use layerscope_compute::parallel::in_order_with;

/// Columns looked at together.
pub(super) const STRIP: usize = 32;

/// Products of bytes are worth while as long as fewer than `dim` pairs in so many pass: one that does costs as much as f32 instead of bytes costs for so
/// many components.
const PASSING: usize = 7000;

/// Bounds from products of bytes suffice as long as they keep no more than so many times the pairs that are near.
const COARSE: usize = 3;

/// Pairs looked at to find that out: so many rows with so many others.
const LEFT: usize = 96;
const RIGHT: usize = 256;

/// Memory for the products of two sides.
pub(super) struct Memory {
    pub products: Vec<f32>,
    /// Row by row, a bit a column.
    pub masks: Vec<u32>,
    packed: Floats,
}

impl Memory {
    pub fn new() -> Memory {
        Memory { products: vec![0.0; BLOCK * BLOCK], masks: vec![0; BLOCK * BLOCK / STRIP], packed: Floats::default() }
    }
}

/// The rows of a block as the filter sees them.
pub(super) struct Side {
    /// Of its rows in the cloud.
    pub places: Vec<u32>,
    numbers: Numbers,
    /// ||a||^2 less what is lost, padded to whole strips: a product p of two rows shows that ||a - b||^2 >= low_a + low_b - 2 p.
    pub lows: Vec<f32>,
    /// With what is lost added: ||a - b||^2 <= high_a + high_b - 2 p.
    pub highs: Vec<f32>,
}

enum Numbers {
    Bytes(ByteRows),
    Floats(Vec<f32>, Panels),
}

/// All rows of a cloud, block by block.
pub(super) struct Filter<'a> {
    cloud: &'a Cloud<'a>,
    pub sides: Vec<Side>,
    margin: f64,
    /// Whether its bounds leave so many candidates that pairs are better measured at once.
    pub is_coarse: bool,
}

/// How many of some pairs are near, which the filter lets pass, and which its bounds on either side would keep.
#[derive(Default)]
struct Look {
    pairs: usize,
    near: usize,
    passing: usize,
    kept: usize,
}

impl<'a> Filter<'a> {
    /// Rounded to bytes where the machine is fast at them.
    pub fn new(cloud: &'a Cloud<'a>, threads: usize) -> Filter<'a> {
        Filter::of(cloud, ByteRows::available(cloud.dim), threads)
    }

    fn of(cloud: &'a Cloud<'a>, bytes: bool, threads: usize) -> Filter<'a> {
        let all: Vec<u32> = (0..cloud.len() as u32).collect();
        let blocks: Vec<&[u32]> = all.chunks(BLOCK).collect();
        let mut sides = in_order_with(threads, blocks.len(), Vec::new, |centred, block| Side::new(cloud, bytes, blocks[block], centred));
        let margin = sides.iter().map(|side| side.margin(cloud.dim)).fold(0.0, f64::max);
        sides.iter_mut().for_each(|side| side.set_margin(cloud, margin));
        Filter { cloud, sides, margin, is_coarse: false }
    }

    /// The same, or one that loses less where this one would let too many pairs pass, given how far (squared) neighbours will be looked for.
    pub fn or_better(mut self, isa: Isa, bounds: &[f32], threads: usize) -> Filter<'a> {
        if self.sides.iter().any(Side::is_bytes) {
            let look = self.look(isa, bounds);
            if look.passing * PASSING > look.pairs * self.cloud.dim {
                return Filter::of(self.cloud, false, threads);
            }
            self.is_coarse = look.kept > COARSE * look.near;
        }
        self
    }

    /// What it would do, from a look at some pairs.
    fn look(&self, isa: Isa, bounds: &[f32]) -> Look {
        let cloud = self.cloud;
        let spread = |count: usize, first: usize| {
            let places = (0..count).map(|at| (at * cloud.len() / count + first) as u32).filter(|place| (*place as usize) < cloud.len());
            let places: Vec<u32> = places.collect();
            let rows = cloud.centred(&places);
            (places, rows)
        };
        let ((left, left_rows), (right, right_rows)) = (spread(LEFT, 0), spread(RIGHT, 1));
        let mut look = Look { pairs: left.len() * right.len(), ..Look::default() };
        for (&a, a_row) in left.iter().zip(left_rows.chunks_exact(cloud.dim)) {
            for (&b, b_row) in right.iter().zip(right_rows.chunks_exact(cloud.dim)) {
                let (a, b) = (a as usize, b as usize);
                let lost = ((cloud.squares[a] + cloud.squares[b]) * self.margin) as f32;
                let (distance, bound) = (square_distance_narrow(isa, a_row, b_row), bounds[a].max(bounds[b]));
                look.near += usize::from(distance <= bound);
                look.passing += usize::from(distance - lost <= bound);
                look.kept += usize::from(distance - 2.0 * lost <= bound);
            }
        }
        look
    }

    /// The rows at these places as a side, to be multiplied with those of this filter.
    pub fn side(&self, places: &[u32]) -> Side {
        let mut side = Side::new(self.cloud, self.sides.iter().any(Side::is_bytes), places, &mut Vec::new());
        // Its rows are among those that the margin was made for.
        side.set_margin(self.cloud, self.margin);
        side
    }
}

impl Side {
    /// `centred` is memory that is used again.
    fn new(cloud: &Cloud<'_>, bytes: bool, places: &[u32], centred: &mut Vec<f32>) -> Side {
        cloud.fill_centred(places, centred);
        let numbers = match bytes {
            true => Numbers::Bytes(ByteRows::new(centred, cloud.dim)),
            false => Numbers::Floats(centred.clone(), Panels::from_rows(centred, places.len(), cloud.dim)),
        };
        Side { places: places.to_vec(), numbers, lows: Vec::new(), highs: Vec::new() }
    }

    fn is_bytes(&self) -> bool {
        matches!(self.numbers, Numbers::Bytes(_))
    }

    /// Share of ||a||^2 + ||b||^2 >= 2 |a||b| by which ||a||^2 + ||b||^2 - 2 p may be off ||a - b||^2, p the product of a and b as computed.
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

    /// ||a||^2 less the margin and with it, and a little more for what underflows.
    fn set_margin(&mut self, cloud: &Cloud<'_>, margin: f64) {
        let square = |place: &u32| cloud.squares[*place as usize];
        self.lows = self.places.iter().map(|place| (square(place) * (1.0 - margin) - 1e-37) as f32).collect();
        self.lows.resize(self.places.len().next_multiple_of(STRIP), f32::INFINITY);
        self.highs = self.places.iter().map(|place| (square(place) * (1.0 + margin) + 1e-37) as f32).collect();
    }

    /// Marks, strip by strip, which rows of another side of the same filter may be near each row, because their product p has low_b - 2 p within the limit of
    /// the row or low_a - 2 p within that of the other; and writes, in rows of [`BLOCK`], at least the products in strips where some are.
    pub fn multiply_near(&self, isa: Isa, other: &Side, (own_limits, limits): (&[f32], &[f32]), memory: &mut Memory) {
        let Memory { products, masks, packed } = memory;
        let near = NearPairs { row_lows: &self.lows, row_limits: own_limits, lows: &other.lows, limits };
        match (&self.numbers, &other.numbers) {
            (Numbers::Bytes(own), Numbers::Bytes(other)) => own.multiply_near(other, products, BLOCK, &near, masks),
            (Numbers::Floats(rows, _), Numbers::Floats(_, panels)) => {
                let rows = Rows { data: rows, stride: panels.k, count: self.places.len() };
                multiply(isa, rows, panels, &Part::all(panels), products, BLOCK, Epilogue::default(), packed);
                near.mark(isa, products, BLOCK, self.places.len(), masks);
            }
            _ => unreachable!("all sides of a filter are of one kind"),
        }
    }

    /// Bounds of ||a - b||^2 of a row and a row of another side, whose product is given.
    pub fn distance(&self, row: usize, other: &Side, other_row: usize, product: f32) -> (f32, f32) {
        let (low, high) = (self.lows[row] + other.lows[other_row], self.highs[row] + other.highs[other_row]);
        (low - 2.0 * product, high - 2.0 * product)
    }
}
