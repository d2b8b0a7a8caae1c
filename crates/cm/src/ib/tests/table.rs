//! Checks the table against the implementation: brings a connection into each state, gives it each input, and compares
//! state, refusal, and answer with the table.

use super::*;
use crate::ib::state::{Action, Input, step};
use weft_wire::cm::{
    Apr, Drep, Dreq, Lap, MessageMraed, Mra, PrivateData, Rej, Rep, Req, Rtu, ServiceId, SidrRep, SidrReq,
};
use weft_wire::mad::AttrId;

/// Returns a network with a connection of end `.1` in a state; `.2` is that connection, `.3` the peer's id.
fn reach(state: State) -> (Net, usize, ConnId, u32) {
    let mut net = Net::new();
    let now = net.now;
    let (end, own, peer) = match state {
        State::ReqSent | State::MraReqRcvd | State::RepRcvd | State::MraRepSent => {
            let (active, passive) = net.request();
            if state == State::MraReqRcvd {
                net.ends[1].send_mra(now, passive, 20, false, &[]).unwrap();
            }
            if matches!(state, State::RepRcvd | State::MraRepSent) {
                net.ends[1].send_rep(now, passive, &rep(1)).unwrap();
                net.settle();
            }
            if state == State::MraRepSent {
                net.ends[0].send_mra(now, active, 20, false, &[]).unwrap();
            }
            (0, active, passive.0)
        }
        State::ReqRcvd | State::MraReqSent => {
            let (active, passive) = net.request();
            if state == State::MraReqSent {
                net.ends[1].send_mra(now, passive, 20, false, &[]).unwrap();
            }
            (1, passive, active.0)
        }
        State::RepSent | State::MraRepRcvd => {
            let (active, passive) = net.reply();
            if state == State::MraRepRcvd {
                net.ends[0].send_mra(now, active, 20, false, &[]).unwrap();
            }
            (1, passive, active.0)
        }
        State::Established => {
            let (active, passive) = net.connect();
            (0, active, passive.0)
        }
        State::DreqSent => {
            let (active, passive) = net.connect();
            net.ends[0].send_dreq(now, active, &[]).unwrap();
            (0, active, passive.0)
        }
        State::DreqRcvd | State::Timewait | State::Idle => {
            let (active, passive) = net.connect();
            net.ends[1].send_dreq(now, passive, &[]).unwrap();
            net.settle();
            if state != State::DreqRcvd {
                net.ends[0].send_drep(now, active, &[]).unwrap();
            }
            if state == State::Idle {
                net.wait(ms(2048));
            }
            (0, active, passive.0)
        }
        State::SidrReqSent | State::SidrReqRcvd => {
            net.ends[1].listen(SERVICE, u64::MAX).unwrap();
            let (to, service_id, private_data) = (address(0), SERVICE, Vec::new());
            let params =
                SidrReqParams { to, service_id, pkey: 0xffff, timeout_ms: 4096, max_cm_retries: 1, private_data };
            let asker = net.ends[0].send_sidr_req(now, &params).unwrap();
            let asked = net.event(1).conn;
            if state == State::SidrReqSent { (0, asker, asked.0) } else { (1, asked, asker.0) }
        }
    };
    net.settle();
    net.events.iter_mut().for_each(VecDeque::clear);
    assert_eq!(net.state(end, own), state);
    (net, end, own, peer)
}

/// Builds the message of an input, as the peer would send it.
fn message(input: Input, state: State, end: usize, own: ConnId, peer: u32) -> Option<CmMessage> {
    // In other states the peer's id is unknown (or no longer known), and its REQ is a new one.
    use State::{Idle, MraReqRcvd, ReqSent, SidrReqRcvd, SidrReqSent};
    let knows = !matches!(state, ReqSent | MraReqRcvd | Idle | SidrReqSent | SidrReqRcvd);
    let (local_comm_id, remote_comm_id) = (peer, own.0);
    let mra =
        |message_mraed| Mra { local_comm_id, remote_comm_id, message_mraed, service_timeout: 20, ..Mra::default() };
    let rej = |reason| Rej { local_comm_id, remote_comm_id, reason, ..Rej::default() };
    let remote_qpn = QPNS[end];
    Some(match input {
        Input::RxReq if knows => {
            let service_id = ServiceId(SERVICE);
            Req { local_comm_id, local_ca_guid: GUIDS[1 - end], service_id, local_qpn: 1, ..Req::default() }.into()
        }
        Input::RxMraReq => mra(MessageMraed::REQ).into(),
        Input::RxMraRep => mra(MessageMraed::REP).into(),
        Input::RxMraLap => mra(MessageMraed::LAP).into(),
        Input::RxRej => rej(RejectReason::CONSUMER_DEFINED).into(),
        Input::RxRejStale => rej(RejectReason::STALE_CONN).into(),
        Input::RxRep => {
            let local_ca_guid = GUIDS[1 - end];
            Rep { local_comm_id, remote_comm_id, local_ca_guid, local_qpn: 0x33, ..Rep::default() }.into()
        }
        Input::RxRtu => Rtu { local_comm_id, remote_comm_id, ..Rtu::default() }.into(),
        Input::RxDreq => Dreq { local_comm_id, remote_comm_id, remote_qpn, ..Dreq::default() }.into(),
        Input::RxDrep => Drep { local_comm_id, remote_comm_id, ..Drep::default() }.into(),
        Input::RxSidrRep => SidrRep { request_id: remote_comm_id, ..SidrRep::default() }.into(),
        Input::RxLap => Lap { local_comm_id, remote_comm_id, remote_qpn, ..Lap::default() }.into(),
        Input::RxApr => Apr { local_comm_id, remote_comm_id, ..Apr::default() }.into(),
        _ => return None,
    })
}

/// Gives a command; `None` if the input is not a command (or one that begins a connection).
fn command(cm: &mut Cm, now: Instant, input: Input, conn: ConnId) -> Option<Result<(), CmError>> {
    Some(match input {
        Input::SendRep => cm.send_rep(now, conn, &rep(1)),
        Input::SendRtu => cm.send_rtu(now, conn, &[]),
        Input::SendRej => cm.send_rej(now, conn, RejectReason::CONSUMER_DEFINED, &[], &[]),
        Input::SendMra => cm.send_mra(now, conn, 20, false, &[]),
        Input::SendDreq => cm.send_dreq(now, conn, &[]),
        Input::SendDrep => cm.send_drep(now, conn, &[]),
        Input::SendLap => cm.send_lap(now, conn, &path(0), &[]),
        Input::SendApr => cm.send_apr(now, conn, ApStatus::SUCCESS, &[], &[]),
        Input::SendSidrRep => cm.send_sidr_rep(now, conn, &SidrRepParams::default()),
        Input::Establish => cm.establish(now, conn),
        _ => return None,
    })
}

#[test]
fn every_message_does_in_every_state_what_the_table_says() {
    for state in State::ALL {
        for input in Input::ALL {
            let (mut net, end, own, peer) = reach(state);
            let Some(message) = message(input, state, end, own, peer) else { continue };
            let (next, action) = step(state, input);
            let mad = message.to_mad(1);
            let before = *net.ends[end].stats();
            net.ends[end].handle_mad(net.now, &address(end), &zerocopy::transmute!(mad));
            let at = format!("{state:?} {input:?} -> {next:?}: {action:?}");
            assert_eq!(net.state(end, own), next, "{at}");
            let (stats, told) = (*net.ends[end].stats(), net.ends[end].poll_event().map(|event| event.conn));
            let answer = net.ends[end].poll_transmit().map(|(_, mad)| parse(&mad).name());
            match action {
                Action::Tell | Action::Patience => assert_eq!((told, answer), (Some(own), None), "{at}"),
                Action::Duplicate => assert_eq!((told, answer), (None, None), "{at}"),
                Action::SayAgain => assert!(told.is_none() && matches!(answer, Some("MRA" | "REP" | "RTU")), "{at}"),
                Action::SayStale => assert_eq!((told, answer), (None, Some("REJ")), "{at}"),
                Action::SayDrep => assert_eq!((told, answer), (None, Some("DREP")), "{at}"),
                Action::Refuse => assert!(told.is_none() && stats.rx_unexpected == before.rx_unexpected + 1, "{at}"),
                _ => {}
            }
            assert_eq!(stats.rx_spoofed, 0, "{at}");
        }
    }
}

#[test]
fn every_command_does_in_every_state_what_the_table_says() {
    for state in State::ALL {
        for input in Input::ALL {
            let (mut net, end, own, _) = reach(state);
            let now = net.now;
            let Some(done) = command(&mut net.ends[end], now, input, own) else { continue };
            let (next, action) = step(state, input);
            let at = format!("{state:?} {input:?} -> {next:?}: {action:?}");
            let sent = net.ends[end].poll_transmit().map(|(_, mad)| parse(&mad).name());
            match action {
                Action::Refuse => {
                    let stands = input == Input::Establish && state == State::Established;
                    let error = if stands { CmError::AlreadyEstablished } else { CmError::State(state) };
                    assert_eq!((done, sent), (Err(error), None), "{at}");
                    assert_eq!(net.state(end, own), state);
                }
                Action::Send if input == Input::SendSidrRep => assert_eq!(net.ends[end].state(own), None, "{at}"),
                Action::Send => {
                    assert_eq!((done, sent.is_some()), (Ok(()), true), "{at}");
                    assert_eq!(net.state(end, own), next, "{at}");
                }
                Action::Tell => assert_eq!((done, net.state(end, own)), (Ok(()), next), "{at}"),
                // LAP and APR have their own table; only the proposal can start it.
                _ => assert_eq!(done.is_ok(), input == Input::SendLap, "{at}"),
            }
        }
    }
}

#[test]
fn time_and_the_owners_end_do_in_every_state_what_the_table_says() {
    for state in State::ALL {
        let (mut net, end, own, _) = reach(state);
        let sent = |net: &mut Net| net.ends[end].poll_transmit().map(|(_, mad)| parse(&mad).name());
        let now = net.now;
        net.ends[end].destroy(now, own);
        assert_eq!(net.ends[end].state(own), None);
        let expected = match step(state, Input::Destroy).1 {
            Action::ForgetRej | Action::ForgetRejTimeout => Some("REJ"),
            Action::ForgetDrep => Some("DREP"),
            Action::ForgetSidr => Some("SIDR_REP"),
            Action::Orphan if state == State::Established => Some("DREQ"),
            _ => None,
        };
        assert_eq!(sent(&mut net), expected, "{state:?}");
        assert_eq!(net.ends[end].poll_event(), None);

        // Without a peer, every waiting connection stops waiting.
        let (mut net, end, own, _) = reach(state);
        net.lose = Box::new(|_, _| true);
        net.wait(ms(10_000_000));
        let end_state = match step(state, Input::GiveUp) {
            (State::Timewait, _) => State::Idle,
            (next, _) => next,
        };
        let end_state = if state == State::Timewait { State::Idle } else { end_state };
        assert_eq!(net.state(end, own), end_state, "{state:?}");
        assert_eq!(net.ends[end].poll_timeout(), None);
    }
}

#[test]
fn a_repeated_question_is_no_second_one() {
    let (mut net, end, own, peer) = reach(State::SidrReqRcvd);
    let private_data = PrivateData::default();
    let req = SidrReq { request_id: peer, pkey: 0xffff, service_id: ServiceId(SERVICE), private_data };
    let mad = CmMessage::from(req).to_mad(1);
    assert_eq!(mad.header.attr_id(), AttrId::CM_SIDR_REQ);
    net.ends[end].handle_mad(net.now, &address(end), &zerocopy::transmute!(mad));
    assert_eq!((net.ends[end].connections(), net.state(end, own)), (1, State::SidrReqRcvd));
}
