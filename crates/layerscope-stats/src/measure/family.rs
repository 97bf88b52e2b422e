//! Families of measures.

/// What measures are chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Norm and variance.
    Norm,
    /// Cosines.
    Cosine,
    /// Eigenvalues of the covariance.
    Spectrum,
    /// The partition function.
    Partition,
    /// Intrinsic dimension.
    Dimension,
    /// Within sequences.
    Sequence,
    /// Between layers, and massive states.
    Layers,
    /// Clusters of the sample; chosen by a grouping, not as a family.
    Cluster,
}

impl Family {
    /// Those that can be chosen.
    pub const SELECTABLE: [Family; 7] =
        [Family::Norm, Family::Cosine, Family::Spectrum, Family::Partition, Family::Dimension, Family::Sequence, Family::Layers];

    /// Those that are chosen unless others are.
    pub const DEFAULT: [Family; 4] = [Family::Norm, Family::Cosine, Family::Spectrum, Family::Dimension];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Family::Norm => "norm",
            Family::Cosine => "cosine",
            Family::Spectrum => "spectrum",
            Family::Partition => "partition",
            Family::Dimension => "dimension",
            Family::Sequence => "sequence",
            Family::Layers => "layers",
            Family::Cluster => "cluster",
        }
    }

    /// The selectable one of this name.
    pub fn named(name: &str) -> Option<Family> {
        Family::SELECTABLE.into_iter().find(|family| family.name() == name)
    }
}
