//! Information units of the target: responses, credit requests and logouts (SRP §6.5, §6.7, §6.10).

use zerocopy::big_endian::U32;
use zerocopy::{Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::scsi::Sense;

pub(super) const RSP: u8 = 0xc1;
pub(super) const CRED_REQ: u8 = 0x81;
pub(super) const T_LOGOUT: u8 = 0x80;
pub(super) const AER_REQ: u8 = 0x82;

pub(super) const RESPONSE_VALID: u8 = 1 << 0;
pub(super) const SENSE_VALID: u8 = 1 << 1;
pub(super) const OUT_OVER: u8 = 1 << 2;
pub(super) const OUT_UNDER: u8 = 1 << 3;
pub(super) const IN_OVER: u8 = 1 << 4;
pub(super) const IN_UNDER: u8 = 1 << 5;

const CHECK_CONDITION: u8 = 0x02;
const TASK_ABORTED: u8 = 0x40;

/// Difference between a buffer and the data of its command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Residual {
    /// None.
    #[default]
    None,
    /// The buffer has as many bytes that were not transferred.
    Under(u32),
    /// The command has as many bytes for which the buffer had no room.
    Over(u32),
}

impl Residual {
    /// Compares the bytes that a command has with those of its buffer.
    pub fn of(data: u32, buffer: u32) -> Residual {
        match data.cmp(&buffer) {
            std::cmp::Ordering::Equal => Residual::None,
            std::cmp::Ordering::Less => Residual::Under(buffer - data),
            std::cmp::Ordering::Greater => Residual::Over(data - buffer),
        }
    }

    fn fields(self, over: u8, under: u8) -> (u8, u32) {
        match self {
            Residual::None => (0, 0),
            Residual::Under(bytes) => (under, bytes),
            Residual::Over(bytes) => (over, bytes),
        }
    }
}

/// Status of a task management function (SRP table 28).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskStatus {
    /// It is complete.
    Complete = 0x00,
    /// A field of the request is invalid.
    InvalidFields = 0x02,
    /// The function is not supported.
    NotSupported = 0x04,
}

/// End of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseIu {
    /// A command ended: GOOD, or CHECK CONDITION.
    Command {
        /// How it ended.
        ended: Result<(), Sense>,
        /// Difference of the data to the target.
        out: Residual,
        /// Difference of the data to the initiator.
        into: Residual,
    },
    /// Another initiator aborted the command.
    Aborted,
    /// A task management function ended.
    Task(TaskStatus),
}

#[derive(IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ResponseBytes {
    opcode: u8,
    notification: u8,
    reserved1: [u8; 2],
    limit_delta: U32,
    tag: [u8; 8],
    reserved2: [u8; 2],
    flags: u8,
    status: u8,
    out_residual: U32,
    in_residual: U32,
    sense_len: U32,
    response_len: U32,
}

const _: () = assert!(size_of::<ResponseBytes>() == 36);

impl ResponseIu {
    /// Returns the information unit. `limit_delta`: requests by which the initiator's limit grows.
    pub fn to_bytes(&self, tag: [u8; 8], limit_delta: u32) -> Vec<u8> {
        let (mut flags, mut status, mut residuals, mut sense, mut response) = (0, 0, (0, 0), Vec::new(), Vec::new());
        match self {
            ResponseIu::Command { ended, out, into } => {
                let ((out_flag, out), (in_flag, into)) =
                    (out.fields(OUT_OVER, OUT_UNDER), into.fields(IN_OVER, IN_UNDER));
                (flags, residuals) = (out_flag | in_flag, (out, into));
                if let Err(reason) = ended {
                    flags |= SENSE_VALID;
                    status = CHECK_CONDITION;
                    sense.extend(reason.to_bytes());
                }
            }
            ResponseIu::Aborted => status = TASK_ABORTED,
            ResponseIu::Task(result) => {
                flags = RESPONSE_VALID;
                response.extend([0, 0, 0, *result as u8]);
            }
        }
        let fields = ResponseBytes {
            opcode: RSP,
            notification: 0,
            reserved1: [0; 2],
            limit_delta: limit_delta.into(),
            tag,
            reserved2: [0; 2],
            flags,
            status,
            out_residual: residuals.0.into(),
            in_residual: residuals.1.into(),
            sense_len: (sense.len() as u32).into(),
            response_len: (response.len() as u32).into(),
        };
        [fields.as_bytes(), &response[..], &sense[..]].concat()
    }
}

#[derive(IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ShortBytes {
    opcode: u8,
    notification: u8,
    reserved: [u8; 2],
    value: U32,
    tag: [u8; 8],
}

const _: () = assert!(size_of::<ShortBytes>() == 16);

fn short(opcode: u8, value: u32) -> [u8; 16] {
    let fields = ShortBytes { opcode, notification: 0, reserved: [0; 2], value: value.into(), tag: [0; 8] };
    zerocopy::transmute!(fields)
}

/// SRP_CRED_REQ: the initiator's limit grows without a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditRequest {
    /// Requests.
    pub limit_delta: u32,
}

impl CreditRequest {
    /// Returns the information unit.
    pub fn to_bytes(&self) -> [u8; 16] {
        short(CRED_REQ, self.limit_delta)
    }
}

/// Reason of a target's logout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogoutReason {
    /// None of the others.
    Unspecified = 0,
    /// An information unit of an unknown type arrived.
    Type = 2,
    /// A response arrived to which there is no request.
    Response = 3,
    /// A new login ended the channel.
    MultiChannel = 4,
    /// An information unit had an invalid length.
    Length = 8,
}

/// SRP_T_LOGOUT: the target ends the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetLogout {
    /// The reason.
    pub reason: LogoutReason,
}

impl TargetLogout {
    /// Returns the information unit.
    pub fn to_bytes(&self) -> [u8; 16] {
        short(T_LOGOUT, self.reason as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_have_their_fields() {
        let failed = ResponseIu::Command {
            ended: Err(Sense::WRITE_PROTECTED),
            out: Residual::of(0, 512),
            into: Residual::of(20, 8),
        };
        let bytes = failed.to_bytes([5; 8], 3);
        assert_eq!((bytes.len(), bytes[0], bytes[7], bytes[8]), (54, 0xc1, 3, 5));
        assert_eq!((bytes[18], bytes[19], &bytes[20..28]), (0x1a, 2, &[0, 0, 2, 0, 0, 0, 0, 12][..]));
        assert_eq!((bytes[31], bytes[35], bytes[38], bytes[48]), (18, 0, 7, 0x27));
        let task = ResponseIu::Task(TaskStatus::NotSupported).to_bytes([5; 8], 1);
        assert_eq!((task.len(), task[18], task[19], task[35], &task[36..]), (40, 1, 0, 4, &[0, 0, 0, 4][..]));
        assert_eq!(ResponseIu::Aborted.to_bytes([5; 8], 1)[19], 0x40);
    }

    #[test]
    fn short_units_have_a_type_and_a_value() {
        assert_eq!(CreditRequest { limit_delta: 2 }.to_bytes()[..8], [0x81, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(TargetLogout { reason: LogoutReason::Length }.to_bytes()[..8], [0x80, 0, 0, 0, 0, 0, 0, 8]);
    }
}
