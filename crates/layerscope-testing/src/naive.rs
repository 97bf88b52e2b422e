//! Every definition of the measures taken literally: all states in memory, f64, pairs as pairs, sets as lists.

use std::ops::RangeInclusive;

use layerscope_stats::NOT_COUNTED;
use layerscope_stats::measure::Selection;

use crate::made_up_states::Data;

/// One hidden state.
pub type State = Vec<f64>;

/// X_t of one group.
pub struct NaiveGroup {
    /// Its number.
    pub id: u32,
    /// Its states.
    pub states: Vec<State>,
}

/// X of one selection.
pub struct Naive {
    /// The groups that have states here.
    pub groups: Vec<NaiveGroup>,
    /// Counted states of every sequence.
    pub sequences: Vec<Vec<State>>,
    /// Components of a state.
    pub dim: usize,
}

impl Naive {
    /// The groups of a selection; `frequency` says which are frequent enough to be selected.
    pub fn new(data: &Data, selection: Selection, frequency: &RangeInclusive<u64>) -> Naive {
        let state = |row: usize| data.row(row).iter().map(|&x| f64::from(x)).collect::<State>();
        let mut groups = Vec::new();
        for id in 0..data.groups as u32 {
            let rows = (0..data.ids.len()).filter(|&row| data.ids[row] == id);
            let mut states: Vec<State> = rows.map(state).collect();
            let frequent = frequency.contains(&(states.len() as u64));
            if selection == Selection::Typical {
                states.retain(|x| data.massive.is_none_or(|threshold| norm(x) <= threshold));
            }
            if !states.is_empty() && (selection != Selection::Selected || frequent) {
                groups.push(NaiveGroup { id, states });
            }
        }
        let mut sequences = Vec::new();
        let mut start = 0;
        for length in &data.lengths {
            sequences.push((start..start + length).filter(|&row| data.ids[row] != NOT_COUNTED).map(state).collect());
            start += length;
        }
        Naive { groups, sequences, dim: data.dim }
    }

    /// All states, group by group.
    pub fn states(&self) -> Vec<&State> {
        self.groups.iter().flat_map(|group| &group.states).collect()
    }

    /// Mean square norm.
    pub fn q(&self) -> Option<f64> {
        q(&self.states())
    }

    /// Square norm of the mean.
    pub fn m(&self) -> Option<f64> {
        m(&self.states())
    }

    /// Mean square distance from the mean.
    pub fn v(&self) -> Option<f64> {
        v(&self.states())
    }

    /// The part of V inside the groups.
    pub fn v_within(&self) -> Option<f64> {
        let n = self.states().len();
        some(n > 0, || self.groups.iter().map(|group| group.states.len() as f64 / n as f64 * group.v()).sum())
    }

    /// The part of V between the means of the groups.
    pub fn v_between(&self) -> Option<f64> {
        let states = self.states();
        let mu = mean(&states)?;
        let part = |group: &NaiveGroup| {
            let own = mean(&group.refs()).unwrap();
            group.states.len() as f64 / states.len() as f64 * (0..self.dim).map(|i| (own[i] - mu[i]).powi(2)).sum::<f64>()
        };
        Some(self.groups.iter().map(part).sum())
    }

    /// V_W of an analysis of variance, SSW / (n - G): the spread of states around the means of their groups.
    pub fn unbiased_v_within(&self) -> Option<f64> {
        let (n, groups) = (self.states().len(), self.groups.len());
        some(n > groups, || self.groups.iter().map(|group| group.states.len() as f64 * group.v()).sum::<f64>() / (n - groups) as f64)
    }

    /// V_B of an analysis of variance: (SSB / (G - 1) - V_W) / n0, n0 = (n - sum n_t^2 / n) / (G - 1).
    pub fn unbiased_v_between(&self) -> Option<f64> {
        let within = self.unbiased_v_within()?;
        let (n, groups) = (self.states().len() as f64, self.groups.len() as f64);
        some(groups >= 2.0, || {
            let squares: f64 = self.groups.iter().map(|group| (group.states.len() as f64).powi(2)).sum();
            let n0 = (n - squares / n) / (groups - 1.0);
            let between = n * self.v_between().expect("states") / (groups - 1.0);
            (between - within) / n0
        })
    }

    /// V_W + V_B of the analysis of variance.
    pub fn unbiased_v(&self) -> Option<f64> {
        Some(self.unbiased_v_within()? + self.unbiased_v_between()?)
    }

    /// Q without them.
    pub fn unbiased_m(&self) -> Option<f64> {
        Some(self.q()? - self.unbiased_v()?)
    }

    /// Mean length of a state.
    pub fn mean_norm(&self) -> Option<f64> {
        let states = self.states();
        some(!states.is_empty(), || states.iter().map(|x| norm(x)).sum::<f64>() / states.len() as f64)
    }

    /// Over all pairs of states.
    pub fn mean_cosine(&self) -> Option<f64> {
        mean_cosine(&self.states())
    }

    /// Mean over the groups of five states and more of their states' mean cosine.
    pub fn self_similarity(&self) -> Option<f64> {
        let groups = self.groups.iter().filter(|group| group.states.len() >= 5);
        let values: Vec<f64> = groups.filter_map(|group| mean_cosine(&group.refs())).collect();
        some(!values.is_empty(), || values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Mean cosine of a state and the mean of its sequence, over sequences of two states and more.
    pub fn intra_sentence_similarity(&self) -> Option<f64> {
        let mut values = Vec::new();
        for states in &self.sequences {
            let refs: Vec<&State> = states.iter().collect();
            let nonzero: Vec<&State> = states.iter().filter(|x| norm(x) > 0.0).collect();
            if nonzero.len() >= 2 {
                let mu = mean(&refs).unwrap();
                if norm(&mu) > 0.0 {
                    values.push(nonzero.iter().map(|x| cosine(x, &mu)).sum::<f64>() / nonzero.len() as f64);
                }
            }
        }
        some(!values.is_empty(), || values.iter().sum::<f64>() / values.len() as f64)
    }

    /// C.V. of Q over the groups with n_t >= n0.
    pub fn cv_q(&self, n0: usize) -> Option<f64> {
        let groups = self.groups.iter().filter(|group| group.states.len() >= n0);
        cv(&groups.map(NaiveGroup::q).collect::<Vec<f64>>())
    }

    /// Slope of log10 C.V. on log10 n0 over n0 = 1, 3, 10, ... that leave 10 groups.
    pub fn cv_q_exponent(&self) -> Option<f64> {
        self.exponent_over(&self.rungs())
    }

    /// Every n0 that leaves 10 groups.
    pub fn rungs(&self) -> Vec<usize> {
        let enough = |n0: &usize| self.groups.iter().filter(|group| group.states.len() >= *n0).count() >= 10;
        [1, 3, 10, 30, 100, 300, 1000].into_iter().filter(enough).collect()
    }

    /// Slope of log10 C.V. on log10 n0 over these n0.
    pub fn exponent_over(&self, rungs: &[usize]) -> Option<f64> {
        let x: Vec<f64> = rungs.iter().map(|&n0| (n0 as f64).log10()).collect();
        let cvs: Option<Vec<f64>> = rungs.iter().map(|&n0| self.cv_q(n0).filter(|cv| *cv > 0.0)).collect();
        let y: Vec<f64> = cvs?.iter().map(|cv| cv.log10()).collect();
        ols(&x, &y).map(|(slope, _, _)| slope)
    }

    /// Q, M, V or log10 n of every group.
    pub fn column(&self, name: &str) -> Vec<f64> {
        let log = |values: Vec<f64>| values.into_iter().map(|value| value.ln_1p() / std::f64::consts::LN_10).collect();
        match name {
            "q" => self.groups.iter().map(NaiveGroup::q).collect(),
            "m" => self.groups.iter().map(NaiveGroup::m).collect(),
            "v" => self.groups.iter().map(NaiveGroup::v).collect(),
            "log_n" => self.groups.iter().map(|group| (group.states.len() as f64).log10()).collect(),
            _ => log(self.column(name.strip_prefix("log_").unwrap())),
        }
    }

    /// [`Naive::column`] of the groups of two states and more, M and V without bias.
    pub fn unbiased_column(&self, name: &str) -> Vec<f64> {
        let groups = self.groups.iter().filter(|group| group.states.len() >= 2);
        match name {
            "m" => groups.map(NaiveGroup::unbiased_m).collect(),
            "v" => groups.map(NaiveGroup::unbiased_v).collect(),
            "log_n" => groups.map(|group| (group.states.len() as f64).log10()).collect(),
            _ => panic!("{name} has no unbiased values"),
        }
    }

    /// A measure of norms by its name, with the scale that its tolerance is relative to; `None` for a measure that is not one of these.
    pub fn value(&self, measure: &str, variant: Option<&str>) -> Option<(Option<f64>, f64)> {
        let q = self.q().unwrap_or(0.0);
        let over =
            |part: Option<f64>, whole: Option<f64>| part.zip(whole).filter(|(_, whole)| *whole > 0.0).map(|(part, whole)| part / whole);
        let unbiased = variant == Some("unbiased");
        if let Some((part, (y, x))) = measure.split_once('_').and_then(|(part, rest)| Some((part, rest.split_once("_on_")?))) {
            let (x, y) = match unbiased {
                true => (self.unbiased_column(x), self.unbiased_column(y)),
                false => (self.column(x), self.column(y)),
            };
            let line = ols(&x, &y);
            return match part {
                "slope" => Some((line.map(|line| line.0), line.map_or(1.0, |_| sd(&y) / sd(&x)))),
                "intercept" => Some((line.map(|line| line.1), q)),
                "r2" => Some((line.and_then(|line| line.2), 1.0)),
                _ => None,
            };
        }
        if unbiased {
            let (m, v, within, between) = (self.unbiased_m(), self.unbiased_v(), self.unbiased_v_within(), self.unbiased_v_between());
            return Some(match measure {
                "m" => (m, q),
                "v" => (v, q),
                "v_within" => (within, q),
                "v_between" => (between, q),
                "m_over_q" => (over(m, self.q()), 1.0),
                "v_over_q" => (over(v, self.q()), 1.0),
                "v_within_over_q" => (over(within, self.q()), 1.0),
                "v_between_over_q" => (over(between, self.q()), 1.0),
                "v_within_over_v" => (over(within, v), 1.0),
                "v_between_over_v" => (over(between, v), 1.0),
                _ => panic!("{measure} has no unbiased variant"),
            });
        }
        Some(match measure {
            "q" => (self.q(), q),
            "m" => (self.m(), q),
            "v" => (self.v(), q),
            "v_within" => (self.v_within(), q),
            "v_between" => (self.v_between(), q),
            "m_over_q" => (over(self.m(), self.q()), 1.0),
            "v_over_q" => (over(self.v(), self.q()), 1.0),
            "v_within_over_q" => (over(self.v_within(), self.q()), 1.0),
            "v_between_over_q" => (over(self.v_between(), self.q()), 1.0),
            "v_within_over_v" => (over(self.v_within(), self.v()), 1.0),
            "v_between_over_v" => (over(self.v_between(), self.v()), 1.0),
            "mean_norm" => (self.mean_norm(), self.mean_norm().unwrap_or(1.0)),
            "cv_q" => (self.cv_q(variant.map_or(1, |variant| variant[3..].parse().expect("n0"))), 1.0),
            "cv_q_exponent" => (self.cv_q_exponent(), 1.0),
            "groups" => (Some(self.groups.len() as f64), 1.0),
            "states" => (Some(self.states().len() as f64), 1.0),
            _ => return None,
        })
    }
}

impl NaiveGroup {
    /// Its states, borrowed.
    pub fn refs(&self) -> Vec<&State> {
        self.states.iter().collect()
    }

    /// Mean square norm.
    pub fn q(&self) -> f64 {
        q(&self.refs()).unwrap()
    }

    /// Square norm of the mean.
    pub fn m(&self) -> f64 {
        m(&self.refs()).unwrap()
    }

    /// Mean square distance from the mean.
    pub fn v(&self) -> f64 {
        v(&self.refs()).unwrap()
    }

    /// Sum of square distances from the mean over n - 1.
    pub fn unbiased_v(&self) -> f64 {
        let n = self.states.len() as f64;
        self.v() * n / (n - 1.0)
    }

    /// ||mean||^2 without what the mean's own spread, V / n, adds to it.
    pub fn unbiased_m(&self) -> f64 {
        self.m() - self.unbiased_v() / self.states.len() as f64
    }
}

fn some<T>(defined: bool, value: impl FnOnce() -> T) -> Option<T> {
    defined.then(value)
}

/// Length of a vector.
pub fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The mean state.
pub fn mean(states: &[&State]) -> Option<State> {
    let dim = states.first()?.len();
    Some((0..dim).map(|i| states.iter().map(|x| x[i]).sum::<f64>() / states.len() as f64).collect())
}

/// Mean square norm.
pub fn q(states: &[&State]) -> Option<f64> {
    some(!states.is_empty(), || states.iter().map(|x| norm(x).powi(2)).sum::<f64>() / states.len() as f64)
}

/// Square norm of the mean.
pub fn m(states: &[&State]) -> Option<f64> {
    mean(states).map(|mu| norm(&mu).powi(2))
}

/// Mean square distance from the mean.
pub fn v(states: &[&State]) -> Option<f64> {
    let mu = mean(states)?;
    let square = |x: &State| x.iter().zip(&mu).map(|(x, mu)| (x - mu).powi(2)).sum::<f64>();
    Some(states.iter().map(|x| square(x)).sum::<f64>() / states.len() as f64)
}

/// Cosine of the angle between two vectors.
pub fn cosine(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>() / norm(x) / norm(y)
}

/// Over all ordered pairs of different non-zero states.
pub fn mean_cosine(states: &[&State]) -> Option<f64> {
    let nonzero: Vec<&&State> = states.iter().filter(|x| norm(x) > 0.0).collect();
    let n = nonzero.len();
    let mut sum = 0.0;
    for i in 0..n {
        for j in 0..i {
            sum += 2.0 * cosine(nonzero[i], nonzero[j]);
        }
    }
    some(n >= 2, || sum / (n * (n - 1)) as f64)
}

/// Each component's part of the mean cosine, pair by pair.
pub fn cosine_contributions(states: &[&State], dim: usize) -> Option<Vec<f64>> {
    let units: Vec<State> =
        states.iter().filter(|x| norm(x) > 0.0).map(|x| x.iter().map(|value| value / norm(x)).collect::<State>()).collect();
    let n = units.len();
    let mut parts = vec![0.0; dim];
    for a in 0..n {
        for b in 0..a {
            for i in 0..dim {
                parts[i] += 2.0 * units[a][i] * units[b][i];
            }
        }
    }
    some(n >= 2, || parts.iter().map(|part| part / (n * (n - 1)) as f64).collect())
}

/// Population standard deviation.
pub fn sd(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// Population standard deviation over mean.
pub fn cv(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    some(!values.is_empty() && mean != 0.0, || sd(values) / mean)
}

/// Slope, intercept and R^2 = 1 - residual / total. A constant y has slope 0 and no R^2.
pub fn ols(x: &[f64], y: &[f64]) -> Option<(f64, f64, Option<f64>)> {
    let n = x.len() as f64;
    let same = |values: &[f64]| values.iter().all(|value| (value - values[0]).abs() <= 1e-15 * value.abs());
    if x.len() < 3 || same(x) {
        return None;
    }
    if same(y) {
        return Some((0.0, y[0], None));
    }
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let slope = x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum::<f64>() / x.iter().map(|x| (x - mx).powi(2)).sum::<f64>();
    let intercept = my - slope * mx;
    let residual: f64 = x.iter().zip(y).map(|(x, y)| (y - my - slope * (x - mx)).powi(2)).sum();
    let total: f64 = y.iter().map(|y| (y - my).powi(2)).sum();
    Some((slope, intercept, Some(1.0 - residual / total)))
}

/// sqrt((n-1)/n sum (theta_(i) - mean)^2).
pub fn jackknife(replicates: &[f64]) -> f64 {
    (replicates.len() as f64 - 1.0).sqrt() * sd(replicates)
}
