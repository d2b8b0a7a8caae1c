//! Information units, big-endian: login, requests and responses, data buffer descriptors.

mod command;
mod descriptor;
mod login;
mod request;
mod response;

pub use command::{COMMAND_LEN, CommandIu, IuError, TaskAttribute};
pub use descriptor::{BufferFormat, DESCRIPTOR_LEN, DataBuffer, DescriptorError, Descriptors, Indirect, Piece, table};
pub use login::{
    BufferFormats, LOGIN_REQUEST_LEN, LoginAccept, LoginReject, LoginRequest, MultiChannel, MultiChannelResult, PortId,
    RejectReason,
};
pub use request::{InitiatorIu, TaskFunction, TaskIu};
pub use response::{CreditRequest, LogoutReason, Residual, ResponseIu, TargetLogout, TaskStatus};
