//! The kernels: one source a subject, compiled at first use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, CudaFunction, CudaModule};
use cudarc::nvrtc::Ptx;
use layerscope_compute::{Error, Result};

use crate::compile::{Unit, cache_folder, version};
use crate::error::CudaError;

/// What stands before every source, before those that write operands, and before those of attention.
const COMMON: &str = include_str!("../kernels/common.cuh");
const OPERAND: &str = include_str!("../kernels/operand.cuh");
const ATTENTION: &str = include_str!("../kernels/attention.cuh");
const STATISTICS: &str = include_str!("../kernels/statistics/statistics.cuh");

/// A source, and for which definitions tests compile it.
pub struct Source {
    /// The name of its file, without the ending.
    pub name: &'static str,
    /// What stands before it.
    headers: &'static [&'static str],
    text: &'static str,
    /// Each a list of definitions, as a run may ask for.
    pub variants: &'static [&'static [&'static str]],
}

impl Source {
    const fn new(name: &'static str, text: &'static str) -> Source {
        Source { name, headers: &[], text, variants: &[&[]] }
    }

    const fn after(self, headers: &'static [&'static str], variants: &'static [&'static [&'static str]]) -> Source {
        Source { headers, variants, ..self }
    }

    /// All of the text that is compiled.
    pub fn text(&self) -> String {
        format!("{COMMON}\n{}\n#line 1 \"{}.cu\"\n{}", self.headers.concat(), self.name, self.text)
    }
}

/// No definitions.
const PLAIN: &[&[&str]] = &[&[]];

/// Every kind of operand.
const OPERANDS: &[&[&str]] = &[&["OPERAND=0"], &["OPERAND=1"], &["OPERAND=2"], &["OPERAND=3"]];

/// Every source.
pub const SOURCES: &[Source] = &[
    Source::new("statistics_rows", include_str!("../kernels/statistics/rows.cu")).after(&[STATISTICS], PLAIN),
    Source::new("statistics_moments", include_str!("../kernels/statistics/moments.cu")).after(&[STATISTICS], PLAIN),
    Source::new("statistics_scatter", include_str!("../kernels/statistics/scatter.cu")).after(&[STATISTICS], PLAIN),
    Source::new("statistics_sequences", include_str!("../kernels/statistics/sequences.cu")).after(&[STATISTICS], PLAIN),
    Source::new("statistics_shapes", include_str!("../kernels/statistics/shapes.cu")).after(&[STATISTICS], PLAIN),
    Source::new("statistics_peaks", include_str!("../kernels/statistics/peaks.cu")).after(&[STATISTICS], PLAIN),
    Source::new("same_bits", include_str!("../kernels/same_bits.cu")),
    Source::new("rows", include_str!("../kernels/rows.cu")).after(&[OPERAND], OPERANDS),
    Source::new("activations", include_str!("../kernels/activations.cu")).after(&[OPERAND], OPERANDS),
    Source::new("attention_f32", include_str!("../kernels/attention_f32.cu")).after(
        &[OPERAND, ATTENTION],
        &[
            &["OPERAND=0", "HEAD_DIM=64", "BIAS=0"],
            &["OPERAND=0", "HEAD_DIM=37", "BIAS=1"],
            &["OPERAND=3", "HEAD_DIM=64", "BIAS=2"],
            &["OPERAND=3", "HEAD_DIM=37", "BIAS=3"],
            &["OPERAND=3", "HEAD_DIM=256", "BIAS=0"],
        ],
    ),
    Source::new("attention_mma", include_str!("../kernels/attention_mma.cu")).after(
        &[OPERAND, ATTENTION],
        &[
            &["OPERAND=1", "HEAD_DIM=64", "BIAS=0"],
            &["OPERAND=1", "HEAD_DIM=256", "BIAS=1"],
            &["OPERAND=2", "HEAD_DIM=80", "BIAS=2"],
            &["OPERAND=2", "HEAD_DIM=37", "BIAS=3"],
        ],
    ),
];

/// A source's name, and the definitions it was compiled with.
type Variant = (&'static str, Vec<String>);

/// The compiled sources of one card.
pub struct Kernels {
    context: Arc<CudaContext>,
    device: String,
    architecture: (u32, u32),
    modules: Mutex<HashMap<Variant, Arc<CudaModule>>>,
}

impl Kernels {
    pub(crate) fn new(context: Arc<CudaContext>, device: String, architecture: (u32, u32)) -> Kernels {
        Kernels { context, device, architecture, modules: Mutex::default() }
    }

    /// The compiler and its version, in words.
    pub(crate) fn compiler(&self) -> String {
        version().map_or_else(|_| "NVRTC".to_owned(), |(major, minor)| format!("NVRTC {major}.{minor}"))
    }

    /// A function of a source compiled with these definitions. To be asked for once, not for every launch.
    pub fn function(&self, source: &str, definitions: &[String], name: &str) -> Result<CudaFunction> {
        let module = self.module(source, definitions)?;
        module.load_function(name).map_err(|error| error.of(&format!("{}: kernel {name}", self.device), 0))
    }

    fn module(&self, name: &str, definitions: &[String]) -> Result<Arc<CudaModule>> {
        let failed = |problem: String| Error::Failed { device: self.device.clone(), problem };
        let source = SOURCES.iter().find(|source| source.name == name).ok_or_else(|| failed(format!("no kernels of {name}")))?;
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (source.name, definitions.to_vec());
        if let Some(module) = modules.get(&key) {
            return Ok(module.clone());
        }
        let unit = Unit { name, source: &source.text(), definitions, architecture: self.architecture };
        let code = unit.compile_or_read(&cache_folder()).map_err(failed)?;
        let module = self.context.load_module(Ptx::from_binary(code)).map_err(|error| error.of(&self.device, 0))?;
        modules.insert(key, module.clone());
        Ok(module)
    }
}
