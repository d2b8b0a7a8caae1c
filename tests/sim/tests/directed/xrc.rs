//! XRC: one target queue pair, several shared receive queues, each named by the sender.

use weft_sim::world::DEVICE;
use weft_sim::{End, QpOptions, World, end};
use weft_verbs::{
    Access, QpType, SendFlags, SendOp, SendWr, Sge, SrqAttr, SrqId, SrqInit, VerbsError, WcStatus, XrcdId,
};

use super::{look, memory, open, setup_parts, statuses, target};

struct Bed {
    world: World,
    ends: [End; 2],
    xrcd: XrcdId,
    srqs: Vec<(SrqId, u32)>,
}

fn bed() -> Bed {
    let (mut world, mut parts) = setup_parts();
    let hca = &mut world.hosts[1].hca;
    let xrcd = hca.open_xrcd(DEVICE, Some(99)).unwrap();
    assert_eq!(hca.open_xrcd(DEVICE, Some(99)), Ok(xrcd));
    assert!(hca.has_xrcd(DEVICE, 99) && !hca.has_xrcd(DEVICE, 98));
    assert_ne!(hca.open_xrcd(DEVICE, None), Ok(xrcd));
    let srqs = (0..2)
        .map(|_| {
            let init = SrqInit {
                pd: parts[1].pd,
                attr: SrqAttr { max_wr: 8, max_sge: 1, srq_limit: 0 },
                xrc: Some((xrcd, parts[1].cq)),
                cookie: 0,
            };
            let id = hca.create_srq(DEVICE, &init).unwrap();
            (id, hca.srq_number(id).unwrap())
        })
        .collect();
    parts[1].xrcd = Some(xrcd);
    let options = QpOptions { kind: QpType::XrcSend, ..QpOptions::default() };
    let ends = end::pair_of(&mut world, &parts, &options);
    Bed { world, ends, xrcd, srqs }
}

impl Bed {
    fn post(&mut self, wr_id: u64, op: SendOp, sge: Sge, srqn: Option<u32>) -> Result<(), VerbsError> {
        let wr = SendWr { wr_id, flags: SendFlags::SIGNALED, op, sges: &[sge], ud: None, xrc_srqn: srqn };
        self.world.hosts[0].hca.post_send(self.world.now, self.ends[0].qp, &wr)
    }
}

#[test]
fn messages_go_to_the_queue_that_they_name() {
    let mut bed = bed();
    let [a, b] = bed.ends;
    let from = memory(&mut bed.world, &a, 64, Access::LOCAL_WRITE);
    let bufs: Vec<Sge> = (0..2).map(|_| memory(&mut bed.world, &b, 64, open())).collect();
    for (n, buf) in bufs.iter().enumerate() {
        let wr = weft_verbs::RecvWr { wr_id: n as u64, sges: &[*buf] };
        let srq = bed.srqs[n].0;
        bed.world.hosts[1].hca.post_srq_recv(srq, &wr).unwrap();
    }
    super::fill(&mut bed.world, &a, &from, 0x21);
    let second = bed.srqs[1].1;
    bed.post(1, SendOp::Send, from, Some(second)).unwrap();
    bed.world.settle();
    assert_eq!(statuses(&a.poll(&mut bed.world)), [(1, WcStatus::Success)]);
    let wcs = b.poll(&mut bed.world);
    assert_eq!((wcs.len(), wcs[0].wr_id, wcs[0].qp_num), (1, 1, b.qpn));
    assert_eq!(look(&mut bed.world, &b, &bufs[1]), [0x21; 64]);
    assert_eq!(look(&mut bed.world, &b, &bufs[0]), [0; 64]);
    // One-sided operations work too.
    let word = target(&bufs[0]);
    bed.post(2, SendOp::Write(word), from, Some(second)).unwrap();
    bed.post(3, SendOp::FetchAdd { target: word, add: 1 }, Sge { length: 8, ..from }, Some(second)).unwrap();
    bed.world.settle();
    assert_eq!(statuses(&a.poll(&mut bed.world)), [(2, WcStatus::Success), (3, WcStatus::Success)]);
}

#[test]
fn a_queue_that_is_not_there_is_an_error() {
    let mut bed = bed();
    let [a, _] = bed.ends;
    let from = memory(&mut bed.world, &a, 64, Access::LOCAL_WRITE);
    assert!(bed.post(1, SendOp::Send, from, None).is_err());
    let nowhere = (1..).find(|n| bed.srqs.iter().all(|(_, number)| number != n));
    bed.post(1, SendOp::Send, from, nowhere).unwrap();
    bed.world.settle();
    let status = a.poll(&mut bed.world)[0].status;
    assert!(matches!(status, WcStatus::RemInvReqErr | WcStatus::RemOpErr | WcStatus::RemAccessErr), "{status:?}");
}

#[test]
fn the_parts_of_a_domain_hold_it_open() {
    let mut bed = bed();
    let [_, b] = bed.ends;
    let hca = &mut bed.world.hosts[1].hca;
    // The domain is open twice: the first close always succeeds.
    hca.close_xrcd(bed.xrcd).unwrap();
    assert!(matches!(hca.close_xrcd(bed.xrcd), Err(VerbsError::Busy(_))));
    // The target can be opened again by its number, and then must be closed twice.
    assert_eq!(hca.open_qp(bed.xrcd, b.qpn), Ok(b.qp));
    assert!(hca.open_qp(bed.xrcd, b.qpn ^ 1).is_err());
    hca.destroy_qp(b.qp).unwrap();
    assert!(hca.query_qp(b.qp).is_ok());
    hca.destroy_qp(b.qp).unwrap();
    assert!(hca.query_qp(b.qp).is_err());
    for (srq, _) in &bed.srqs {
        hca.destroy_srq(*srq).unwrap();
    }
    hca.close_xrcd(bed.xrcd).unwrap();
}
