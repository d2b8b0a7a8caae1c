//! Names of return addresses: the loader knows exported functions, and a module's file often all others.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;

use object::{Object, ObjectSymbol, SymbolKind};

/// Largest file whose table of symbols is read.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A function of a module: offset, size, name.
type Function = (u64, u64, String);

/// Tables of the modules that reports name.
#[derive(Default)]
pub struct Symbols {
    modules: HashMap<String, Vec<Function>>,
}

/// A return address, and the loader's knowledge of it.
pub struct Location {
    address: usize,
    module: Option<Module>,
}

struct Module {
    path: String,
    base: usize,
    /// The exported function before the address.
    function: Option<String>,
}

/// Asks the loader about a return address. It waits for the loader's lock: the calling thread holds none of this library's.
pub fn locate(address: usize) -> Location {
    // The call is before the address that it returns to.
    let module = lookup(address.saturating_sub(1)).map(|info| Module {
        path: path(&info).unwrap_or_else(|| "??".to_owned()),
        base: info.dli_fbase.addr(),
        function: text(info.dli_sname),
    });
    Location { address, module }
}

impl Symbols {
    /// `function (module+0xoffset)` of a return address.
    pub fn name(&mut self, location: &Location) -> String {
        let address = location.address;
        let Some(Module { path, base, function }) = &location.module else { return format!("?? ({address:#x})") };
        let offset = address.wrapping_sub(*base);
        let found = if function.is_none() { self.find(path, offset.saturating_sub(1) as u64, *base) } else { None };
        let function = function.as_deref().or(found.as_deref()).unwrap_or("??");
        format!("{function} ({path}+{offset:#x})")
    }

    fn find(&mut self, module: &str, offset: u64, base: usize) -> Option<String> {
        let functions = self.modules.entry(module.to_owned()).or_insert_with(|| read(module).unwrap_or_default());
        // A program without relocation has its base address in its symbols.
        [offset, offset.wrapping_add(base as u64)].into_iter().find_map(|at| {
            let place = functions.partition_point(|(start, ..)| *start <= at).checked_sub(1)?;
            let (start, size, name) = functions.get(place)?;
            (at - start < *size).then(|| name.clone())
        })
    }
}

/// Reads the functions of a module's file.
fn read(module: &str) -> Option<Vec<Function>> {
    if std::fs::metadata(module).ok()?.len() > FILE_BYTES_MAX {
        return None;
    }
    let data = std::fs::read(module).ok()?;
    let file = object::File::parse(&*data).ok()?;
    let is_function = |symbol: &object::Symbol<'_, '_>| symbol.kind() == SymbolKind::Text && symbol.size() > 0;
    let symbols = file.symbols().filter(is_function);
    let function =
        |symbol: object::Symbol<'_, '_>| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned()));
    let mut functions: Vec<Function> = symbols.filter_map(function).collect();
    functions.sort();
    Some(functions)
}

/// The loader's knowledge of an address.
pub fn lookup(address: usize) -> Option<libc::Dl_info> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let address = std::ptr::without_provenance::<c_void>(address);
    // SAFETY: dladdr only compares the address, and fills in the structure if it returns another value than 0.
    unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init()) }
}

/// The path of an address's module.
pub fn path(info: &libc::Dl_info) -> Option<String> {
    let path = text(info.dli_fname)?;
    // The loader knows the program by the name that the shell gave it.
    if path.contains('/') { Some(path) } else { Some(std::env::current_exe().ok()?.to_string_lossy().into_owned()) }
}

fn text(pointer: *const libc::c_char) -> Option<String> {
    // SAFETY: the loader's strings live as long as their module.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}
