//! SIDR requests.

use super::*;
use crate::ib::limits::LISTENER_GRACE;

fn sidr() -> SidrReqParams {
    SidrReqParams {
        to: address(0),
        service_id: SERVICE,
        pkey: 0xffff,
        timeout_ms: 4096,
        max_cm_retries: 15,
        private_data: b"who serves".to_vec(),
    }
}

fn answer() -> SidrRepParams {
    SidrRepParams {
        status: SidrStatus::SUCCESS,
        qpn: 0x15,
        qkey: 0x0123_4567,
        ece: Ece { vendor_id: 0x15b3, attr_mod: 9 },
        info: b"info".to_vec(),
        private_data: b"I do".to_vec(),
    }
}

#[test]
fn a_service_is_found() {
    let mut net = Net::new();
    let listen = net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    let asker = net.ends[0].send_sidr_req(net.now, &sidr()).unwrap();
    let event = net.event(1);
    let from = address(1);
    let got = SidrReqReceived { listen, from, service_id: SERVICE, pkey: 0xffff };
    assert_eq!((event.kind, &event.private_data[..10]), (EventKind::SidrReqReceived(got), &b"who serves"[..]));
    net.ends[1].send_sidr_rep(net.now, event.conn, &answer()).unwrap();
    assert_eq!(net.ends[1].state(event.conn), None);
    let event = net.event(0);
    let got = SidrRepReceived {
        from: address(0),
        status: SidrStatus::SUCCESS,
        qpn: 0x15,
        qkey: 0x0123_4567,
        ece: Ece { vendor_id: 0x15b3, attr_mod: 9 },
        info: b"info".to_vec(),
    };
    assert_eq!((event.kind, &event.private_data[..4]), (EventKind::SidrRepReceived(got), &b"I do"[..]));
    net.ends[0].destroy(net.now, asker);
    net.assert_empty();
}

fn status(kind: EventKind) -> SidrStatus {
    let EventKind::SidrRepReceived(got) = kind else { panic!("{kind:?}") };
    got.status
}

#[test]
fn a_service_is_not_there_or_does_not_want() {
    let mut net = Net::new();
    let asker = net.ends[0].send_sidr_req(net.now, &sidr()).unwrap();
    net.wait(LISTENER_GRACE);
    assert_eq!(status(net.event_of(0, asker)), SidrStatus::UNSUPPORTED);
    net.ends[0].destroy(net.now, asker);
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    let asker = net.ends[0].send_sidr_req(net.now, &sidr()).unwrap();
    let asked = net.event(1).conn;
    net.ends[1].destroy(net.now, asked);
    assert_eq!(status(net.event_of(0, asker)), SidrStatus::REJECT);
    net.ends[0].destroy(net.now, asker);
    net.assert_empty();
}

#[test]
fn a_question_is_repeated_and_asked_once() {
    let mut net = Net::losing({
        let mut seen = 0;
        move |_, name| {
            seen += usize::from(name == "SIDR_REQ");
            seen == 1
        }
    });
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    let asker = net.ends[0].send_sidr_req(net.now, &sidr()).unwrap();
    net.wait(ms(4096 + 10));
    let asked = net.event(1).conn;
    net.quiet();
    assert_eq!(net.ends[1].stats().rx_duplicates[7], 2);
    net.ends[1].send_sidr_rep(net.now, asked, &answer()).unwrap();
    assert_eq!(status(net.event_of(0, asker)), SidrStatus::SUCCESS);
}

#[test]
fn nobody_answers_a_question() {
    let mut net = Net::losing(|_, _| true);
    let asker = net.ends[0].send_sidr_req(net.now, &SidrReqParams { max_cm_retries: 1, ..sidr() }).unwrap();
    net.wait(ms(2 * 4096));
    assert_eq!(net.event_of(0, asker), EventKind::SidrReqError);
    net.ends[0].destroy(net.now, asker);
    net.assert_empty();
}
