//! Capsules of a host, for a target.

use std::time::Duration;

use crate::wire::{Completion, ConnectRequest, Descriptor};
use crate::{Action, LocalAddress, Namespace, Port, Status, Subsystem, Target, TargetConfig};

/// Bytes of the namespace.
const SIZE: u64 = 1 << 20;

/// Returns a small configuration.
pub fn configuration() -> TargetConfig {
    let namespace =
        Namespace { id: 1, blocks: SIZE >> 9, block_shift: 9, nguid: [1; 16], uuid: [2; 16], read_only: false };
    let subsystem = Subsystem {
        nqn: "nqn.2026-01.io.weft:disk".into(),
        serial: "1".into(),
        model: "Weft".into(),
        allowed_hosts: None,
        namespaces: vec![namespace],
    };
    TargetConfig {
        subsystems: vec![subsystem],
        ports: vec![Port { id: 1, subsystems: vec![0], referrals: Vec::new() }],
        in_capsule_bytes: 512,
        io_queues_max: 4,
        firmware: "0.1".into(),
    }
}

/// Feeds capsules to a target. Each begins with a byte that names the queue, and a length in units of four bytes; data that
/// the target fetches is the capsule's rest. Returns the number of operations on the namespace.
pub fn target(mut bytes: &[u8]) -> usize {
    let mut operations = 0;
    let mut target = Target::new(configuration());
    let mut now = Duration::ZERO;
    let local = LocalAddress { is_ipv6: false, address: "192.0.2.1".into(), service: "4420".into() };
    for queue in 0..4_u16 {
        let request = ConnectRequest { queue_id: queue, host_receives: 32, host_sends: 32, controller: 1 };
        let admitted = target.admit(now, queue.into(), 0, local.clone(), &request.to_bytes());
        assert!(admitted.is_ok());
    }
    while let [queue, len, rest @ ..] = bytes {
        let (capsule, rest) = rest.split_at(rest.len().min(usize::from(*len) * 4));
        bytes = rest;
        now += Duration::from_millis(u64::from(*queue >> 2) * 100);
        target.handle_capsule(now, u64::from(*queue & 3), capsule);
        operations += carry_out(&mut target, now, capsule);
        target.handle_timeout(now);
        operations += carry_out(&mut target, now, capsule);
    }
    operations
}

fn carry_out(target: &mut Target, now: Duration, capsule: &[u8]) -> usize {
    let mut operations = 0;
    while let Some(action) = target.poll() {
        match action {
            Action::Fetch(key, memory) => {
                let mut data = capsule.get(64..).unwrap_or_default().to_vec();
                data.resize(memory.length as usize, 0);
                target.handle_data(now, key, &data);
            }
            Action::Execute { command, operation, .. } => {
                operations += 1;
                check(&operation);
                target.handle_executed(command, Err(Status::WRITE_FAULT));
            }
            Action::Respond(response) => {
                let completion = response.completion;
                assert_eq!(Completion::parse(&completion.to_bytes()), Some(completion));
                if let Some((bytes, memory)) = response.data {
                    assert_eq!(bytes.len(), memory.length as usize);
                    let descriptor = Descriptor::Host(memory);
                    assert_eq!(Descriptor::parse(&descriptor.to_bytes()), Ok(descriptor));
                }
            }
            Action::Close(queue, _) => target.queue_closed(queue),
            Action::Log(..) => {}
        }
    }
    operations
}

/// Every operation stays within the namespace.
fn check(operation: &crate::Operation) {
    use crate::Operation;
    let ranges = match operation {
        Operation::Read { offset, length }
        | Operation::Write { offset, length, .. }
        | Operation::Compare { offset, length } => vec![(*offset, u64::from(*length))],
        Operation::WriteZeroes { offset, length, .. } => vec![(*offset, *length)],
        Operation::Deallocate(ranges) => ranges.clone(),
        Operation::Flush => Vec::new(),
    };
    assert!(ranges.iter().all(|(offset, length)| *length > 0 && offset + length <= SIZE));
}
