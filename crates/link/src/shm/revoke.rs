//! Waits until no peer copies: after a key or a queue pair is removed from the key directory, peers that found it there
//! before may still be copying. Each announces that in its own key directory. A copier that dies leaves its
//! announcement behind; then its process's end shows that it stopped.

use std::time::{Duration, Instant};

use weft_sys::{pidfd, sync};

use super::host::Host;
use super::peer::Peer;

/// Checks before offering the processor to others, and then before sleeping.
const SPINS: u32 = 1 << 10;
const YIELDS: u32 = 64;
/// How long to sleep between two checks then.
const PAUSE: Duration = Duration::from_micros(50);
/// How often to check whether the copier is alive.
const ASK_INTERVAL: Duration = Duration::from_millis(1);

impl Host {
    /// Returns when no copy is in progress that began before the call.
    pub(super) fn wait_for_copies(&mut self) {
        let slot = self.us.slot;
        for peer in self.peers.iter().flatten().filter(|peer| !peer.own && !peer.dead) {
            wait_for(peer, slot);
        }
    }
}

fn wait_for(peer: &Peer, slot: u32) {
    let Some(view) = &peer.view else { return };
    let Some(word) = view.copying(slot) else { return };
    let mut asked = Instant::now();
    for looks in 0u32.. {
        if view.copying(slot) != Some(word) {
            return;
        }
        match looks {
            0..SPINS => sync::spin_loop(),
            _ if looks < SPINS + YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(PAUSE),
        }
        if looks >= SPINS && asked.elapsed() >= ASK_INTERVAL {
            asked = Instant::now();
            if is_over(peer) {
                return;
            }
        }
    }
}

/// Whether the copier cannot be copying any more: it is dead, or has become another program.
fn is_over(peer: &Peer) -> bool {
    peer.process.as_ref().is_none_or(pidfd::is_dead) || peer.kernel.as_ref().is_some_and(|kernel| !kernel.is_there())
}
