//! Statistics on the card: `Accumulate` for [`Cuda`].
//!
//! Moments of groups and of all typical states, similarities and shapes of sequences, covariances, products with the point before,
//! components that stand out, and kept states are computed where the states are, in f64 and in a fixed order. Massive states are few; they [enter on the host](massive).
//! Sketches that the card does not compute are computed there too, from a copy of the states, at points where one is wanted.
//!
//! Nothing is waited for at a point. What only the card knows, a state that is not finite, is reported when the batch is
//! [finished](Accumulate::finish_batch); such a state enters nowhere.

mod doubles;
mod functions;
mod host_part;
mod info;
mod layout;
mod massive;
mod matrices;
mod peaks;
mod point;
mod reader;
mod resident;
mod scatter;
mod shapes;
mod space;
mod tensors;

use std::borrow::Cow;
use std::convert::Infallible;

use cudarc::driver::DriverError;
use layerscope_compute::{Memory, States};
use layerscope_stats::sketch::{BatchSpace, SketchKind, SketchSet};
use layerscope_stats::{Accumulate, BatchInfo, BatchRows, Error, LateRow, PointShape, PointState, Result, Wanted};

use crate::device::Cuda;
use crate::launch::Word;
use crate::stream::{CudaStream, Work};
use host_part::lock;
pub use info::CudaInfo;
use massive::{MassiveRing, Pending};
use point::Rows;
pub use resident::CudaResident;
use resident::ON_CARD;
use scatter::{Before, ScatterSpace, WantedProducts};
use shapes::ShapeSpace;
pub use space::CudaSpace;
use space::{BAD_ROWS, DeviceSpace, FIRST_BAD, FLAGS, HostMemory, POINTS, Waiting};

/// Sketches that the host computes from a copy of the states.
const ON_HOST: [SketchKind; 1] = [SketchKind::Blocks];

/// Those of a set that the host computes.
fn on_host(sketches: SketchSet) -> SketchSet {
    let mut wanted = SketchSet::default();
    ON_HOST.into_iter().for_each(|kind| wanted.set(kind, sketches.contains(kind)));
    wanted
}

/// What a batch contributes at one point.
pub struct CudaPrepared<'a> {
    info: &'a CudaInfo,
    device: &'a DeviceSpace,
    states: Word,
    dim: usize,
    point: usize,
    sketches: SketchSet,
    before: Option<Before>,
    /// Whether massive rows were looked for.
    has_massive: bool,
    /// What the host computed.
    host: Option<(BatchRows<'a>, &'a BatchSpace)>,
}

impl Accumulate for Cuda {
    type Info = CudaInfo;
    type Space = CudaSpace;
    type Prepared<'a> = CudaPrepared<'a>;
    /// Work of several batches is ordered by events on the card: nobody waits on the host.
    type Waiting = Infallible;
    type Resident = CudaResident;

    fn info(&self, stream: &mut CudaStream, info: BatchInfo) -> Result<CudaInfo> {
        Ok(CudaInfo::new(self, stream.raw(), info)?)
    }

    fn space(&self) -> Result<CudaSpace> {
        Ok(CudaSpace::new(self)?)
    }

    fn start_batch(&self, space: &mut CudaSpace) {
        space.device.is_strict.clear();
        space.device.scatter.before = None;
        // Only a batch that failed leaves something, and then nobody asks any more.
        let _ = space.device.massive.abandon();
        space.host.batch.start_batch();
    }

    fn prepare<'a, 's: 'a>(
        &self,
        states: &mut States<'s, Cuda>,
        info: &'a CudaInfo,
        wanted: &Wanted,
        space: &'a mut CudaSpace,
    ) -> Result<CudaPrepared<'a>> {
        let CudaSpace { device, host } = space;
        let point = device.is_strict.len();
        if point == POINTS {
            return Err(Error::Rows(format!("a batch passes at most {POINTS} points")));
        }
        let host = prepare_host(states, info, wanted, host)?;
        device.is_strict.push(!wanted.skip_bad);
        let items = self.measure(states, info, wanted.massive, device, point)?;
        let (dim, counted, products) = (states.width, info.layout.rows(), WantedProducts::new(wanted));
        let before = device.scatter.before.take().filter(|_| products.pairs);
        let raw = states.stream.raw().clone();
        device.waiting.reserve_moments(self, &raw, &info.layout, dim)?;
        if wanted.sketches.contains(SketchKind::Shapes) {
            device.shapes.reserve(self, &raw, &info.layout, dim)?;
        }
        if products.any() {
            device.scatter.before = before;
            device.scatter.reserve(self, &raw, products, (point, counted, dim))?;
        }
        let mut found = None;
        if counted > 0 && (wanted.massive.is_some() || before.is_some_and(|before| before.massive.is_some())) {
            let place = PointPlace { states: items, dim, point, before };
            found = Some(self.copy_massive(states.stream, info, device, wanted.massive, place)?);
        }
        let rows = Rows { cuda: self, info, device, states: items, dim, point };
        states.stream.run(Work::Statistics, |raw| {
            if wanted.sketches.contains(SketchKind::Units) {
                rows.compare_sequences(raw)?;
            }
            if wanted.sketches.contains(SketchKind::Shapes) {
                rows.shape_sequences(raw)?;
            }
            if wanted.sketches.contains(SketchKind::Peaks) {
                rows.find_peaks(raw)?;
            }
            if products.any() { rows.multiply(raw, products, found) } else { Ok(()) }
        });
        if products.pairs {
            self.keep_states(states, info, device)?;
            device.scatter.before = Some(Before { dim, massive: wanted.massive });
        }
        let sketches = wanted.sketches;
        Ok(CudaPrepared { info, device, states: items, dim, point, sketches, before, has_massive: found.is_some(), host })
    }

    fn set_aside<'a>(&self, prepared: Self::Prepared<'a>) -> Result<Infallible, Self::Prepared<'a>> {
        Err(prepared)
    }

    fn commit_waiting(&self, _: &mut CudaStream, waiting: Infallible, _: &CudaInfo, _: &mut CudaResident) -> Result<()> {
        match waiting {}
    }

    fn commit(&self, stream: &mut CudaStream, prepared: &CudaPrepared<'_>, resident: &mut CudaResident) -> Result<()> {
        let &CudaPrepared { info, device, states, dim, point, sketches, before, has_massive, ref host } = prepared;
        check(info, dim, resident)?;
        check_sketches(sketches, before, resident)?;
        if let Some((rows, batch)) = host {
            lock(&resident.host).state.sketches.update(batch.contribution(), rows)?;
        }
        let rows = Rows { cuda: self, info, device, states, dim, point };
        stream.run(Work::Statistics, |raw| {
            raw.wait(&resident.entered).map_err(|error| self.error(error))?;
            rows.enter(raw, resident)?;
            if info.layout.rows() > 0 {
                resident.gram.as_ref().map_or(Ok(()), |gram| rows.enter_gram(raw, gram))?;
                let cross = before.zip(resident.cross.as_ref());
                cross.map_or(Ok(()), |(before, cross)| rows.enter_cross(raw, before, cross))?;
                resident.shapes.as_ref().map_or(Ok(()), |shapes| rows.enter_shapes(raw, shapes))?;
                resident.peaks.as_ref().map_or(Ok(()), |peaks| rows.enter_peaks(raw, peaks))?;
            }
            resident.entered.record(raw).map_err(|error| self.error(error))
        });
        if has_massive {
            device.massive.commit(point, &resident.host, resident.committed)?;
            resident.committed += 1;
        }
        Ok(())
    }

    fn finish_batch(&self, stream: &mut CudaStream, space: &mut CudaSpace) -> Result<Option<LateRow>> {
        let DeviceSpace { waiting, massive, is_strict, .. } = &mut space.device;
        massive.settle_all()?;
        let Some(flags) = waiting.flags.slice().filter(|_| !is_strict.is_empty()) else { return Ok(None) };
        let read = || -> Result<Vec<u32>, DriverError> {
            let words = stream.raw().clone_dtoh(&flags.slice(FLAGS..(1 + is_strict.len()) * FLAGS))?;
            stream.raw().synchronize()?;
            Ok(words)
        };
        let words = read().map_err(|error| self.error(error))?;
        let late =
            |(point, words): (usize, &[u32])| (is_strict[point] && words[BAD_ROWS] > 0).then(|| LateRow { point, row: !words[FIRST_BAD] });
        Ok(words.chunks_exact(FLAGS).enumerate().find_map(late))
    }

    fn norms(&self, states: &mut States<'_, Cuda>, info: &CudaInfo, space: &mut CudaSpace) -> Result<Vec<f64>> {
        self.measure(states, info, None, &mut space.device, 0)?;
        self.synchronize_statistics(states.stream)?;
        let counted = info.host.segments().counted();
        let Some(norms) = space.device.waiting.norms.slice().filter(|_| !counted.is_empty()) else { return Ok(Vec::new()) };
        let norms = states.stream.raw().clone_dtoh(&norms.slice(..=counted[counted.len() - 1] as usize));
        let norms = norms.map_err(|error| self.error(error))?;
        self.synchronize_statistics(states.stream)?;
        Ok(counted.iter().map(|&row| norms[row as usize]).collect())
    }

    fn load(&self, state: PointState) -> Result<CudaResident> {
        CudaResident::load(self, state)
    }

    fn fetch<'a>(&self, resident: &'a CudaResident) -> Result<Cow<'a, PointState>> {
        resident.fetch(self).map(Cow::Owned)
    }

    /// Massive states and what the host computes lie there, everything else on the card.
    fn point_memory(&self, shape: &PointShape) -> Memory {
        let host = PointShape { groups: 0, kept: 0, chosen: 0, sketches: on_host(shape.sketches), ..*shape }.bytes();
        Memory { host, device: shape.bytes() - host }
    }

    fn space_memory(&self, sketches: SketchSet, rows: usize, dim: usize) -> Memory {
        let wanted = Wanted { sketches, massive: None, skip_bad: false };
        let products = WantedProducts::new(&wanted);
        let shapes = if sketches.contains(SketchKind::Shapes) { ShapeSpace::bytes(rows, dim) } else { 0 };
        let products = MassiveRing::bytes(rows, dim, products.pairs) + ScatterSpace::bytes(products, rows, dim);
        let device = Waiting::bytes(rows, dim) + products + shapes;
        let on_host = on_host(sketches);
        let copy = if on_host.is_empty() { 0 } else { rows * dim * size_of::<f32>() };
        Memory { host: BatchSpace::bytes(on_host, rows, dim) + copy, device }
    }
}

/// A batch at one point.
#[derive(Clone, Copy)]
struct PointPlace {
    states: Word,
    dim: usize,
    point: usize,
    before: Option<Before>,
}

impl Cuda {
    /// Norms and kinds of the rows of a batch; returns where the states of its items lie.
    fn measure(
        &self,
        states: &mut States<'_, Cuda>,
        info: &CudaInfo,
        massive: Option<f64>,
        device: &mut DeviceSpace,
        point: usize,
    ) -> Result<Word> {
        let (dim, layout) = (states.width, &info.layout);
        let rows = items_of(info, states.rows)?;
        device.waiting.reserve_rows(self, states.stream.raw(), layout, (point, rows, dim))?;
        let model_rows = Word::from(states.buffer.floats());
        let is_pooled = !layout.pooled.is_empty();
        let items = if is_pooled { device.waiting.items.word() } else { model_rows };
        states.stream.run(Work::Statistics, |raw| {
            if point == 0 {
                let cleared = device.waiting.flags.slice_mut().map_or(Ok(()), |flags| raw.memset_zeros(flags));
                cleared.map_err(|error| self.error(error))?;
            }
            let cleared = device.waiting.peaks.slice_mut().map_or(Ok(()), |peaks| raw.memset_zeros(peaks));
            cleared.map_err(|error| self.error(error))?;
            let rows = Rows { cuda: self, info, device, states: items, dim, point };
            if is_pooled {
                rows.pool(raw, model_rows)?;
            }
            rows.measure(raw, massive)
        });
        Ok(items)
    }

    /// Copies massive rows aside, and how many there are to the host; returns where they are listed.
    fn copy_massive(
        &self,
        stream: &mut CudaStream,
        info: &CudaInfo,
        device: &mut DeviceSpace,
        massive: Option<f64>,
        PointPlace { states, dim, point, before }: PointPlace,
    ) -> Result<Word> {
        let extents = (info.layout.rows(), dim, before.map_or(0, |before| before.dim));
        let words = device.massive.reserve(stream.raw(), point, extents)?;
        let rows = Rows { cuda: self, info, device, states, dim, point };
        stream.run(Work::Statistics, |raw| rows.copy_massive(raw, words, before));
        let (flags, slot, mut is_filled) = (device.waiting.flags.slice(), device.massive.slot(point), false);
        stream.run(Work::Statistics, |raw| {
            let of_both = point * FLAGS..(point + 2) * FLAGS;
            let copied = flags.map_or(Ok(()), |flags| slot.flags.copy(raw, &flags.slice(of_both)));
            copied.map_err(|error| self.error(error))?;
            is_filled = true;
            Ok(())
        });
        if is_filled {
            slot.fill(Pending { info: info.host.clone(), dim, massive, before, entry: None });
        }
        Ok(words.found)
    }

    /// Keeps the states of the items for the next point.
    fn keep_states(&self, states: &mut States<'_, Cuda>, info: &CudaInfo, device: &mut DeviceSpace) -> Result<()> {
        let DeviceSpace { scatter, waiting, .. } = device;
        let items = waiting.items.slice().filter(|_| !info.layout.pooled.is_empty()).unwrap_or(states.buffer.floats());
        let len = items_of(info, states.rows)? * states.width;
        states.stream.run(Work::Statistics, |raw| scatter.keep(self, raw, &items.slice(..len)));
        Ok(())
    }

    fn synchronize_statistics(&self, stream: &mut CudaStream) -> Result<()> {
        Ok(layerscope_compute::Backend::synchronize(self, stream)?)
    }
}

/// How many items a batch of so many rows has; what it says of them must fit.
fn items_of(info: &CudaInfo, rows: usize) -> Result<usize> {
    let pooled = info.host.pooled();
    if let Some(item) = pooled.into_iter().flatten().find(|item| item.end as usize > rows || item.start >= item.end) {
        return Err(Error::Rows(format!("an item has rows {}..{}, but the batch has {rows}", item.start, item.end)));
    }
    let items = pooled.map_or(rows, <[_]>::len);
    info.host.check(items)?;
    Ok(items)
}

/// What the host computes of a batch, if a sketch is wanted that the card does not know.
fn prepare_host<'a>(
    states: &mut States<'_, Cuda>,
    info: &'a CudaInfo,
    wanted: &Wanted,
    host: &'a mut HostMemory,
) -> Result<Option<(BatchRows<'a>, &'a BatchSpace)>> {
    let on_host = on_host(wanted.sketches);
    if on_host.is_empty() {
        return Ok(None);
    }
    let HostMemory { states: copy, pooled, batch } = host;
    items_of(info, states.rows)?;
    *copy = states.to_vec()?;
    let rows = BatchRows::of(info.host.items(copy, states.width, pooled), states.width, &info.host)?;
    Ok(Some((wanted.prepare(on_host, rows, batch)?, batch)))
}

/// Refuses rows that do not fit a state.
fn check(info: &CudaInfo, dim: usize, resident: &CudaResident) -> Result<()> {
    if dim != resident.dim {
        return Err(Error::Rows(format!("states have {dim} components instead of {}", resident.dim)));
    }
    let largest = info.host.segments().segments().last().map(|segment| segment.group as usize);
    if let Some(group) = largest.filter(|group| *group >= resident.groups) {
        return Err(Error::Rows(format!("a row belongs to group {group}, but only {} groups are known", resident.groups)));
    }
    if let Some((_, slot)) = info.host.slots().iter().find(|(_, slot)| *slot as usize >= resident.kept_count) {
        return Err(Error::Rows(format!("slot {slot} lies beyond the states that are kept")));
    }
    Ok(())
}

/// Refuses a state with sketches that the batch was not prepared for.
fn check_sketches(prepared: SketchSet, before: Option<Before>, resident: &CudaResident) -> Result<()> {
    let is_missing = |kind: &SketchKind| resident.keeps(*kind) && !prepared.contains(*kind);
    if let Some(row) = ON_CARD.into_iter().find(is_missing).and_then(SketchKind::row) {
        return Err(Error::Rows(format!("the batch was not prepared for {}", row.what)));
    }
    if let Some((before, cross)) = before.zip(resident.cross.as_ref()).filter(|(before, cross)| before.dim != cross.dims[0]) {
        return Err(Error::Rows(format!("states of the point before have {} components instead of {}", before.dim, cross.dims[0])));
    }
    Ok(())
}
