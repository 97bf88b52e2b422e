//! The table of figures: one row per figure.

use super::context::Context;
use super::plate::Outcome;
use super::{
    agreement, by_layer, diagram, embeddings, final_norm, fits, frequency, histograms, profiles, shares, sinks, tables, tokens,
    trajectories,
};

/// A figure or table that can be drawn.
pub struct Figure {
    /// Its name in [`Settings::only`](super::Settings::only) and in file names.
    pub id: &'static str,
    /// Further names of the same figure: in the paper it has one number per model.
    pub also: &'static [&'static str],
    /// What it shows.
    pub title: &'static str,
    /// What the runs must have.
    pub needs: &'static str,
    pub(crate) draw: fn(&Context) -> Vec<Outcome>,
}

const NORM: &str = "measures of the norm family";
const GROUPS: &str = "groups.parquet";
const TOKENS: &str = "tokens.parquet (--tokens)";
const COSINE: &str = "measures of the cosine family";
const TRAJECTORY: &str = "a trajectory (layerscope track)";

/// Every figure, in the order of the papers.
pub const LIST: &[Figure] = &[
    Figure { id: "fig1", also: &[], title: "Projected states of chosen tokens", needs: TOKENS, draw: tokens::projected },
    Figure { id: "fig2", also: &[], title: "V against M at the middle layer of every model", needs: GROUPS, draw: fits::trade_off },
    Figure { id: "fig3", also: &[], title: "Definitions of M, V, V_W and V_B", needs: "nothing", draw: diagram::definitions },
    Figure { id: "fig4", also: &[], title: "C.V. of Q, slope and R^2 of V on M, by layer", needs: NORM, draw: by_layer::fig4 },
    Figure { id: "fig5", also: &[], title: "Shares of Q by layer", needs: NORM, draw: shares::shares },
    Figure { id: "fig6", also: &[], title: "V_W / V by layer", needs: NORM, draw: by_layer::fig6 },
    Figure { id: "fig7", also: &[], title: "Q, M and V against frequency", needs: GROUPS, draw: fits::by_frequency },
    Figure {
        id: "fig8",
        also: &[],
        title: "V against M, with the tokens of figure 1 labelled",
        needs: "groups.parquet, tokens.parquet",
        draw: tokens::labelled,
    },
    Figure {
        id: "fig9",
        also: &[],
        title: "Sentence lengths in words",
        needs: "sentence lengths in the manifest",
        draw: histograms::sentences,
    },
    Figure { id: "fig10", also: &[], title: "Group frequencies", needs: GROUPS, draw: histograms::frequencies },
    Figure {
        id: "fig11",
        also: &["fig12", "fig13"],
        title: "Q, M and V against frequency, and V against M, at five layers",
        needs: GROUPS,
        draw: fits::five_layers,
    },
    Figure {
        id: "fig14",
        also: &["fig15", "fig16"],
        title: "Distributions of Q, M and V at five layers",
        needs: GROUPS,
        draw: histograms::five_layers,
    },
    Figure {
        id: "fig17",
        also: &[],
        title: "Slopes of log(1 + Q), log(1 + M) and log(1 + V) on log n, by layer",
        needs: NORM,
        draw: by_layer::fig17,
    },
    Figure { id: "fig18", also: &[], title: "M/Q, V/Q, V_W/Q and V_B/Q by layer", needs: NORM, draw: by_layer::fig18 },
    Figure { id: "fig19", also: &[], title: "Q, M and V by layer", needs: NORM, draw: by_layer::fig19 },
    Figure { id: "fig20", also: &[], title: "V_W, V_B and V_B/V by layer", needs: NORM, draw: by_layer::fig20 },
    Figure {
        id: "fig21",
        also: &[],
        title: "The models' blocks",
        needs: "the drawing of the block in the manifest",
        draw: diagram::blocks,
    },
    Figure {
        id: "fig22",
        also: &[],
        title: "Words: Q, M and V against frequency, and V against M",
        needs: "groups.parquet with words as groups (--group word)",
        draw: fits::words,
    },
    Figure { id: "table1", also: &[], title: "The models", needs: "nothing", draw: tables::outcome1 },
    Figure {
        id: "table2",
        also: &[],
        title: "n, Q, M and V of chosen tokens",
        needs: "groups.parquet, tokens.parquet",
        draw: tables::outcome2,
    },
    Figure { id: "table3", also: &[], title: "Groups and states per model", needs: "nothing", draw: tables::outcome3 },
    Figure { id: "frequency", also: &[], title: "Does the frequency range matter?", needs: GROUPS, draw: frequency::sweep },
    Figure {
        id: "agreement",
        also: &[],
        title: "M/Q against mean cosine",
        needs: "measures of the norm and cosine families",
        draw: agreement::norm_and_cosine,
    },
    Figure {
        id: "sinks",
        also: &[],
        title: "With and without massive states: anisotropy, entropy and cosine by layer",
        needs: "massive states and measures of the spectrum, sequence, cosine and layers families",
        draw: sinks::with_and_without,
    },
    Figure {
        id: "shape1",
        also: &[],
        title: "Anisotropy by relative depth, encoders and decoders",
        needs: "measures of the spectrum family",
        draw: profiles::shape1,
    },
    Figure { id: "shape2", also: &[], title: "Intrinsic dimension over training", needs: TRAJECTORY, draw: trajectories::shape2 },
    Figure {
        id: "shape3",
        also: &["shape4"],
        title: "Anisotropy by layer, one line per training step",
        needs: TRAJECTORY,
        draw: trajectories::shape3,
    },
    Figure {
        id: "machina1",
        also: &[],
        title: "I(W) of embedding matrices and last hidden state",
        needs: "measures of the partition family",
        draw: trajectories::machina1,
    },
    Figure {
        id: "machina2",
        also: &[],
        title: "Mean cosine of embedding matrices and last hidden state",
        needs: COSINE,
        draw: trajectories::machina2,
    },
    Figure {
        id: "machina3",
        also: &[],
        title: "Measures before and after the final norm",
        needs: "a model with a final norm",
        draw: final_norm::machina3,
    },
    Figure {
        id: "machina4",
        also: &[],
        title: "Rows of the embedding matrices, projected onto two singular vectors",
        needs: "projections.parquet (layerscope track, or weights --out)",
        draw: embeddings::scatter,
    },
    Figure { id: "ethayarajh1", also: &[], title: "Mean cosine and mean norm by layer", needs: COSINE, draw: by_layer::ethayarajh1 },
    Figure { id: "ethayarajh2", also: &[], title: "Self-similarity by layer", needs: COSINE, draw: by_layer::ethayarajh2 },
    Figure { id: "ethayarajh3", also: &[], title: "Intra-sentence similarity by layer", needs: COSINE, draw: by_layer::ethayarajh3 },
    Figure { id: "ethayarajh4", also: &[], title: "Maximum explainable variance by layer", needs: TOKENS, draw: by_layer::ethayarajh4 },
    Figure {
        id: "isotropy",
        also: &[],
        title: "IsoScore, effective rank and intrinsic dimension by layer",
        needs: "measures of the spectrum and dimension families",
        draw: by_layer::isotropy,
    },
];

impl Figure {
    /// Whether the figure has this name.
    pub fn is_called(&self, name: &str) -> bool {
        self.id == name || self.also.contains(&name)
    }
}
