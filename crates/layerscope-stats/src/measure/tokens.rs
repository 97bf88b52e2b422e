//! The kept states of chosen tokens, projected to a plane.

use layerscope_compute::cpu::Isa;

use super::explainable::max_explainable_variance;
use crate::eigen::eigenvectors;
use crate::error::Result;
use crate::products::{Panels, gram, gram_place};
use crate::sketch::{CorpusMoments, Kept, StatesView, TokenSamples};

/// A row of the tokens' table.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRow {
    /// The group.
    pub group: u32,
    /// n_t: its states in the whole corpus.
    pub n: u64,
    /// Document and position of a state; None for the group's mean.
    pub state: Option<(u64, u32)>,
    /// Its image in the plane of the two first principal components of the chosen groups' means and the origin, the origin's image
    /// being (0, 0).
    pub x: f64,
    /// The other coordinate.
    pub y: f64,
    /// Of the group, on the row of its mean.
    pub explainable_variance: Option<f64>,
    /// The shares of the variance of the means and the origin that lie along x and along y, on the rows of means; None without variance.
    pub explained: Option<[f64; 2]>,
}

/// One component of one chosen token: a row of the table of their components.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenComponentRow {
    /// The group.
    pub group: u32,
    /// The component.
    pub component: u32,
    /// q_i(X_t): mean of x_i^2.
    pub q: f64,
    /// mu_i(X_t).
    pub mean: f64,
    /// v_i(X_t): mean of (x_i - mu_i(X_t))^2.
    pub variance: f64,
}

/// q_i, mu_i and v_i of one token, over all its states (Yamagiwa & Shimodaira 2025, eqs. 17-19); nothing without states.
pub(super) fn token_component_rows(group: u32, moments: &CorpusMoments) -> impl Iterator<Item = TokenComponentRow> {
    let (n, components) = (moments.n() as f64, if moments.n() > 0 { moments.dim() } else { 0 });
    (0..components).map(move |i| TokenComponentRow {
        group,
        component: i as u32,
        q: moments.square()[i],
        mean: moments.mean()[i],
        variance: moments.m2()[i] / n,
    })
}

/// All rows, groups ascending: the mean of a group, then its kept states in hash order. Groups without states have none.
///
/// `known` are the rows of all states, where these are some of them: what follows from a token's kept states alone is taken from there if
/// none is missing.
pub fn token_rows(view: &StatesView<'_>, tokens: &TokenSamples<'_>, known: &[TokenRow]) -> Result<Vec<TokenRow>> {
    let means: Vec<(u32, u64, Vec<f64>)> = view
        .groups()
        .filter(|(group, _)| tokens.get(*group).is_some_and(|sample| !sample.is_empty()))
        .map(|(id, group)| (id, group.n, group.mean.to_vec()))
        .collect();
    let (plane, explained) = principal_plane(&means.iter().map(|(_, _, mean)| mean.as_slice()).collect::<Vec<_>>(), view.corpus().dim());
    let mut rows = Vec::new();
    for (group, n, mean) in &means {
        let Some(sample) = tokens.get(*group) else { continue };
        let row = |state: Option<(u64, u32)>, [x, y]: [f64; 2], explainable_variance| {
            let explained = explained.filter(|_| state.is_none());
            TokenRow { group: *group, n: *n, state, x, y, explainable_variance, explained }
        };
        let own = known.partition_point(|row| row.group < *group)..known.partition_point(|row| row.group <= *group);
        let explainable_variance = match own.len() == sample.len() + 1 {
            true => known[own.start].explainable_variance,
            false => max_explainable_variance(sample),
        };
        rows.push(row(None, images([mean], &plane)[0], explainable_variance));
        let kept: Vec<Kept<'_>> = sample.iter().collect();
        let (eights, rest) = kept.as_chunks::<8>();
        let eights = eights.iter().flat_map(|eight| images(eight.map(|kept| kept.state), &plane));
        let places = eights.chain(rest.iter().map(|kept| images([kept.state], &plane)[0]));
        rows.extend(kept.iter().zip(places).map(|(kept, at)| row(Some((kept.key.document, kept.key.position)), at, None)));
    }
    Ok(rows)
}

/// The images of some vectors in a plane, each summed up in the order of its components. Several at once: a sum waits for itself.
fn images<T: Copy + Into<f64>, const N: usize>(vectors: [&[T]; N], plane: &[Vec<f64>; 2]) -> [[f64; 2]; N] {
    let mut sums = [[0.0; 2]; N];
    for (i, (x, y)) in plane[0].iter().zip(&plane[1]).enumerate() {
        for (sums, vector) in sums.iter_mut().zip(vectors) {
            let value: f64 = vector[i].into();
            sums[0] += value * x;
            sums[1] += value * y;
        }
    }
    sums
}

/// Unit axes of the two largest variances of some points and the origin (Yamagiwa & Shimodaira 2025, appendix A), each with its largest
/// component positive, zero where there is no such variance; and the shares of the whole variance along them.
fn principal_plane(points: &[&[f64]], dim: usize) -> ([Vec<f64>; 2], Option<[f64; 2]>) {
    let n = points.len() + 1;
    let mean: Vec<f64> = (0..dim).map(|i| points.iter().map(|point| point[i]).sum::<f64>() / n as f64).collect();
    let centred = |point: Option<&&[f64]>| -> Vec<f64> { (0..dim).map(|i| point.map_or(0.0, |point| point[i]) - mean[i]).collect() };
    let rows: Vec<Vec<f64>> = points.iter().map(Some).chain([None]).map(centred).collect();
    let (mut panels, mut blocks) = (Panels::default(), Vec::new());
    panels.fill_columns(&rows.concat(), dim);
    gram(Isa::detect(), &panels, &mut blocks);
    let matrix: Vec<f64> = (0..n * n).map(|at| (at / n, at % n)).map(|(i, j)| blocks[gram_place(i.min(j), i.max(j))]).collect();
    let found = eigenvectors(&matrix, n);
    let axes = [0, 1].map(|rank| {
        let mut axis = vec![0.0; dim];
        let Some((values, vectors)) = &found else { return axis };
        if rank >= n || values[rank] <= crate::eigen::NEGLIGIBLE * values[0].max(0.0) {
            return axis;
        }
        for (row, weight) in rows.iter().zip(&vectors[rank * n..][..n]) {
            axis.iter_mut().zip(row).for_each(|(axis, x)| *axis += weight * x);
        }
        let norm = axis.iter().map(|x| x * x).sum::<f64>().sqrt();
        let largest = axis.iter().fold(0.0f64, |largest, x| if x.abs() > largest.abs() { *x } else { largest });
        axis.iter_mut().for_each(|x| *x /= norm * largest.signum());
        axis
    });
    let trace: f64 = (0..n).map(|i| matrix[i * n + i]).sum();
    let share = |values: &[f64], rank: usize| values.get(rank).map_or(0.0, |value| value.max(0.0) / trace);
    let explained = found.filter(|_| trace > 0.0).map(|(values, _)| [share(&values, 0), share(&values, 1)]);
    (axes, explained)
}
