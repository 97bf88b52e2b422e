//! Whatever interrupts a measurement, nothing is lost: it goes on where it was, and its tables have the same bits.

mod support;

mod measure_interrupted {
    mod asked_to_stop;
    mod case;
    mod changed;
    mod damaged;
    mod killed;
    mod shared;
}
