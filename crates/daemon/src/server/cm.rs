//! The connection manager's part of the loop: datagrams of queue pair 1, events to channels, questions to the kernel.

use std::time::Instant;

use weft_cm::rdma_cm::{GmpAddress, MadBytes};
use weft_sys::epoll::Interest;
use weft_wire::mad::Gmp;
use zerocopy::IntoBytes;

use super::{Server, tokens};
use crate::broker::Broker;
use crate::cm_service::Sent;
use crate::gsi_faults::SessionFaults;

impl Server {
    /// Returns when the connection manager's sockets and questions are due.
    pub(super) fn poll_cm_timeout(&mut self) -> Option<Instant> {
        let cm = self.broker.cm();
        let gsi = self.host.gsi.as_ref().and_then(|gsi| gsi.poll_timeout()).map(|at| cm.instant(at));
        let resolver = self.host.resolver.as_ref().and_then(|resolver| resolver.poll_timeout());
        let has_room = self.host.gsi.as_ref().is_none_or(|gsi| gsi.has_room());
        let departing = self.departing_faults.poll_timeout().filter(|_| has_room);
        let faults = [self.arriving_faults.poll_timeout(), departing];
        [gsi, resolver, self.host.streams.poll_timeout()].into_iter().chain(faults).flatten().min()
    }

    /// Does what is due by `now`.
    pub(super) fn handle_cm_timeout(&mut self, now: Instant) {
        let cm = self.broker.cm();
        if let Some(resolver) = &mut self.host.resolver
            && resolver.poll_timeout().is_some_and(|at| at <= now)
        {
            for (question, result) in resolver.handle_timeout(now) {
                cm.handle_resolved(now, question, result);
            }
        }
        while let Some((from, mad)) = self.arriving_faults.poll(now) {
            cm.handle_gmp(now, &from, &mad);
        }
        let time = cm.time(now);
        if self.host.gsi.as_ref().and_then(|gsi| gsi.poll_timeout()).is_some_and(|at| at <= time) {
            self.with_gsi(now, |gsi, directory, sink| gsi.handle_timeout(time, directory, sink));
        }
    }

    /// Reads some of the datagrams that wait on queue pair 1, so that programs get their turn in a flood.
    pub(super) fn on_gsi(&mut self, now: Instant) {
        let time = self.broker.cm().time(now);
        self.with_gsi(now, |gsi, directory, sink| gsi.receive(time, directory, sink));
    }

    /// Runs a function that reads datagrams, and hands the datagrams to the service.
    fn with_gsi(
        &mut self,
        now: Instant,
        take: impl FnOnce(&mut crate::gsi::Gsi, &crate::gsi::Directory, &mut dyn FnMut(GmpAddress, &Gmp)),
    ) {
        let Some(gsi) = &mut self.host.gsi else { return };
        let cm = self.broker.cm();
        let mut taken = std::mem::take(&mut self.gmps);
        take(gsi, cm.directory(), &mut |from, gmp| taken.push((from, gmp.mad)));
        for (from, mad) in taken.drain(..) {
            if let Ok(bytes) = mad.as_bytes().try_into() {
                self.take_gmp(now, &from, bytes);
            }
        }
        self.gmps = taken;
    }

    /// Hands a datagram to the service, subject to the faults of its program.
    fn take_gmp(&mut self, now: Instant, from: &GmpAddress, mad: &MadBytes) {
        if self.broker.any_faults()
            && let Some(client) = self.broker.cm().addressee(from, mad)
            && let Some(faults) = self.broker.faults_of(client)
        {
            self.arriving_faults.admit(now, client, faults, from, mad);
        } else {
            self.broker.cm().handle_gmp(now, from, mad);
        }
        while let Some((from, mad)) = self.arriving_faults.poll(now) {
            self.broker.cm().handle_gmp(now, &from, &mad);
        }
    }

    /// Handles a full channel that may have room again.
    pub(super) fn on_channel(&mut self, channel: u32) {
        if self.host.channels.flush(channel) == Sent::Full {
            return;
        }
        if self.host.channels.set_watched(channel, false)
            && let Some(writer) = self.host.channels.writer(channel)
        {
            let _ = self.epoll.delete(writer);
        }
        for cm in self.broker.all_cms_mut() {
            cm.set_channel_ready(channel, true);
        }
    }

    /// Executes the connection manager's outputs until there are none.
    pub(super) fn perform_for_cm(&mut self, now: Instant) {
        self.watch_gsi();
        self.broker.forget_questions(now, &mut self.host);
        self.change_groups(now);
        self.carry_events();
        self.transmit(now);
    }

    fn change_groups(&mut self, now: Instant) {
        let cm = self.broker.cm();
        while let Some(request) = cm.poll_multicast() {
            if request.join {
                let joined = self.host.memberships.join(request.ifindex, request.ip);
                // RoCE has no multicast LIDs.
                cm.handle_multicast(now, request.group, joined.map(|()| 0));
            } else {
                self.host.memberships.leave(request.ifindex, request.ip);
            }
        }
    }

    fn carry_events(&mut self) {
        for cm in self.broker.all_cms_mut() {
            while let Some((channel, event)) = cm.poll_event() {
                if self.host.channels.send(channel, event) == Sent::Done {
                    continue;
                }
                cm.set_channel_ready(channel, false);
                if self.host.channels.set_watched(channel, true)
                    && let Some(writer) = self.host.channels.writer(channel)
                {
                    let _ = self.epoll.add(writer, tokens::CHANNELS | u64::from(channel), Interest::WRITE);
                }
            }
        }
    }

    /// Sends pending datagrams as long as the socket takes them; the rest wait in the service.
    fn transmit(&mut self, now: Instant) {
        let time = self.broker.cm().time(now);
        let Server { host, broker, departing_faults, .. } = self;
        let Some(gsi) = &mut host.gsi else {
            // Without an open port no answer could have arrived either.
            while broker.cm().poll_transmit().is_some() {}
            return;
        };
        loop {
            let mut any = false;
            while gsi.has_room()
                && let Some((to, mad)) = next_departing(now, broker, departing_faults)
            {
                gsi.send(&to, &mad);
                any = true;
            }
            if !any {
                return;
            }
            gsi.flush(time);
        }
    }

    fn watch_gsi(&mut self) {
        if self.gsi_watched {
            return;
        }
        if let Some(gsi) = &self.host.gsi {
            for socket in gsi.fds() {
                let _ = self.epoll.add(socket, tokens::GSI, Interest::READ);
            }
            self.gsi_watched = true;
        }
    }
}

/// Returns the next datagram to send, subject to the faults of its program.
fn next_departing(
    now: Instant,
    broker: &mut Broker,
    departing_faults: &mut SessionFaults,
) -> Option<(GmpAddress, MadBytes)> {
    loop {
        if let Some(due) = departing_faults.poll(now) {
            return Some(due);
        }
        let (to, mad) = broker.cm().poll_transmit()?;
        if broker.any_faults()
            && let Some(client) = broker.cm().sender(&mad)
            && let Some(faults) = broker.faults_of(client)
        {
            departing_faults.admit(now, client, faults, &to, &mad);
        } else {
            return Some((to, mad));
        }
    }
}
