//! The groups and states that values are computed over.

use super::cosine::{cosine_contributions, mean_cosine};
use super::evaluation::Settings;
use crate::error::Result;
use crate::sketch::{CorpusMoments, Group, PointMoments, StatesView};

/// Which states, and so which groups, a value is computed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All states.
    All,
    /// All states of the groups in the frequency range.
    Selected,
    /// All states but the massive ones.
    Typical,
    /// The typical states of the groups in the frequency range; n_t counts typical states.
    TypicalSelected,
    /// The kept sample of states.
    Sample,
    /// The kept sample without massive states.
    TypicalSample,
}

impl Selection {
    /// Whether it leaves massive states out.
    pub fn is_typical(self) -> bool {
        matches!(self, Selection::Typical | Selection::TypicalSelected | Selection::TypicalSample)
    }

    /// Whether sketches beside the moments know it: all states, or all typical ones.
    pub(super) fn is_of_sketches(self) -> bool {
        matches!(self, Selection::All | Selection::Typical)
    }

    /// Whether it is of the kept sample.
    pub(super) fn is_of_sample(self) -> bool {
        matches!(self, Selection::Sample | Selection::TypicalSample)
    }

    /// Its name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Selection::All => "all",
            Selection::Selected => "selected",
            Selection::Typical => "typical",
            Selection::TypicalSelected => "typical_selected",
            Selection::Sample => "sample",
            Selection::TypicalSample => "typical_sample",
        }
    }
}

/// One group's values: a row of the groups' table.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupRow {
    /// The group.
    pub group: u32,
    /// n_t: its states.
    pub n: u64,
    /// Q(X_t): mean of ||x||^2.
    pub q: f64,
    /// M(X_t) = ||mu(X_t)||^2.
    pub m: f64,
    /// V(X_t): mean of ||x - mu(X_t)||^2.
    pub v: f64,
    /// Mean cosine over pairs of its states; None with fewer than 2 non-zero ones.
    pub self_similarity: Option<f64>,
    /// Mean of ||x||.
    pub mean_norm: f64,
}

impl GroupRow {
    /// Q = mean ||x||^2, M = ||mean x||^2 and V = mean ||x - mean x||^2, each from its own accumulator (Yamagiwa & Shimodaira 2025,
    /// section 3).
    pub fn new(group: u32, moments: &Group) -> GroupRow {
        GroupRow {
            group,
            n: moments.n,
            q: moments.square,
            m: square_norm(moments.mean),
            v: moments.m2 / moments.n as f64,
            self_similarity: mean_cosine(moments.unit, moments.nonzero),
            mean_norm: moments.norm,
        }
    }
}

/// Values of all states of a selection together.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// n: the states.
    pub n: u64,
    /// Those that are not zero.
    pub nonzero: u64,
    /// Q(X).
    pub q: f64,
    /// M(X).
    pub m: f64,
    /// V(X): from X's own accumulator if it has one, otherwise V_W + V_B.
    pub v: f64,
    /// V_W(X) = sum_t p_t V(X_t).
    pub v_within: f64,
    /// V_B(X) = sum_t p_t ||mu(X_t) - mu(X)||^2.
    pub v_between: f64,
    /// Mean of ||x||.
    pub mean_norm: f64,
    /// Mean cosine over pairs of non-zero states.
    pub mean_cosine: Option<f64>,
}

/// A selection with its groups and its totals; no totals without states.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Which one.
    pub selection: Selection,
    /// Its groups, ascending.
    pub groups: Vec<GroupRow>,
    /// Its values.
    pub totals: Option<Totals>,
    /// Its components; none for selected groups, whose second moments per component are not known.
    pub components: Vec<ComponentRow>,
}

impl Summary {
    /// All selections of a point, in the order of the tables; with a frequency range (token, surface and word) those of the selected groups too.
    pub fn of_point(point: &PointMoments, settings: &Settings) -> Result<Vec<Summary>> {
        let view = point.all()?;
        let all = Summary::of_view(Selection::All, &view);
        let has_range = settings.frequency.is_some();
        let selected = has_range.then(|| all.selected(Selection::Selected, &view, settings));
        let (typical, typical_selected) = match point.massive_states() {
            0 => (all.renamed(Selection::Typical), selected.as_ref().map(|selected| selected.renamed(Selection::TypicalSelected))),
            _ => {
                let view = point.typical();
                let typical = Summary::of_view(Selection::Typical, &view);
                let selected = has_range.then(|| typical.selected(Selection::TypicalSelected, &view, settings));
                (typical, selected)
            }
        };
        Ok([Some(all), selected, Some(typical), typical_selected].into_iter().flatten().collect())
    }

    /// Those of its groups that are selected, by their frequency here.
    fn selected(&self, selection: Selection, view: &StatesView, settings: &Settings) -> Summary {
        Summary {
            selection,
            groups: self.groups.iter().filter(|group| settings.selects(group.group, group.n)).cloned().collect(),
            totals: GroupTotals::of(view, |group, n| settings.selects(group, n)).map(|groups| Totals::of_groups(&groups)),
            components: Vec::new(),
        }
    }

    /// The same under another name.
    fn renamed(&self, selection: Selection) -> Summary {
        Summary { selection, ..self.clone() }
    }

    fn of_view(selection: Selection, view: &StatesView) -> Summary {
        let groups = view.groups().map(|(id, group)| GroupRow::new(id, &group)).collect();
        let of_groups = GroupTotals::of(view, |_, _| true);
        let totals = of_groups.as_ref().map(|groups| Totals::of_corpus(view.corpus(), groups));
        let components = of_groups.as_ref().map(|groups| component_rows(view, groups)).unwrap_or_default();
        Summary { selection, groups, totals, components }
    }

    /// Number of states.
    pub fn states(&self) -> u64 {
        self.totals.as_ref().map_or(0, |totals| totals.n)
    }
}

impl Totals {
    /// Q, M, V from the corpus moments; V_W and V_B from the groups.
    fn of_corpus(corpus: &CorpusMoments, groups: &GroupTotals) -> Totals {
        Totals {
            n: corpus.n(),
            nonzero: corpus.nonzero(),
            q: corpus.square().iter().sum(),
            m: square_norm(corpus.mean()),
            v: corpus.m2().iter().sum::<f64>() / corpus.n() as f64,
            v_within: groups.v_within,
            v_between: groups.between.iter().sum(),
            mean_norm: corpus.norm(),
            mean_cosine: mean_cosine(corpus.unit(), corpus.nonzero()),
        }
    }

    /// Everything from the groups.
    fn of_groups(groups: &GroupTotals) -> Totals {
        let v_between: f64 = groups.between.iter().sum();
        Totals {
            n: groups.n,
            nonzero: groups.nonzero,
            q: groups.q,
            m: square_norm(&groups.mean),
            v: groups.v_within + v_between,
            v_within: groups.v_within,
            v_between,
            mean_norm: groups.mean_norm,
            mean_cosine: mean_cosine(&groups.unit, groups.nonzero),
        }
    }
}

/// p_t-weighted means over some groups.
struct GroupTotals {
    n: u64,
    nonzero: u64,
    q: f64,
    v_within: f64,
    mean_norm: f64,
    mean: Vec<f64>,
    unit: Vec<f64>,
    /// sum_t p_t (mu_i(X_t) - mu_i(X))^2 per component.
    between: Vec<f64>,
}

impl GroupTotals {
    /// Over the groups that `keep` accepts by number and frequency, in two passes; None if there are none.
    fn of(view: &StatesView, keep: impl Fn(u32, u64) -> bool) -> Option<GroupTotals> {
        let groups = || view.groups().filter(|(number, group)| keep(*number, group.n)).map(|(_, group)| group);
        let n: u64 = groups().map(|group| group.n).sum();
        let nonzero: u64 = groups().map(|group| group.nonzero).sum();
        if n == 0 {
            return None;
        }
        let weighted = |value: fn(&Group) -> f64| groups().map(|group| group.n as f64 * value(&group)).sum::<f64>() / n as f64;
        let dim = view.corpus().dim();
        let (mut mean, mut unit) = (vec![0.0; dim], vec![0.0; dim]);
        for group in groups() {
            add_scaled(&mut mean, group.mean, group.n as f64 / n as f64);
            if group.nonzero > 0 {
                add_scaled(&mut unit, group.unit, group.nonzero as f64 / nonzero as f64);
            }
        }
        let (mut left, mut between) = (vec![0.0; dim], vec![0.0; dim]);
        for group in groups() {
            let share = group.n as f64 / n as f64;
            for (((left, between), mu), mean) in left.iter_mut().zip(&mut between).zip(group.mean).zip(&mean) {
                let deviation = mu - mean;
                *left += share * deviation;
                *between += share * deviation * deviation;
            }
        }
        for ((between, left), mean) in between.iter_mut().zip(&left).zip(&mut mean) {
            *between = (*between - left * left).max(0.0);
            *mean += left;
        }
        let v_within = groups().map(|group| group.m2).sum::<f64>() / n as f64;
        Some(GroupTotals {
            n,
            nonzero,
            q: weighted(|group| group.square),
            v_within,
            mean_norm: weighted(|group| group.norm),
            mean,
            unit,
            between,
        })
    }
}

/// One component's values over all states: a row of the components' table.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentRow {
    /// The component.
    pub component: u32,
    /// mu_i(X).
    pub mean: f64,
    /// v_i(X), from X's own accumulator.
    pub variance: f64,
    /// q_i(X): mean of x_i^2.
    pub second_moment: f64,
    /// sum_t p_t v_i(X_t).
    pub variance_within: f64,
    /// sum_t p_t (mu_i(X_t) - mu_i(X))^2.
    pub variance_between: f64,
    /// Its part of the mean cosine; None with fewer than 2 non-zero states.
    pub cosine_contribution: Option<f64>,
}

/// The components' table (Yamagiwa & Shimodaira 2025, eq. 24).
fn component_rows(view: &StatesView, groups: &GroupTotals) -> Vec<ComponentRow> {
    let corpus = view.corpus();
    let n = corpus.n() as f64;
    let contributions = cosine_contributions(corpus);
    (0..corpus.dim())
        .map(|i| ComponentRow {
            component: i as u32,
            mean: corpus.mean()[i],
            variance: corpus.m2()[i] / n,
            second_moment: corpus.square()[i],
            variance_within: view.within()[i] / n,
            variance_between: groups.between[i],
            cosine_contribution: contributions.as_ref().map(|contributions| contributions[i]),
        })
        .collect()
}

fn add_scaled(sum: &mut [f64], vector: &[f64], factor: f64) {
    sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += factor * x);
}

/// ||x||^2.
pub(super) fn square_norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum()
}
