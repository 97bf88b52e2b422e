//! Where CUDA's libraries lie on this machine, and loading them.
//!
//! cudarc looks its libraries up by name and panics where one is missing. So nothing of cudarc is called before [`load`] has loaded
//! every library by its path: the loader then finds it again by name.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use cudarc::driver::result;
use cudarc::driver::sys::{CUresult, cuDriverGetVersion};
use layerscope_compute::{Error, Result};
#[cfg(unix)]
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// The versions of CUDA that are known to work, the best first.
const VERSIONS: [u32; 2] = [13, 12];

/// The oldest driver, by the version of CUDA that it supports.
const OLDEST_DRIVER: i32 = 12_000;

/// What computes products, and what compiles kernels. A library that others need stands before them.
const NEEDED: [&str; 4] = ["cublasLt", "cublas", "nvrtc-builtins", "nvrtc"];

/// What compiles kernels.
const COMPILER: [&str; 2] = ["nvrtc-builtins", "nvrtc"];

/// Places that may hold libraries: what the environment says.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Where a toolkit is installed.
    pub toolkits: Vec<PathBuf>,
    /// Virtual environments, and whatever else has a `lib` folder with Python packages in it.
    pub prefixes: Vec<PathBuf>,
    /// Folders of Python packages.
    pub site_packages: Vec<PathBuf>,
}

impl Places {
    /// Those of this process.
    pub fn of_this_process() -> Places {
        let folders = |names: &[&str]| names.iter().filter_map(env::var_os).map(PathBuf::from).collect::<Vec<_>>();
        let mut toolkits = folders(&["CUDA_HOME", "CUDA_PATH"]);
        toolkits.push("/usr/local/cuda".into());
        let mut site_packages = site_packages_in_use(&fs::read_to_string("/proc/self/maps").unwrap_or_default());
        site_packages.extend(search_path_of_python());
        Places { toolkits, prefixes: folders(&["VIRTUAL_ENV", "CONDA_PREFIX"]), site_packages }
    }

    /// The folders to look in, in order.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for toolkit in &self.toolkits {
            folders.extend(["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"].map(|lib| toolkit.join(lib)));
        }
        let of_prefix = |prefix: &PathBuf| {
            let pythons = subfolders(&prefix.join("lib")).into_iter().filter(|folder| name(folder).starts_with("python3"));
            pythons.map(|python| python.join("site-packages")).collect::<Vec<_>>()
        };
        for packages in self.prefixes.iter().flat_map(of_prefix).chain(self.site_packages.iter().cloned()) {
            let nvidia = packages.join("nvidia");
            folders.extend(VERSIONS.map(|version| nvidia.join(format!("cu{version}/lib"))));
            folders.extend(subfolders(&nvidia).iter().map(|package| package.join("lib")));
        }
        folders.extend(self.prefixes.iter().map(|prefix| prefix.join("lib")));
        let mut seen = std::collections::HashSet::new();
        folders.retain(|folder| folder.is_dir() && seen.insert(folder.clone()));
        folders
    }
}

/// The file of a library of some version: the first in these folders. The compiler's own library has a minor version too.
pub fn find(library: &str, version: u32, folders: &[PathBuf]) -> Option<PathBuf> {
    let exact = format!("lib{library}.so.{version}");
    let longer = format!("{exact}.");
    folders.iter().find_map(|folder| {
        let path = folder.join(&exact);
        if path.is_file() {
            return Some(path);
        }
        let mut others: Vec<PathBuf> = files(folder).into_iter().filter(|path| name(path).starts_with(&longer)).collect();
        others.sort();
        others.pop()
    })
}

/// Loads the driver and the libraries, once; says in one line what is missing.
pub fn load() -> Result<()> {
    static LOADED: OnceLock<Result<()>> = OnceLock::new();
    LOADED
        .get_or_init(|| {
            if cfg!(windows) {
                return Err(unavailable("on Windows, a GPU is used from WSL: run the program for Linux there, or compute on the cpu"));
            }
            load_driver()?;
            let newest = driver_version()? as u32 / 1000;
            load_all(&NEEDED, newest, &Places::of_this_process().folders())
        })
        .clone()
}

/// Loads the compiler alone, which needs no driver: from these folders too.
pub fn load_compiler(folders: &[PathBuf]) -> Result<()> {
    let mut all = folders.to_vec();
    all.extend(Places::of_this_process().folders());
    load_all(&COMPILER, VERSIONS[0], &all)
}

fn load_driver() -> Result<()> {
    // In the places of containers and of Windows' own Linux, where the loader may not look.
    let others = ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"].map(|folder| Path::new(folder).join("libcuda.so.1"));
    match [PathBuf::from("libcuda.so.1")].iter().chain(&others).any(|path| open(path)) {
        true => Ok(()),
        false => Err(unavailable("no NVIDIA driver (libcuda.so.1) was found: install the driver of the card, or compute on the cpu")),
    }
}

fn driver_version() -> Result<i32> {
    let mut version = 0;
    // SAFETY: the driver is loaded; it writes one number.
    let asked = unsafe { cuDriverGetVersion(&raw mut version) };
    if asked == CUresult::CUDA_SUCCESS && version < OLDEST_DRIVER {
        return Err(too_old(version));
    }
    match result::init().map_err(|error| error.0) {
        Ok(()) => Ok(version),
        Err(CUresult::CUDA_ERROR_NO_DEVICE) => Err(unavailable("the NVIDIA driver finds no GPU in this machine")),
        Err(problem) => Err(unavailable(&format!("the NVIDIA driver does not start: {problem:?}"))),
    }
}

fn too_old(version: i32) -> Error {
    let (major, minor) = (version / 1000, version % 1000 / 10);
    unavailable(&format!("the NVIDIA driver supports CUDA {major}.{minor}, and 12.0 is needed: install a driver of version 525 or later"))
}

/// All libraries of one version: the newest of which none is missing.
fn load_all(libraries: &[&str], newest: u32, folders: &[PathBuf]) -> Result<()> {
    let mut missing = String::new();
    for version in VERSIONS.into_iter().filter(|&version| version <= newest) {
        match libraries.iter().find(|library| !load_one(library, version, folders)) {
            None => return Ok(()),
            Some(library) if missing.is_empty() => missing = format!("lib{library}.so.{version}"),
            Some(_) => {}
        }
    }
    let extra = if newest >= VERSIONS[0] { "cuda" } else { "cuda12" };
    Err(unavailable(&format!("{missing} was not found: install it with `pip install layerscope[{extra}]`, or set CUDA_HOME to a toolkit")))
}

/// By name, where the system knows it, or by its path.
fn load_one(library: &str, version: u32, folders: &[PathBuf]) -> bool {
    open(Path::new(&format!("lib{library}.so.{version}"))) || find(library, version, folders).is_some_and(|path| open(&path))
}

/// Loads a library for good.
#[cfg(unix)]
fn open(path: &Path) -> bool {
    // SAFETY: CUDA's libraries may be loaded at any time from any thread.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map(std::mem::forget).is_ok()
}

#[cfg(not(unix))]
fn open(_path: &Path) -> bool {
    false
}

fn unavailable(problem: &str) -> Error {
    Error::Unavailable { device: "cuda".to_owned(), problem: problem.to_owned() }
}

/// The folders of Python packages from which this process has loaded something.
fn site_packages_in_use(maps: &str) -> Vec<PathBuf> {
    let folder = |line: &str| {
        let path = &line[line.find('/')?..];
        let end = ["site-packages/", "dist-packages/"].iter().find_map(|mark| Some(path.find(mark)? + mark.len() - 1))?;
        Some(PathBuf::from(&path[..end]))
    };
    let mut folders: Vec<PathBuf> = maps.lines().filter_map(folder).collect();
    folders.dedup();
    folders
}

/// Where `python3` looks for packages.
fn search_path_of_python() -> Vec<PathBuf> {
    let asked = Command::new("python3").args(["-c", "import sys; print('\\n'.join(sys.path))"]).output();
    let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    said.lines().filter(|line| line.contains("-packages")).map(PathBuf::from).collect()
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.is_dir()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.is_file()).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with empty files.
    fn folder_with(test: &str, files: &[&str]) -> PathBuf {
        let root = env::temp_dir().join(format!("layerscope-libraries-{}-{test}", std::process::id()));
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    #[test]
    fn packages_of_an_environment_are_found_in_both_layouts() {
        let packages = "lib/python3.12/site-packages/nvidia";
        let root = folder_with(
            "layouts",
            &[
                &format!("new/{packages}/cu13/lib/libcublasLt.so.13"),
                &format!("new/{packages}/cu13/lib/libnvrtc-builtins.so.13.0"),
                &format!("old/{packages}/cublas/lib/libcublasLt.so.12"),
                &format!("old/{packages}/cuda_nvrtc/lib/libnvrtc.so.12"),
            ],
        );
        let in_prefix = |prefix: &str| Places { prefixes: vec![root.join(prefix)], ..Places::default() }.folders();
        let new = in_prefix("new");
        assert_eq!(find("cublasLt", 13, &new), Some(root.join(format!("new/{packages}/cu13/lib/libcublasLt.so.13"))));
        assert_eq!(find("nvrtc-builtins", 13, &new), Some(root.join(format!("new/{packages}/cu13/lib/libnvrtc-builtins.so.13.0"))));
        assert_eq!(find("cublasLt", 12, &new), None);
        let old = in_prefix("old");
        assert_eq!(find("nvrtc", 12, &old), Some(root.join(format!("old/{packages}/cuda_nvrtc/lib/libnvrtc.so.12"))));
        assert_eq!(find("nvrtc", 13, &old), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_toolkit_comes_before_packages() {
        let root = folder_with("toolkit", &["cuda/lib64/libnvrtc.so.13", "site/nvidia/cu13/lib/libnvrtc.so.13"]);
        let mut places = Places { toolkits: vec![root.join("cuda")], site_packages: vec![root.join("site")], ..Places::default() };
        assert_eq!(find("nvrtc", 13, &places.folders()), Some(root.join("cuda/lib64/libnvrtc.so.13")));
        places.toolkits.clear();
        assert_eq!(find("nvrtc", 13, &places.folders()), Some(root.join("site/nvidia/cu13/lib/libnvrtc.so.13")));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_packages_that_a_process_uses_are_read_off_its_memory() {
        let maps = "7f00-7f01 r-xp 0 08:01 1 /opt/env/lib/python3.12/site-packages/layerscope/_layerscope.abi3.so\n\
                    7f01-7f02 r--p 0 08:01 1 /opt/env/lib/python3.12/site-packages/layerscope/_layerscope.abi3.so\n\
                    7f02-7f03 rw-p 0 00:00 0 \n7f03-7f04 r-xp 0 08:01 2 /usr/lib/libc.so.6\n";
        assert_eq!(site_packages_in_use(maps), [PathBuf::from("/opt/env/lib/python3.12/site-packages")]);
    }

    #[test]
    fn what_is_missing_is_one_line_that_says_what_to_install() {
        let missing = load_all(&["no-such-library"], 13, &[]).unwrap_err().to_string();
        let expected =
            "cuda: libno-such-library.so.13 was not found: install it with `pip install layerscope[cuda]`, or set CUDA_HOME to a toolkit";
        assert_eq!(missing, expected);
        let older = load_all(&["no-such-library"], 12, &[]).unwrap_err().to_string();
        assert!(older.contains("libno-such-library.so.12 was") && older.contains("layerscope[cuda12]"), "{older}");
        let old = too_old(11_080).to_string();
        assert_eq!(old, "cuda: the NVIDIA driver supports CUDA 11.8, and 12.0 is needed: install a driver of version 525 or later");
    }
}
