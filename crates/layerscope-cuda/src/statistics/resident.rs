//! A point's state: moments and products of typical states and the kept states on the card, everything else on the host.

use std::sync::{Arc, Mutex};

use cudarc::driver::{CudaEvent, CudaSlice};
use layerscope_stats::sketch::{Covariance, Mergeable, Pairs, Peaks, SequenceShape, SketchKind, Tensors};
use layerscope_stats::{PointState, Result};

use super::host_part::{HostPart, lock};
use super::matrices::{ResidentCross, ResidentGram};
use super::peaks::ResidentPeaks;
use super::reader::Reader;
use super::shapes::ResidentShapes;
use super::tensors::{f64s, owned, put, u64s};
use crate::device::Cuda;

/// The vectors of the corpus in the order of `moments.cu`, by the names of their tensors; the last is the groups' own.
const CORPUS: [&str; 6] = [
    "moments.corpus.mean",
    "moments.corpus.m2",
    "moments.corpus.square",
    "moments.corpus.unit",
    "moments.corpus.unit_square",
    "moments.groups.within",
];

/// Sketches that the card keeps; the host keeps the others.
pub(super) const ON_CARD: [SketchKind; 4] = [SketchKind::Covariance, SketchKind::Pairs, SketchKind::Shapes, SketchKind::Peaks];

/// The place of a group that is not chosen, as in `moments.cu`.
const NOT_CHOSEN: u32 = u32::MAX;

/// The vectors of a chosen group.
const CHOSEN: [&str; 3] = ["mean", "m2", "square"];

/// A point's state where the card keeps it.
pub struct CudaResident {
    pub(super) dim: usize,
    pub(super) groups: usize,
    pub(super) kept_count: usize,
    pub(super) group_n: CudaSlice<u64>,
    pub(super) group_nonzero: CudaSlice<u64>,
    pub(super) group_m2: CudaSlice<f64>,
    pub(super) group_square: CudaSlice<f64>,
    pub(super) group_norm: CudaSlice<f64>,
    pub(super) group_mean: CudaSlice<f64>,
    /// Where unit vectors are kept.
    pub(super) group_unit: Option<CudaSlice<f64>>,
    /// The vectors of all rows.
    pub(super) corpus: CudaSlice<f64>,
    /// n, non-zero and excluded rows.
    pub(super) corpus_n: CudaSlice<u64>,
    pub(super) corpus_norm: CudaSlice<f64>,
    /// Of all and of typical states.
    pub(super) sequence_n: CudaSlice<u64>,
    pub(super) sequence_mean: CudaSlice<f64>,
    pub(super) chosen: Option<Chosen>,
    pub(super) kept: CudaSlice<f32>,
    pub(super) gram: Option<ResidentGram>,
    pub(super) cross: Option<ResidentCross>,
    pub(super) shapes: Option<ResidentShapes>,
    pub(super) peaks: Option<ResidentPeaks>,
    /// When the last batch has entered: batches come in different streams.
    pub(super) entered: CudaEvent,
    pub(super) host: Arc<Mutex<HostPart>>,
    /// Batches whose massive states were committed.
    pub(super) committed: u64,
}

/// Chosen groups, whose components are measured one by one.
pub(super) struct Chosen {
    names: Vec<u32>,
    /// Of every group its place among the chosen ones.
    pub places: CudaSlice<u32>,
    pub n: CudaSlice<u64>,
    pub norm: CudaSlice<f64>,
    pub vectors: CudaSlice<f64>,
}

impl Chosen {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }
}

impl CudaResident {
    /// Puts a state on the card.
    pub(super) fn load(cuda: &Cuda, mut state: PointState) -> Result<CudaResident> {
        let (dim, groups, kept_count) = (state.dim(), state.moments.group_count(), state.kept.len() / state.dim());
        let tensors = state.encode();
        let keeps_units = tensors.0.contains_key("moments.groups.unit");
        let (f64s, u64s) = (|name: &str| f64s(&tensors, name), |name: &str| u64s(&tensors, name));
        // Gigabytes of zeros need not go over the bus.
        let is_new = state.states() == 0;
        let large = |name: &str| -> Result<CudaSlice<f64>> {
            let numbers = f64s(name)?;
            Ok(if is_new { cuda.zeros(numbers.len())? } else { cuda.upload(numbers)? })
        };
        let mut corpus = Vec::with_capacity(CORPUS.len() * dim);
        for name in CORPUS {
            match tensors.0.contains_key(name) {
                true => corpus.extend_from_slice(f64s(name)?),
                false => corpus.resize(corpus.len() + dim, 0.0),
            }
        }
        let counts = u64s("moments.corpus.n")?;
        let typical = |name: &str| format!("moments.sequences.typical.{name}");
        let has_typical = tensors.0.contains_key(&typical("sequences"));
        let sequence_n = [u64s("moments.sequences.sequences")?[0], if has_typical { u64s(&typical("sequences"))?[0] } else { 0 }];
        let sequence_mean = [f64s("moments.sequences.similarity")?[0], if has_typical { f64s(&typical("similarity"))?[0] } else { 0.0 }];
        let gram = state.sketches.get::<Covariance>().map(|covariance| ResidentGram::load(cuda, covariance)).transpose()?;
        let cross = state.sketches.get::<Pairs>().map(|pairs| ResidentCross::load(cuda, pairs)).transpose()?;
        let ((gram, covariance), (cross, pairs)) = (gram.unzip(), cross.unzip());
        let resident = CudaResident {
            dim,
            groups,
            kept_count,
            group_n: cuda.upload(u64s("moments.groups.n")?)?,
            group_nonzero: cuda.upload(u64s("moments.groups.nonzero")?)?,
            group_m2: cuda.upload(f64s("moments.groups.m2")?)?,
            group_square: cuda.upload(f64s("moments.groups.square")?)?,
            group_norm: cuda.upload(f64s("moments.groups.norm")?)?,
            group_mean: large("moments.groups.mean")?,
            group_unit: if keeps_units { Some(large("moments.groups.unit")?) } else { None },
            corpus: cuda.upload(&corpus)?,
            corpus_n: cuda.upload(&[counts[0], counts[1], state.excluded])?,
            corpus_norm: cuda.upload(f64s("moments.corpus.norm")?)?,
            sequence_n: cuda.upload(&sequence_n)?,
            sequence_mean: cuda.upload(&sequence_mean)?,
            chosen: load_chosen(cuda, &state)?,
            kept: if is_new { cuda.zeros(state.kept.len())? } else { cuda.upload(&state.kept)? },
            gram,
            cross,
            shapes: state.sketches.get::<SequenceShape>().map(|shapes| ResidentShapes::load(cuda, shapes)).transpose()?,
            peaks: state.sketches.get::<Peaks>().map(|peaks| ResidentPeaks::load(cuda, peaks)).transpose()?,
            entered: cuda.context().new_event(None).map_err(|error| cuda.error(error))?,
            // Replaced at once: the tensors still look at the state.
            host: Arc::new(Mutex::new(HostPart::new(state.emptied(0, 0), covariance, pairs.unwrap_or_default()))),
            committed: 0,
        };
        drop(tensors);
        state.moments.drop_groups();
        state.kept = Vec::new();
        ON_CARD.into_iter().for_each(|kind| state.sketches.forget(kind));
        lock(&resident.host).state = state;
        Ok(resident)
    }

    /// Whether the card keeps a sketch of this kind.
    pub(super) fn keeps(&self, kind: SketchKind) -> bool {
        match kind {
            SketchKind::Covariance => self.gram.is_some(),
            SketchKind::Pairs => self.cross.is_some(),
            SketchKind::Shapes => self.shapes.is_some(),
            SketchKind::Peaks => self.peaks.is_some(),
            _ => false,
        }
    }

    /// The state as it is now.
    pub(super) fn fetch(&self, cuda: &Cuda) -> Result<PointState> {
        let reader = &mut Reader::new(cuda)?;
        reader.raw().wait(&self.entered).map_err(|error| cuda.error(error))?;
        let host = lock(&self.host);
        host.check_complete(self.committed)?;
        let mut tensors = owned(host.state.encode());
        self.fetch_groups(reader, &mut tensors)?;
        self.fetch_corpus(reader, &mut tensors)?;
        self.fetch_chosen(reader, &mut tensors)?;
        self.fetch_sketches(reader, &host, &mut tensors)?;
        put(&mut tensors, "kept", &[self.kept_count, self.dim], reader.read(&self.kept, self.kept_count * self.dim)?);
        PointState::decode(&mut tensors)
    }

    fn fetch_groups(&self, reader: &mut Reader<'_>, tensors: &mut Tensors<'static>) -> Result<()> {
        let (groups, dim) = (self.groups, self.dim);
        for (name, values) in [("n", &self.group_n), ("nonzero", &self.group_nonzero)] {
            put(tensors, &format!("moments.groups.{name}"), &[groups], reader.read(values, groups)?);
        }
        for (name, values) in [("m2", &self.group_m2), ("square", &self.group_square), ("norm", &self.group_norm)] {
            put(tensors, &format!("moments.groups.{name}"), &[groups], reader.read(values, groups)?);
        }
        put(tensors, "moments.groups.mean", &[groups, dim], reader.read(&self.group_mean, groups * dim)?);
        if let Some(unit) = &self.group_unit {
            put(tensors, "moments.groups.unit", &[groups, dim], reader.read(unit, groups * dim)?);
        }
        Ok(())
    }

    fn fetch_corpus(&self, reader: &mut Reader<'_>, tensors: &mut Tensors<'static>) -> Result<()> {
        let counts = reader.read(&self.corpus_n, 3)?;
        put(tensors, "moments.corpus.n", &[2], counts[..2].to_vec());
        put(tensors, "excluded", &[1], vec![counts[2]]);
        put(tensors, "moments.corpus.norm", &[1], reader.read(&self.corpus_norm, 1)?);
        let vectors = reader.read(&self.corpus, CORPUS.len() * self.dim)?;
        for (name, vector) in CORPUS.iter().zip(vectors.chunks_exact(self.dim)) {
            // Without unit vectors there are no tensors for them.
            if tensors.0.contains_key(*name) {
                put(tensors, name, &[self.dim], vector.to_vec());
            }
        }
        let (counts, means) = (reader.read(&self.sequence_n, 2)?, reader.read(&self.sequence_mean, 2)?);
        for (place, prefix) in ["moments.sequences", "moments.sequences.typical"].into_iter().enumerate() {
            let name = format!("{prefix}.sequences");
            if tensors.0.contains_key(&name) {
                put(tensors, &name, &[1], vec![counts[place]]);
                put(tensors, &format!("{prefix}.similarity"), &[1], vec![means[place]]);
            }
        }
        Ok(())
    }

    fn fetch_sketches(&self, reader: &mut Reader<'_>, host: &HostPart, tensors: &mut Tensors<'static>) -> Result<()> {
        let mut nest = |kind: SketchKind, sketch: Tensors<'_>| tensors.nest(kind.row().map_or("", |row| row.prefix), owned(sketch));
        if let (Some(gram), Some(covariance)) = (&self.gram, &host.covariance) {
            nest(SketchKind::Covariance, gram.fetch(reader, covariance)?.encode());
        }
        if let (Some(cross), Some(pairs)) = (&self.cross, host.pairs.get::<Pairs>()) {
            nest(SketchKind::Pairs, cross.fetch(reader, pairs)?.encode());
        }
        if let Some(shapes) = &self.shapes {
            nest(SketchKind::Shapes, shapes.fetch(reader)?);
        }
        if let Some(peaks) = &self.peaks {
            nest(SketchKind::Peaks, peaks.fetch(reader)?);
        }
        Ok(())
    }

    fn fetch_chosen(&self, reader: &mut Reader<'_>, tensors: &mut Tensors<'static>) -> Result<()> {
        let Some(chosen) = &self.chosen else { return Ok(()) };
        let count = chosen.count();
        let (counts, norms) = (reader.read(&chosen.n, count)?, reader.read(&chosen.norm, count)?);
        let vectors = reader.read(&chosen.vectors, count * CHOSEN.len() * self.dim)?;
        let mut vectors = vectors.chunks_exact(self.dim);
        for ((group, &n), &norm) in chosen.names.iter().zip(&counts).zip(&norms) {
            let name = |name: &str| format!("moments.chosen.{group}.typical.{name}");
            put(tensors, &name("n"), &[2], vec![n, 0]);
            put(tensors, &name("norm"), &[1], vec![norm]);
            for (vector, values) in CHOSEN.iter().zip(&mut vectors) {
                put(tensors, &name(vector), &[self.dim], values.to_vec());
            }
        }
        Ok(())
    }
}

fn load_chosen(cuda: &Cuda, state: &PointState) -> Result<Option<Chosen>> {
    let names: Vec<u32> = state.moments.chosen_typical().map(|(group, _)| group).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let mut places = vec![NOT_CHOSEN; state.moments.group_count()];
    names.iter().zip(0..).for_each(|(&group, place)| places[group as usize] = place);
    let own = || state.moments.chosen_typical().map(|(_, moments)| moments);
    let vectors: Vec<f64> = own().flat_map(|moments| [moments.mean(), moments.m2(), moments.square()].concat()).collect();
    Ok(Some(Chosen {
        places: cuda.upload(&places)?,
        n: cuda.upload(&own().map(|moments| moments.n()).collect::<Vec<u64>>())?,
        norm: cuda.upload(&own().map(|moments| moments.norm()).collect::<Vec<f64>>())?,
        vectors: cuda.upload(&vectors)?,
        names,
    }))
}
