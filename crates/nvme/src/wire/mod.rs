//! Structures on the wire: little-endian, as everything of NVM Express.

mod command;
mod completion;
mod connect;
mod descriptor;
mod nqn;
mod opcode;
mod private_data;

pub use command::{COMMAND_LEN, Command};
pub use completion::{COMPLETION_LEN, Completion};
pub use connect::{CONNECT_DATA_LEN, ConnectData, ConnectFields, DYNAMIC_CONTROLLER};
pub use descriptor::{Descriptor, HostMemory};
pub use nqn::{DISCOVERY_NQN, nqn_error, read_text};
pub use opcode::{AdminOpcode, FabricsType, IoOpcode, OPCODE_FABRICS, PropertyOffset};
pub use private_data::{AcceptData, ConnectRequest, REJECT_LEN, RejectStatus, RequestError};
