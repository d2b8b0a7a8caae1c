//! One call of the program: the outermost of this library's wrappers on its thread.

use std::cell::Cell;

use weft_check::model::{Model, Site, StackId};

use crate::{stacks, state};

thread_local! {
    /// Whether this thread is in a wrapper: calls that libraries make on the program's behalf pass unchecked.
    static IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// A call in progress.
pub struct Call {
    name: &'static str,
    stack: Cell<Option<StackId>>,
}

impl Call {
    /// Begins a call; `None` if it passes unchecked.
    pub fn enter(name: &'static str) -> Option<Call> {
        if !state::is_active() {
            return None;
        }
        // A thread that ends has no thread-local storage left.
        let is_inner = IN_CALL.try_with(|inside| inside.replace(true)).unwrap_or(true);
        (!is_inner).then(|| Call { name, stack: Cell::new(None) })
    }

    /// Tells the model about the call, with its stack.
    pub fn tell<R>(&self, f: impl FnOnce(&mut Model, Site) -> R) -> R {
        state::with(|state| {
            let stack = self.stack.get().unwrap_or_else(|| state.stacks.capture());
            self.stack.set(Some(stack));
            state.tell(stack, |model| f(model, Site { call: self.name, stack }))
        })
    }

    /// Tells the model about a frequent call, whose stack is captured only if it breaks a rule.
    pub fn tell_briefly<R>(&self, f: impl FnOnce(&mut Model, Site) -> R) -> R {
        let stack = self.stack.get().unwrap_or(stacks::CURRENT);
        state::with(|state| state.tell(stack, |model| f(model, Site { call: self.name, stack })))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = IN_CALL.try_with(|inside| inside.set(false));
    }
}
