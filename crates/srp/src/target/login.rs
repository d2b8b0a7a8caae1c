//! Login: a connection request becomes a channel.

use super::config::TargetConfig;
use crate::limits::{INITIATOR_IU_MAX, INITIATOR_IU_MIN};
use crate::wire::{
    BufferFormats, COMMAND_LEN, LoginAccept, LoginCarrier, LoginReject, LoginRequest, MultiChannel, PortId,
    RejectReason,
};

/// Sizes of an accepted connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginAnswer {
    /// The initiator.
    pub initiator: PortId,
    /// Receives to post.
    pub receives: u16,
    /// Bytes of each.
    pub receive_bytes: u32,
    /// Private data of the acceptance.
    pub accept: LoginAccept,
}

/// Reason of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The private data is no login.
    #[error("the connection request is no SRP login")]
    NoLogin,
    /// Information units that are too short or too long.
    #[error("information units of {0} bytes; {INITIATOR_IU_MIN} to {INITIATOR_IU_MAX} are taken (cmd_sg_entries)")]
    IuLength(u32),
    /// Descriptors of a format that the target does not know.
    #[error("formats of data buffer descriptors {0:#x}; direct and indirect ones are taken")]
    Formats(u16),
    /// An unknown action on other channels.
    #[error("an unknown multi-channel action")]
    MultiChannel,
    /// Another target port.
    #[error("it asks for target port {0}; this one is {1}")]
    Target(PortId, PortId),
    /// The initiator is not allowed.
    #[error("initiator {0} is not allowed; --allow-initiator {0} allows it")]
    Initiator(PortId),
    /// The initiator has too many channels.
    #[error("initiator {0} has as many channels as one may have")]
    Channels(PortId),
    /// The owner has no room.
    #[error("no resources")]
    Resources,
}

impl Refusal {
    fn reason(self) -> RejectReason {
        match self {
            Refusal::NoLogin => RejectReason::Unable,
            Refusal::IuLength(_) => RejectReason::IuLength,
            Refusal::Formats(_) => RejectReason::Format,
            Refusal::MultiChannel => RejectReason::MultiChannel,
            Refusal::Target(..) | Refusal::Initiator(_) => RejectReason::Nexus,
            Refusal::Channels(_) => RejectReason::Channels,
            Refusal::Resources => RejectReason::Resources,
        }
    }
}

/// Refused login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginError {
    /// Tag of the request.
    pub tag: [u8; 8],
    /// The reason.
    pub refusal: Refusal,
}

impl LoginError {
    /// Returns the refusal of a request for which the owner has no room.
    pub fn no_resources(carrier: LoginCarrier, private_data: &[u8]) -> LoginError {
        let tag = carrier.parse(private_data).map_or([0; 8], |request| request.tag);
        LoginError { tag, refusal: Refusal::Resources }
    }

    /// Returns the private data of the refusal.
    pub fn to_bytes(&self) -> [u8; 32] {
        LoginReject { tag: self.tag, reason: self.refusal.reason() }.to_bytes()
    }
}

/// Checks a login that needs no look at other channels.
pub fn check(config: &TargetConfig, request: &LoginRequest) -> Result<MultiChannel, Refusal> {
    if !(INITIATOR_IU_MIN..=INITIATOR_IU_MAX).contains(&request.iu_len) {
        return Err(Refusal::IuLength(request.iu_len));
    }
    let formats = request.buffer_formats.0;
    if formats & BufferFormats::BOTH.0 == 0 || formats & !BufferFormats::BOTH.0 != 0 {
        return Err(Refusal::Formats(formats));
    }
    if request.target != config.port {
        return Err(Refusal::Target(request.target, config.port));
    }
    if config.allowed.as_ref().is_some_and(|allowed| !allowed.contains(&request.initiator)) {
        return Err(Refusal::Initiator(request.initiator));
    }
    request.multi_channel.ok_or(Refusal::MultiChannel)
}

/// Returns the place of immediate data that the target agrees to.
pub fn immediate_at(request: &LoginRequest) -> Option<u16> {
    request.immediate_offset.filter(|at| usize::from(*at) >= COMMAND_LEN + 4 && u32::from(*at) < request.iu_len)
}
