//! Data that a host gives with a command: in the capsule, or in its memory.

use crate::Status;
use crate::wire::{Command, Descriptor, HostMemory};

/// Data of a command from the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostData<'a> {
    /// Bytes of the capsule.
    Capsule(&'a [u8]),
    /// Memory of the host.
    Remote(HostMemory),
}

impl<'a> HostData<'a> {
    /// Finds the data of a command; `capsule` follows the command.
    ///
    /// # Errors
    /// The descriptor is of another type, or names bytes beyond the capsule.
    pub fn find(command: &Command, capsule: &'a [u8]) -> Result<HostData<'a>, Status> {
        match Descriptor::parse(&command.descriptor).map_err(Status::final_one)? {
            Descriptor::Host(memory) => Ok(HostData::Remote(memory)),
            Descriptor::InCapsule { offset, length } => {
                let begin = usize::try_from(offset).ok();
                let end = begin.and_then(|begin| begin.checked_add(length as usize));
                let bytes = begin.zip(end).and_then(|(begin, end)| capsule.get(begin..end));
                bytes.map(HostData::Capsule).ok_or(Status::SGL_OFFSET_INVALID.final_one())
            }
        }
    }
}
