//! CUDA C++ to machine code, by NVRTC, and the compiled code on disk.

use std::ffi::{CString, c_int};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io};

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;
use sha2::{Digest, Sha256};

/// One unit to compile.
pub struct Unit<'a> {
    /// For messages.
    pub name: &'a str,
    /// All of the text.
    pub source: &'a str,
    /// What `-D` says: `NAME=value`.
    pub definitions: &'a [String],
    /// The card's compute capability.
    pub architecture: (u32, u32),
}

impl Unit<'_> {
    /// Machine code for the card, or, where the compiler is older than the card, code that the driver translates.
    pub fn compile(&self) -> Result<Vec<u8>, String> {
        let source = CString::new(self.source).map_err(|_| format!("{}: a source with a zero byte", self.name))?;
        let name = CString::new(self.name).unwrap_or_default();
        let program = result::create_program(&source, Some(&name)).map_err(words)?;
        let options = self.options()?;
        // SAFETY: the program was just made and is not destroyed before the last line.
        let compiled = unsafe {
            match result::compile_program(program, &options) {
                Ok(()) => code(program, options[0].contains("sm_")).map_err(words),
                Err(_) => Err(result::get_program_log(program).map_or_else(words, |log| {
                    let log: Vec<u8> = log.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
                    format!("{}: {}", self.name, String::from_utf8_lossy(&log).trim())
                })),
            }
        };
        // SAFETY: as above.
        unsafe { result::destroy_program(program) }.map_err(words)?;
        compiled
    }

    /// The same, from `folder` if it is there and undamaged; kept there otherwise. A folder that cannot be written is no error.
    pub fn compile_or_read(&self, folder: &Path) -> Result<Vec<u8>, String> {
        let path = folder.join(self.key()?);
        if let Some(code) = read(&path) {
            return Ok(code);
        }
        let code = self.compile()?;
        let _ = write(&path, &code);
        Ok(code)
    }

    fn options(&self) -> Result<Vec<String>, String> {
        let mut options = vec![format!("--gpu-architecture={}", architecture(self.architecture, &known_architectures()?))];
        options.push("--std=c++17".to_owned());
        options.extend(self.definitions.iter().map(|definition| format!("-D{definition}")));
        Ok(options)
    }

    /// Two units of one key have the same code.
    fn key(&self) -> Result<String, String> {
        let (major, minor) = version()?;
        let mut hash = Sha256::new();
        for part in self.options()?.iter().map(String::as_str).chain([self.source, &format!("{major}.{minor}")]) {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        Ok(hex(&hash.finalize()))
    }
}

/// The compiler's version.
pub fn version() -> Result<(i32, i32), String> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: two numbers are written.
    unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result().map_err(words)?;
    Ok((major, minor))
}

/// The user's folder for compiled kernels.
pub fn cache_folder() -> PathBuf {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home);
    base.unwrap_or_else(env::temp_dir).join("layerscope/kernels")
}

/// The name of a card's architecture: real (`sm_`) where the compiler knows it, else the nearest older virtual one.
fn architecture(card: (u32, u32), known: &[u32]) -> String {
    let number = card.0 * 10 + card.1;
    match known.iter().filter(|&&known| known <= number).max() {
        Some(&nearest) if nearest == number => format!("sm_{number}"),
        Some(nearest) => format!("compute_{nearest}"),
        None => format!("compute_{number}"),
    }
}

fn known_architectures() -> Result<Vec<u32>, String> {
    let mut count: c_int = 0;
    // SAFETY: the first call says how many numbers the second writes.
    unsafe {
        sys::nvrtcGetNumSupportedArchs(&raw mut count).result().map_err(words)?;
        let mut known = vec![0; count as usize];
        sys::nvrtcGetSupportedArchs(known.as_mut_ptr()).result().map_err(words)?;
        Ok(known.into_iter().map(|number| number as u32).collect())
    }
}

/// # Safety
///
/// The program was compiled and is not destroyed.
unsafe fn code(program: sys::nvrtcProgram, machine: bool) -> Result<Vec<u8>, NvrtcError> {
    if !machine {
        // SAFETY: as above.
        return Ok(unsafe { result::get_ptx(program) }?.into_iter().map(|byte| byte as u8).collect());
    }
    let mut size = 0;
    // SAFETY: the first call says how many bytes the second writes.
    unsafe {
        sys::nvrtcGetCUBINSize(program, &raw mut size).result()?;
        let mut code = vec![0u8; size];
        sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()).result()?;
        Ok(code)
    }
}

/// The code behind its digest, if the file is whole.
fn read(path: &Path) -> Option<Vec<u8>> {
    let file = fs::read(path).ok()?;
    let (digest, code) = file.split_at_checked(32)?;
    (Sha256::digest(code).as_slice() == digest).then(|| code.to_vec())
}

/// Under another name first, so that nobody reads half a file.
fn write(path: &Path, code: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let temporary = path.with_extension(format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    fs::write(&temporary, [Sha256::digest(code).as_slice(), code].concat())?;
    fs::rename(&temporary, path).inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn words(error: NvrtcError) -> String {
    format!("NVRTC: {:?}", error.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_newer_than_the_compiler_gets_code_of_the_nearest_older_one() {
        let known = [75, 80, 86, 90, 100];
        assert_eq!(architecture((9, 0), &known), "sm_90");
        assert_eq!(architecture((8, 9), &known), "compute_86");
        assert_eq!(architecture((12, 0), &known), "compute_100");
    }

    #[test]
    fn a_damaged_file_is_not_read() {
        let path = env::temp_dir().join(format!("layerscope-compiled-{}", std::process::id()));
        write(&path, b"code").unwrap();
        assert_eq!(read(&path), Some(b"code".to_vec()));
        let mut file = fs::read(&path).unwrap();
        *file.last_mut().unwrap() ^= 1;
        fs::write(&path, &file).unwrap();
        assert_eq!(read(&path), None);
        fs::write(&path, b"short").unwrap();
        assert_eq!(read(&path), None);
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&path), None);
    }
}
