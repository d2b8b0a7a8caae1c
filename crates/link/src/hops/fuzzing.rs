//! Fuzz target: either end of the packet rings writes arbitrary words into their memory.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use weft_sys::shared::Shared;
use weft_wire::fuzzing::Script;
use weft_wire::link_packet::LINK_PACKET_MAX;

use super::packet_channel::{MEMORY_BYTES, ProcessEnd, RINGS_AT, SwitchEnd};

/// Maximum number of packets that one step takes: as many as a ring could ever hold.
const PACKETS_MAX: usize = 1 << 18;

fn run(bytes: &[u8]) -> std::io::Result<()> {
    let (mut switch, fds) = SwitchEnd::create()?;
    let memory = Shared::map(fds.memory.as_fd(), MEMORY_BYTES)?;
    let mut process = ProcessEnd::new(fds)?;
    let mut script = Script::new(bytes);
    let (mut packet, mut broken) = (Vec::new(), [false; 2]);
    while !script.is_over() {
        match script.byte() % 8 {
            0 => memory.word(script.below(RINGS_AT / 8) * 8).store(script.word(), Ordering::Relaxed),
            // One of the words for positions, attention and sleep.
            1 => memory.word(usize::from(script.byte() % 7) * 128).store(script.word(), Ordering::Relaxed),
            2 => memory.word(script.below(MEMORY_BYTES / 8) * 8).store(script.word(), Ordering::Relaxed),
            3 => {
                process.push((script.byte().into(), script.byte()), &vec![1; script.below(LINK_PACKET_MAX + 2)]);
                process.announce();
            }
            4 => {
                let (port, slot) = ((script.byte().into(), script.byte()), script.word() as u32);
                switch.push(port, slot, &vec![2; script.below(LINK_PACKET_MAX + 2)]);
                switch.announce();
            }
            5 => {
                let taken =
                    (0..PACKETS_MAX).take_while(|_| !broken[0] && read(switch.pop(&mut packet), &mut broken[0]));
                assert!(taken.count() < PACKETS_MAX, "the switches take packets for ever");
                let _ = (switch.attend(), switch.want_room(), switch.sleep());
            }
            6 => {
                let taken =
                    (0..PACKETS_MAX).take_while(|_| !broken[1] && read(process.pop(&mut packet), &mut broken[1]));
                assert!(taken.count() < PACKETS_MAX, "the process takes packets for ever");
                process.made_room();
            }
            _ => {
                process.fall_asleep();
                process.wake_up();
            }
        }
        assert!(packet.len() <= LINK_PACKET_MAX);
    }
    Ok(())
}

/// Whether a packet came; an end that broke the rules is not read again.
fn read<T, E>(popped: Result<Option<T>, E>, broken: &mut bool) -> bool {
    *broken |= popped.is_err();
    popped.is_ok_and(|packet| packet.is_some())
}

/// Checks that no words in the rings' memory cause a panic, or a packet longer than the maximum.
pub fn packet_rings(bytes: &[u8]) {
    // Without descriptors or memory there is nothing to test.
    let _ = run(bytes);
}

#[cfg(test)]
mod tests {
    use weft_wire::fuzzing::random_scripts;

    #[test]
    fn random_scripts_are_survived() {
        random_scripts(super::packet_rings, 2, 300, 2000);
    }
}
