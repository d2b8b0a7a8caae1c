//! The longest message: 2^31 bytes, 2^19 packets of 4096, in memory whose bytes are computed.

use weft_sim::{QpOptions, World};
use weft_verbs::{Access, Mtu, RecvWr, SendOp, Sge, VerbsError, WcStatus};

use super::{setup, statuses};

const LENGTH: u64 = 1 << 31;
const KEY: u64 = 0x0b16;

/// Maximum steps for half a million packets and their acknowledgements.
const STEPS_MAX: u64 = 20_000_000;

fn bed() -> (World, [weft_sim::End; 2], Sge, Sge) {
    let options = QpOptions { mtu: Mtu::Mtu4096, psn: [0xff_0000, 7], ..QpOptions::default() };
    let (mut world, [a, b]) = setup(&options);
    let source = world.hosts[0].hca.memory().alloc_pattern(LENGTH, KEY);
    let sink = world.hosts[1].hca.memory().alloc_check(LENGTH, KEY);
    let mut register = |host: usize, pd, addr, access| {
        let keys = world.hosts[host].hca.reg_mr(pd, addr, LENGTH, addr, access).unwrap();
        Sge { addr, length: LENGTH as u32, lkey: keys.lkey }
    };
    let from = register(0, a.pd, source, Access::REMOTE_READ);
    let to = register(1, b.pd, sink, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    (world, [a, b], from, to)
}

#[test]
fn a_write_of_2_gib_arrives_whole() {
    let (mut world, [a, b], from, to) = bed();
    a.send(&mut world, 1, SendOp::Write(super::target(&to)), from).unwrap();
    world.run(STEPS_MAX);
    assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::Success)]);
    assert_eq!(world.hosts[1].hca.memory().checked(to.addr), (LENGTH, 0));
    let _ = b;
}

#[test]
fn one_byte_more_is_refused() {
    let (mut world, [a, b], from, to) = bed();
    b.recv(&mut world, 1, to).unwrap();
    let more = Sge { length: 1, ..from };
    let sges = [from, more];
    let flags = weft_verbs::SendFlags::SIGNALED;
    match a.post(&mut world, 1, SendOp::Send, flags, &sges) {
        Err(VerbsError::Invalid(_)) => {}
        Ok(()) => {
            world.run(STEPS_MAX);
            assert_eq!(statuses(&a.poll(&mut world)), [(1, WcStatus::LocLenErr)]);
        }
        other => panic!("{other:?}"),
    }
    // A receive list may be longer than any message.
    let wr = RecvWr { wr_id: 2, sges: &[to, to] };
    world.hosts[1].hca.post_recv(b.qp, &wr).unwrap();
}
