//! What the tests of several crates share. No product depends on it.
//!
//! - [`hub_server`] and [`store_server`]: a model hub and an object store on loopback that misbehave on demand
//! - [`made_up_states`] and [`made_up_runs`]: hidden states, and whole runs with every table, by a fixed rule
//! - [`naive`] and [`eigen`]: measures and eigenvalues by their definitions, slow and simple, to compare with

pub mod eigen;
pub mod hub_server;
pub mod made_up_runs;
pub mod made_up_states;
pub mod naive;
pub mod store_server;
