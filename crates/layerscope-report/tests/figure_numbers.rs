//! Every number that a figure of made-up runs plots is in the runs' tables, or follows from them by its definition.

mod support;

mod figure_numbers {
    mod groups;
    mod layers;
    mod models;
    mod narrow;
    mod over;
    mod remarks;
    mod rows;
    mod sizes;
    mod states;
}
