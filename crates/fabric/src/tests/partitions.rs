//! Partitions: which nodes may communicate, and which ports count and report violations.

use super::*;
use crate::{Counter, Why};
use weft_wire::mad::ClassPortInfo;
use weft_wire::mad::Notice;
use weft_wire::mad::notice::{NoticeDetails, TrapNumber};

const FULL: u16 = 0x8001;
const LIMITED: u16 = 0x0001;

fn vendor() -> Mad {
    Mad { header: MadHeader::new(Class(0x32), 1, Method::GET, 5, AttrId(1)), data: [3; 232] }
}

/// Returns whether a datagram with this P_Key from host 1 reaches host 2 or 3.
fn hears(lab: &mut Lab, to: u32, pkey: u16) -> bool {
    let heard = lab.lid(H1, MadAddress::gsi(LIDS[to as usize], pkey), vendor());
    heard.iter().any(|delivery| delivery.port == PortRef::new(to, 1))
}

fn last_notice(lab: &mut Lab) -> Option<NoticeDetails> {
    let mut last = None;
    lab.pass(Duration::from_millis(250));
    while let Some(delivery) = lab.fabric.poll_delivery() {
        last = Notice::from_smp(&Smp::from_mad(delivery.mad).data).details();
    }
    last
}

#[test]
fn limited_members_talk_to_full_ones_alone() {
    let mut lab = Lab::up();
    lab.set_pkeys(H1, 0, &[0xffff, LIMITED]);
    lab.set_pkeys(H2, 0, &[0xffff, LIMITED]);
    lab.set_pkeys(H3, 0, &[0xffff, FULL]);
    assert!(hears(&mut lab, H3, LIMITED) && !hears(&mut lab, H2, LIMITED));
    assert_eq!((lab.info(H2, 1).pkey_violations, lab.info(H3, 1).pkey_violations), (1, 0));
    let details = last_notice(&mut lab);
    let Some(NoticeDetails::BadKey(TrapNumber::BAD_PKEY, details)) = details else { panic!("{details:?}") };
    assert_eq!((details.key, details.lid1, details.lid2), (1, LIDS[H1 as usize], LIDS[H2 as usize]));
    let query = PathQuery { dlid: LIDS[H2 as usize], sl: 0, pkey: LIMITED, payload: 0 };
    let refusal = lab.fabric.verdict(PortRef::new(H1, 1), &query).expect_err("two limited members");
    assert_eq!((refusal.at, refusal.why), (PortRef::new(H2, 1), Why::Partition));
    assert!(lab.fabric.verdict(PortRef::new(H1, 1), &PathQuery { dlid: LIDS[H3 as usize], ..query }).is_ok());
}

#[test]
fn a_limited_member_answers_with_its_own_key() {
    const MEMBER: u16 = 0x7fff;
    let mut lab = Lab::up();
    lab.set_pkeys(H2, 0, &[MEMBER]);
    lab.set_pkeys(S1, 1, &[MEMBER]);
    // The switch of the limited member drops packets that claim full membership.
    lab.set_port(S1, 1, |info| info.partition_enforcement_inbound = true);
    let heard = lab.lid(H1, MadAddress::gsi(LIDS[H2 as usize], 0xffff), vendor());
    let heard = heard.iter().filter(|delivery| delivery.port == PortRef::new(H2, 1));
    let heard: Vec<(u16, u16)> = heard.map(|delivery| (delivery.pkey_index, delivery.pkey)).collect();
    assert_eq!(heard, [(0, MEMBER)]);
    let counters = lab.perf(H1, LIDS[H2 as usize], Method::GET, AttrId::CLASS_PORT_INFO, &ClassPortInfo::default());
    assert!(counters.is_some(), "the agent of a limited member answers a full one");
}

#[test]
fn switches_enforce_partitions_in_and_out() {
    for (number, inbound, counter, why, at) in [
        (2, true, Counter::RcvConstraintErrors, Why::PartitionIn, PortRef::new(S0, 2)),
        (3, false, Counter::XmitConstraintErrors, Why::PartitionOut, PortRef::new(S0, 3)),
    ] {
        let mut lab = Lab::up();
        for host in [H1, H2] {
            lab.set_pkeys(host, 0, &[0xffff, FULL]);
        }
        assert!(hears(&mut lab, H2, FULL), "nobody enforces");
        lab.set_port(S0, number, |info| match inbound {
            true => info.partition_enforcement_inbound = true,
            false => info.partition_enforcement_outbound = true,
        });
        assert!(!hears(&mut lab, H2, FULL) && hears(&mut lab, H2, 0xffff));
        assert_eq!((lab.fabric.counter(at, counter), lab.info(S0, number).pkey_violations), (1, 1));
        let details = last_notice(&mut lab);
        let Some(NoticeDetails::BadPkeySwitch(_, details)) = details else { panic!("{details:?}") };
        assert_eq!((details.switch_lid, details.port_num, details.pkey), (LIDS[S0 as usize], number, FULL));
        let query = PathQuery { dlid: LIDS[H2 as usize], sl: 0, pkey: FULL, payload: 0 };
        let refusal = lab.fabric.verdict(PortRef::new(H1, 1), &query).expect_err("a partition that is kept out");
        assert_eq!((refusal.at, refusal.why), (at, why));
        lab.set_pkeys(S0, number, &[0xffff, FULL]);
        assert!(hears(&mut lab, H2, FULL));
    }
}

#[test]
fn subnet_management_knows_no_partitions() {
    let mut lab = Lab::up();
    lab.set_pkeys(H2, 0, &[0x8005]);
    lab.set_port(S0, 3, |info| info.partition_enforcement_outbound = true);
    lab.set_pkeys(S0, 3, &[0x8006]);
    let smp = Smp::lid_routed(Method::GET, 3, AttrId::NODE_INFO, 0, 0);
    assert_eq!(lab.lid(H0, MadAddress::smi(LIDS[H2 as usize]), smp.to_mad()).len(), 1);
    assert!(!hears(&mut lab, H2, 0xffff));
}
