//! Call stacks: return addresses, stored once each, and their names.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use weft_check::model::{CURRENT_STACK, StackId};

pub const CURRENT: StackId = CURRENT_STACK;

/// Frames of a stack, this library's own included.
const FRAMES_MAX: usize = 24;
/// Distinct stacks that are stored. Later ones have no names.
const STACKS_MAX: usize = 1 << 16;

/// All stacks of the process.
#[derive(Default)]
pub struct Stacks {
    numbers: HashMap<Box<[usize]>, StackId>,
    stacks: Vec<Box<[usize]>>,
}

impl Stacks {
    /// Stores the stack of the call in progress.
    pub fn capture(&mut self) -> StackId {
        let mut frames = [null_mut::<c_void>(); FRAMES_MAX];
        // SAFETY: the array has room for so many frames.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES_MAX as i32) };
        let count = usize::try_from(count).unwrap_or(0).min(FRAMES_MAX);
        let addresses = frames[..count].iter().map(|frame| frame.addr());
        let mut own = [0; FRAMES_MAX];
        own.iter_mut().zip(addresses).for_each(|(to, from)| *to = from);
        self.number(&own[..count])
    }

    fn number(&mut self, frames: &[usize]) -> StackId {
        if let Some(number) = self.numbers.get(frames) {
            return *number;
        }
        if self.stacks.len() >= STACKS_MAX {
            return CURRENT;
        }
        self.stacks.push(frames.into());
        let number = StackId::try_from(self.stacks.len()).unwrap_or(CURRENT);
        self.numbers.insert(frames.into(), number);
        number
    }

    /// The program's frames of a stack, innermost first.
    pub fn names(&self, stack: StackId) -> Vec<String> {
        let index = usize::try_from(stack).ok().and_then(|number| number.checked_sub(1));
        let frames = index.and_then(|index| self.stacks.get(index)).map_or(&[][..], |frames| frames);
        let own = module_of(frame_of_ours as *const () as usize);
        let callers = frames.iter().skip_while(|address| module_of(**address) == own);
        let mut names: Vec<_> = callers.map(|address| name(*address)).collect();
        // The C library's start of a program says nothing about it.
        if let Some(end) = names.iter().rposition(|name| name.contains("__libc_start") || name.starts_with("_start ")) {
            names.truncate(names.iter().position(|name| name.contains("__libc_start")).unwrap_or(end).max(1));
        }
        names
    }
}

/// Any code of this library.
fn frame_of_ours() {}

fn lookup(address: usize) -> Option<libc::Dl_info> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let address = std::ptr::without_provenance::<c_void>(address);
    // SAFETY: dladdr only compares the address, and fills in the structure if it returns another value than 0.
    unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init()) }
}

fn module_of(address: usize) -> usize {
    lookup(address).map_or(0, |info| info.dli_fbase.addr())
}

/// `function (module+0xoffset)` of a return address.
fn name(address: usize) -> String {
    // The call is before the address that it returns to.
    let Some(info) = lookup(address.saturating_sub(1)) else { return format!("?? ({address:#x})") };
    let text = |pointer: *const libc::c_char| {
        // SAFETY: the loader's strings live as long as their module.
        (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
    };
    let function = text(info.dli_sname).unwrap_or_else(|| "??".to_owned());
    let module = text(info.dli_fname).unwrap_or_else(|| "??".to_owned());
    format!("{function} ({module}+{:#x})", address.wrapping_sub(info.dli_fbase.addr()))
}
