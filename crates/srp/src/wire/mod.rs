//! Information units, big-endian: login, requests and responses, data buffer descriptors.

mod command;
mod descriptor;
mod login;
mod request;
mod response;
mod target_iu;

pub use command::{COMMAND_LEN, CommandIu, IuError, OutgoingCommand, TaskAttribute};
pub use descriptor::{BufferFormat, DESCRIPTOR_LEN, DataBuffer, DescriptorError, Descriptors, Indirect, Piece, table};
pub use login::{
    BufferFormats, IB_LOGIN_REQUEST_LEN, LOGIN_REQUEST_LEN, LoginAccept, LoginCarrier, LoginReject, LoginRequest,
    MultiChannel, MultiChannelResult, PortId, ReceivedAccept, RejectReason,
};
pub use request::{InitiatorIu, TaskFunction, TaskIu, credit_response, event_response};
pub use response::{CreditRequest, LogoutReason, Residual, ResponseIu, TargetLogout, TaskStatus};
pub use target_iu::{ReceivedResponse, TargetIu};
