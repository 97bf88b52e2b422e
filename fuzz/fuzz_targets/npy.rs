#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| layerscope_fuzz::run(layerscope_fuzz::targets::npy, data));
