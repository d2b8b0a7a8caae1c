//! More queue pairs that send to one peer than it has places: all are served, whatever happens to some of them.

use std::collections::BTreeSet;

use weft_sim::{End, QpOptions, World, end};
use weft_verbs::{Access, Duration, QpAttr, QpAttrMask, QpState, SendOp, Sge, WcStatus};

use super::{memory, open, setup_parts, target};

/// More than twice `PLACES` of `peer_quota`, so that most queue pairs wait for a place.
const MANY: usize = 150;
const MESSAGES: usize = 3;
const MESSAGE_BYTES: u32 = 50_000;

struct Bed {
    world: World,
    ends: Vec<[End; 2]>,
    from: Sge,
    to: Sge,
}

fn bed(count: usize) -> Bed {
    let (mut world, parts) = setup_parts();
    let ends: Vec<_> = (0..count).map(|_| end::pair_of(&mut world, &parts, &QpOptions::default())).collect();
    let from = memory(&mut world, &ends[0][0], MESSAGE_BYTES, open());
    let to = memory(&mut world, &ends[0][1], MESSAGE_BYTES, open());
    Bed { world, ends, from, to }
}

impl Bed {
    /// Lets each of these write or read some messages; a message's work request ID is its queue pair's index.
    fn post(&mut self, which: std::ops::Range<usize>) {
        for nth in which {
            let at = target(&self.to);
            let op = if nth % 4 == 0 { SendOp::Read(at) } else { SendOp::Write(at) };
            for _ in 0..MESSAGES {
                self.ends[nth][0].send(&mut self.world, nth as u64, op, self.from).unwrap();
            }
        }
    }

    /// Returns the queue pairs with completions so far, and the number of completions.
    fn served(&mut self) -> (BTreeSet<u64>, usize) {
        let wcs = self.ends[0][0].poll(&mut self.world);
        assert!(wcs.iter().all(|wc| wc.status == WcStatus::Success), "{wcs:?}");
        (wcs.iter().map(|wc| wc.wr_id).collect(), wcs.len())
    }
}

#[test]
fn all_are_served_with_loss_and_without() {
    for loss in [0, 200] {
        let mut bed = bed(MANY);
        bed.world.net.faults.loss = loss;
        bed.post(0..MANY);
        bed.world.settle();
        assert_eq!(bed.served().1, MANY * MESSAGES);
        bed.post(0..MANY);
        bed.world.settle();
        assert_eq!(bed.served().1, MANY * MESSAGES, "once more");
    }
}

#[test]
fn who_waits_for_a_receive_holds_nobody_up() {
    let mut bed = bed(MANY);
    for [a, _] in &bed.ends[..100] {
        a.send(&mut bed.world, 1000, SendOp::Send, bed.from).unwrap();
    }
    bed.world.run_for(Duration::from_micros(50));
    bed.post(100..MANY);
    bed.world.run_for(Duration::from_millis(200));
    assert_eq!(bed.served().1, (MANY - 100) * MESSAGES);
    for nth in 0..100 {
        let b = bed.ends[nth][1];
        let into = memory(&mut bed.world, &b, MESSAGE_BYTES, Access::LOCAL_WRITE);
        b.recv(&mut bed.world, 1, into).unwrap();
    }
    bed.world.settle();
    assert_eq!(bed.served().1, 100);
}

#[test]
fn places_of_those_that_end_are_given_away() {
    for ends_how in 0..3 {
        let mut bed = bed(MANY);
        bed.post(0..MANY);
        // Some have places, the others wait.
        bed.world.run_for(Duration::from_micros(20));
        for [a, _] in &bed.ends[..100] {
            let hca = &mut bed.world.hosts[0].hca;
            match ends_how {
                0 => hca.destroy_qp(a.qp).unwrap(),
                n => {
                    let to = if n == 1 { QpState::Reset } else { QpState::Err };
                    let attr = QpAttr { qp_state: to, ..QpAttr::default() };
                    hca.modify_qp(bed.world.now, a.qp, &attr, QpAttrMask::STATE).unwrap();
                }
            }
        }
        bed.world.settle();
        let wcs = bed.ends[0][0].poll(&mut bed.world);
        let served = wcs.iter().filter(|wc| wc.status == WcStatus::Success && wc.wr_id >= 100).count();
        assert_eq!(served, (MANY - 100) * MESSAGES);
    }
}

#[test]
fn nobody_waits_until_another_has_sent_all_it_has() {
    if super::skips_off_the_wire("there are no places") {
        return;
    }
    let mut bed = bed(MANY);
    bed.post(0..MANY);
    let (mut waited, mut completed) = (BTreeSet::new(), 0);
    while waited.len() < MANY {
        bed.world.run_for(Duration::from_micros(100));
        let (served, count) = bed.served();
        waited.extend(served);
        completed += count;
    }
    assert!(completed < MANY * MESSAGES * 9 / 10, "{completed} were complete before each had something");
}
