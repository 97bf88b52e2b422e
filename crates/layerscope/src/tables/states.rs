//! Which states a printed table is about, and what people read about it.

use std::collections::HashSet;

use layerscope_error::{line, setting};
use layerscope_report::states::{has_typical_groups, massive, massive_line};
use layerscope_report::{Run, States, Table};

use crate::error::{Error, Result};
use crate::settings::parse;
use crate::text::wrapped;

/// Characters of a line of a summary.
pub const WIDTH: usize = 80;

/// The states to show of runs that are shown together: those that were asked for by name, or the ones to show first.
pub fn chosen(runs: &[&Run], asked: Option<&str>) -> Result<States> {
    let old = runs.iter().find(|run| !has_typical_groups(&run.layers));
    match (asked.map(parse::states).transpose()?, old) {
        (Some(States::Typical), Some(old)) => {
            let problem =
                format!("{}: an older program measured it, with all states alone; measure it again, or give ", old.folder.display());
            Err(Error::usage(line![problem, setting("states").to("all")]))
        }
        (Some(states), _) => Ok(states),
        // What a run does not have cannot be shown beside the others.
        (None, Some(_)) => Ok(States::All),
        (None, None) => Ok(States::lead(runs)),
    }
}

/// A selection of the tables in a sentence.
pub fn called(selection: &str) -> &str {
    match selection {
        "all" => "all states",
        "selected" => "the selected groups",
        "typical" => "the typical states",
        "typical_selected" => "the typical states of the selected groups",
        "sample" => "the kept sample",
        "typical_sample" => "the typical states of the kept sample",
        other => other,
    }
}

/// Whether a selection of the tables is about these states.
pub fn is_of(selection: &str, states: States) -> bool {
    ["all", "selected", "sample"].iter().any(|base| states.of(base) == selection)
}

/// What to say of massive states above the tables of some runs, each with a name where there are several: how many they are, and how to
/// see the other view. Nothing of a run without them, or where they are part of what is shown and carry little.
pub fn about_massive(runs: &[(Option<&str>, &Table)], shown: States) -> Vec<String> {
    let said = |(name, layers): &(Option<&str>, &Table)| {
        let hide = States::lead_of(layers) == States::Typical;
        let line = massive_line(layers).filter(|_| hide || shown == States::Typical)?;
        Some(name.map_or(line.clone(), |name| format!("{name}: {line}")))
    };
    let said: Vec<String> = runs.iter().filter_map(said).collect();
    let view = match shown {
        States::Typical => "Below are the typical states, without these; --states all shows all of them",
        States::All => "Below are all states; --states typical leaves these out",
    };
    let view = (!said.is_empty()).then(|| view.to_owned());
    said.iter().flat_map(|line| wrapped(line, WIDTH)).chain(view).collect()
}

/// The rows of a table that are about these states. A point without rows of typical states has no massive ones: its rows of all states
/// are those of the typical ones too.
pub fn rows_of(table: &Table, states: States) -> Result<Table> {
    if table.column("selection").is_none() {
        return Ok(table.clone());
    }
    let place =
        |row: usize| ["revision", "step", "layer", "point"].map(|name| table.column(name).map(|column| format!("{:?}", column.cell(row))));
    let is = |row: usize, states: States| table.text("selection", row).is_some_and(|own| is_of(own, states));
    let apart: HashSet<_> = (0..table.rows()).filter(|&row| is(row, States::Typical)).map(place).collect();
    let wanted = |row: &usize| is(*row, states) || (is(*row, States::All) && !apart.contains(&place(*row)));
    let rows: Vec<(usize, usize)> = (0..table.rows()).filter(wanted).map(|row| (0, row)).collect();
    Ok(Table::gather(&[table], &rows)?)
}

/// The same of a table of a run by its name; refuses what an older program did not keep apart.
pub fn rows_of_run(run: &Run, name: &str, table: &Table, states: States) -> Result<Table> {
    let has_states = matches!(name, "groups" | "components" | "spectra" | "tokens");
    if has_states && states == States::Typical && table.column("selection").is_none() && !massive(&run.layers).is_empty() {
        let problem = format!("{}: an older program made its table `{name}`, of all states alone; measure it again", run.folder.display());
        return Err(Error::usage(problem));
    }
    rows_of(table, states)
}

#[cfg(test)]
mod tests {
    use layerscope_report::Column;

    use super::*;

    fn table(rows: &[(i64, &str)]) -> Table {
        Table::new([
            ("layer", Column::Integer(rows.iter().map(|row| Some(row.0)).collect())),
            ("selection", Column::text(rows.iter().map(|row| Some(row.1)))),
        ])
        .expect("a table")
    }

    #[test]
    fn a_point_without_massive_states_has_the_same_rows_twice() {
        let both = table(&[(0, "all"), (1, "all"), (1, "all"), (1, "typical"), (2, "all")]);
        assert_eq!(rows_of(&both, States::All).expect("rows"), table(&[(0, "all"), (1, "all"), (1, "all"), (2, "all")]));
        assert_eq!(rows_of(&both, States::Typical).expect("rows"), table(&[(0, "all"), (1, "typical"), (2, "all")]));
        let layers = table(&[(0, "all"), (0, "selected"), (0, "typical"), (0, "typical_selected"), (0, "sample")]);
        assert_eq!(rows_of(&layers, States::Typical).expect("rows"), table(&[(0, "typical"), (0, "typical_selected")]));
        assert_eq!(rows_of(&layers, States::All).expect("rows"), table(&[(0, "all"), (0, "selected"), (0, "sample")]));
        let plain = both.without(&["selection"]);
        assert_eq!(rows_of(&plain, States::Typical).expect("rows"), plain);
    }
}
