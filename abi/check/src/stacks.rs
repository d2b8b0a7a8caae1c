//! Call stacks: return addresses, stored once each, and their names.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;

use weft_check::model::{CURRENT_STACK, StackId};

use crate::stack_memo::Memos;
use crate::symbols::{self, Symbols};

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
    symbols: Symbols,
    memos: Memos,
}

impl Stacks {
    /// Stores the stack of the call in progress.
    pub fn capture(&mut self) -> StackId {
        let mut frames = [null_mut::<c_void>(); FRAMES_MAX];
        let pointer = (&raw const frames).addr();
        if let Some(known) = self.memos.find(pointer) {
            return known;
        }
        // SAFETY: the array has room for so many frames.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES_MAX as i32) };
        let count = usize::try_from(count).unwrap_or(0).min(FRAMES_MAX);
        let addresses: Vec<usize> = frames[..count].iter().map(|frame| frame.addr()).collect();
        // The array itself must not be taken for the stack, nor the frame of this function, which has changed since.
        frames.fill(null_mut());
        let callers = addresses.get(1..).unwrap_or_default();
        let stack = self.number(callers);
        self.memos.add(pointer, callers, stack);
        stack
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

    /// The return addresses of a stack, innermost first, with this library's own.
    pub fn frames(&self, stack: StackId) -> Vec<usize> {
        let index = usize::try_from(stack).ok().and_then(|number| number.checked_sub(1));
        index.and_then(|index| self.stacks.get(index)).map_or_else(Vec::new, |frames| frames.to_vec())
    }

    /// The program's frames of a stack, innermost first.
    pub fn names(&mut self, stack: StackId) -> Vec<String> {
        let frames = self.frames(stack);
        let mut names: Vec<_> = callers(&frames).iter().map(|address| self.symbols.name(*address)).collect();
        // The C library's start of programs and threads says nothing about them.
        if let Some(start) = names.iter().position(|name| name.starts_with("__libc_start")) {
            names.truncate(start.max(1));
        }
        while names.len() > 1
            && names.last().is_some_and(|name| name.contains("/libc.so.") || name.starts_with("_start "))
        {
            names.pop();
        }
        names
    }
}

/// The program's return addresses among those of a stack.
fn callers(frames: &[usize]) -> &[usize] {
    let own = module_of(frame_of_ours as *const () as usize);
    let first = frames.iter().position(|address| module_of(*address) != own).unwrap_or(frames.len());
    &frames[first..]
}

/// Whether the innermost caller is in a module of this name. Waits for the loader's lock, which a thread may hold that waits
/// for the state's: it frees memory while it loads a library. So the state must not be locked.
pub fn is_called_by(frames: &[usize], module: &str) -> bool {
    callers(frames).first().and_then(|address| file_of(*address)).is_some_and(|file| file.starts_with(module))
}

/// Whether any caller is in a module of these names. As for [`is_called_by`], the state must not be locked.
pub fn is_any_in(frames: &[usize], modules: &[&str]) -> bool {
    let files = callers(frames).iter().filter_map(|address| file_of(*address));
    files.into_iter().any(|file| modules.iter().any(|module| file.starts_with(module)))
}

/// The file name of an address's module.
fn file_of(address: usize) -> Option<String> {
    let path = symbols::path(&symbols::lookup(address)?)?;
    Some(path.rsplit('/').next().unwrap_or(&path).to_owned())
}

/// Any code of this library.
fn frame_of_ours() {}

fn module_of(address: usize) -> usize {
    symbols::lookup(address).map_or(0, |info| info.dli_fbase.addr())
}
