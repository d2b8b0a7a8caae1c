//! Login, in the private data of a connection: request, answer and refusal (SRP §6.2 to §6.4). A request over RDMA CM is
//! Linux's `srp_login_req_rdma`, which leaves out the reserved fields: the header of RDMA CM takes their room.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a request's private data over RDMA CM.
pub const LOGIN_REQUEST_LEN: usize = 56;
/// Bytes of it over InfiniBand's connection manager.
pub const IB_LOGIN_REQUEST_LEN: usize = 64;

const LOGIN_REQ: u8 = 0x00;
const LOGIN_RSP: u8 = 0xc0;
const LOGIN_REJ: u8 = 0xc2;
/// Flag of SRP-2: immediate data.
const IMMEDIATE: u8 = 0x80;
const MULTI_CHANNEL: u8 = 0x03;

/// Identifier of a port: an extension and a GUID, of eight bytes each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub [u8; 16]);

impl PortId {
    /// Reads up to 32 hexadecimal digits, with `0x` or without.
    pub fn parse(text: &str) -> Option<PortId> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
        Some(PortId(number.to_be_bytes()))
    }
}

impl std::fmt::Display for PortId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "0x{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::fmt::Debug for PortId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Formats of data buffer descriptors, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferFormats(pub u16);

impl BufferFormats {
    /// Direct descriptors.
    pub const DIRECT: BufferFormats = BufferFormats(1 << 1);
    /// Indirect descriptors.
    pub const INDIRECT: BufferFormats = BufferFormats(1 << 2);
    /// Those that the target takes.
    pub const BOTH: BufferFormats = BufferFormats(BufferFormats::DIRECT.0 | BufferFormats::INDIRECT.0);
}

/// MULTI-CHANNEL ACTION of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MultiChannel {
    /// End the initiator's other channels.
    Terminate,
    /// Keep them.
    Maintain,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RequestBytes {
    tag: [u8; 8],
    buffer_formats: U16,
    flags: u8,
    opcode: u8,
    iu_len: U32,
    initiator: [u8; 16],
    target: [u8; 16],
    immediate_offset: U16,
    reserved: [u8; 6],
}

const _: () = assert!(size_of::<RequestBytes>() == LOGIN_REQUEST_LEN);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct IbRequestBytes {
    opcode: u8,
    reserved1: [u8; 7],
    tag: [u8; 8],
    iu_len: U32,
    reserved2: [u8; 4],
    buffer_formats: U16,
    flags: u8,
    reserved3: u8,
    immediate_offset: U16,
    reserved4: [u8; 2],
    initiator: [u8; 16],
    target: [u8; 16],
}

const _: () = assert!(size_of::<IbRequestBytes>() == IB_LOGIN_REQUEST_LEN);

/// Connection manager that carries a login: each has a form of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginCarrier {
    /// The RDMA connection manager, by IP address and port.
    RdmaCm,
    /// InfiniBand's connection manager, by GID and service identifier.
    IbCm,
}

impl LoginCarrier {
    /// Reads the private data of a connection request, which may be longer than a login. `None`: it is no login.
    pub fn parse(self, bytes: &[u8]) -> Option<LoginRequest> {
        match self {
            LoginCarrier::RdmaCm => LoginRequest::parse(bytes),
            LoginCarrier::IbCm => LoginRequest::parse_ib(bytes),
        }
    }

    /// Returns the private data of a login.
    pub fn encode(self, login: &LoginRequest) -> Vec<u8> {
        match self {
            LoginCarrier::RdmaCm => login.to_bytes().to_vec(),
            LoginCarrier::IbCm => login.to_ib_bytes().to_vec(),
        }
    }
}

/// Login request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginRequest {
    /// Tag, which the answer repeats.
    pub tag: [u8; 8],
    /// Formats of descriptors that the initiator uses.
    pub buffer_formats: BufferFormats,
    /// Longest information unit that the initiator sends.
    pub iu_len: u32,
    /// Action on the initiator's other channels; `None`: one that the specification does not know.
    pub multi_channel: Option<MultiChannel>,
    /// Place of immediate data in a command, if the initiator asks for it.
    pub immediate_offset: Option<u16>,
    /// The initiator.
    pub initiator: PortId,
    /// The target that it wants.
    pub target: PortId,
}

impl LoginRequest {
    /// Reads a request over RDMA CM.
    fn parse(bytes: &[u8]) -> Option<LoginRequest> {
        let (fields, _) = RequestBytes::ref_from_prefix(bytes).ok()?;
        Some(LoginRequest {
            tag: fields.tag,
            buffer_formats: BufferFormats(fields.buffer_formats.get()),
            iu_len: fields.iu_len.get(),
            multi_channel: multi_channel(fields.flags),
            immediate_offset: Some(fields.immediate_offset.get()).filter(|_| fields.flags & IMMEDIATE != 0),
            initiator: PortId(fields.initiator),
            target: PortId(fields.target),
        })
        .filter(|_| fields.opcode == LOGIN_REQ)
    }

    /// Reads a request over InfiniBand's connection manager.
    fn parse_ib(bytes: &[u8]) -> Option<LoginRequest> {
        let (fields, _) = IbRequestBytes::ref_from_prefix(bytes).ok()?;
        Some(LoginRequest {
            tag: fields.tag,
            buffer_formats: BufferFormats(fields.buffer_formats.get()),
            iu_len: fields.iu_len.get(),
            multi_channel: multi_channel(fields.flags),
            immediate_offset: Some(fields.immediate_offset.get()).filter(|_| fields.flags & IMMEDIATE != 0),
            initiator: PortId(fields.initiator),
            target: PortId(fields.target),
        })
        .filter(|_| fields.opcode == LOGIN_REQ)
    }

    /// Returns the private data of a request over RDMA CM.
    pub fn to_bytes(&self) -> [u8; LOGIN_REQUEST_LEN] {
        let fields = RequestBytes {
            tag: self.tag,
            buffer_formats: self.buffer_formats.0.into(),
            flags: self.flags(),
            opcode: LOGIN_REQ,
            iu_len: self.iu_len.into(),
            initiator: self.initiator.0,
            target: self.target.0,
            immediate_offset: self.immediate_offset.unwrap_or(0).into(),
            reserved: [0; 6],
        };
        zerocopy::transmute!(fields)
    }

    /// Returns the private data of a request over InfiniBand's connection manager.
    fn to_ib_bytes(self) -> [u8; IB_LOGIN_REQUEST_LEN] {
        let fields = IbRequestBytes {
            opcode: LOGIN_REQ,
            reserved1: [0; 7],
            tag: self.tag,
            iu_len: self.iu_len.into(),
            reserved2: [0; 4],
            buffer_formats: self.buffer_formats.0.into(),
            flags: self.flags(),
            reserved3: 0,
            immediate_offset: self.immediate_offset.unwrap_or(0).into(),
            reserved4: [0; 2],
            initiator: self.initiator.0,
            target: self.target.0,
        };
        zerocopy::transmute!(fields)
    }

    fn flags(&self) -> u8 {
        let immediate = if self.immediate_offset.is_some() { IMMEDIATE } else { 0 };
        let multi_channel = match self.multi_channel {
            Some(MultiChannel::Terminate) => 0,
            Some(MultiChannel::Maintain) => 1,
            None => 3,
        };
        immediate | multi_channel
    }
}

fn multi_channel(flags: u8) -> Option<MultiChannel> {
    match flags & MULTI_CHANNEL {
        0 => Some(MultiChannel::Terminate),
        1 => Some(MultiChannel::Maintain),
        _ => None,
    }
}

/// MULTI-CHANNEL RESULT of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MultiChannelResult {
    /// There was no other channel.
    None = 0,
    /// Others ended.
    Terminated = 1,
    /// Others stay.
    Maintained = 2,
}

/// Answer that accepts a login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginAccept {
    /// Tag of the request.
    pub tag: [u8; 8],
    /// Requests that the initiator may have in progress.
    pub request_limit: u16,
    /// Longest information unit of the initiator.
    pub initiator_iu_len: u32,
    /// Longest information unit of the target.
    pub target_iu_len: u32,
    /// Other channels of the initiator.
    pub multi_channel: MultiChannelResult,
    /// Whether commands may have immediate data.
    pub immediate: bool,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AcceptBytes {
    opcode: u8,
    reserved1: [u8; 3],
    request_limit: U32,
    tag: [u8; 8],
    initiator_iu_len: U32,
    target_iu_len: U32,
    buffer_formats: U16,
    flags: u8,
    reserved2: [u8; 25],
}

const _: () = assert!(size_of::<AcceptBytes>() == 52);

impl LoginAccept {
    /// Returns the private data.
    pub fn to_bytes(&self) -> [u8; 52] {
        let fields = AcceptBytes {
            opcode: LOGIN_RSP,
            reserved1: [0; 3],
            request_limit: u32::from(self.request_limit).into(),
            tag: self.tag,
            initiator_iu_len: self.initiator_iu_len.into(),
            target_iu_len: self.target_iu_len.into(),
            buffer_formats: BufferFormats::BOTH.0.into(),
            flags: self.multi_channel as u8 | if self.immediate { IMMEDIATE } else { 0 },
            reserved2: [0; 25],
        };
        zerocopy::transmute!(fields)
    }
}

/// Acceptance of a login, as an initiator reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedAccept {
    /// Requests that the initiator may have in progress.
    pub request_limit: i32,
    /// Longest information unit that the target takes.
    pub initiator_iu_len: u32,
    /// Formats of descriptors that the target takes.
    pub buffer_formats: BufferFormats,
}

impl ReceivedAccept {
    /// Reads the private data of an accepted connection, which may be longer. `None`: it accepts no login.
    pub fn parse(bytes: &[u8]) -> Option<ReceivedAccept> {
        let (fields, _) = AcceptBytes::ref_from_prefix(bytes).ok()?;
        Some(ReceivedAccept {
            request_limit: fields.request_limit.get().cast_signed(),
            initiator_iu_len: fields.initiator_iu_len.get(),
            buffer_formats: BufferFormats(fields.buffer_formats.get()),
        })
        .filter(|_| fields.opcode == LOGIN_RSP)
    }
}

/// Reason of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RejectReason {
    /// Unable to establish the channel; no reason given.
    Unable = 0x0001_0000,
    /// Insufficient resources.
    Resources = 0x0001_0001,
    /// The requested length of information units is too large.
    IuLength = 0x0001_0002,
    /// The channel cannot be associated with this initiator and target.
    Nexus = 0x0001_0003,
    /// A format of descriptors is not supported.
    Format = 0x0001_0004,
    /// The multi-channel action is not supported.
    MultiChannel = 0x0001_0005,
    /// The initiator has as many channels as it may have.
    Channels = 0x0001_0006,
}

/// Refusal of a login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginReject {
    /// Tag of the request.
    pub tag: [u8; 8],
    /// The reason.
    pub reason: RejectReason,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RejectBytes {
    opcode: u8,
    reserved1: [u8; 3],
    reason: U32,
    tag: [u8; 8],
    reserved2: [u8; 8],
    buffer_formats: U16,
    reserved3: [u8; 6],
}

const _: () = assert!(size_of::<RejectBytes>() == 32);

impl LoginReject {
    /// Reads the reason's code in the private data of a refused connection. `None`: it refuses no login.
    pub fn code(bytes: &[u8]) -> Option<u32> {
        let (fields, _) = RejectBytes::ref_from_prefix(bytes).ok()?;
        Some(fields.reason.get()).filter(|_| fields.opcode == LOGIN_REJ)
    }

    /// Returns the private data.
    pub fn to_bytes(&self) -> [u8; 32] {
        let fields = RejectBytes {
            opcode: LOGIN_REJ,
            reserved1: [0; 3],
            reason: (self.reason as u32).into(),
            tag: self.tag,
            reserved2: [0; 8],
            buffer_formats: BufferFormats::BOTH.0.into(),
            reserved3: [0; 6],
        };
        zerocopy::transmute!(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_survives_the_wire() {
        let request = LoginRequest {
            tag: [7; 8],
            buffer_formats: BufferFormats::BOTH,
            iu_len: 8260,
            multi_channel: Some(MultiChannel::Maintain),
            immediate_offset: Some(68),
            initiator: PortId([1; 16]),
            target: PortId([2; 16]),
        };
        let ib = LoginCarrier::IbCm.encode(&request);
        assert_eq!(
            (ib[0], &ib[8..20], &ib[24..30]),
            (0, &[7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 32, 68][..], &[0, 6, 0x81, 0, 0, 68][..])
        );
        assert_eq!(LoginCarrier::IbCm.parse(&[&ib[..], &[0; 28]].concat()), Some(request));
        assert_eq!(LoginCarrier::IbCm.parse(&ib[..63]), None);
        let bytes = request.to_bytes();
        assert_eq!((bytes[10], bytes[11], LoginRequest::parse(&bytes)), (0x81, 0, Some(request)));
        assert_eq!(LoginRequest::parse(&bytes[..55]), None);
        let mut other = bytes;
        other[11] = 2;
        assert_eq!(LoginRequest::parse(&other), None);
    }

    #[test]
    fn answers_have_their_fields() {
        let accept = LoginAccept {
            tag: [3; 8],
            request_limit: 128,
            initiator_iu_len: 8260,
            target_iu_len: 128,
            multi_channel: MultiChannelResult::Terminated,
            immediate: true,
        };
        let bytes = accept.to_bytes();
        assert_eq!((bytes[0], bytes[7], &bytes[16..27]), (0xc0, 128, &[0, 0, 32, 68, 0, 0, 0, 128, 0, 6, 0x81][..]));
        let received =
            ReceivedAccept { request_limit: 128, initiator_iu_len: 8260, buffer_formats: BufferFormats::BOTH };
        assert_eq!((ReceivedAccept::parse(&bytes), ReceivedAccept::parse(&bytes[1..])), (Some(received), None));
        let bytes = LoginReject { tag: [3; 8], reason: RejectReason::Nexus }.to_bytes();
        assert_eq!((bytes[0], &bytes[4..9], bytes[25]), (0xc2, &[0, 1, 0, 3, 3][..], 6));
        assert_eq!((LoginReject::code(&bytes), LoginReject::code(&bytes[..31])), (Some(0x0001_0003), None));
    }

    #[test]
    fn port_identifiers_are_hexadecimal() {
        let id = PortId::parse("0x1f").expect("an identifier");
        assert_eq!(id.to_string(), "0x0000000000000000000000000000001f");
        assert_eq!(PortId::parse("1F"), Some(id));
        for wrong in ["", "0x", "+1", "0x123456789012345678901234567890123", "g"] {
            assert_eq!(PortId::parse(wrong), None, "{wrong}");
        }
    }
}
