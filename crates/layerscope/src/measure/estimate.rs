//! How much memory and disk a run will take, said before it begins, and how it is cut to fit a limit.

use layerscope_corpus::{BatchPlan, Spool};
use layerscope_error::{Line, line, setting};
use layerscope_model::{Model, leg_memory, workspace_memory};
use layerscope_stats::sketch::SketchKind;
use layerscope_stats::{Accumulate, PointShape};

use super::ahead::most_bytes;
use super::plan::Plan;
use super::route::{Order, Route, Way, stretches};
use super::workers::left_early;
use crate::error::{Error, Result};
use crate::process::system;
use crate::store::state::packing_bytes;
use crate::text::{bytes, counted};

/// What a worker holds beside its activations for every row: ids, positions, groups, norms, segments.
const BYTES_PER_ROW: usize = 96;
/// A row of the table of groups, of kept states of chosen tokens, and of components of chosen tokens, while these are made and written.
const BYTES_PER_TABLE_ROW: usize = 420;
const BYTES_PER_TOKEN_ROW: usize = 360;
const BYTES_PER_TOKEN_COMPONENT: usize = 200;
/// A number of the sample while dimensions and partitions are computed, beside the number as it is kept: centred, in f32 and in bytes. And what
/// more it takes while there are clusters.
const BYTES_PER_SAMPLED_NUMBER: usize = 12;
const BYTES_PER_CLUSTERED_NUMBER: usize = 12;
/// A group at a point in the tables of a finished run, a kept state of a chosen token, a component.
const BYTES_PER_STORED_GROUP: usize = 48;
const BYTES_PER_STORED_TOKEN: usize = 48;
const BYTES_PER_STORED_COMPONENT: usize = 64;
/// What a state file says of a group, and of a kept state.
const BYTES_PER_NAME: usize = 80;
const BYTES_PER_KEY: usize = 64;
/// Blocks of products while neighbours are looked for.
const NEIGHBOUR_BYTES: usize = 16 << 20;
/// Square matrices while spectra and linear maps are computed.
const MATRICES_AT_THE_END: usize = 24;
/// What the allocator wastes: one part in so many.
const MARGIN: u64 = 33;
/// Files between which states move from leg to leg: a leg reads one, writes another, and the third is needed until the last leg is saved.
pub const STREAMS: usize = 3;
/// While weights are read, a matrix is there twice: one part in so many of a block.
const LARGEST_MATRIX: u64 = 3;
/// Points whose tables are made at once, as far as room is made for them: with more threads, each has several.
const POINTS_AT_ONCE: usize = 4;
/// Code, stacks and small things that are touched only once the model runs.
const SLACK: u64 = 10 << 20;

/// What the tables of a point take while they are computed, beside what is read.
pub fn while_computed(dim: usize, sample: usize, has_covariance: bool, has_clusters: bool) -> usize {
    let matrices = if has_covariance { MATRICES_AT_THE_END * dim * dim * size_of::<f64>() } else { 0 };
    let of_number = BYTES_PER_SAMPLED_NUMBER + if has_clusters { BYTES_PER_CLUSTERED_NUMBER } else { 0 };
    matrices + if sample == 0 { 0 } else { sample * dim * of_number + NEIGHBOUR_BYTES }
}

/// What the long tables take while they are made and written, with so many groups, kept states of chosen tokens and components of chosen
/// tokens at all points together.
pub fn table_bytes(groups: usize, tokens: usize, token_components: usize) -> usize {
    groups * BYTES_PER_TABLE_ROW + tokens * BYTES_PER_TOKEN_ROW + token_components * BYTES_PER_TOKEN_COMPONENT
}

/// What numbers of a state take once they are packed: between 0.77 and 0.83 of their bytes on MiniLM and SmolLM2.
fn as_packed(bytes: u64) -> u64 {
    bytes * 4 / 5
}

/// Sizes that decide memory.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of the state of the widest point.
    pub state: PointShape,
    /// States of the hash sample.
    pub sample: usize,
    /// States of chosen tokens, some of which are in the sample too.
    pub tokens: usize,
    /// Groups that occur once: stored as one state.
    pub single_groups: usize,
    /// Points to measure.
    pub points: usize,
    /// Rows of the largest batch.
    pub largest_batch: usize,
    /// Workers.
    pub threads: usize,
    /// Rows of the pilot.
    pub pilot: usize,
    /// Whether the sample is clustered.
    pub has_clusters: bool,
}

impl Sizes {
    /// Bytes of the finished run on disk.
    fn disk(&self) -> u64 {
        let PointShape { groups, dim, sketches, .. } = self.state;
        let vectors = if sketches.contains(SketchKind::Units) { 2 } else { 1 };
        let left_out = self.single_groups * dim * (vectors * size_of::<f64>() - size_of::<f32>());
        let tables = groups * BYTES_PER_STORED_GROUP + self.tokens * BYTES_PER_STORED_TOKEN + dim * BYTES_PER_STORED_COMPONENT;
        let names = groups * BYTES_PER_NAME + (self.sample + self.tokens) * BYTES_PER_KEY;
        let kept = self.state.kept * dim * size_of::<f32>();
        let packed = as_packed((self.state.bytes() - left_out - kept) as u64);
        packed * self.points as u64 + (self.points * (kept + tables) + names) as u64
    }
}

/// What is in memory while a run is at some segment of its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Bytes of weights.
    pub weights: u64,
    /// Points measured there.
    pub points: usize,
}

/// An estimate in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// What is there already, the model apart, and the workers' buffers.
    pub fixed: u64,
    /// The segments of the way.
    pub shares: Vec<Share>,
    /// The state of one point.
    pub point: u64,
    /// What more a point takes that has massive states.
    pub massive: u64,
    /// Points that have some.
    pub massive_points: usize,
    /// The pilot's states of one point; 0 where a device of its own computes them, which would have to send them here and back.
    pub pilot: u64,
    /// Whether the run keeps those: where there is room, which is no reason for another leg.
    pub keeps_pilot: bool,
    /// What there is while the tables are made of states that were written, when model and workers are gone.
    pub finishing: u64,
    /// What there is beside the states while the tables of several points are made of those in memory, and these are written.
    pub beside_states: u64,
    /// Whether that is done: in one leg, and where there is room.
    pub keeps_states: bool,
    /// The finished run on disk.
    pub disk: u64,
    /// The peak so far.
    pub peak: u64,
    /// The same in the device's own memory, and what it has free; None where it has none of its own.
    pub device: Option<(Box<Estimate>, u64)>,
}

impl Estimate {
    /// From what is resident now without the model, and what will come. Any point may have massive states.
    pub fn new<D: Accumulate>(device: &D, model: &Model, way: &Way, sizes: &Sizes, resident: u64) -> Estimate {
        let PointShape { groups, dim, sketches, .. } = sizes.state;
        let rows = sizes.largest_batch;
        let worker = workspace_memory(device, &model.spec, rows) + device.space_memory(sketches, rows, dim);
        let worker = worker.host + rows * BYTES_PER_ROW;
        // What a device has is fetched to be saved; nothing is left there before its turn.
        let own = Estimate::on_device(device, model, way, sizes);
        let point = if own.is_some() { sizes.state.bytes() } else { device.point_memory(&sizes.state).host };
        let early = if own.is_some() { 0 } else { rows * dim * size_of::<f32>() + device.space_memory(sketches, rows, dim).host };
        let massive = sizes.state.massive_bytes();
        let pilot = if own.is_some() { 0 } else { sizes.pilot * dim * size_of::<f32>() };
        // Kept states as read, and sorted into the sample and the chosen tokens.
        let kept = (sizes.sample + sizes.tokens) * dim * size_of::<f32>();
        let computed = while_computed(dim, sizes.sample, sketches.contains(SketchKind::Covariance), sizes.has_clusters);
        let share = |segment: &super::route::Segment| Share {
            weights: leg_memory(device, &model.spec, &model.plan, segment.leg).host as u64,
            points: segment.points.len(),
        };
        let rows = sizes.points * table_bytes(groups, sizes.tokens, sizes.state.chosen * dim);
        let at_once = sizes.threads.min(POINTS_AT_ONCE).min(sizes.points).max(1);
        Estimate {
            fixed: resident + (worker * sizes.threads + early * left_early(sizes.threads)) as u64 + SLACK,
            shares: way.segments.iter().map(share).collect(),
            point: point as u64,
            massive: massive as u64,
            massive_points: sizes.points,
            pilot: pilot as u64,
            keeps_pilot: false,
            finishing: resident + (2 * point + kept + rows + computed) as u64 + SLACK,
            beside_states: resident + (rows + at_once * computed + packing_bytes(sizes.threads)) as u64 + SLACK,
            keeps_states: false,
            disk: sizes.disk(),
            peak: system::peak().unwrap_or(0),
            device: own,
        }
    }

    /// What it takes of the device's own memory, and what that has free.
    fn on_device<D: Accumulate>(device: &D, model: &Model, way: &Way, sizes: &Sizes) -> Option<(Box<Estimate>, u64)> {
        let free = device.free_memory()?;
        let PointShape { dim, sketches, .. } = sizes.state;
        let worker = workspace_memory(device, &model.spec, sizes.largest_batch) + device.space_memory(sketches, sizes.largest_batch, dim);
        let share = |segment: &super::route::Segment| Share {
            weights: leg_memory(device, &model.spec, &model.plan, segment.leg).device as u64,
            points: segment.points.len(),
        };
        let estimate = Estimate {
            fixed: (worker.device * sizes.threads) as u64,
            shares: way.segments.iter().map(share).collect(),
            point: device.point_memory(&sizes.state).device as u64,
            ..Estimate::default()
        };
        Some((Box::new(estimate), free))
    }

    /// Whether legs stay below a limit of the host's memory and below what the device has free.
    fn fits(&self, legs: &[usize], limit: Option<u64>) -> bool {
        let fits_device = self.device.as_ref().is_none_or(|(own, free)| own.total(legs) <= *free);
        fits_device && limit.is_none_or(|limit| self.total(legs) <= limit)
    }

    /// The same where so many points have massive states: those are accumulated apart.
    pub fn with_massive(self, points: usize) -> Estimate {
        Estimate { massive_points: points, ..self }
    }

    /// The same with what saves time and needs room, as far as there is some.
    pub fn with_room(self, legs: &[usize], limit: Option<u64>) -> Estimate {
        let if_it_fits = |estimate: Estimate, more: Estimate| if more.fits(legs, limit) { more } else { estimate };
        let keeping_pilot = Estimate { keeps_pilot: self.pilot > 0, ..self.clone() };
        let estimate = if_it_fits(self, keeping_pilot);
        let keeping_states = Estimate { keeps_states: legs.len() == 1, ..estimate.clone() };
        if_it_fits(estimate, keeping_states)
    }

    /// The most that a run with these legs will occupy: the weights and states of a leg, with the weights of the next one as they are
    /// read and the states of the last one as they are written. What is kept of the pilot is there twice before the first states are.
    pub fn total(&self, legs: &[usize]) -> u64 {
        let shares: Vec<Share> = legs
            .iter()
            .scan(self.shares.iter(), |shares, &segments| {
                let join = |a: Share, b: &Share| Share { weights: a.weights + b.weights, points: a.points + b.points };
                Some(shares.by_ref().take(segments).fold(Share::default(), join))
            })
            .collect();
        let states = |points: usize| self.point * points as u64 + self.massive * points.min(self.massive_points) as u64;
        let at = |leg: usize| {
            let next = shares.get(leg + 1).map_or(0, |next| next.weights + next.weights / LARGEST_MATRIX);
            let last = leg.checked_sub(1).map_or(0, |last| shares[last].points);
            let pilot = if self.keeps_pilot { most_bytes(self.pilot * shares[leg].points as u64) } else { 0 };
            shares[leg].weights + next + (states(shares[leg].points + last) + pilot).max(states(last) + 2 * pilot)
        };
        let running = (0..shares.len()).map(at).max().unwrap_or(0);
        let finishing = match self.keeps_states {
            true => self.beside_states + states(shares.iter().map(|share| share.points).sum()),
            false => self.finishing + 2 * self.massive * u64::from(self.massive_points > 0),
        };
        let needed = (self.fixed + running).max(finishing);
        (needed + needed / MARGIN).max(self.peak)
    }

    /// How the way is cut so that the limit holds, in as few legs as possible.
    pub fn legs(&self, way: &Way, order: Order, limit: Option<u64>) -> Result<Vec<usize>> {
        let segments = way.segments.len();
        let fits = |legs: &Vec<usize>| self.fits(legs, limit);
        let finest = way.even_legs(segments);
        let found = match order {
            Order::Auto => (1..=segments).map(|legs| way.even_legs(legs)).find(fits),
            Order::Batch => Some(vec![segments]).filter(fits),
            Order::Block => Some(finest.clone()).filter(fits),
        };
        let too_small =
            |legs: &[usize]| self.device.as_ref().map(|(own, free)| (own.total(legs), *free)).filter(|(needed, free)| needed > free);
        if let (None, Some((needed, free))) = (&found, too_small(&if order == Order::Batch { vec![segments] } else { finest.clone() })) {
            let (needed, free) = (bytes(needed as usize), bytes(free as usize));
            return Err(Error::refused(line![
                format!("the device has {free} free and the run needs {needed} of it; reduce the batches ("),
                setting("batch-tokens"),
                ") or the groups (",
                setting("group"),
                "), or choose ",
                setting("device").to("cpu")
            ]));
        }
        found.ok_or_else(|| match order {
            Order::Batch => Error::refused(line![
                too_little(limit),
                format!(" is not enough: all layers at once take {}; leave out ", bytes(self.total(&[segments]) as usize)),
                setting("order")
            ]),
            _ => Error::refused(line![
                too_little(limit),
                format!(" is not enough: one layer at a time takes {}; reduce the groups (", bytes(self.total(&finest) as usize)),
                setting("group"),
                ", ",
                setting("limit"),
                ", ",
                setting("sample"),
                "), the kept states (",
                setting("sample-states"),
                ", ",
                setting("token-states"),
                ") or the batches (",
                setting("batch-tokens"),
                ", ",
                setting("threads"),
                ")"
            ]),
        })
    }

    /// Refuses to go on with legs that a smaller limit would not have allowed.
    pub fn expect_room(&self, legs: &[usize], plan: &Plan) -> Result<()> {
        let needed = self.total(legs);
        match plan.max_memory {
            Some(limit) if needed > limit => Err(Error::refused(line![
                too_little(Some(limit)),
                format!(
                    " is not enough: the run in {} was begun with {}; give as much, or start again with ",
                    plan.out.display(),
                    bytes(needed as usize)
                ),
                setting("overwrite")
            ])),
            _ => Ok(()),
        }
    }

    /// What there is to do, and the disk and memory it will take.
    pub fn line(&self, route: &Route, spool: &Spool) -> Line {
        let counters = spool.counters();
        let order = match route.legs.len() {
            1 => String::new(),
            legs => format!(", block by block in {legs} legs"),
        };
        let several = if route.stretches.len() > 1 { format!(" of {} stretches of text", route.stretches.len()) } else { String::new() };
        let (documents, tokens) = (counted(counters.documents, "document"), counted(counters.tokens, "token"));
        let groups = counted(spool.groups().len() as u64, "group");
        let memory = rounded_up(self.total(&route.legs));
        let own =
            self.device.as_ref().map_or(String::new(), |(own, _)| format!(" and {} of the GPU's", rounded_up(own.total(&route.legs))));
        let disk = bytes((self.disk + as_packed(self.massive) * self.massive_points as u64) as usize);
        format!("{documents}, {tokens}, {groups}; disk about {disk}, memory estimate {memory}{own}{order}{several}").into()
    }
}

/// What is announced is not exceeded: from 1 GiB on, hundredths rounded up.
fn rounded_up(memory: u64) -> String {
    let gibibytes = memory as f64 / f64::from(1 << 30);
    if gibibytes < 1.0 { bytes(memory as usize) } else { format!("{:.2} GiB", (100.0 * gibibytes).ceil() / 100.0) }
}

fn too_little(limit: Option<u64>) -> Line {
    setting("max-memory").to(bytes(limit.unwrap_or(0) as usize))
}

/// How the text is cut so that the disk holds the run, which is refused where that is impossible.
pub fn fit_disk(plan: &Plan, estimate: &Estimate, legs: &[usize], batches: &BatchPlan, width: usize) -> Result<Vec<usize>> {
    let folder = &plan.out;
    let points: usize = estimate.shares.iter().map(|share| share.points).sum();
    let state = (estimate.point + if estimate.massive_points > 0 { estimate.massive } else { 0 }) * points as u64;
    let in_a_leg = legs.iter().copied().max().unwrap_or(0).min(points) as u64;
    let largest = estimate.point * in_a_leg;
    // Finished legs with two checkpoints and a third being written; or legs beside the joined state and the tables.
    let needed = (state + 3 * largest).max(2 * state + state / 4);
    let row = (width * size_of::<f32>()) as u64;
    let streams = if legs.len() > 1 { STREAMS as u64 } else { 0 };
    let smallest = streams * batches.largest() as u64 * row;
    let free = system::free_disk(folder).unwrap_or(u64::MAX);
    if free < needed + smallest {
        let (free, needed) = (bytes(free as usize), bytes((needed + smallest) as usize));
        let line =
            line![format!("{}: {free} free, the run needs {needed}; make room or choose another ", folder.display()), setting("out")];
        return Err(Error::refused(line));
    }
    if streams == 0 {
        return Ok(vec![batches.len()]);
    }
    // Half of what is free: others write too.
    let room = (free - needed) / 2 / streams;
    Ok(stretches(batches, row, plan.stretch_tokens.map_or(room, |tokens| room.min(tokens.saturating_mul(row)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use layerscope_model::{Leg, Point};

    fn way() -> Way {
        let segment = |at: usize| super::super::route::Segment { leg: Leg::up_to(Point::Block(at)), points: at..at + 1 };
        Way { segments: (0..7).map(segment).collect() }
    }

    fn estimate() -> Estimate {
        let shares = vec![Share { weights: 30, points: 1 }; 7];
        Estimate { fixed: 100, shares, point: 50, massive: 25, pilot: 4, finishing: 120, ..Estimate::default() }
    }

    #[test]
    fn a_limit_makes_even_legs() {
        let (estimate, way) = (estimate(), way());
        let legs = |order, limit| estimate.legs(&way, order, limit).expect("fits");
        // 100 + 7 * (30 + 50), and one part in 33 more.
        assert_eq!(estimate.total(&[7]), 660 + 660 / MARGIN);
        assert_eq!(legs(Order::Auto, None), [7]);
        assert_eq!(legs(Order::Auto, Some(680)), [7]);
        // One leg at a time: its weights and states, the next one's weights and a matrix, the last one's states.
        assert_eq!(estimate.total(&[4, 3]), 100 + (90 + 350) + (100 + 90 + 350) / MARGIN);
        assert_eq!(estimate.total(&[1; 7]), 100 + (30 + 40 + 100) + 270 / MARGIN);
        assert_eq!(legs(Order::Auto, Some(679)), [4, 3]);
        assert_eq!(legs(Order::Auto, Some(460)), [2, 2, 2, 1]);
        assert_eq!(legs(Order::Block, None), [1; 7]);
    }

    #[test]
    fn what_a_device_has_free_is_a_limit_too() {
        let limited = |free: u64| Estimate { device: Some((Box::new(estimate()), free)), ..estimate() };
        let legs = |free, order| limited(free).legs(&way(), order, None);
        assert_eq!(legs(680, Order::Auto).expect("fits"), [7]);
        assert_eq!(legs(460, Order::Auto).expect("fits"), [2, 2, 2, 1]);
        let line = |order| legs(205, order).expect_err("too little").to_string();
        assert!(line(Order::Auto).starts_with("the device has 205 B free and the run needs 278 B of it"), "{}", line(Order::Auto));
        assert!(line(Order::Batch).contains("needs 680 B of it") && line(Order::Batch).ends_with("--device cpu"), "{}", line(Order::Batch));
    }

    #[test]
    fn what_is_announced_is_not_exceeded() {
        assert_eq!(
            (rounded_up(1 << 20), rounded_up(1 << 30), rounded_up((1 << 30) + 1)),
            ("1.0 MiB".into(), "1.00 GiB".into(), "1.01 GiB".into())
        );
    }

    #[test]
    fn what_cannot_fit_is_refused_with_advice() {
        let line = |order| estimate().legs(&way(), order, Some(205)).expect_err("too little").to_string();
        assert!(line(Order::Auto).contains("one layer at a time takes 278 B") && line(Order::Auto).contains("--batch-tokens"));
        assert!(line(Order::Batch).contains("all layers at once take 680 B; leave out --order"), "{}", line(Order::Batch));
    }

    #[test]
    fn massive_states_take_memory_of_their_own() {
        let massive = estimate().with_massive(2);
        // 100 + 7 * (30 + 50) + 2 * 25, and one part in 33 more.
        assert_eq!(massive.total(&[7]), 710 + 710 / MARGIN);
        assert_eq!(estimate().with_massive(0), estimate());
    }

    #[test]
    fn the_pilots_states_are_kept_where_there_is_room() {
        let total = |bytes: u64| bytes + bytes / MARGIN;
        let all = estimate().with_room(&[7], None);
        assert_eq!(all.total(&[7]), total(660 + 7 * 4));
        assert_eq!(estimate().with_room(&[7], Some(708)), all);
        assert!(!estimate().with_room(&[7], Some(707)).keeps_pilot, "there is no room");
        assert_eq!(estimate().with_room(&[1; 7], None).total(&[1; 7]), total(270 + 4), "of one leg at a time");
        // Before there are states, what is kept is there twice.
        let small = Estimate { point: 1, finishing: 0, ..estimate() }.with_room(&[7], None);
        assert_eq!(small.total(&[7]), total(100 + 7 * 30 + 2 * 7 * 4));
        assert!(!Estimate { pilot: 0, ..estimate() }.with_room(&[7], None).keeps_pilot);
    }

    #[test]
    fn tables_are_made_of_states_in_memory_where_there_is_room() {
        let total = |bytes: u64| bytes + bytes / MARGIN;
        let estimate = || Estimate { pilot: 0, beside_states: 400, ..estimate() };
        // 7 * 50 of states and 400 beside them; without them 660.
        let all = estimate().with_room(&[7], None);
        assert_eq!((all.keeps_states, all.total(&[7])), (true, total(750)));
        assert_eq!((all.clone().with_massive(2).total(&[7]), total(750)), (total(800), all.total(&[7])));
        assert_eq!(estimate().with_room(&[7], Some(total(750))), all);
        assert_eq!(estimate().with_room(&[7], Some(total(750) - 1)), estimate(), "there is no room");
        assert!(!estimate().with_room(&[4, 3], None).keeps_states, "they are written leg by leg");
    }
}
