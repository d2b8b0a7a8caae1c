//! Information units of two initiators, for a target.

use crate::scsi::{Fault, Identity, LogicalUnit, Operation};
use crate::wire::{BufferFormats, LoginCarrier, LoginRequest, MultiChannel, Piece, PortId};
use crate::{Action, CommandKey, DataMove, ResponseData, Target, TargetConfig};

/// Blocks of a logical unit.
pub const BLOCKS: u64 = 1 << 12;
/// Place of immediate data.
pub const IMMEDIATE_AT: u16 = 68;
/// Identifier of the target port.
pub const PORT: PortId = PortId([9; 16]);

/// Returns a target with a writable and a read-only disk.
pub fn configuration() -> TargetConfig {
    let unit = |read_only| LogicalUnit { blocks: BLOCKS, block_shift: 9, identifier: 1, serial: "1".into(), read_only };
    TargetConfig {
        port: PORT,
        allowed: None,
        identity: Identity { vendor: "WEFT".into(), product: "Disk".into(), revision: "1".into() },
        units: vec![unit(false), unit(true)],
    }
}

/// Returns the login of an initiator.
pub fn login(initiator: u8, multi_channel: MultiChannel) -> LoginRequest {
    LoginRequest {
        tag: [initiator; 8],
        buffer_formats: BufferFormats::BOTH,
        iu_len: 2048,
        multi_channel: Some(multi_channel),
        immediate_offset: Some(IMMEDIATE_AT),
        initiator: PortId([initiator; 16]),
        target: PORT,
    }
}

/// Operations that an owner has, and those that it began.
#[derive(Default)]
struct Owner {
    queued: Vec<(CommandKey, u64)>,
    running: Vec<CommandKey>,
    operations: usize,
}

/// Feeds information units to a target with three channels of two initiators. Each begins with a byte that names the channel
/// and what the owner does next, and a length in units of four bytes; data that the target fetches is the unit's rest.
/// Returns the number of operations on the units.
pub fn target(mut bytes: &[u8]) -> usize {
    let mut target = Target::new(configuration());
    for (channel, initiator) in [(0, 1), (1, 1), (2, 2)] {
        let action = if channel == 1 { MultiChannel::Maintain } else { MultiChannel::Terminate };
        assert!(target.login(channel, LoginCarrier::RdmaCm, &login(initiator, action).to_bytes()).is_ok());
    }
    let mut owner = Owner::default();
    while let [head, len, rest @ ..] = bytes {
        let (iu, rest) = rest.split_at(rest.len().min(usize::from(*len) * 4));
        bytes = rest;
        target.handle_iu(u64::from(*head & 3).min(2), iu);
        owner.act(&mut target, iu);
        owner.work(&mut target, head >> 2);
        owner.act(&mut target, iu);
    }
    owner.operations
}

impl Owner {
    /// Begins and ends some operations, as bits say.
    fn work(&mut self, target: &mut Target, bits: u8) {
        if bits & 1 == 0 {
            for (key, _) in std::mem::take(&mut self.queued) {
                if target.start(key) {
                    self.running.push(key);
                }
            }
        }
        if bits & 2 == 0 {
            for key in std::mem::take(&mut self.running) {
                target.handle_executed(key, if bits & 4 == 0 { Ok(()) } else { Err(Fault::Write) });
            }
        }
    }

    fn act(&mut self, target: &mut Target, iu: &[u8]) {
        while let Some(action) = target.poll() {
            match action {
                Action::Fetch { command, pieces, length } => {
                    assert_eq!(total(&pieces), u64::from(length));
                    let mut data = iu.get(48..).unwrap_or_default().to_vec();
                    data.resize(length as usize, 0);
                    target.handle_data(command, &data);
                }
                Action::Execute { command, lun, operation, data } => {
                    assert!(lun < 2);
                    self.operations += 1;
                    check(&operation, &data);
                    self.queued.push((command, lun.into()));
                }
                Action::Respond(response) => {
                    assert!(response.iu.len() <= crate::limits::TARGET_IU_MAX as usize);
                    if let ResponseData::Bytes(bytes, pieces) = response.data {
                        assert_eq!(bytes.len() as u64, total(&pieces));
                    }
                    assert!(!self.running.contains(&response.command));
                }
                Action::Forget(command) => assert!(!self.running.contains(&command)),
                Action::Close(channel, _) => {
                    self.queued.retain(|(key, _)| key.channel != channel);
                    target.channel_closed(channel);
                }
                Action::Send(..) | Action::Log(..) => {}
            }
        }
    }
}

fn total(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.length)).sum()
}

/// Every operation stays within its unit, and moves as many bytes as the initiator's memory has.
fn check(operation: &Operation, data: &DataMove) {
    let size = BLOCKS << 9;
    let ranges = match operation {
        Operation::Read { offset, length, .. }
        | Operation::Write { offset, length, .. }
        | Operation::Verify { offset, length }
        | Operation::Compare { offset, length } => vec![(*offset, u64::from(*length))],
        Operation::Repeat { offset, length, .. } | Operation::WriteZeroes { offset, length, .. } => {
            vec![(*offset, *length)]
        }
        Operation::Deallocate(ranges) => ranges.clone(),
        Operation::Flush => Vec::new(),
    };
    assert!(ranges.iter().all(|(offset, length)| *length > 0 && offset + length <= size));
    match data {
        DataMove::None => assert_eq!((operation.data_in(), operation.data_out()), (0, 0)),
        DataMove::Immediate(bytes) => assert_eq!(bytes.len(), operation.data_out() as usize),
        DataMove::Gather(pieces) => assert_eq!(total(pieces), operation.data_out().into()),
        DataMove::Scatter(pieces) => assert_eq!(total(pieces), operation.data_in().into()),
    }
}
