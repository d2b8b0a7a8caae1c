//! Fuzz target: the state that a daemon finds after its predecessor died. See [`weft_wire::fuzzing`].

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weft_ipc::{ClientFrame, DaemonFrame, Hello, Purpose, Request, decode, encode, valid_device_name};
use weft_sys::unix::Credentials;

use crate::broker::{Broker, BrokerConfig, Output};
use crate::host::{Adopted, FakeHost};
use crate::rtnl;
use crate::saved::{Saved, SavedFile};

/// Slots of the pool that the state came with.
const SLOTS: u32 = 64;
/// The interface of every script: RTM_NEWLINK of eth0, up, and RTM_NEWADDR of 10.0.0.1/8 on it.
const INTERFACE: [&[u8]; 2] = [
    &[
        40, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0x43, 0x10, 1, 0, 0, 0, 0, 0, 9, 0,
        3, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0,
    ],
    &[32, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8, 0, 0, 2, 0, 0, 0, 8, 0, 2, 0, 10, 0, 0, 1],
];

/// Checks that no bytes in a predecessor's memory cause a panic, or make impossible devices or slots.
pub fn saved_state(bytes: &[u8]) {
    let Some(saved) = read(bytes) else { return };
    let now = Instant::now();
    let config = BrokerConfig {
        pid: 1,
        uid: 500,
        uid_is_ours_alone: true,
        namespace: 1,
        slots_per_user_max: SLOTS,
        slot_quarantine: crate::limits::SLOT_QUARANTINE,
        connections_per_user_max: SLOTS,
        idle_exit: None,
        survivors: true,
        socket_name: String::new(),
    };
    let mut broker = Broker::new(now, config);
    let mut host = FakeHost { anchored: Some(Adopted { slots: SLOTS, saved }), ..FakeHost::default() };
    let Some(root) = broker.connect(now, Credentials { pid: 1, uid: 0, gid: 0 }) else { return };
    let Ok(proof) = File::open("/dev/null") else { return };
    let Ok(anchor) = proof.try_clone() else { return };
    let fds: [OwnedFd; 2] = [proof.into(), anchor.into()];
    broker.handle_message(now, root, &Hello::new(Purpose::Session, "fuzz").encode(), &[], &mut host);
    let mut ask = |broker: &mut Broker, request, fds: &[OwnedFd]| {
        let bytes = encode(&ClientFrame { id: 1, request }).expect("a short request");
        broker.handle_message(now, root, &bytes, fds, &mut host);
        drain(broker);
    };
    ask(&mut broker, Request::Reattach { slot: 1, groups: Vec::new() }, &fds);
    for message in INTERFACE.iter().flat_map(|datagram| rtnl::parse(datagram)) {
        broker.devices().netdevs.apply(&message);
    }
    broker.refresh(now);
    for request in [
        Request::ListDevices { offset: 0 },
        Request::AllocateSlot,
        Request::Stat { offset: 0 },
        Request::Status { offset: 0 },
        Request::LinkAdd { name: "rxe0".into(), kind: "rxe".into(), netdev: "eth0".into() },
    ] {
        ask(&mut broker, request, &[]);
    }
    broker.handle_timeout(now + Duration::from_secs(60), &mut host);
    drain(&mut broker);
    let saved = broker.save();
    let mut names = BTreeSet::new();
    assert!(saved.devices.iter().all(|device| valid_device_name(&device.name) && names.insert(&device.name)));
    // A successor can take the state over in turn.
    assert!(SavedFile::new().and_then(|mut file| file.write(&saved)).is_ok());
}

/// Decodes the state, as a predecessor's memory holds it.
fn read(bytes: &[u8]) -> Option<Saved> {
    let mut file = SavedFile::new().ok()?;
    file.write_bytes(bytes).ok()?;
    Some(SavedFile::open(file.file().try_clone().ok()?).ok()?.1)
}

fn drain(broker: &mut Broker) {
    while let Some(output) = broker.poll_output() {
        if let Output::Send { bytes, .. } = output {
            assert!(weft_ipc::HelloReply::decode(&bytes).is_some() || decode::<DaemonFrame>(&bytes).is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::saved_state;
    use crate::devices::{Kind, SavedDevice};
    use crate::saved::Saved;
    use crate::slots::SavedSlot;
    use weft_wire::fuzzing::random_scripts;

    fn state() -> Saved {
        let device = |index, name: &str| SavedDevice {
            index,
            name: name.into(),
            ifindex: 2,
            kind: Kind::Rxe,
            auto: true,
            rows: Vec::new(),
        };
        let slots = (1..5).map(|slot| SavedSlot { slot, uid: 7, owned: slot % 2 == 0 }).collect();
        Saved { next_device: 9, devices: vec![device(1, "rxe_eth0"), device(2, "mlx5_0")], slots, ..Saved::default() }
    }

    #[test]
    fn random_and_damaged_states_are_survived() {
        random_scripts(saved_state, 6, 300, 400);
        let whole = postcard::to_stdvec(&state()).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                saved_state(&damaged);
            }
        }
    }

    #[test]
    fn a_state_that_contradicts_itself_is_put_right() {
        let same_names =
            |devices: &mut Vec<SavedDevice>| devices.iter_mut().for_each(|device| device.name = "one".into());
        let mut doubled = state();
        same_names(&mut doubled.devices);
        saved_state(&postcard::to_stdvec(&doubled).unwrap());
        saved_state(&postcard::to_stdvec(&Saved { next_device: u32::MAX, ..state() }).unwrap());
        // A slot that is owned and free at once.
        let slots = [true, false].map(|owned| SavedSlot { slot: 1, uid: 0, owned }).to_vec();
        saved_state(&postcard::to_stdvec(&Saved { slots, ..state() }).unwrap());
    }
}
