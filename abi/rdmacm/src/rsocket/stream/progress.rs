//! Changes of a stream's state by completions.

use libc::{c_int, pollfd};
use std::mem::MaybeUninit;
use weft_abi_types::{IBV_WC_SUCCESS, IBV_WC_WITH_IMM, ibv_wc};

use super::Core;
use super::work::Work;
use crate::rsocket::completions::BATCH;
use crate::rsocket::proto::message::{Control, Message};
use crate::rsocket::proto::state::State;
use crate::rsocket::wait::Progress;
use crate::rsocket::wake::Wakers;

impl Core {
    /// Takes completions, and posts a new receive for each used one. Returns whether there were any.
    fn take_completions(&mut self) -> Result<bool, c_int> {
        let mut wcs = [MaybeUninit::<ibv_wc>::uninit(); BATCH];
        let mut any = false;
        loop {
            let Some(endpoint) = &self.endpoint else { return Ok(any) };
            let count = endpoint.completions.poll(&mut wcs)?;
            let mut received = 0;
            for wc in wcs.iter().take(count) {
                // SAFETY: the poll filled it in.
                let wc = unsafe { wc.assume_init_ref() };
                match Work::of(wc.wr_id) {
                    Work::Receive => received += u32::from(self.on_receive(wc)?),
                    work => self.on_sent(work, wc.status == IBV_WC_SUCCESS),
                }
            }
            any |= count > 0;
            if self.state.connected() {
                let Some(endpoint) = &mut self.endpoint else { return Ok(any) };
                (0..received).try_for_each(|_| endpoint.post_receive())?;
            }
            if count < BATCH {
                return Ok(any);
            }
        }
    }

    /// Handles a completed receive; returns whether a message used it.
    fn on_receive(&mut self, wc: &ibv_wc) -> Result<bool, c_int> {
        if wc.status != IBV_WC_SUCCESS {
            // The queue pair failed, or was stopped because the connection is over.
            self.break_with(libc::ECONNRESET);
            return Ok(false);
        }
        let Some(endpoint) = &mut self.endpoint else { return Ok(false) };
        let sent = endpoint.take_message(wc.byte_len);
        let message = if wc.wc_flags & IBV_WC_WITH_IMM == 0 {
            sent
        } else {
            // SAFETY: the flag says that there is immediate data.
            Some(u32::from_be(unsafe { wc.imm.imm_data }))
        };
        let Some(message) = message else { return Ok(true) };
        match Message::decode(message) {
            Message::Data(bytes) => endpoint.inbound.push(bytes).map_err(|_| libc::EPROTO)?,
            Message::Credits(limit) => {
                if let Some(peer) = &mut endpoint.peer {
                    peer.credits.raise(limit);
                }
            }
            // It was counted as a message when it was sent.
            Message::IoMap(_) => endpoint.receive_credits.consume(),
            Message::Control(control) => self.state = self.state.on_control(control),
            Message::Unknown(_) => {}
        }
        Ok(true)
    }

    /// Handles a completed send.
    fn on_sent(&mut self, work: Work, success: bool) {
        if let Some(endpoint) = &mut self.endpoint {
            match work {
                Work::Data(bytes) | Work::IoMap(bytes) => {
                    endpoint.slots += 1;
                    endpoint.outbound.complete(bytes);
                }
                Work::Credits | Work::Control(_) => endpoint.control.put_back(),
                Work::Receive | Work::Placed => {}
            }
        }
        if work == Work::Control(Control::Disconnect) && self.state.connected() {
            self.state = State::Disconnected;
        } else if !success {
            self.break_with(libc::EIO);
        }
    }

    fn give_credits(&mut self) -> Result<(), c_int> {
        match &mut self.endpoint {
            Some(endpoint) if self.state.connected() => endpoint.give_credits(),
            _ => Ok(()),
        }
    }
}

impl Progress for Core {
    fn progress(&mut self) {
        if self.state.opening() {
            // The peer may consider the connection established before we know which memory it lent us.
            return;
        }
        let moved = self.take_completions().and_then(|any| self.give_credits().map(|()| any));
        match moved {
            Ok(true) => self.wakers.wake(),
            Ok(false) => {}
            Err(errno) => self.break_with(errno),
        }
    }

    fn arm(&mut self) {
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.completions.arm();
        }
    }

    fn drain(&mut self) {
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.completions.drain();
        }
        self.wakers.wake();
    }

    fn watch(&self, fds: &mut Vec<pollfd>) {
        fds.extend(self.endpoint.as_ref().map(|endpoint| endpoint.completions.watch()));
    }

    fn wakers(&mut self) -> &mut Wakers {
        &mut self.wakers
    }
}
