//! The message buffer: in host memory, or in device memory (`--dm`).

use weft_abi_types::IBV_ACCESS_LOCAL_WRITE;

use super::{Options, Setup};
use weft_client::verbs::{Buffer, DM_ALIGN, DeviceMemory, Sge};

/// Distance between the bytes that `--chk` sets and checks.
const PAGE: usize = 4096;

/// Buffer that messages are sent from and received into.
pub enum Memory {
    /// Host memory.
    Host(Buffer),
    /// Device memory.
    Device(DeviceMemory),
}

impl Memory {
    /// Registers `bytes` bytes of the memory that the options select, filled with a byte that differs between server
    /// and client.
    ///
    /// # Errors
    /// The line to print.
    pub fn new(setup: &Setup, options: &Options, bytes: usize) -> Result<Memory, String> {
        let mark = if options.server.is_some() { 0x7b } else { 0x7c };
        if !options.dm {
            let buffer = setup.buffer(options, bytes)?;
            buffer.fill(0, bytes, mark);
            return Ok(Memory::Host(buffer));
        }
        let attr = setup.context.query_device().map_err(|_| "Couldn't query device for its features".to_owned())?;
        match attr.max_dm_size {
            0 => return Err("Device doesn't support dm allocation".to_owned()),
            most if most < bytes as u64 => return Err("Device memory is insufficient".to_owned()),
            _ => {}
        }
        let memory = DeviceMemory::new(&setup.pd, bytes, IBV_ACCESS_LOCAL_WRITE)
            .map_err(|_| "Dev mem allocation failed".to_owned())?;
        memory
            .write(0, &vec![mark; bytes.next_multiple_of(DM_ALIGN)])
            .map_err(|_| "Copy to dm buffer failed".to_owned())?;
        Ok(Memory::Device(memory))
    }

    /// The scatter/gather entry of `length` bytes from `offset` on.
    pub fn sge(&self, offset: usize, length: usize) -> Sge {
        match self {
            Memory::Host(buffer) => buffer.sge(offset, length),
            Memory::Device(memory) => memory.sge(offset, length),
        }
    }

    /// Whether requests may be inline: the library copies inline data from host memory only.
    pub fn may_be_inline(&self) -> bool {
        matches!(self, Memory::Host(_))
    }

    /// The client's part of `--chk`: marks each page of the message, which starts at `offset`.
    pub fn write_pattern(&self, options: &Options, offset: usize) -> Result<(), String> {
        if !options.chk || options.server.is_none() {
            return Ok(());
        }
        for at in (0..options.size).step_by(PAGE) {
            match self {
                Memory::Host(buffer) => buffer.write(offset + at, &[0]),
                Memory::Device(memory) => {
                    let unit = [0, 0x7b, 0x7b, 0x7b];
                    memory.write(offset + at, &unit).map_err(|_| "Copy to dm buffer failed".to_owned())?;
                }
            }
        }
        Ok(())
    }

    /// The server's part of `--chk`: an error line for each page without the mark.
    pub fn check_pattern(&self, options: &Options, offset: usize) -> Result<String, String> {
        if !options.chk || options.server.is_some() {
            return Ok(String::new());
        }
        let mut lines = String::new();
        for at in (0..options.size).step_by(PAGE) {
            let mut unit = [0; DM_ALIGN];
            match self {
                Memory::Host(buffer) => unit[0] = buffer.byte(offset + at),
                Memory::Device(memory) => {
                    memory.read(offset + at, &mut unit).map_err(|_| "Copy from DM buffer failed".to_owned())?;
                }
            }
            if unit[0] != 0 {
                lines += &format!("invalid data in page {}\n", at / PAGE);
            }
        }
        Ok(lines)
    }
}
