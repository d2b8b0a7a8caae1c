//! The table against itself, and against the wire's.

use super::*;
use weft_wire::{Opcode, Service};

#[test]
fn rows_have_the_numbers_of_their_operations() {
    for (at, row) in Op::all().enumerate() {
        assert_eq!(row.op as usize, at + 1);
        assert_eq!((row.op.info(), Op::from_number(row.op as u8)), (row, Some(row.op)));
    }
    assert_eq!((Op::from_number(0), Op::from_number(TABLE.len() as u8 + 1)), (None, None));
}

#[test]
fn the_table_agrees_with_the_wires() {
    for packet in Opcode::all().filter(|packet| packet.service == Service::Rc) {
        let op = Op::of_packet(packet.kind);
        assert_eq!(op.is_none(), packet.kind.is_response(), "{packet:?}");
        let Some(row) = op.map(Op::info) else { continue };
        assert_eq!(packet.kind.is_send(), row.action == TargetAction::Receive);
        assert_eq!(packet.kind.is_write(), row.action == TargetAction::Write);
        assert_eq!(packet.payload, row.list == ListUse::Sent);
        assert!(row.op.is_message() || packet.name.starts_with(row.name), "{packet:?}");
    }
    // A service carries an operation if the wire has its packets.
    for row in Op::all() {
        let Some(packets) = row.packets else { continue };
        let only = packets.kind(Extra::None, true, true);
        let services = [(QpType::Rc, Service::Rc), (QpType::Uc, Service::Uc), (QpType::Ud, Service::Ud)];
        for (qp_type, service) in services.into_iter().chain([(QpType::XrcSend, Service::Xrc)]) {
            assert_eq!(row.carriers.include(qp_type), Opcode::of(service, only).is_some(), "{row:?} {service:?}");
        }
    }
}

#[test]
fn a_message_has_its_places() {
    let kind = |op: Op, extra, first, last| op.info().packets.map(|packets| packets.kind(extra, first, last));
    assert_eq!(kind(Op::Send, Extra::None, true, false), Some(Kind::SendFirst));
    assert_eq!(kind(Op::Send, Extra::Inv, false, false), Some(Kind::SendMiddle));
    assert_eq!(kind(Op::Send, Extra::Inv, false, true), Some(Kind::SendLastInv));
    assert_eq!(kind(Op::Write, Extra::Imm, true, true), Some(Kind::WriteOnlyImm));
    assert_eq!(kind(Op::LocalInv, Extra::None, true, true), None);
}

#[test]
fn only_requests_with_responses_of_their_own_are_outstanding() {
    let names = |test: fn(Op) -> bool| Op::all().filter(|row| test(row.op)).map(|row| row.op as u8).collect::<Vec<_>>();
    assert_eq!(names(Op::has_response), [3, 4, 5, 6, 7]);
    assert_eq!(names(Op::is_local), [8, 9]);
    assert_eq!(names(Op::is_message), [1, 2]);
    assert_eq!(names(Op::fills_list), [3, 4, 5]);
}
