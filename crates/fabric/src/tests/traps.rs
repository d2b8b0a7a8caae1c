//! Traps reach the manager, are repeated until it represses them, and stop by themselves.

use super::*;
use crate::BadQkey;
use crate::limits::{TRAP_TRIES_MAX, TRAPS_PENDING_MAX};
use weft_wire::mad::Notice;
use weft_wire::mad::notice::{NoticeDetails, TrapNumber};
use weft_wire::mad::subn::CapabilityMask;

/// Returns the traps that the manager at the first host receives now.
fn heard(lab: &mut Lab) -> Vec<(Smp, Notice)> {
    std::iter::from_fn(|| lab.fabric.poll_delivery())
        .filter(|delivery| delivery.port == PortRef::new(H0, 1) && delivery.mad.header.method() == Method::TRAP)
        .map(|delivery| Smp::from_mad(delivery.mad))
        .map(|smp| (smp, Notice::from_smp(&smp.data)))
        .collect()
}

fn repress(lab: &mut Lab, trap: &Smp, from: u16) {
    let mut smp = *trap;
    smp.header.set_method(Method::TRAP_REPRESS);
    assert!(lab.lid(H0, MadAddress::smi(from), smp.to_mad()).is_empty());
}

#[test]
fn a_link_that_changes_is_told_by_its_switches() {
    let mut lab = Lab::up();
    lab.fabric.cut(lab.now, PortRef::new(S1, 1)).expect("a cable");
    let traps = heard(&mut lab);
    assert_eq!(traps.len(), 1, "a host's port tells nothing of its link");
    let (smp, notice) = traps[0];
    assert_eq!((notice.trap_number, notice.issuer_lid), (TrapNumber::LINK_STATE, LIDS[S1 as usize]));
    assert!(matches!(notice.details(), Some(NoticeDetails::LinkState(_, details)) if details.lid == LIDS[S1 as usize]));
    let info: SwitchInfo = lab.get(S1, AttrId::SWITCH_INFO, 0);
    assert!(info.port_state_change);

    lab.pass(Duration::from_millis(249));
    assert!(heard(&mut lab).is_empty());
    lab.pass(Duration::from_millis(1));
    let again = heard(&mut lab);
    assert_eq!(again.iter().map(|(smp, _)| smp.header.tid()).collect::<Vec<_>>(), [smp.header.tid()]);
    repress(&mut lab, &smp, LIDS[S1 as usize]);
    assert_eq!(lab.fabric.traps_pending(S1), 0);
    lab.pass(Duration::from_secs(10));
    assert!(heard(&mut lab).is_empty());
    assert_eq!(lab.fabric.poll_timeout(), None);
}

#[test]
fn who_is_never_repressed_gives_up() {
    let mut lab = Lab::up();
    lab.fabric.cut(lab.now, PortRef::new(S1, 1)).expect("a cable");
    let mut count = heard(&mut lab).len();
    while let Some(at) = lab.fabric.poll_timeout() {
        lab.now = at;
        lab.fabric.handle_timeout(at);
        count += heard(&mut lab).len();
    }
    assert_eq!((count, lab.fabric.traps_pending(S1)), (usize::from(TRAP_TRIES_MAX), 0));
}

#[test]
fn one_of_a_kind_is_outstanding() {
    let mut lab = Lab::up();
    let (a, b) = (PortRef::new(S1, 1), PortRef::new(H2, 1));
    for _ in 0..50 {
        lab.fabric.cut(lab.now, a).expect("a cable");
        lab.fabric.join(lab.now, a, b).expect("free ports");
        lab.pass(Duration::from_millis(3));
    }
    assert_eq!((heard(&mut lab).len(), lab.fabric.traps_pending(S1)), (1, 1));
}

#[test]
fn bad_keys_are_told() {
    let mut lab = Lab::up();
    let lid = LIDS[H1 as usize];
    lab.set_port(H1, 1, |info| info.mkey = 0xabcd);
    assert!(lab.ask_as(0x666, H1, Method::SET, AttrId::LED_INFO, 3, &[0; 64]).is_none());
    // The helper discarded deliveries while it waited for its answer.
    lab.pass(Duration::from_millis(250));
    let traps = heard(&mut lab);
    let Some((_, notice)) = traps.first() else { panic!("a trap") };
    let Some(NoticeDetails::BadMkey(_, details)) = notice.details() else { panic!("{notice:?}") };
    assert_eq!((details.mkey, details.method, details.attr_id, details.attr_mod), (0x666, 2, 0x31, 3));
    assert_eq!(
        (details.dr_notice, details.dr_hop_count, details.dr_return_path[..3].to_vec()),
        (true, 2, vec![1, 1, 0])
    );

    let mad = Mad { header: MadHeader::new(Class(0x32), 1, Method::GET, 5, AttrId(1)), data: [0; 232] };
    let to = MadAddress { qkey: 0x1234, ..MadAddress::gsi(lid, 0xffff) };
    lab.fabric.send(lab.now, PortRef::new(H2, 1), &MadOut { to, mad }).expect("a host");
    let traps = heard(&mut lab);
    let Some(NoticeDetails::BadKey(TrapNumber::BAD_QKEY, details)) = traps[0].1.details() else { panic!("{traps:?}") };
    assert_eq!((details.lid1, details.lid2, details.key, details.qp2), (LIDS[H2 as usize], lid, 0x1234, 1));
    assert_eq!(lab.info(H1, 1).qkey_violations, 1);

    let bad = BadQkey { slid: 6, dlid: 7, sl: 0, qkey: 9, src_qp: 11, dest_qp: 12, grh: None };
    lab.fabric.report_bad_qkey(lab.now, PortRef::new(H3, 1), &bad);
    let traps = heard(&mut lab);
    let Some(NoticeDetails::BadKey(TrapNumber::BAD_QKEY, details)) = traps[0].1.details() else { panic!("{traps:?}") };
    assert_eq!((details.qp1, details.qp2, lab.info(H3, 1).qkey_violations), (11, 12, 1));
}

#[test]
fn changes_at_a_host_are_told() {
    let mut lab = Lab::up();
    let port = PortRef::new(H2, 1);
    lab.fabric.set_capabilities(lab.now, port, CapabilityMask::SM, true);
    let traps = heard(&mut lab);
    let Some(NoticeDetails::LocalChanges(_, details)) = traps[0].1.details() else { panic!("{traps:?}") };
    assert!(details.capability_mask & 2 != 0 && !details.other_local_changes && details.lid == LIDS[H2 as usize]);
    repress(&mut lab, &traps[0].0, LIDS[H2 as usize]);
    lab.fabric.set_capabilities(lab.now, port, CapabilityMask::SM, true);
    assert!(heard(&mut lab).is_empty(), "nothing changed");
    lab.fabric.set_description(lab.now, H2, "another");
    let traps = heard(&mut lab);
    let Some(NoticeDetails::LocalChanges(_, details)) = traps[0].1.details() else { panic!("{traps:?}") };
    assert!(details.node_description_change && details.other_local_changes);
    assert_eq!(lab.fabric.description(H2).map(|text| text.text().into_owned()), Some("another".to_owned()));
}

#[test]
fn without_a_manager_nobody_tells() {
    let mut lab = Lab::new();
    lab.fabric.cut(lab.now, PortRef::new(S1, 1)).expect("a cable");
    assert_eq!((lab.fabric.traps_pending(S1), lab.fabric.poll_timeout()), (0, None));
}

#[test]
fn a_node_keeps_so_many_traps_and_no_more() {
    let topology = crate::topology::generate::Plan::new(crate::topology::generate::Shape::Star { hosts: 60 });
    let topology = topology.generate().expect("a star");
    let mut fabric = Fabric::new(&topology, 1);
    let switch = (0..fabric.node_count()).find(|node| fabric.kind(*node) == Some(NodeKind::Switch)).expect("one");
    let agent = fabric.place(PortRef::new(switch, 0)).expect("port 0") as usize;
    (fabric.ports[agent].info.lid, fabric.ports[agent].info.master_sm_lid) = (1, 2);
    for number in 1..=60 {
        let at = fabric.place(PortRef::new(switch, number)).expect("a port");
        for _ in 0..100 {
            fabric.on_damage(at);
        }
    }
    fabric.send_raised();
    assert_eq!(fabric.traps_pending(switch), TRAPS_PENDING_MAX);
}
