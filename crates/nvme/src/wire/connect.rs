//! Connect (NVMe-oF 1.1 §3.3): it makes a connection a queue of a controller.

use super::descriptor::Descriptor;
use super::{Command, DISCOVERY_NQN, FabricsType, HostMemory, OPCODE_FABRICS, read_text};

/// Bytes of Connect's data.
pub const CONNECT_DATA_LEN: usize = 1024;
/// Controller identifier of Connect on an admin queue: the target chooses one.
pub const DYNAMIC_CONTROLLER: u16 = 0xffff;

const DISABLE_SQ_FLOW: u8 = 1 << 2;
const SUBSYSTEM_AT: usize = 256;
const HOST_AT: usize = 512;

/// Fields of Connect's command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectFields {
    /// Format of the command; 0 is the only one.
    pub format: u16,
    /// Queue identifier; 0 is the admin queue.
    pub queue_id: u16,
    /// Entries of the submission queue, less one.
    pub sq_size: u16,
    /// The host does not want submission queue heads in completions.
    pub disable_sq_flow: bool,
    /// Keep-alive timeout in milliseconds; 0: none.
    pub keep_alive_ms: u32,
}

impl ConnectFields {
    /// Offset of the format in the command, in bytes.
    pub const FORMAT_AT: u16 = 40;
    /// Offset of the queue identifier in the command, in bytes.
    pub const QUEUE_ID_AT: u16 = 42;
    /// Offset of the queue size in the command, in bytes.
    pub const SQ_SIZE_AT: u16 = 44;

    /// Reads the fields.
    pub fn of(command: &Command) -> ConnectFields {
        let [format0, format1, queue0, queue1] = command.cdw(10).to_le_bytes();
        let [size0, size1, attributes, _] = command.cdw(11).to_le_bytes();
        ConnectFields {
            format: u16::from_le_bytes([format0, format1]),
            queue_id: u16::from_le_bytes([queue0, queue1]),
            sq_size: u16::from_le_bytes([size0, size1]),
            disable_sq_flow: attributes & DISABLE_SQ_FLOW != 0,
            keep_alive_ms: command.cdw(12),
        }
    }

    /// Returns the command.
    pub fn command(&self, id: u16, data: HostMemory) -> Command {
        let mut command = Command::new(OPCODE_FABRICS, id, FabricsType::CONNECT.0.into());
        command.descriptor = Descriptor::Host(data).to_bytes();
        let attributes = if self.disable_sq_flow { DISABLE_SQ_FLOW } else { 0 };
        command
            .with_cdw(10, u32::from(self.format) | u32::from(self.queue_id) << 16)
            .with_cdw(11, u32::from(self.sq_size) | u32::from(attributes) << 16)
            .with_cdw(12, self.keep_alive_ms)
    }
}

/// Data of Connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectData {
    /// Identifier of the host.
    pub host_id: [u8; 16],
    /// Controller; [`DYNAMIC_CONTROLLER`] on an admin queue.
    pub controller: u16,
    /// Name of the subsystem.
    pub subsystem: String,
    /// Name of the host.
    pub host: String,
}

impl ConnectData {
    /// Offset of the controller in the data, in bytes.
    pub const CONTROLLER_AT: u16 = 16;
    /// Offset of the subsystem's name in the data, in bytes.
    pub const SUBSYSTEM_AT: u16 = SUBSYSTEM_AT as u16;
    /// Offset of the host's name in the data, in bytes.
    pub const HOST_AT: u16 = HOST_AT as u16;

    /// Reads the data.
    ///
    /// # Errors
    /// The offset of the field that is malformed.
    pub fn parse(bytes: &[u8]) -> Result<ConnectData, u16> {
        let bytes: &[u8; CONNECT_DATA_LEN] = bytes.try_into().map_err(|_| 0_u16)?;
        let mut host_id = [0; 16];
        host_id.copy_from_slice(&bytes[..16]);
        let name = |at: usize| read_text(&bytes[at..at + 256]).map(str::to_owned);
        Ok(ConnectData {
            host_id,
            controller: u16::from_le_bytes([bytes[16], bytes[17]]),
            subsystem: name(SUBSYSTEM_AT).ok_or(ConnectData::SUBSYSTEM_AT)?,
            host: name(HOST_AT).ok_or(ConnectData::HOST_AT)?,
        })
    }

    /// Returns the bytes; names are cut to their fields.
    pub fn to_bytes(&self) -> [u8; CONNECT_DATA_LEN] {
        let mut bytes = [0; CONNECT_DATA_LEN];
        bytes[..16].copy_from_slice(&self.host_id);
        bytes[16..18].copy_from_slice(&self.controller.to_le_bytes());
        for (at, name) in [(SUBSYSTEM_AT, &self.subsystem), (HOST_AT, &self.host)] {
            let len = name.len().min(255);
            bytes[at..at + len].copy_from_slice(&name.as_bytes()[..len]);
        }
        bytes
    }

    /// Whether the discovery subsystem is meant.
    pub fn is_discovery(&self) -> bool {
        self.subsystem == DISCOVERY_NQN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_data_survive_the_wire() {
        let fields =
            ConnectFields { format: 0, queue_id: 3, sq_size: 127, disable_sq_flow: true, keep_alive_ms: 15_000 };
        let memory = HostMemory { address: 1, length: 1024, key: 2, invalidate: false };
        assert_eq!(ConnectFields::of(&fields.command(9, memory)), fields);
        let data = ConnectData {
            host_id: [7; 16],
            controller: DYNAMIC_CONTROLLER,
            subsystem: DISCOVERY_NQN.into(),
            host: "nqn.2014-08.org.nvmexpress:uuid:1".into(),
        };
        assert_eq!(ConnectData::parse(&data.to_bytes()), Ok(data.clone()));
        assert!(data.is_discovery());
    }

    #[test]
    fn a_name_without_end_is_named_by_its_offset() {
        let mut bytes = [0; CONNECT_DATA_LEN];
        bytes[512..768].fill(b'x');
        assert_eq!(ConnectData::parse(&bytes), Err(512));
        bytes[256..512].fill(b'x');
        assert_eq!(ConnectData::parse(&bytes), Err(256));
        assert_eq!(ConnectData::parse(&bytes[1..]), Err(0));
    }
}
