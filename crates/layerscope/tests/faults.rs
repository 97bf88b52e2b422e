//! Whatever fails in the middle of a command, what it wrote is whole, or the same command makes it whole, with the tables of an undisturbed
//! run to the bit.

mod support;

mod faults {
    mod calls;
    mod kills;
    mod requests;
    mod trial;
}
