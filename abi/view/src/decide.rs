//! The decision which file a path means: the one that the kernel finds, or one of the view.
//!
//! It is a function of the path's text. It asks for the directory of a relative path and whether `..` leaves a plain
//! directory, and only if the path can concern the view.

use core::ffi::c_int;

use crate::text::{Text, TooLong};

/// The answers that a decision may need.
pub trait Surroundings {
    /// The view's directory: absolute, without a slash at the end.
    fn view(&self) -> &[u8];
    /// Writes the path of the directory where a relative path starts, as the kernel names it. `false`: unknown.
    fn base(&self, into: &mut Text) -> bool;
    /// Whether `path` is a directory and not a link to one; otherwise the errno of an attempt to enter it.
    fn enter(&self, path: &Text) -> Result<(), c_int>;
    /// Replaces the path of a directory, or of a link to one, by the directory's own, as the kernel names it; otherwise
    /// returns the errno of an attempt to enter it.
    fn follow(&self, path: &mut Text) -> Result<(), c_int>;
}

/// A decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The call keeps the program's path.
    Keep,
    /// The call gets the path that was written.
    Replace,
    /// The call fails with this errno.
    Fail(c_int),
}

pub const ENAMETOOLONG: c_int = 36;
const ENOTDIR: c_int = 20;

/// The classes of RDMA devices.
const CLASSES: [&[u8]; 4] = [b"infiniband", b"infiniband_verbs", b"infiniband_mad", b"infiniband_cm"];

/// Text that every hidden path contains, in one form or the other.
const MARKS: [&[u8]; 3] = [b"infiniband", b"rdma_cm", FUNCTIONS];

/// The beginning of the names of adapters' PCI functions, and of their buses.
const FUNCTIONS: &[u8] = b"fab0:";
/// The beginning of the names of their root buses.
const ROOTS: &[u8] = b"pcifab0:";

/// Whether [`decide`] could answer anything but [`Decision::Keep`]. Quick, for calls that have nothing to do with RDMA.
pub fn may_concern(path: &[u8]) -> bool {
    is_marked(path) || !path.starts_with(b"/") && climbs(path)
}

/// Whether a pattern of glob(3) could match a hidden path.
pub fn may_match(pattern: &[u8]) -> bool {
    may_concern(pattern) || pattern.starts_with(b"/sys/") || pattern.starts_with(b"/dev/")
}

/// Decides what `path` means, and writes the path to use instead to `out`.
pub fn decide(path: &[u8], around: &dyn Surroundings, out: &mut Text) -> Decision {
    match walk(path, around, out) {
        Ok(decision) => decision,
        Err(TooLong) => Decision::Fail(ENAMETOOLONG),
    }
}

fn walk(path: &[u8], around: &dyn Surroundings, out: &mut Text) -> Result<Decision, TooLong> {
    out.truncate(0);
    // Whether the kernel would not find what `out` names by the program's path.
    let mut was_inside = false;
    if !path.starts_with(b"/") {
        if !may_concern(path) || !around.base(out) || !out.as_bytes().starts_with(b"/") {
            return Ok(Decision::Keep);
        }
        was_inside = is_below(out.as_bytes(), around.view());
        // Below the view's directory the kernel finds the view's files by itself, unless the path leads out.
        if was_inside && !climbs(path) || !was_inside && !is_marked(path) {
            return Ok(Decision::Keep);
        }
        if was_inside {
            out.cut(around.view().len());
        }
        if out.as_bytes() == b"/" {
            out.truncate(0);
        }
    } else if !is_marked(path) {
        return Ok(Decision::Keep);
    }
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                if let Some(decision) = leave(around, out, &mut was_inside)? {
                    return Ok(decision);
                }
            }
            name => out.push_component(name)?,
        }
    }
    let is_hidden = is_hidden(out.as_bytes());
    if !is_hidden && !was_inside {
        return Ok(Decision::Keep);
    }
    if is_hidden {
        out.prepend(around.view())?;
    }
    // A slash at the end demands a directory.
    if path.ends_with(b"/") || path.ends_with(b"/.") || out.as_bytes().is_empty() {
        out.push(b"/")?;
    }
    Ok(Decision::Replace)
}

/// Removes the last component, as `..` does in a directory. Returns the decision if it is none. Sets `was_inside` if the
/// path followed a link of the view.
fn leave(around: &dyn Surroundings, out: &mut Text, was_inside: &mut bool) -> Result<Option<Decision>, TooLong> {
    if out.as_bytes().is_empty() {
        return Ok(None);
    }
    let is_hidden = is_hidden(out.as_bytes());
    if is_hidden {
        out.prepend(around.view())?;
    }
    match around.enter(out) {
        Ok(()) => {}
        // A link leads to where the kernel knows best, and its `..` is in no hidden place.
        Err(_) if !is_hidden && !*was_inside => return Ok(Some(Decision::Keep)),
        Err(ENOTDIR) => match around.follow(out) {
            Ok(()) => *was_inside = true,
            Err(errno) => return Ok(Some(Decision::Fail(errno))),
        },
        Err(errno) => return Ok(Some(Decision::Fail(errno))),
    }
    if is_below(out.as_bytes(), around.view()) {
        out.cut(around.view().len());
    }
    out.pop_component();
    Ok(None)
}

/// Whether a path, absolute and without dots and double slashes, is in a place that the view hides.
fn is_hidden(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/').skip(1);
    match (names.next(), names.next()) {
        (Some(b"dev"), Some(b"infiniband")) => true,
        (Some(b"sys"), Some(b"class")) => match names.next() {
            Some(b"misc") => names.next() == Some(b"rdma_cm"),
            // The adapter that a network interface belongs to.
            Some(b"net") => {
                names.next();
                names.next() == Some(b"device") && names.next().is_some_and(is_class)
            }
            Some(b"pci_bus") => names.next().is_some_and(|name| name.starts_with(FUNCTIONS)),
            class => class.is_some_and(is_class),
        },
        (Some(b"sys"), Some(b"devices")) => names.next().is_some_and(|name| name.starts_with(ROOTS)),
        (Some(b"sys"), Some(b"bus")) => {
            (names.next(), names.next()) == (Some(b"pci"), Some(b"devices"))
                && names.next().is_some_and(|name| name.starts_with(FUNCTIONS))
        }
        _ => false,
    }
}

fn is_class(name: &[u8]) -> bool {
    CLASSES.contains(&name)
}

fn is_marked(path: &[u8]) -> bool {
    MARKS.iter().any(|mark| path.windows(mark.len()).any(|window| window == *mark))
}

fn climbs(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|name| name == b"..")
}

/// Returns the number of bytes to remove from the front of a path that the kernel reports, so that a path of the view
/// becomes the one that the program knows.
pub fn surplus(path: &[u8], view: &[u8]) -> usize {
    // Functions have a link to their bus, which is not hidden as a whole.
    let is_known = |path: &[u8]| is_hidden(path) || is_below(path, b"/sys/bus/pci");
    let is_ours = is_below(path, view) && path.get(view.len()..).is_some_and(is_known);
    if is_ours { view.len() } else { 0 }
}

fn is_below(path: &[u8], dir: &[u8]) -> bool {
    !dir.is_empty() && path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests;
