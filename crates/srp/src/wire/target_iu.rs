//! Information units of a target, as an initiator reads them (SRP §6.5, §6.7, §6.9 to §6.12).

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::command::IuError;
use super::response::{
    AER_REQ, CRED_REQ, IN_OVER, IN_UNDER, OUT_OVER, OUT_UNDER, RESPONSE_VALID, RSP, Residual, SENSE_VALID, T_LOGOUT,
};
use crate::scsi::Sense;

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ResponseBytes {
    opcode: u8,
    notification: u8,
    reserved1: [u8; 2],
    limit_delta: U32,
    tag: U64,
    reserved2: [u8; 2],
    flags: u8,
    status: u8,
    out_residual: U32,
    in_residual: U32,
    sense_len: U32,
    response_len: U32,
}

const _: () = assert!(size_of::<ResponseBytes>() == 36);

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ShortBytes {
    opcode: u8,
    notification: u8,
    reserved: [u8; 2],
    value: U32,
    tag: U64,
}

const _: () = assert!(size_of::<ShortBytes>() == 16);

/// SRP_RSP: the end of a command, or of a task management function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedResponse {
    /// Tag of the request.
    pub tag: u64,
    /// Requests by which the initiator's limit grows; it may be negative.
    pub limit_delta: i32,
    /// SCSI status.
    pub status: u8,
    /// Sense data.
    pub sense: Option<Sense>,
    /// Response code: of a task management function, or of a command that the target could not execute.
    pub code: Option<u8>,
    /// Difference of the data to the target.
    pub out: Residual,
    /// Difference of the data to the initiator.
    pub into: Residual,
}

/// Information unit of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetIu {
    /// SRP_RSP.
    Response(ReceivedResponse),
    /// SRP_CRED_REQ: tag, and growth of the limit.
    CreditRequest(u64, i32),
    /// SRP_AER_REQ: tag, and growth of the limit.
    EventRequest(u64, i32),
    /// SRP_T_LOGOUT: the reason's code.
    Logout(u32),
}

impl TargetIu {
    /// Reads an information unit.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(bytes: &[u8]) -> Result<TargetIu, IuError> {
        let (short, _) = ShortBytes::ref_from_prefix(bytes).map_err(|_| IuError::Length)?;
        let (value, tag) = (short.value.get(), short.tag.get());
        match short.opcode {
            RSP => response(bytes).map(TargetIu::Response),
            CRED_REQ => Ok(TargetIu::CreditRequest(tag, value.cast_signed())),
            AER_REQ => Ok(TargetIu::EventRequest(tag, value.cast_signed())),
            T_LOGOUT => Ok(TargetIu::Logout(value)),
            _ => Err(IuError::Type),
        }
    }
}

fn response(bytes: &[u8]) -> Result<ReceivedResponse, IuError> {
    let (fields, rest) = ResponseBytes::ref_from_prefix(bytes).map_err(|_| IuError::Length)?;
    let has = |flag: u8| fields.flags & flag != 0;
    let length = |flag: u8, field: &U32| if has(flag) { field.get() as usize } else { 0 };
    let (code, rest) = rest.split_at_checked(length(RESPONSE_VALID, &fields.response_len)).ok_or(IuError::Length)?;
    let sense = rest.get(..length(SENSE_VALID, &fields.sense_len)).ok_or(IuError::Length)?;
    let residual = |over, under, field: &U32| match (has(over), has(under)) {
        (true, _) => Residual::Over(field.get()),
        (false, true) => Residual::Under(field.get()),
        (false, false) => Residual::None,
    };
    Ok(ReceivedResponse {
        tag: fields.tag.get(),
        limit_delta: fields.limit_delta.get().cast_signed(),
        status: fields.status,
        sense: Sense::parse(sense),
        code: code.get(3).copied(),
        out: residual(OUT_OVER, OUT_UNDER, &fields.out_residual),
        into: residual(IN_OVER, IN_UNDER, &fields.in_residual),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{CreditRequest, LogoutReason, ResponseIu, TargetLogout, TaskStatus};
    use super::*;

    #[test]
    fn responses_are_read_back() {
        let failed = ResponseIu::Command {
            ended: Err(Sense::WRITE_PROTECTED),
            out: Residual::Under(512),
            into: Residual::Over(12),
        };
        let bytes = failed.to_bytes(5_u64.to_be_bytes(), 3);
        let expected = ReceivedResponse {
            tag: 5,
            limit_delta: 3,
            status: 2,
            sense: Some(Sense::WRITE_PROTECTED),
            code: None,
            out: Residual::Under(512),
            into: Residual::Over(12),
        };
        assert_eq!(TargetIu::parse(&bytes), Ok(TargetIu::Response(expected)));
        // Sense data that is announced has to be there.
        assert_eq!(TargetIu::parse(&bytes[..bytes.len() - 1]), Err(IuError::Length));
        let task = ResponseIu::Task(TaskStatus::NotSupported).to_bytes([0; 8], 1);
        assert!(matches!(TargetIu::parse(&task), Ok(TargetIu::Response(found)) if found.code == Some(4)));
        let mut huge = task;
        huge[32] = 0xff;
        assert_eq!(TargetIu::parse(&huge), Err(IuError::Length));
    }

    #[test]
    fn other_units_are_read_back() {
        let mut credit = CreditRequest { limit_delta: 2 }.to_bytes();
        assert_eq!(TargetIu::parse(&credit), Ok(TargetIu::CreditRequest(0, 2)));
        credit[4..8].fill(0xff);
        assert_eq!(TargetIu::parse(&credit), Ok(TargetIu::CreditRequest(0, -1)));
        let logout = TargetLogout { reason: LogoutReason::Length }.to_bytes();
        assert_eq!(TargetIu::parse(&logout), Ok(TargetIu::Logout(8)));
        assert_eq!(TargetIu::parse(&logout[..15]), Err(IuError::Length));
        assert_eq!(TargetIu::parse(&[7; 48]), Err(IuError::Type));
    }
}
