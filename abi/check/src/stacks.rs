//! Call stacks: return addresses, stored once each.

use std::collections::HashMap;

use weft_check::model::{CURRENT_STACK, StackId};

use crate::stack_memo::Memos;
use crate::symbols;

pub const CURRENT: StackId = CURRENT_STACK;

/// Distinct stacks that are stored. Later ones have no frames.
const STACKS_MAX: usize = 1 << 16;

/// All stacks of the process.
#[derive(Default)]
pub struct Stacks {
    numbers: HashMap<Box<[usize]>, StackId>,
    stacks: Vec<Box<[usize]>>,
    memos: Memos,
}

impl Stacks {
    /// The calling thread's stack, if it was stored with this stack pointer.
    pub fn find(&self, pointer: usize) -> Option<StackId> {
        self.memos.find(pointer)
    }

    /// Stores the return addresses that the calling thread has above this stack pointer.
    pub fn store(&mut self, pointer: usize, frames: &[usize]) -> StackId {
        let stack = self.number(frames);
        self.memos.add(pointer, frames, stack);
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
}

/// The program's return addresses among those of a stack. As for [`is_called_by`], no lock is held.
pub fn callers(frames: &[usize]) -> &[usize] {
    let own = module_of(frame_of_ours as *const () as usize);
    let first = frames.iter().position(|address| module_of(*address) != own).unwrap_or(frames.len());
    &frames[first..]
}

/// Whether the innermost caller is in a module of this name. Waits for the loader's lock, which a thread may hold that waits
/// for the state's: it frees memory while it loads a library. So no lock is held.
pub fn is_called_by(frames: &[usize], module: &str) -> bool {
    callers(frames).first().and_then(|address| file_of(*address)).is_some_and(|file| file.starts_with(module))
}

/// Whether any caller is in a module of these names. As for [`is_called_by`], no lock is held.
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
