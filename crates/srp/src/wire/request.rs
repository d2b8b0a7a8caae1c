//! Information units of an initiator (SRP §6).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::{CMD, CommandIu, IuError};

const TSK_MGMT: u8 = 0x01;
const I_LOGOUT: u8 = 0x03;
const CRED_RSP: u8 = 0x41;
const AER_RSP: u8 = 0x42;

/// Bytes of an information unit that has a type and a tag alone.
const SHORT_LEN: usize = 16;

/// Task management function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskFunction(pub u8);

impl TaskFunction {
    /// Abort one command.
    pub const ABORT_TASK: TaskFunction = TaskFunction(0x01);
    /// Abort the initiator's commands of a logical unit.
    pub const ABORT_TASK_SET: TaskFunction = TaskFunction(0x02);
    /// Abort all commands of a logical unit.
    pub const CLEAR_TASK_SET: TaskFunction = TaskFunction(0x04);
    /// Abort all commands of a logical unit, and reset it.
    pub const UNIT_RESET: TaskFunction = TaskFunction(0x08);
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct TaskBytes {
    opcode: u8,
    notification: u8,
    reserved1: [u8; 6],
    tag: [u8; 8],
    reserved2: [u8; 4],
    lun: [u8; 8],
    reserved3: [u8; 2],
    function: u8,
    reserved4: u8,
    task: [u8; 8],
    reserved5: [u8; 8],
}

const _: () = assert!(size_of::<TaskBytes>() == 48);

/// Task management request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskIu {
    /// Tag, which the response repeats.
    pub tag: [u8; 8],
    /// Logical unit, in the form of SAM.
    pub lun: [u8; 8],
    /// The function.
    pub function: TaskFunction,
    /// Tag of the command to abort.
    pub task: [u8; 8],
}

impl TaskIu {
    /// Returns the information unit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let fields = TaskBytes {
            opcode: TSK_MGMT,
            notification: 0,
            reserved1: [0; 6],
            tag: self.tag,
            reserved2: [0; 4],
            lun: self.lun,
            reserved3: [0; 2],
            function: self.function.0,
            reserved4: 0,
            task: self.task,
            reserved5: [0; 8],
        };
        fields.as_bytes().to_vec()
    }
}

/// Returns SRP_CRED_RSP: the answer to an SRP_CRED_REQ with this tag.
pub fn credit_response(tag: u64) -> Vec<u8> {
    short(CRED_RSP, tag)
}

/// Returns SRP_AER_RSP: the answer to an SRP_AER_REQ with this tag.
pub fn event_response(tag: u64) -> Vec<u8> {
    short(AER_RSP, tag)
}

fn short(opcode: u8, tag: u64) -> Vec<u8> {
    [&[opcode, 0, 0, 0, 0, 0, 0, 0][..], &tag.to_be_bytes()].concat()
}

/// Information unit of an initiator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InitiatorIu {
    /// SRP_CMD.
    Command(CommandIu),
    /// SRP_TSK_MGMT.
    Task(TaskIu),
    /// SRP_I_LOGOUT.
    Logout,
    /// SRP_CRED_RSP.
    CreditResponse,
    /// SRP_AER_RSP: the target never asks for one.
    EventResponse,
}

impl InitiatorIu {
    /// Reads an information unit. `immediate_at`: place of immediate data, if login agreed on one.
    ///
    /// # Errors
    /// It is malformed in a way that leaves no answer.
    pub fn parse(bytes: &[u8], immediate_at: Option<u16>) -> Result<InitiatorIu, IuError> {
        let long_enough = |iu| if bytes.len() < SHORT_LEN { Err(IuError::Length) } else { Ok(iu) };
        match bytes.first() {
            Some(&CMD) => CommandIu::parse(bytes, immediate_at)?.map(InitiatorIu::Command).ok_or(IuError::Format),
            Some(&TSK_MGMT) => {
                let (fields, _) = TaskBytes::ref_from_prefix(bytes).map_err(|_| IuError::Length)?;
                let function = TaskFunction(fields.function);
                Ok(InitiatorIu::Task(TaskIu { tag: fields.tag, lun: fields.lun, function, task: fields.task }))
            }
            Some(&I_LOGOUT) => long_enough(InitiatorIu::Logout),
            Some(&CRED_RSP) => long_enough(InitiatorIu::CreditResponse),
            Some(&AER_RSP) => long_enough(InitiatorIu::EventResponse),
            Some(_) => Err(IuError::Type),
            None => Err(IuError::Length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DescriptorError, Descriptors};
    use super::*;

    fn command(formats: u8, tail: &[u8]) -> Vec<u8> {
        let mut bytes = [0; 48];
        (bytes[0], bytes[5], bytes[8], bytes[21], bytes[32]) = (CMD, formats, 9, 3, 0x28);
        [&bytes[..], tail].concat()
    }

    #[test]
    fn a_command_is_read_with_both_buffers() {
        let tail = [[1; 16], [2; 16]].concat();
        let Ok(InitiatorIu::Command(found)) = InitiatorIu::parse(&command(0x11, &tail), None) else { panic!() };
        assert_eq!((found.tag[0], found.lun[1], found.cdb[0]), (9, 3, 0x28));
        let Ok((Descriptors::Known(out), Descriptors::Known(into))) = found.buffers else { panic!() };
        assert_eq!((out.length, into.length), (0x0101_0101, 0x0202_0202));
        // Additional bytes of the command come before the descriptors.
        let mut with_more = command(0x01, &[&[0xee; 4][..], &[1; 16]].concat());
        with_more[31] = 4;
        let Ok(InitiatorIu::Command(found)) = InitiatorIu::parse(&with_more, None) else { panic!() };
        assert!(matches!(found.buffers, Ok((_, Descriptors::Known(into))) if into.length == 0x0101_0101));
        with_more[31] = 0xfc;
        let Ok(InitiatorIu::Command(found)) = InitiatorIu::parse(&with_more, None) else { panic!() };
        assert_eq!(found.buffers, Err(DescriptorError::Short));
    }

    #[test]
    fn immediate_data_needs_an_agreement_and_its_bytes() {
        let mut bytes = command(0x30, &3_u32.to_be_bytes());
        bytes.resize(68, 0);
        bytes.extend(*b"abc");
        assert_eq!(InitiatorIu::parse(&bytes, None), Err(IuError::Format));
        let Ok(InitiatorIu::Command(found)) = InitiatorIu::parse(&bytes, Some(68)) else { panic!() };
        assert!(matches!(found.buffers, Ok((Descriptors::Known(out), _)) if out.immediate.as_deref() == Some(b"abc")));
        let Ok(InitiatorIu::Command(found)) = InitiatorIu::parse(&bytes[..70], Some(68)) else { panic!() };
        assert_eq!(found.buffers, Err(DescriptorError::Short));
    }

    #[test]
    fn functions_and_answers_are_read_back() {
        let task = TaskIu { tag: [1; 8], lun: [2; 8], function: TaskFunction::ABORT_TASK, task: [3; 8] };
        assert_eq!(InitiatorIu::parse(&task.to_bytes(), None), Ok(InitiatorIu::Task(task)));
        assert_eq!(InitiatorIu::parse(&credit_response(7), None), Ok(InitiatorIu::CreditResponse));
        assert_eq!(InitiatorIu::parse(&event_response(7), None), Ok(InitiatorIu::EventResponse));
        assert_eq!(credit_response(7)[15], 7);
    }

    #[test]
    fn malformed_units_are_told_apart() {
        assert_eq!(InitiatorIu::parse(&[], None), Err(IuError::Length));
        assert_eq!(InitiatorIu::parse(&[CMD; 47], None), Err(IuError::Length));
        assert_eq!(InitiatorIu::parse(&[TSK_MGMT; 47], None), Err(IuError::Length));
        assert_eq!(InitiatorIu::parse(&[0xc1; 48], None), Err(IuError::Type));
        assert_eq!(InitiatorIu::parse(&command(0x40, &[]), None), Err(IuError::Format));
        assert_eq!(InitiatorIu::parse(&[I_LOGOUT; 16], None), Ok(InitiatorIu::Logout));
        assert_eq!(InitiatorIu::parse(&[CRED_RSP; 15], None), Err(IuError::Length));
    }
}
