//! The table a user sees at the end of a run: a few columns that fit a terminal.

use std::fmt::Write;

use layerscope_error::{line, setting};
use layerscope_report::lead::Measured;
use layerscope_report::manifest::Frequency;
use layerscope_report::{Cell, FEW_GROUPS, States, Table};

use super::states::called;
use crate::text::grouped;

/// Headings and the measures under them.
const COLUMNS: &[(&str, &str)] = &[
    ("Q", "q"),
    ("M/Q", "m_over_q"),
    ("V_W/Q", "v_within_over_q"),
    ("V_B/Q", "v_between_over_q"),
    ("C.V.", "cv_q"),
    ("slope", "slope_v_on_m"),
    ("R^2", "r2_v_on_m"),
];

/// The measures that are computed over groups.
const OVER_GROUPS: [&str; 2] = ["slope_v_on_m", "r2_v_on_m"];
/// Marks a value over few groups.
const FEW: &str = "*";

/// A warning where few groups are selected at some point; `frequency` selects them.
pub fn few_groups(layers: &Table, frequency: Option<Frequency>) -> Option<String> {
    let Frequency { minimum, maximum } = frequency?;
    let is_count = |row: &usize| layers.text("selection", *row) == Some("selected") && layers.text("measure", *row) == Some("groups");
    let fewest = (0..layers.rows()).filter(is_count).filter_map(|row| layers.real("value", row)).reduce(f64::min)? as u64;
    let range = setting("frequency").to(format!("{minimum}:{maximum}"));
    let line = match fewest {
        0 => line!["no group is selected by ", range, " at some layer; give more text, or a wider ", setting("frequency")],
        _ => line![
            format!("{} selected by ", if fewest == 1 { "1 group is".to_owned() } else { format!("{fewest} groups are") }),
            range,
            format!(": slopes over fewer than {FEW_GROUPS} depend on single groups; give more text, or a wider "),
            setting("frequency")
        ],
    };
    (fewest < FEW_GROUPS as u64).then(|| line.flags())
}

/// One line per point: Q, its parts, C.V. of Q and the line of V on M, of these states, in the selection that leads.
pub fn summary_table(layers: &Table, states: States) -> String {
    let text = |name: &str, row: usize| match layers.column(name).map(|column| column.cell(row)) {
        Some(Cell::Text(text)) => Some(text.to_owned()),
        Some(Cell::Integer(number)) => Some(number.to_string()),
        _ => None,
    };
    let real = |name: &str, row: usize| match layers.column(name).map(|column| column.cell(row)) {
        Some(Cell::Real(number)) => Some(number),
        Some(Cell::Integer(number)) => Some(number as f64),
        _ => None,
    };
    // Matrices of weights have no selections.
    let selection = Measured::of(&[layers]).selection(states, "q", None).unwrap_or("all");
    let mut lines: Vec<(String, Vec<Option<String>>)> = Vec::new();
    let mut groups: Option<(f64, f64)> = None;
    for row in 0..layers.rows() {
        if text("selection", row).as_deref() != Some(selection) || text("variant", row).is_some() {
            continue;
        }
        let (layer, point) = (text("layer", row).unwrap_or_default(), text("point", row).unwrap_or_default());
        let name = match point.as_str() {
            "final_norm" => format!("{layer} norm"),
            "projected" => format!("{layer} proj"),
            "embedding" => format!("{layer} emb"),
            _ => layer,
        };
        if lines.last().is_none_or(|(last, _)| *last != name) {
            lines.push((name, vec![None; COLUMNS.len()]));
        }
        let measure = text("measure", row).unwrap_or_default();
        if measure == "groups" {
            let (fewest, most) = groups.unwrap_or((f64::INFINITY, 0.0));
            groups = real("value", row).map(|value| (fewest.min(value), most.max(value))).or(groups);
        }
        if let (Some(at), Some((_, values))) = (COLUMNS.iter().position(|(_, known)| *known == measure), lines.last_mut()) {
            let is_few = OVER_GROUPS.contains(&measure.as_str()) && real("n", row).is_some_and(|n| n < FEW_GROUPS as f64);
            values[at] = real("value", row).map(|value| short_real(value) + if is_few { FEW } else { "" });
        }
    }
    let mut out = String::new();
    let over = match (selection == states.of("selected"), groups) {
        (true, Some((fewest, most))) => {
            let [fewest, most] = [fewest, most].map(|count| grouped(count as usize));
            let count = if fewest == most { most } else { format!("{fewest} to {most}") };
            format!("over {}", called(selection).replace("the selected", &format!("the {count} selected")))
        }
        _ => format!("over {}", called(selection)),
    };
    let _ = writeln!(out, "{over}");
    let headings = COLUMNS.iter().map(|(heading, _)| format!("{heading:>10}"));
    out.extend([format!("{:<8}", "layer")].into_iter().chain(headings));
    let is_marked = lines.iter().flat_map(|(_, values)| values).flatten().any(|value| value.ends_with(FEW));
    for (name, values) in lines {
        let cells = values.into_iter().map(|value| format!("{:>10}", value.unwrap_or_else(|| "-".to_owned())));
        out.extend([format!("\n{name:<8}")].into_iter().chain(cells));
    }
    if is_marked {
        let _ = write!(out, "\n{FEW} over fewer than {FEW_GROUPS} groups: a few of them decide");
    }
    out
}

/// A number in at most nine characters.
pub(crate) fn short_real(number: f64) -> String {
    let size = number.abs();
    match number {
        _ if size >= 1e6 || (size < 1e-4 && size > 0.0) => format!("{number:.2e}"),
        _ if size >= 1000.0 => format!("{number:.0}"),
        _ if size >= 10.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layerscope_report::Column;

    fn shown(selection: &str, states: States) -> String {
        let rows = [("q", 1234567.0), ("m_over_q", 0.25), ("groups", 1500.0), ("slope_v_on_m", -0.99991), ("r2_v_on_m", 0.00001)];
        let text = |value: &str| Column::text(vec![Some(value); rows.len()]);
        let table = Table::new([
            ("layer", Column::Integer(vec![Some(12); rows.len()])),
            ("point", text("final_norm")),
            ("selection", text(selection)),
            ("measure", Column::text(rows.iter().map(|(name, _)| Some(*name)))),
            ("variant", Column::Text(vec![None; rows.len()])),
            ("value", Column::Real(rows.iter().map(|(_, value)| Some(*value)).collect())),
        ])
        .expect("a table");
        summary_table(&table, states)
    }

    #[test]
    fn the_table_fits_eighty_columns() {
        let shown = shown("selected", States::All);
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "over the 1,500 selected groups",
                "layer            Q       M/Q     V_W/Q     V_B/Q      C.V.     slope       R^2",
                "12 norm     1.23e6    0.2500         -         -         -   -0.9999   1.00e-5",
            ]
        );
    }

    #[test]
    fn slopes_over_few_groups_are_marked() {
        let table = |n: i64, groups: f64| {
            let rows = [("q", 5.0), ("slope_v_on_m", -0.5), ("r2_v_on_m", 0.25), ("groups", groups)];
            let text = |value: &str| Column::text(vec![Some(value); rows.len()]);
            let columns = [
                ("layer", Column::Integer(vec![Some(1); rows.len()])),
                ("point", text("block")),
                ("selection", text("selected")),
                ("measure", Column::text(rows.iter().map(|(name, _)| Some(*name)))),
                ("variant", Column::Text(vec![None; rows.len()])),
                ("value", Column::Real(rows.iter().map(|(_, value)| Some(*value)).collect())),
                ("n", Column::Integer(vec![Some(n); rows.len()])),
            ];
            Table::new(columns).expect("a table")
        };
        let shown = |n: i64| summary_table(&table(n, n as f64), States::All).lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
        let marked = "1           5.0000         -         -         -         -  -0.5000*   0.2500*";
        assert_eq!(shown(4), [marked, "* over fewer than 30 groups: a few of them decide"]);
        assert_eq!(shown(30), [marked.replace("  -0.5000*   0.2500*", "   -0.5000    0.2500")]);
        let frequency = |minimum| Some(Frequency { minimum, maximum: 100 });
        let line = "1 group is selected by --frequency 5:100: slopes over fewer than 30 depend on single groups; give more text, or a wider --frequency";
        assert_eq!(few_groups(&table(1, 1.0), frequency(5)).as_deref(), Some(line));
        let none = "no group is selected by --frequency 5:100 at some layer; give more text, or a wider --frequency";
        assert_eq!(few_groups(&table(0, 0.0), frequency(5)).as_deref(), Some(none));
        assert!(few_groups(&table(9, 29.0), frequency(5)).is_some_and(|line| line.starts_with("29 groups are selected by ")));
        assert_eq!((few_groups(&table(9, 30.0), frequency(5)), few_groups(&table(9, 1.0), None)), (None, None));
    }

    #[test]
    fn the_table_says_which_states_it_is_about() {
        let first = |selection: &str, states: States| shown(selection, states).lines().next().map(str::to_owned);
        let says = |line: &str| Some(line.to_owned());
        assert_eq!(first("typical_selected", States::Typical), says("over the typical states of the 1,500 selected groups"));
        assert_eq!(first("typical", States::Typical), says("over the typical states"));
        assert_eq!(first("all", States::All), says("over all states"));
        // Of what the table does not have there is nothing to say.
        assert_eq!(first("all", States::Typical), says("over all states"));
    }
}
