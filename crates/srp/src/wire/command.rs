//! SRP_CMD: a SCSI command with its data buffers (SRP §6.9).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::descriptor::{BufferFormat, DataBuffer, DescriptorError, Descriptors, Piece};

/// Type of the information unit.
pub(super) const CMD: u8 = 0x02;

/// Bytes of a command before its additional bytes and descriptors.
pub const COMMAND_LEN: usize = 48;

/// Reason why an information unit ends its channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IuError {
    /// It is too short for its type.
    Length,
    /// Its type is none of an initiator's.
    Type,
    /// A format of data buffer descriptors is unknown, or has not been agreed on.
    Format,
}

/// Task attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskAttribute(pub u8);

impl TaskAttribute {
    /// Without order.
    pub const SIMPLE: TaskAttribute = TaskAttribute(0);
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct CommandBytes {
    opcode: u8,
    notification: u8,
    reserved1: [u8; 3],
    formats: u8,
    out_count: u8,
    in_count: u8,
    tag: [u8; 8],
    reserved2: [u8; 4],
    lun: [u8; 8],
    reserved3: u8,
    attribute: u8,
    reserved4: u8,
    additional_len: u8,
    cdb: [u8; 16],
}

const _: () = assert!(size_of::<CommandBytes>() == COMMAND_LEN);

/// SCSI command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandIu {
    /// Tag, which the response repeats.
    pub tag: [u8; 8],
    /// Logical unit, in the form of SAM.
    pub lun: [u8; 8],
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Command descriptor block; additional bytes are dropped, since no command has them.
    pub cdb: [u8; 16],
    /// Buffers of data to the target and to the initiator, or the reason why they cannot be read.
    pub buffers: Result<(Descriptors, Descriptors), DescriptorError>,
}

impl CommandIu {
    /// Reads an information unit whose type is known. `immediate_at`: place of immediate data, if login agreed on one.
    ///
    /// `Err`: it is shorter than a command. `Ok(None)`: a format of descriptors is unknown, or has not been agreed on.
    pub fn parse(bytes: &[u8], immediate_at: Option<u16>) -> Result<Option<CommandIu>, IuError> {
        let (fields, rest) = CommandBytes::ref_from_prefix(bytes).map_err(|_| IuError::Length)?;
        let formats = (BufferFormat::parse(fields.formats >> 4), BufferFormat::parse(fields.formats & 0xf));
        let (Some(out), Some(into)) = formats else { return Ok(None) };
        let is_allowed = into != BufferFormat::Immediate && (out != BufferFormat::Immediate || immediate_at.is_some());
        if !is_allowed {
            return Ok(None);
        }
        Ok(Some(CommandIu {
            tag: fields.tag,
            lun: fields.lun,
            attribute: TaskAttribute(fields.attribute),
            cdb: fields.cdb,
            buffers: buffers(bytes, fields, rest, (out, into), immediate_at),
        }))
    }
}

/// Command as an initiator sends it, with one direct descriptor at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutgoingCommand {
    /// Tag.
    pub tag: u64,
    /// Logical unit, in the form of SAM.
    pub lun: [u8; 8],
    /// Command descriptor block.
    pub cdb: [u8; 16],
    /// Memory with data for the target.
    pub out: Option<Piece>,
    /// Memory for data of the target.
    pub into: Option<Piece>,
}

impl OutgoingCommand {
    /// Returns the information unit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let format = |piece: &Option<Piece>| u8::from(piece.is_some()) * BufferFormat::Direct.code();
        let fields = CommandBytes {
            opcode: CMD,
            notification: 0,
            reserved1: [0; 3],
            formats: format(&self.out) << 4 | format(&self.into),
            out_count: 0,
            in_count: 0,
            tag: self.tag.to_be_bytes(),
            reserved2: [0; 4],
            lun: self.lun,
            reserved3: 0,
            attribute: TaskAttribute::SIMPLE.0,
            reserved4: 0,
            additional_len: 0,
            cdb: self.cdb,
        };
        let mut bytes = fields.as_bytes().to_vec();
        [self.out, self.into].iter().flatten().for_each(|piece| bytes.extend(piece.to_bytes()));
        bytes
    }
}

/// Reads the buffers of a command: both descriptors follow its additional bytes.
fn buffers(
    bytes: &[u8],
    fields: &CommandBytes,
    rest: &[u8],
    (out, into): (BufferFormat, BufferFormat),
    immediate_at: Option<u16>,
) -> Result<(Descriptors, Descriptors), DescriptorError> {
    let additional = usize::from(fields.additional_len & !3);
    let rest = rest.get(additional..).ok_or(DescriptorError::Short)?;
    let (mut to_target, rest) = Descriptors::parse(out, fields.out_count, rest)?;
    if let (BufferFormat::Immediate, Descriptors::Known(buffer)) = (out, &mut to_target) {
        buffer.immediate = Some(immediate(bytes, immediate_at, buffer)?);
    }
    let (to_initiator, _) = Descriptors::parse(into, fields.in_count, rest)?;
    Ok((to_target, to_initiator))
}

/// Returns the immediate data of a command.
fn immediate(bytes: &[u8], at: Option<u16>, buffer: &DataBuffer) -> Result<Vec<u8>, DescriptorError> {
    let data = bytes.get(usize::from(at.unwrap_or(u16::MAX))..).ok_or(DescriptorError::Short)?;
    data.get(..buffer.length as usize).map(<[u8]>::to_vec).ok_or(DescriptorError::Short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_back() {
        let piece = Piece { address: 1, key: 2, length: 512 };
        let mut cdb = [0; 16];
        cdb[0] = 0x2a;
        let sent = OutgoingCommand { tag: 0x102, lun: [0, 7, 0, 0, 0, 0, 0, 0], cdb, out: Some(piece), into: None };
        let bytes = sent.to_bytes();
        assert_eq!((bytes.len(), bytes[5], &bytes[8..16]), (64, 0x10, &[0, 0, 0, 0, 0, 0, 1, 2][..]));
        let Ok(Some(found)) = CommandIu::parse(&bytes, None) else { panic!() };
        assert_eq!((found.lun, found.cdb, found.attribute), (sent.lun, cdb, TaskAttribute::SIMPLE));
        let Ok((Descriptors::Known(out), Descriptors::Known(into))) = found.buffers else { panic!() };
        assert_eq!((out.pieces, into.length), (vec![piece], 0));
    }
}
