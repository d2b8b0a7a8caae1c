//! Sending of everything that waits, before a queue pair or the process ends.

use weft_verbs::{Duration, QpId};

use crate::engine::Engine;
use crate::pump::Pump;
use crate::record::Extent;
use crate::{clock, fabric, trace};

impl Engine {
    /// Sends posts that wait for each other, and delayed acknowledgements: those of one queue pair, before its
    /// destruction, or all.
    pub fn flush(&self, qp: Option<QpId>) {
        let _ = self.with(|hca, now| {
            hca.release_acks(now, qp);
            Ok(())
        });
    }

    /// Sends everything that is still delayed or waits for room in a socket, because the process ends. Gives up if the
    /// lock or the room does not become free soon.
    pub(crate) fn flush_in_time(&self) {
        const PATIENCE: Duration = Duration::from_millis(100);
        const DEPARTS_WITHIN: Duration = Duration::from_secs(10);
        const TAKEN_WITHIN: Duration = Duration::from_secs(1);
        const LOOK_EVERY: Duration = Duration::from_micros(500);
        let mut now = clock::now();
        let deadline = now + PATIENCE;
        let mut session = self.session.try_lock_for(PATIENCE);
        let mut guard = self.pump.try_lock_for(PATIENCE);
        let wants = guard.as_deref_mut().and_then(Option::as_mut).is_some_and(Pump::wants_to_meet);
        drop(guard);
        if let Some(session) = session.as_deref_mut().filter(|_| wants) {
            // Datagrams whose fabric path is still unknown have already completed as sent.
            self.ask_wanted_paths(session);
        }
        if let Some(mut guard) = self.pump.try_lock_for(PATIENCE)
            && let Some(pump) = guard.as_mut()
        {
            pump.hca.release_acks(now, None);
            pump.transmit(now);
            pump.ring_doorbells();
            // Injected faults may hold packets back that the program has sent.
            let departs_until = now + DEPARTS_WITHIN;
            let waits = |pump: &Pump, now| {
                now < deadline && pump.stack.is_blocked() || now < departs_until && pump.stack.departing_at().is_some()
            };
            while waits(pump, now) {
                let pause = pump.stack.poll_timeout().map_or(Duration::ZERO, |at| at.since(now));
                std::thread::sleep(pause.min(PATIENCE));
                now = clock::now();
                pump.timers(now);
                pump.transmit(now);
            }
            while clock::now() < deadline && pump.streams.have_unacknowledged() {
                std::thread::sleep(LOOK_EVERY);
            }
            // Receivers of datagrams over a fabric take them while the ring to them exists, and may not know of it yet.
            let deadline = now + TAKEN_WITHIN;
            while clock::now() < deadline && !pump.hca.datagrams_are_taken() {
                std::thread::sleep(LOOK_EVERY);
            }
            let damaged = pump.stack.stats().rx_icrc_errors;
            if damaged > 0 {
                crate::log::note(&format!("{damaged} packets with a wrong ICRC were dropped"));
            }
            if let Some(told) = pump.poll_ledger(now, self.driver.tally(), true, |_| 0)
                && let Some(session) = &mut session
            {
                session.publish(&told);
                fabric::tell_traffic(session, pump.take_fabric_traffic());
                fabric::tell_losses(session, pump.take_fabric_losses());
            }
            trace::flush();
            if let Some(record) = &mut pump.record {
                record.posted(clock::now(), &mut pump.hca);
                record.observe(clock::now(), &pump.hca, Extent::Everything);
                record.end();
            }
        }
    }
}
