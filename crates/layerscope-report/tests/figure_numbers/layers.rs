//! Figures of layers: profiles, and how measures agree.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use layerscope_testing::made_up_runs::{DECODER, ENCODER, line};

use super::rows::{by_place, run_of};
use crate::support::drawn::{draw, number, only, small, value};
use crate::support::files::Folder;

#[test]
fn profiles_plot_exactly_the_tables() {
    let out = Folder::new("profiles");
    let runs = small();
    let figures = [
        "fig4",
        "fig5",
        "fig6",
        "fig17",
        "fig18",
        "fig19",
        "fig20",
        "ethayarajh1",
        "ethayarajh2",
        "ethayarajh3",
        "ethayarajh4",
        "isotropy",
        "shape1",
    ];
    draw(&runs, &only(&figures), &out);
    for name in figures {
        let rows = out.csv(&format!("{name}.csv"));
        for row in &rows {
            assert_eq!(by_place(run_of(&runs, row), row), number(row, "value"), "{name}: {row:?}");
            if row.contains_key("se") {
                assert_eq!(number(row, "se"), number(row, "value").abs() * 0.01, "{name}: {row:?}");
            }
        }
        // Both models, every layer, and the decoder's last block beside its final norm.
        let places = |model: &str| {
            let own = rows.iter().filter(|row| row["model"] == model);
            own.map(|row| (row["layer"].clone(), row["point"].clone())).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!((places(ENCODER.name), places(DECODER.name)), (5, 6), "{name}");
    }
    for row in out.csv("shape1.csv") {
        let spread = BTreeMap::from([("variant".to_owned(), "batch4096_std".to_owned())]);
        let wanted: BTreeMap<String, String> = row.clone().into_iter().chain(spread).collect();
        assert_eq!(number(&row, "band"), by_place(run_of(&runs, &row), &wanted), "{row:?}");
    }
}

#[test]
fn agreement_pairs_the_two_anisotropies_and_ranks_them() {
    let out = Folder::new("agreement");
    let runs = small();
    draw(&runs, &only(&["agreement"]), &out);
    let rows = out.csv("agreement.csv");
    assert_eq!(rows.len(), 5 + 6);
    for row in &rows {
        let of = |measure| {
            value(run_of(&runs, row), &[("layer", &row["layer"]), ("point", &row["point"]), ("selection", "all"), ("measure", measure)])
        };
        assert_eq!((number(row, "mean_cosine"), number(row, "m_over_q")), (of("mean_cosine"), of("m_over_q")), "{row:?}");
    }
    // Pearson's correlation of mean ranks; the last block before the final norm does not count.
    let counted: Vec<_> =
        rows.iter().filter(|row| !(row["model"] == DECODER.name && row["layer"] == "4" && row["point"] == "block")).collect();
    let ranks = |name: &str| {
        let of = |own: f64| {
            counted
                .iter()
                .map(|row| match number(row, name).total_cmp(&own) {
                    Ordering::Less => 1.0,
                    Ordering::Equal => 0.5,
                    Ordering::Greater => 0.0,
                })
                .sum::<f64>()
        };
        counted.iter().map(|row| of(number(row, name))).collect::<Vec<f64>>()
    };
    let (n, (slope, r2)) = (counted.len(), line(&ranks("mean_cosine"), &ranks("m_over_q")));
    let rho = r2.sqrt().copysign(slope);
    let said = format!("points: ${rho:.3}$");
    assert!(out.text("figures.tex").contains(&said), "{said}");
    assert!(out.text("agreement.svg").contains(&format!("{rho:.3} over {n} points").replace('-', "−")), "{rho}");
}
