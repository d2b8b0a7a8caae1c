//! Tests of the target: logins, commands with their data, task management, hostile initiators.

use super::*;
use crate::fuzzing::{IMMEDIATE_AT, PORT, configuration, login};
use crate::limits::INITIATOR_IU_MAX;
use crate::scsi::Operation;
use crate::wire::{LoginRequest, Piece, RejectReason, TaskFunction, TaskStatus};

const GOOD: u8 = 0;
const CHECK: u8 = 2;
const ABORTED: u8 = 0x40;

fn piece(length: u32) -> Piece {
    Piece { address: 0x1000, key: 7, length }
}

/// Returns a target with a channel of initiator 1, whose unit attention conditions have been reported.
fn target() -> Target {
    let mut target = Target::new(configuration());
    join(&mut target, 1, 1, MultiChannel::Terminate);
    target
}

fn join(target: &mut Target, channel: ChannelKey, initiator: u8, action: MultiChannel) {
    target.login(channel, LoginCarrier::RdmaCm, &login(initiator, action).to_bytes()).expect("a login");
    for lun in [0, 1] {
        target.handle_iu(channel, &command(0xee, lun, &[0x00], 0, &[]));
    }
    drop(actions(target));
}

fn actions(target: &mut Target) -> Vec<Action> {
    std::iter::from_fn(|| target.poll()).filter(|action| !matches!(action, Action::Log(..))).collect()
}

fn command(tag: u8, lun: u8, cdb: &[u8], formats: u8, tail: &[u8]) -> Vec<u8> {
    let mut bytes = [0; 48];
    (bytes[0], bytes[5], bytes[8], bytes[21]) = (2, formats, tag, lun);
    bytes[32..32 + cdb.len()].copy_from_slice(cdb);
    [&bytes[..], tail].concat()
}

fn task(tag: u8, lun: u8, function: TaskFunction, victim: u8) -> Vec<u8> {
    let mut bytes = [0; 48];
    (bytes[0], bytes[8], bytes[21], bytes[30], bytes[32]) = (1, tag, lun, function.0, victim);
    bytes.to_vec()
}

fn write(tag: u8, lba: u8, blocks: u8) -> Vec<u8> {
    let buffer = piece(u32::from(blocks) * 512).to_bytes();
    command(tag, 0, &[0x2a, 0, 0, 0, 0, lba, 0, 0, blocks], 0x10, &buffer)
}

fn read(tag: u8, blocks: u8, buffer: u32) -> Vec<u8> {
    command(tag, 0, &[0x28, 0, 0, 0, 0, 0, 0, 0, blocks], 0x01, &piece(buffer).to_bytes())
}

/// Status, flags, limit delta and both residuals of a response to a tag.
fn response(action: &Action, tag: u8) -> (u8, u8, u8, [u8; 8]) {
    let Action::Respond(Response { iu, .. }) = action else { panic!("{action:?}") };
    assert_eq!(iu[8], tag);
    let mut residuals = [0; 8];
    residuals.copy_from_slice(&iu[20..28]);
    (iu[19], iu[18], iu[7], residuals)
}

fn executed(action: &Action) -> CommandKey {
    let Action::Execute { command, .. } = action else { panic!("{action:?}") };
    *command
}

#[test]
fn logins_are_checked() {
    let mut target = Target::new(configuration());
    let good = login(1, MultiChannel::Terminate);
    let refusal = |target: &mut Target, request: &LoginRequest| {
        let error = target.login(9, LoginCarrier::RdmaCm, &request.to_bytes()).expect_err("a refusal");
        (error.tag == request.tag).then_some(error.refusal)
    };
    let other = PortId([3; 16]);
    let table = [
        (LoginRequest { iu_len: 63, ..good }, Refusal::IuLength(63)),
        (LoginRequest { iu_len: INITIATOR_IU_MAX + 1, ..good }, Refusal::IuLength(INITIATOR_IU_MAX + 1)),
        (LoginRequest { buffer_formats: crate::wire::BufferFormats(8), ..good }, Refusal::Formats(8)),
        (LoginRequest { target: other, ..good }, Refusal::Target(other, PORT)),
        (LoginRequest { multi_channel: None, ..good }, Refusal::MultiChannel),
    ];
    for (request, expected) in table {
        assert_eq!(refusal(&mut target, &request), Some(expected));
    }
    target.config.allowed = Some([other].into());
    assert_eq!(refusal(&mut target, &good), Some(Refusal::Initiator(good.initiator)));
    assert_eq!(target.login(9, LoginCarrier::RdmaCm, &[0; 56]).expect_err("no formats").refusal, Refusal::IuLength(0));
    assert_eq!(target.login(9, LoginCarrier::RdmaCm, &[1; 20]).expect_err("too short").refusal, Refusal::NoLogin);
    let bytes = LoginError::no_resources(LoginCarrier::RdmaCm, &good.to_bytes()).to_bytes();
    assert_eq!(bytes[4..8], (RejectReason::Resources as u32).to_be_bytes());
}

#[test]
fn a_new_login_keeps_or_ends_other_channels() {
    let mut target = target();
    let kept =
        target.login(2, LoginCarrier::RdmaCm, &login(1, MultiChannel::Maintain).to_bytes()).expect("a second channel");
    assert_eq!((kept.accept.multi_channel, kept.receives), (MultiChannelResult::Maintained, REQUEST_LIMIT + 1));
    // The second channel has the nexus of the first: no unit attention.
    target.handle_iu(2, &command(1, 0, &[0], 0, &[]));
    assert_eq!(response(&actions(&mut target)[0], 1).0, GOOD);
    let other = target
        .login(3, LoginCarrier::RdmaCm, &login(2, MultiChannel::Terminate).to_bytes())
        .expect("another initiator");
    assert_eq!(other.accept.multi_channel, MultiChannelResult::None);
    assert!(actions(&mut target).is_empty());
    let new =
        target.login(4, LoginCarrier::RdmaCm, &login(1, MultiChannel::Terminate).to_bytes()).expect("a new login");
    assert_eq!(new.accept.multi_channel, MultiChannelResult::Terminated);
    let closed: Vec<_> = actions(&mut target);
    assert!(matches!(&closed[0], Action::Send(1, iu) if iu[0] == 0x80 && iu[7] == 4));
    assert_eq!(closed[1], Action::Close(1, CloseReason::NewLogin));
    assert_eq!(closed[3], Action::Close(2, CloseReason::NewLogin));
    target.handle_iu(4, &command(1, 0, &[0], 0, &[]));
    assert_eq!(response(&actions(&mut target)[0], 1).0, CHECK);
}

#[test]
fn one_initiator_has_a_bounded_number_of_channels() {
    let mut target = Target::new(configuration());
    let request = login(1, MultiChannel::Maintain).to_bytes();
    for channel in 0..CHANNELS_PER_INITIATOR_MAX as u64 {
        assert!(target.login(channel, LoginCarrier::RdmaCm, &request).is_ok());
    }
    let refused = target.login(1000, LoginCarrier::RdmaCm, &request).expect_err("too many").refusal;
    assert_eq!(refused, Refusal::Channels(PortId([1; 16])));
}

#[test]
fn a_write_fetches_executes_and_responds() {
    let mut target = target();
    target.handle_iu(1, &write(5, 3, 2));
    let begun = actions(&mut target);
    let key = executed(&begun[0]);
    let operation = Operation::Write { offset: 1536, length: 1024, durable: false };
    let data = DataMove::Gather(vec![piece(1024)]);
    assert_eq!(begun, [Action::Execute { command: key, lun: 0, operation, data }]);
    assert!(target.start(key));
    target.handle_executed(key, Ok(()));
    let ended = actions(&mut target);
    assert_eq!((ended.len(), response(&ended[0], 5)), (1, (GOOD, 0, 1, [0; 8])));
}

#[test]
fn immediate_data_needs_no_fetch() {
    let mut target = target();
    let mut iu = command(5, 0, &[0x2a, 0, 0, 0, 0, 3, 0, 0, 1], 0x30, &600_u32.to_be_bytes());
    iu.resize(IMMEDIATE_AT.into(), 0);
    iu.extend([8; 600]);
    target.handle_iu(1, &iu);
    let begun = actions(&mut target);
    assert!(matches!(&begun[0], Action::Execute { data: DataMove::Immediate(bytes), .. } if bytes == &[8; 512]));
    let key = executed(&begun[0]);
    assert!(target.start(key));
    target.handle_executed(key, Ok(()));
    // 88 bytes of the buffer were not used.
    assert_eq!(response(&actions(&mut target)[0], 5), (GOOD, 0x08, 1, [0, 0, 0, 88, 0, 0, 0, 0]));
}

#[test]
fn residuals_tell_of_buffers_that_do_not_fit() {
    let mut target = target();
    // A READ of two blocks into 600 bytes.
    target.handle_iu(1, &read(1, 2, 600));
    let begun = actions(&mut target);
    let scatter = DataMove::Scatter(vec![piece(600)]);
    assert!(
        matches!(&begun[0], Action::Execute { data, operation, .. } if *data == scatter && operation.data_in() == 600)
    );
    let key = executed(&begun[0]);
    assert!(target.start(key));
    target.handle_executed(key, Ok(()));
    let ended = actions(&mut target);
    assert!(matches!(&ended[0], Action::Respond(Response { data: ResponseData::Executed, .. })));
    assert_eq!(response(&ended[0], 1), (GOOD, 0x10, 1, [0, 0, 0, 0, 0, 0, 1, 168]));
    // A WRITE of two blocks from 600 bytes is refused, and nothing is fetched.
    let short = command(2, 0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 2], 0x10, &piece(600).to_bytes());
    target.handle_iu(1, &short);
    let ended = actions(&mut target);
    assert_eq!((ended.len(), response(&ended[0], 2)), (1, (CHECK, 0x06, 1, [0, 0, 1, 168, 0, 0, 0, 0])));
    // INQUIRY returns less than there is room for.
    target.handle_iu(1, &command(3, 0, &[0x12, 0, 0, 0, 255], 0x01, &piece(255).to_bytes()));
    let ended = actions(&mut target);
    assert!(matches!(&ended[0], Action::Respond(Response { data: ResponseData::Bytes(bytes, pieces), .. })
        if bytes.len() == 96 && pieces == &[piece(96)]));
    assert_eq!(response(&ended[0], 3), (GOOD, 0x20, 1, [0, 0, 0, 0, 0, 0, 0, 159]));
    // A failed operation transfers nothing.
    target.handle_iu(1, &read(4, 1, 512));
    let key = executed(&actions(&mut target)[0]);
    assert!(target.start(key));
    target.handle_executed(key, Err(Fault::Read));
    let ended = actions(&mut target);
    assert!(matches!(&ended[0], Action::Respond(Response { data: ResponseData::None, .. })));
    assert_eq!(response(&ended[0], 4), (CHECK, 0x22, 1, [0, 0, 0, 0, 0, 0, 2, 0]));
}

#[test]
fn a_table_elsewhere_is_fetched_first() {
    let mut target = target();
    let table = [piece(512), piece(512)].map(|piece| piece.to_bytes()).concat();
    let indirect = [&piece(32).to_bytes()[..], &1024_u32.to_be_bytes()].concat();
    target.handle_iu(1, &command(5, 0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 2], 0x20, &indirect));
    let fetch = actions(&mut target);
    let Action::Fetch { command: key, pieces, length: 32 } = &fetch[0] else { panic!("{fetch:?}") };
    assert_eq!(pieces, &[piece(32)]);
    target.handle_data(*key, &table);
    let begun = actions(&mut target);
    assert!(matches!(&begun[0], Action::Execute { data: DataMove::Gather(pieces), .. } if pieces.len() == 2));
    // A forged table.
    target.handle_iu(1, &command(6, 0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 2], 0x20, &indirect));
    let fetch = actions(&mut target);
    let Action::Fetch { command: key, .. } = fetch[0] else { panic!("{fetch:?}") };
    target.handle_data(key, &[0xff; 32]);
    assert_eq!(response(&actions(&mut target)[0], 6).0, CHECK);
}

#[test]
fn unmap_fetches_its_parameters() {
    let mut target = target();
    let iu = command(5, 0, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24], 0x10, &piece(24).to_bytes());
    target.handle_iu(1, &iu);
    let fetch = actions(&mut target);
    let Action::Fetch { command: key, length: 24, .. } = fetch[0] else { panic!("{fetch:?}") };
    let mut list = [0; 24];
    (list[1], list[3], list[15], list[19]) = (22, 16, 2, 4);
    target.handle_data(key, &list);
    let begun = actions(&mut target);
    let operation = Operation::Deallocate(vec![(1024, 2048)]);
    assert_eq!(begun, [Action::Execute { command: key, lun: 0, operation, data: DataMove::None }]);
    assert!(target.start(key));
    target.handle_executed(key, Ok(()));
    assert_eq!(response(&actions(&mut target)[0], 5), (GOOD, 0, 1, [0; 8]));
}

#[test]
fn an_abort_waits_for_a_running_operation() {
    let mut target = target();
    target.handle_iu(1, &write(5, 0, 1));
    let key = executed(&actions(&mut target)[0]);
    assert!(target.start(key));
    target.handle_iu(1, &task(0x85, 0, TaskFunction::ABORT_TASK, 5));
    assert!(actions(&mut target).is_empty());
    target.handle_executed(key, Ok(()));
    let ended = actions(&mut target);
    // No response to the command: the function's gives its credit back.
    assert_eq!(ended[0], Action::Forget(key));
    assert_eq!((ended.len(), response(&ended[1], 0x85)), (2, (GOOD, 1, 2, [0; 8])));
    // One that has not begun never does; a command that is gone is aborted at once.
    target.handle_iu(1, &write(6, 0, 1));
    let key = executed(&actions(&mut target)[0]);
    target.handle_iu(1, &task(0x86, 0, TaskFunction::ABORT_TASK, 6));
    assert!(!target.start(key));
    assert_eq!(actions(&mut target).len(), 2);
    target.handle_iu(1, &task(0x87, 0, TaskFunction::ABORT_TASK, 5));
    assert_eq!(response(&actions(&mut target)[0], 0x87).0, GOOD);
}

#[test]
fn a_reset_aborts_the_commands_of_all_and_tells_them() {
    let mut target = target();
    join(&mut target, 2, 1, MultiChannel::Maintain);
    join(&mut target, 3, 2, MultiChannel::Terminate);
    for channel in [2, 3] {
        target.handle_iu(channel, &write(5, 0, 1));
    }
    let begun = actions(&mut target);
    let (own, other) = (executed(&begun[0]), executed(&begun[1]));
    assert!(target.start(own) && target.start(other));
    target.handle_iu(1, &task(0x80, 0, TaskFunction::UNIT_RESET, 0));
    target.handle_executed(own, Ok(()));
    let ended = actions(&mut target);
    // The initiator's other channel has no response that gives the credit back.
    assert_eq!(ended[0], Action::Forget(own));
    assert!(matches!(&ended[1], Action::Send(2, iu) if iu[0] == 0x81 && iu[7] == 1));
    assert_eq!(ended.len(), 2);
    target.handle_executed(other, Ok(()));
    let ended = actions(&mut target);
    assert_eq!(response(&ended[0], 5).0, ABORTED);
    assert_eq!(response(&ended[1], 0x80), (GOOD, 1, 1, [0; 8]));
    target.handle_iu(2, &[&[0x41][..], &[0; 15]].concat());
    assert!(actions(&mut target).is_empty());
    for channel in [2, 3] {
        target.handle_iu(channel, &command(9, 0, &[0], 0, &[]));
        assert_eq!(response(&actions(&mut target)[0], 9).0, CHECK);
    }
    target.handle_iu(1, &task(0x81, 7, TaskFunction::UNIT_RESET, 0));
    let ended = actions(&mut target);
    let Action::Respond(Response { iu, .. }) = &ended[0] else { panic!("{ended:?}") };
    assert_eq!(iu[39], TaskStatus::InvalidFields as u8);
}

#[test]
fn an_old_write_ends_before_those_of_a_new_login_begin() {
    let mut target = target();
    target.handle_iu(1, &write(5, 0, 1));
    let old = executed(&actions(&mut target)[0]);
    assert!(target.start(old));
    join(&mut target, 2, 1, MultiChannel::Terminate);
    join(&mut target, 3, 2, MultiChannel::Terminate);
    target.handle_iu(2, &write(5, 0, 1));
    assert!(actions(&mut target).is_empty());
    // Another initiator does not wait.
    target.handle_iu(3, &write(5, 0, 1));
    assert_eq!(executed(&actions(&mut target)[0]).channel, 3);
    target.handle_executed(old, Ok(()));
    let begun = actions(&mut target);
    assert_eq!((begun.len(), executed(&begun[0]).channel), (1, 2));
}

#[test]
fn hostile_units_end_the_channel() {
    let table: [(&[u8], CloseReason); 5] = [
        (&[2; 20], CloseReason::Length),
        (&[0xc1; 48], CloseReason::Type),
        (&command(1, 0, &[0], 0x44, &[]), CloseReason::Format),
        (&[0x41; 16], CloseReason::Response),
        (&[3; 16], CloseReason::Logout),
    ];
    for (iu, reason) in table {
        let mut target = target();
        target.handle_iu(1, iu);
        let ended = actions(&mut target);
        assert_eq!(ended.last(), Some(&Action::Close(1, reason)));
        // Later units of the channel are ignored.
        target.handle_iu(1, &command(1, 0, &[0], 0, &[]));
        assert!(actions(&mut target).is_empty());
    }
}

#[test]
fn a_flood_beyond_the_limit_ends_the_channel() {
    let mut target = target();
    for tag in 0..REQUEST_LIMIT {
        let mut iu = write(0, 0, 1);
        iu[9..11].copy_from_slice(&tag.to_be_bytes());
        target.handle_iu(1, &iu);
    }
    assert_eq!(actions(&mut target).len(), usize::from(REQUEST_LIMIT));
    target.handle_iu(1, &command(0xff, 0, &[0], 0, &[]));
    assert_eq!(actions(&mut target).last(), Some(&Action::Close(1, CloseReason::Overrun)));
}

#[test]
fn overlapped_commands_and_ordered_ones_are_refused() {
    let mut target = target();
    target.handle_iu(1, &write(5, 0, 1));
    target.handle_iu(1, &write(5, 0, 1));
    let ended = actions(&mut target);
    assert_eq!((ended.len(), response(&ended[1], 5).0), (2, CHECK));
    let mut ordered = write(6, 0, 1);
    ordered[29] = 2;
    target.handle_iu(1, &ordered);
    assert_eq!(response(&actions(&mut target)[0], 6).0, CHECK);
}
