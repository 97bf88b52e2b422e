//! Tables: made from states, summed up, and compared.

pub(crate) mod ask;
pub(crate) mod compare;
pub(crate) mod lists;
pub(crate) mod make;
pub(crate) mod overview;
pub(crate) mod points;
pub(crate) mod select;
pub(crate) mod stack;
pub(crate) mod states;
pub(crate) mod summary;
pub(crate) mod trajectory;
