//! SCSI RDMA Protocol (T10 SRP revision 16a, with SRP-2's immediate data as Linux speaks it). Values in, values out: the
//! owner of the queue pairs feeds received information units and completed work, and carries out the actions that come out.
//!
//! - [`wire`]: information units, login's private data, data buffer descriptors;
//! - [`Target`]: the target port, with all channels and their requests;
//! - [`Initiator`]: an initiator's end of one channel, with the disks and their requests. Time is passed in;
//! - [`device_management`]: the agent that tells initiators of an InfiniBand fabric about a target;
//! - [`scsi`]: a direct-access SCSI device, which knows nothing of SRP.
#![forbid(unsafe_code)]

pub mod device_management;
#[doc(hidden)]
pub mod fuzzing;
mod initiator;
pub mod limits;
pub mod scsi;
mod target;
pub mod wire;

pub use initiator::{
    Breach, CommandFailure, CommandTag, DiskCommandData, DiskContent, DiskInfo, DiskOperation, DiskOutcome, Initiator,
    InitiatorAction, InitiatorConfig, InitiatorEvent, LossTimes, LossTimesError, LostReason, OutgoingDiskCommand,
    RequestFailure, RequestKey, login_refusal,
};
pub use target::{
    Action, ChannelEvent, ChannelKey, CloseReason, CommandKey, DataMove, LoginAnswer, LoginError, Refusal, Response,
    ResponseData, Target, TargetConfig,
};
