//! Which states people see first: all of them, or all but the few massive ones that would hide the others.
//!
//! In current pre-norm decoders a few attention sinks carry nearly all of Q in the middle layers (Sun et al. 2024). Tables hold every
//! value with and without them; what is shown first is decided here, once for everything that shows something.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::Run;
use crate::table::Table;
use crate::text::{grouped, listed};

/// The share of Q beyond which massive states hide the others.
const LARGE_SHARE: f64 = 0.1;

/// The states that a summary, a figure or a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum States {
    /// All but the massive ones.
    Typical,
    /// All of them.
    All,
}

impl States {
    /// Both, by name.
    pub const NAMES: [&str; 2] = ["typical", "all"];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            States::Typical => "typical",
            States::All => "all",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<States> {
        [States::Typical, States::All].into_iter().find(|states| states.name() == name)
    }

    /// What to show first of some runs that are shown together: the typical states if massive ones carry more than a tenth of Q at some
    /// layer of one of them.
    ///
    /// A run with the preset of a paper shows what the paper did, and a run of an older program what it has.
    pub fn lead(runs: &[&Run]) -> States {
        let hidden = |run: &&Run| {
            let mut settings = run.manifest.settings.iter().flat_map(|settings| settings.iter());
            !settings.any(|(_, setting)| setting.from.starts_with("preset ")) && States::lead_of(&run.layers) == States::Typical
        };
        if runs.iter().any(hidden) { States::Typical } else { States::All }
    }

    /// The same from the table of layers alone.
    pub fn lead_of(layers: &Table) -> States {
        match has_typical_groups(layers) && massive(layers).iter().any(|massive| massive.share > LARGE_SHARE) {
            true => States::Typical,
            false => States::All,
        }
    }

    /// The selection of the tables that holds these states, where all of them are `all`, `selected` or `sample`.
    pub fn of(self, selection: &str) -> &str {
        match (self, selection) {
            (States::All, selection) => selection,
            (States::Typical, "all") => "typical",
            (States::Typical, "selected") => "typical_selected",
            (States::Typical, "sample") => "typical_sample",
            (States::Typical, other) => other,
        }
    }
}

/// Whether the selected groups were also measured without massive states; runs of older programs lack that.
pub fn has_typical_groups(layers: &Table) -> bool {
    let has = |name: &str| (0..layers.rows()).any(|row| layers.text("selection", row) == Some(name));
    has(States::Typical.of("selected")) || !has("selected")
}

/// The massive states of one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Massive {
    /// Its layer.
    pub layer: i64,
    /// Its point.
    pub point: String,
    /// Its training step, in a table of several.
    pub step: Option<i64>,
    /// How many states are massive.
    pub count: u64,
    /// Out of how many.
    pub states: u64,
    /// The part of the sum of ||x||^2 that they carry.
    pub share: f64,
}

/// The massive states of every point that has some, from Q of all states and of the typical ones.
pub fn massive(layers: &Table) -> Vec<Massive> {
    type Sums = [Option<(f64, u64)>; 2];
    let mut points: BTreeMap<(Option<i64>, i64, String), Sums> = BTreeMap::new();
    for row in 0..layers.rows() {
        let states = match layers.text("selection", row) {
            Some("all") => 0,
            Some("typical") => 1,
            _ => continue,
        };
        if layers.text("measure", row) != Some("q") || layers.text("variant", row).is_some() {
            continue;
        }
        let (Some(layer), Some(point)) = (layers.integer("layer", row), layers.text("point", row)) else { continue };
        let value = layers.real("value", row).zip(layers.integer("n", row)).map(|(q, n)| (q, n as u64));
        points.entry((layers.integer("step", row), layer, point.to_owned())).or_default()[states] = value;
    }
    let of_point = |((step, layer, point), [all, typical]): ((Option<i64>, i64, String), Sums)| {
        // Without a value of the typical states nothing is known; more than half of the states always are.
        let ((q, states), (typical_q, typical)) = (all?, typical?);
        let sum = q * states as f64;
        let share = if sum > 0.0 { ((sum - typical_q * typical as f64) / sum).max(0.0) } else { 0.0 };
        (typical < states).then(|| Massive { layer, point, step, count: states - typical, states, share })
    };
    points.into_iter().filter_map(of_point).collect()
}

/// One line about the massive states of a run: how many, where, and what they carry. None where nothing is massive.
pub fn massive_line(layers: &Table) -> Option<String> {
    let found = massive(layers);
    let most = found.iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
    let large: BTreeSet<i64> = found.iter().filter(|massive| massive.share > LARGE_SHARE).map(|massive| massive.layer).collect();
    let [count, states] = [most.count, most.states].map(|number| grouped(number as usize));
    let (are, carry) = if count == "1" { ("is", "carries") } else { ("are", "carry") };
    let counts = format!("{count} of {states} states {are} massive");
    let carry = format!("{carry} {:.1} % of Q at layer {}", 100.0 * most.share, most.layer);
    Some(match large.len() {
        0 | 1 => format!("{counts} and {carry}"),
        _ => format!("{counts} and {carry}, more than a tenth of it at layers {}", listed(large)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    /// Layer, selection, Q and n.
    type Row<'a> = (i64, &'a str, f64, i64);

    fn layers(rows: &[Row]) -> Table {
        let text = |of: &dyn Fn(&Row) -> String| Column::text(rows.iter().map(|row| Some(of(row))));
        Table::new([
            ("layer", Column::Integer(rows.iter().map(|row| Some(row.0)).collect())),
            ("point", text(&|_| "block".to_owned())),
            ("selection", text(&|row| row.1.to_owned())),
            ("measure", text(&|_| "q".to_owned())),
            ("variant", Column::Text(vec![None; rows.len()])),
            ("value", Column::Real(rows.iter().map(|row| Some(row.2)).collect())),
            ("n", Column::Integer(rows.iter().map(|row| Some(row.3)).collect())),
            ("step", Column::Integer(vec![None; rows.len()])),
        ])
        .unwrap()
    }

    #[test]
    fn massive_states_that_carry_a_tenth_of_q_are_left_out_first() {
        // Layer 1: 10 of 1,000 states carry 1 - 990 * 1 / (1000 * 2) of Q. Layer 2: none is massive.
        let rows = [(1, "all", 2.0, 1000), (1, "typical", 1.0, 990), (2, "all", 2.0, 1000), (2, "typical", 2.0, 1000)];
        let table = layers(&rows);
        assert_eq!(massive(&table).iter().map(|massive| (massive.layer, massive.count)).collect::<Vec<_>>(), [(1, 10)]);
        assert!((massive(&table)[0].share - 0.505).abs() < 1e-12);
        assert_eq!(States::lead_of(&table), States::Typical);
        assert_eq!(massive_line(&table).unwrap(), "10 of 1,000 states are massive and carry 50.5 % of Q at layer 1");
        let several = |shares: &[i64]| {
            let rows = |layer: &i64| [(*layer, "all", 2.0, 1000), (*layer, "typical", 1.0, 990)];
            massive_line(&layers(&shares.iter().flat_map(rows).collect::<Vec<_>>())).expect("massive states")
        };
        assert!(several(&[3, 4, 12, 13, 14]).ends_with("% of Q at layer 14, more than a tenth of it at layers 3, 4 and 12 to 14"));
        assert!(several(&[2, 3, 4]).ends_with("more than a tenth of it at layers 2 to 4"));
        // A run of an older program lacks the typical states of the selected groups.
        let old = layers(&[&rows[..], &[(1, "selected", 2.0, 500)]].concat());
        assert_eq!(States::lead_of(&old), States::All);
        // And one that measured no typical states at all knows nothing of massive ones.
        let older = layers(&[(1, "all", 2.0, 1000)]);
        assert_eq!((massive(&older).len(), massive_line(&older), States::lead_of(&older)), (0, None, States::All));
        let small = layers(&[(1, "all", 1.05, 1000), (1, "typical", 1.0, 990)]);
        assert_eq!(States::lead_of(&small), States::All);
    }

    #[test]
    fn selections_have_typical_counterparts() {
        let of = |states: States| ["all", "selected", "sample"].map(|selection| states.of(selection).to_owned());
        assert_eq!(of(States::All), ["all", "selected", "sample"]);
        assert_eq!(of(States::Typical), ["typical", "typical_selected", "typical_sample"]);
        assert_eq!((States::named("typical"), States::named("none")), (Some(States::Typical), None));
    }
}
