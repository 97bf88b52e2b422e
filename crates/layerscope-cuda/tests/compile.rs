//! Every kernel is valid CUDA C++ for every architecture, whether or not this machine has a card.
//!
//! NVRTC is found as the program finds it, or in `target/nvrtc`: `make test` puts it there.

use std::path::{Path, PathBuf};

use layerscope_cuda::compile::Unit;
use layerscope_cuda::{SOURCES, libraries};

const ARCHITECTURES: [(u32, u32); 3] = [(8, 0), (9, 0), (10, 0)];

fn folders() -> Vec<PathBuf> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvrtc");
    libraries::Places { site_packages: vec![packages], ..libraries::Places::default() }.folders()
}

#[test]
fn every_kernel_compiles_for_every_architecture_and_is_read_back() {
    if let Err(missing) = libraries::load_compiler(&folders()) {
        assert!(std::env::var_os("LAYERSCOPE_NVRTC").is_none(), "NVRTC is asked for: {missing}");
        return eprintln!("skipped: {missing}");
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    for source in SOURCES {
        for definitions in source.variants {
            let definitions: Vec<String> = definitions.iter().map(|&definition| definition.to_owned()).collect();
            for architecture in ARCHITECTURES {
                let unit = Unit { name: source.name, source: &source.text(), definitions: &definitions, architecture };
                let code = unit.compile_or_read(&cache).unwrap_or_else(|problem| panic!("{definitions:?}, {architecture:?}: {problem}"));
                assert!(code.starts_with(b"\x7fELF"), "{}: machine code", source.name);
                assert_eq!(unit.compile_or_read(&cache).as_ref(), Ok(&code), "the same from the disk");
            }
        }
    }
}

#[test]
fn a_mistake_is_named_with_its_file() {
    if libraries::load_compiler(&folders()).is_err() {
        return eprintln!("skipped: no NVRTC");
    }
    let unit = Unit { name: "wrong.cu", source: "this is not C++", definitions: &[], architecture: (9, 0) };
    let problem = unit.compile().unwrap_err();
    assert!(problem.starts_with("wrong.cu:"), "{problem}");
}
