//! Adapters as a linked list, for programs that do not want to guess their number.

use libc::{EINVAL, ENOENT, ENOMEM, c_int};
use std::ffi::CStr;
use weft_abi_types::umad_device_node;

use crate::errors::set_errno;
use crate::source;

/// Returns the list, with its names; null and errno 0 if there are no adapters.
pub extern "C" fn umad_get_ca_device_list() -> *mut umad_device_node {
    let names = match source::ca_names() {
        Ok(names) => names,
        Err(errno) => {
            set_errno(if errno == ENOENT { 0 } else { errno });
            return std::ptr::null_mut();
        }
    };
    let mut head = std::ptr::null_mut();
    for name in names.iter().rev() {
        let node = allocate(name, head);
        if node.is_null() {
            // SAFETY: a list from `allocate`.
            unsafe { umad_free_ca_device_list(head) };
            set_errno(ENOMEM);
            return node;
        }
        head = node;
    }
    set_errno(0);
    head
}

/// Allocates a node and its name as one block.
fn allocate(name: &[u8], next: *mut umad_device_node) -> *mut umad_device_node {
    // SAFETY: new zeroed memory for the node and the terminated name, or null.
    unsafe {
        let node = libc::calloc(1, size_of::<umad_device_node>() + name.len() + 1).cast::<umad_device_node>();
        if !node.is_null() {
            let text = node.add(1).cast::<u8>();
            text.copy_from_nonoverlapping(name.as_ptr(), name.len());
            node.write(umad_device_node { next, ca_name: text.cast() });
        }
        node
    }
}

/// Frees a list.
pub unsafe extern "C" fn umad_free_ca_device_list(head: *mut umad_device_node) {
    let mut node = head;
    // SAFETY: the caller passes null or a list from `umad_get_ca_device_list`, each node of which is freed once.
    while let Some(next) = unsafe { node.as_ref() }.map(|n| n.next) {
        // SAFETY: as above.
        unsafe { libc::free(node.cast()) };
        node = next;
    }
}

/// Sorts a list by name. `size` is its length, or 0 if unknown; EINVAL if it is wrong.
pub unsafe extern "C" fn umad_sort_ca_device_list(head: *mut *mut umad_device_node, size: usize) -> c_int {
    let mut nodes = Vec::new();
    // SAFETY: the caller passes the place of a list's head; nodes are its elements up to the null at its end.
    unsafe {
        let mut node = *head;
        while let Some(n) = node.as_ref() {
            nodes.push((CStr::from_ptr(n.ca_name), node));
            node = n.next;
        }
    }
    if size == 1 || (size == 0 && nodes.len() < 2) {
        return 0;
    }
    if size != 0 && size != nodes.len() {
        return EINVAL;
    }
    nodes.sort();
    let mut next = std::ptr::null_mut();
    for (_, node) in nodes.iter().rev() {
        // SAFETY: as above.
        unsafe { (**node).next = next };
        next = *node;
    }
    // SAFETY: as above.
    unsafe { *head = next };
    0
}
