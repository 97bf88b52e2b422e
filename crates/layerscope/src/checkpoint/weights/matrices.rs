//! The embedding matrices of a checkpoint: measured, and drawn on a plane.

use layerscope_model::Model;
use layerscope_report::{Column, Table};
use layerscope_stats::measure::{LayerRow, MatrixTables, matrix_tables};

use crate::error::Result;

/// The file of their projections.
pub const PROJECTIONS: &str = "projections.parquet";

/// The measures of one embedding matrix, uncentred and centred.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixMeasures {
    /// `input_embedding` or `output_embedding`.
    pub point: &'static str,
    /// Where the matrix comes from.
    pub source: String,
    /// What was measured.
    pub tables: MatrixTables,
}

/// Of the input embedding, and of the output embedding where there is one. A tied one is measured once and reported twice.
pub fn embedding_measures(model: &Model) -> Result<Vec<MatrixMeasures>> {
    let input = model.input_embedding()?;
    let tables = matrix_tables(&input.values, input.width)?;
    let of_input = MatrixMeasures { point: "input_embedding", source: input.name.clone(), tables };
    let of_output = match model.output_embedding()? {
        None => None,
        Some(output) if output.values == input.values => {
            Some(MatrixMeasures { point: "output_embedding", source: output.name, ..of_input.clone() })
        }
        Some(output) => {
            let tables = matrix_tables(&output.values, output.width)?;
            Some(MatrixMeasures { point: "output_embedding", source: output.name, tables })
        }
    };
    Ok([of_input].into_iter().chain(of_output).collect())
}

/// The layers' table of embedding matrices: `layer` is null. Each entry has a revision and its step, where there are several.
pub fn embeddings_table(model: &str, entries: &[(Option<String>, Option<i64>, Vec<MatrixMeasures>)]) -> Result<Table> {
    struct Place<'a>(&'a Option<String>, Option<i64>, &'static str, &'a LayerRow);
    let rows: Vec<Place<'_>> = entries
        .iter()
        .flat_map(|(revision, step, matrices)| {
            matrices.iter().flat_map(move |matrix| matrix.tables.rows.iter().map(move |row| Place(revision, *step, matrix.point, row)))
        })
        .collect();
    let text = |of: &dyn Fn(&Place<'_>) -> Option<String>| Column::text(rows.iter().map(of));
    let real = |of: &dyn Fn(&Place<'_>) -> Option<f64>| Column::Real(rows.iter().map(of).collect());
    let integer = |of: &dyn Fn(&Place<'_>) -> Option<i64>| Column::Integer(rows.iter().map(of).collect());
    Ok(Table::new([
        ("model", text(&|_| Some(model.to_owned()))),
        ("revision", text(&|Place(revision, ..)| (*revision).clone())),
        ("layer", integer(&|_| None)),
        ("point", text(&|Place(_, _, point, _)| Some((*point).to_owned()))),
        ("selection", text(&|Place(.., row)| Some(row.selection.name().to_owned()))),
        ("measure", text(&|Place(.., row)| Some(row.measure.to_owned()))),
        ("variant", text(&|Place(.., row)| row.variant.clone())),
        ("value", real(&|Place(.., row)| row.value)),
        ("se", real(&|Place(.., row)| row.se)),
        ("n", integer(&|Place(.., row)| Some(row.n as i64))),
        ("step", integer(&|Place(_, step, ..)| *step)),
    ])?)
}

/// How many rows of a matrix are kept for a picture, at most.
const PICTURED: usize = 4096;

/// Rows of the embedding matrices on the plane of the matrix's first two singular directions: all of them, or every so many.
pub fn projections_table(matrices: &[MatrixMeasures]) -> Result<Table> {
    let rows: Vec<(&str, usize, [f64; 2])> = matrices
        .iter()
        .flat_map(|matrix| {
            let images = &matrix.tables.images;
            let every = images.len().div_ceil(PICTURED).max(1);
            images.iter().copied().enumerate().step_by(every).map(|(id, image)| (matrix.point, id, image))
        })
        .collect();
    Ok(Table::new([
        ("point", Column::text(rows.iter().map(|(point, ..)| Some(*point)))),
        ("group_id", Column::Integer(rows.iter().map(|(_, id, _)| Some(*id as i64)).collect())),
        ("x", Column::Real(rows.iter().map(|(.., [x, _])| Some(*x)).collect())),
        ("y", Column::Real(rows.iter().map(|(.., [_, y])| Some(*y)).collect())),
    ])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_matrices_are_pictured_in_part() {
        let images = (0..10_000).map(|id| [f64::from(id), -1.0]).collect();
        let tables = MatrixTables { rows: Vec::new(), spectrum: Vec::new(), images };
        let table = projections_table(&[MatrixMeasures { point: "input_embedding", source: String::new(), tables }]).expect("a table");
        assert_eq!(table.rows(), 3334); // every third of 10,000
        let Some((Column::Integer(ids), Column::Real(x))) = table.column("group_id").zip(table.column("x")) else { panic!("two columns") };
        assert_eq!((ids[1111], x[1111]), (Some(3333), Some(3333.0)));
    }
}
