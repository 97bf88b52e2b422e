//! The views of the page by what stands on their tabs, and what each of them reads.

/// A view of the page.
#[derive(Debug, PartialEq)]
pub struct View {
    /// What stands on its tab, in small letters.
    pub name: &'static str,
    /// The tables it reads beside that of layers, which every page has.
    tables: &'static [&'static str],
}

/// All views, in the order of the tabs.
pub const VIEWS: &[View] = &[
    view("overview", &["components"]), // the share of single components in the mean cosine
    view("tokens", &["groups"]),
    view("layers", &[]),
    view("training", &[]),
    view("spectrum", &["spectra"]),
    view("components", &["components", "token_components"]),
    view("massive", &["massive"]),
    view("pca", &["tokens"]),
    view("embeddings", &["projections"]),
    view("tables", &["spectra", "massive", "components", "tokens", "groups", "token_components", "norms"]),
    view("method", &[]),
];

const fn view(name: &'static str, tables: &'static [&'static str]) -> View {
    View { name, tables }
}

/// Whether one of these views reads a table; all of them do where none is named.
pub(super) fn read(only: &[&View], table: &str) -> bool {
    only.is_empty() || only.iter().any(|view| view.tables.contains(&table))
}

/// The names of these views, in the order of the tabs; all of them where none is named.
pub(super) fn names(only: &[&View]) -> Vec<&'static str> {
    VIEWS.iter().filter(|view| only.is_empty() || only.contains(view)).map(|view| view.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::index::LARGE;

    #[test]
    fn every_table_of_the_page_is_read_by_a_view() {
        let known: Vec<&str> = LARGE.into_iter().chain(["norms", "projections"]).collect();
        let read: Vec<&str> = VIEWS.iter().flat_map(|view| view.tables).copied().collect();
        assert!(known.iter().all(|table| read.contains(table)) && read.iter().all(|table| known.contains(table)), "{read:?}");
    }
}
