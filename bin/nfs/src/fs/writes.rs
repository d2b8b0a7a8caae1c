//! Data of a file on its way to the server. Programs do not wait for it: small writes are collected, several are in
//! flight, and close, fsync and everything that depends on the data waits for them. Data that the server has not committed
//! is kept, and sent again if the server lost it in a restart (RFC 1813 §3.3.21).
//!
//! ```text
//!   pending --send--> in flight --reply--> unstable --COMMIT--> done
//!                        ^  \--"later"--> again |
//!                        |__________________/   | another verifier: the server lost it
//!                        |______________________/
//! ```

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::budget::Budget;
use super::cache::CacheTimes;
use crate::client::{Attributes, Handle, Stable, WriteDone, WriteResult, WriteServer};
use crate::limits::{UNSTABLE_MAX, WRITE_COLLECTS_FOR};
use crate::protocol::credential::Credential;

/// Pause before data is sent that the server asked to send later.
const LATER: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 200 });

/// Means to send data, the same for all files of a mount.
#[derive(Debug)]
pub struct WriteContext {
    /// The server.
    pub server: Arc<dyn WriteServer>,
    /// Bound on data that is collected or in flight.
    pub budget: Budget,
    /// Most bytes of one WRITE.
    pub write_max: usize,
    /// Validity of attributes.
    pub times: CacheTimes,
}

/// A file's attributes after a write.
pub trait Written: Send + Sync + 'static {
    /// Returns the file's data on its way.
    fn writes(&self) -> &Writes;

    /// Returns the server's handle.
    fn handle(&self) -> &Handle;

    /// Notes the attributes that the server told after a write.
    fn on_written(&self, attributes: Option<&Attributes>, times: &CacheTimes);
}

/// A piece of data.
#[derive(Debug)]
struct Chunk {
    offset: u64,
    data: Vec<u8>,
    by: Arc<Credential>,
    since: Instant,
}

impl Chunk {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.data.len() as u64
    }
}

#[derive(Debug, Default)]
struct State {
    /// Data that is collected.
    pending: Option<Chunk>,
    in_flight: Vec<Arc<Chunk>>,
    /// Data to send again.
    again: Vec<Arc<Chunk>>,
    /// Data that the server has and has not committed, with the verifier of the server's run.
    unstable: Vec<(Arc<Chunk>, u64)>,
    /// Lost data is sent again, and new data waits.
    is_repeating: bool,
    /// Error that no program has heard of.
    error: Option<Errno>,
}

impl State {
    /// Returns the bytes that are kept in case that the server loses them, or that it asked to send later.
    fn retained(&self) -> usize {
        self.unstable.iter().map(|(chunk, _)| chunk).chain(&self.again).map(|chunk| chunk.data.len()).sum()
    }

    fn is_dirty(&self) -> bool {
        self.pending.is_some() || !self.in_flight.is_empty() || !self.again.is_empty()
    }

    /// Whether the pending data overlaps data in flight, which the server may write later.
    fn must_wait(&self) -> bool {
        let Some(range) = self.pending.as_ref().map(Chunk::range) else { return false };
        self.in_flight.iter().chain(&self.again).any(|chunk| overlap(&chunk.range(), &range))
    }

    fn appends(&self, offset: u64, by: &Credential, len: usize, max: usize) -> bool {
        let ends_there = |chunk: &Chunk| chunk.range().end == offset && chunk.data.len() + len <= max;
        self.pending.as_ref().is_some_and(|chunk| ends_there(chunk) && *chunk.by == *by)
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// A file's data on its way.
#[derive(Debug, Default)]
pub struct Writes {
    state: Mutex<State>,
    changed: Condvar,
    /// Held during COMMIT: another thread's fsync waits for it.
    commits: Mutex<()>,
}

type Guard<'a> = MutexGuard<'a, State>;

impl Writes {
    fn state(&self) -> Guard<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while<'a>(&'a self, state: Guard<'a>, condition: impl FnMut(&mut State) -> bool) -> Guard<'a> {
        self.changed.wait_while(state, condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of the data that the server may not have; 0 if there is none.
    pub fn end(&self) -> u64 {
        let state = self.state();
        let sent = state.in_flight.iter().chain(&state.again).map(|chunk| chunk.range().end);
        sent.chain(state.pending.iter().map(|chunk| chunk.range().end)).max().unwrap_or(0)
    }

    /// Whether there is data that the server may not have.
    pub fn is_dirty(&self) -> bool {
        self.state().is_dirty()
    }

    /// Whether data has been collected for some time.
    pub fn is_old(&self) -> bool {
        let is_old = |chunk: &Chunk| chunk.since.elapsed() >= WRITE_COLLECTS_FOR;
        let state = self.state();
        state.pending.as_ref().is_some_and(is_old) || !state.again.is_empty()
    }
}

impl WriteContext {
    /// Takes data of a program. Returns whether the file begins to collect data.
    ///
    /// # Errors
    /// An earlier write failed.
    pub fn write<F: Written>(
        self: &Arc<Self>,
        file: &Arc<F>,
        by: &Arc<Credential>,
        offset: u64,
        data: &[u8],
    ) -> Result<bool, Errno> {
        if file.writes().state().retained() > UNSTABLE_MAX {
            self.flush(file)?;
        }
        let mut begins = false;
        for (index, piece) in data.chunks(self.write_max).enumerate() {
            self.budget.take(piece.len());
            let at = offset + (index * self.write_max) as u64;
            begins |= self.collect(file, by, at, piece).inspect_err(|_| self.budget.give(piece.len()))?;
        }
        Ok(begins)
    }

    fn collect<F: Written>(
        self: &Arc<Self>,
        file: &Arc<F>,
        by: &Arc<Credential>,
        offset: u64,
        data: &[u8],
    ) -> Result<bool, Errno> {
        let mut state = file.writes().wait_while(file.writes().state(), |state| state.is_repeating);
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        while state.pending.is_some() && !state.appends(offset, by, data.len(), self.write_max) {
            state = self.send_pending(file, state, Stable::Unstable);
        }
        let begins = state.pending.is_none();
        let new = || Chunk { offset, data: Vec::with_capacity(data.len()), by: by.clone(), since: Instant::now() };
        let chunk = state.pending.get_or_insert_with(new);
        chunk.data.extend_from_slice(data);
        if chunk.data.len() >= self.write_max {
            drop(self.send_pending(file, state, Stable::Unstable));
        }
        Ok(begins)
    }

    /// Sends the collected data, after data in flight that it overlaps.
    fn send_pending<'a, F: Written>(self: &Arc<Self>, file: &'a Arc<F>, state: Guard<'a>, stable: Stable) -> Guard<'a> {
        let waits = |state: &mut State| state.is_repeating || state.again.is_empty() && state.must_wait();
        let mut state = file.writes().wait_while(state, waits);
        if state.must_wait() {
            return self.send_again(file, state);
        }
        if let Some(chunk) = state.pending.take() {
            let chunk = Arc::new(chunk);
            state.in_flight.push(chunk.clone());
            drop(state);
            self.transmit(file.clone(), chunk, stable);
            state = file.writes().state();
        }
        state
    }

    fn send_again<'a, F: Written>(self: &Arc<Self>, file: &'a Arc<F>, mut state: Guard<'a>) -> Guard<'a> {
        let chunks = std::mem::take(&mut state.again);
        state.in_flight.extend(chunks.iter().cloned());
        drop(state);
        std::thread::sleep(LATER);
        for chunk in chunks {
            self.budget.take(chunk.data.len());
            self.transmit(file.clone(), chunk, Stable::Unstable);
        }
        file.writes().state()
    }

    /// Sends a chunk, which is in the list of those in flight.
    fn transmit<F: Written>(self: &Arc<Self>, file: Arc<F>, chunk: Arc<Chunk>, stable: Stable) {
        let (context, of_file, sent) = (self.clone(), file.clone(), chunk.clone());
        let done: WriteDone = Box::new(move |result| context.on_reply(&of_file, &sent, result));
        self.server.write(&chunk.by, file.handle(), (chunk.offset, &chunk.data), stable, done);
    }

    /// Handles a reply, in the transport's thread.
    fn on_reply<F: Written>(self: &Arc<Self>, file: &Arc<F>, chunk: &Arc<Chunk>, result: Result<WriteResult, Errno>) {
        let mut state = file.writes().state();
        state.in_flight.retain(|sent| !Arc::ptr_eq(sent, chunk));
        let mut rest = None;
        match result {
            Ok(WriteResult { count: 0, .. }) => state.error = Some(Errno::IO),
            Ok(WriteResult { count, is_stable, verifier, attributes }) => {
                file.on_written(attributes.as_ref(), &self.times);
                rest = chunk.rest(count as usize);
                if let Some(rest) = &rest {
                    state.in_flight.push(rest.clone());
                }
                if !is_stable {
                    let written = if rest.is_some() { chunk.first(count as usize) } else { chunk.clone() };
                    state.unstable.push((written, verifier));
                }
            }
            Err(Errno::AGAIN) => state.again.push(chunk.clone()),
            Err(error) => state.error = Some(error),
        }
        drop(state);
        let left = rest.as_ref().map_or(0, |rest| rest.data.len());
        // Data to send again does not count: the program that sends it may be the one that waits for room.
        self.budget.give(chunk.data.len() - left);
        if let Some(rest) = rest {
            self.transmit(file.clone(), rest, Stable::Unstable);
        }
        file.writes().changed.notify_all();
    }

    /// Sends what was collected for some time, without waiting for the reply.
    pub fn send_old<F: Written>(self: &Arc<Self>, file: &Arc<F>) {
        let mut state = file.writes().state();
        if !state.again.is_empty() {
            state = self.send_again(file, state);
        }
        drop(self.send_pending(file, state, Stable::Unstable));
    }

    /// Waits until the server has all data.
    pub fn settle<F: Written>(self: &Arc<Self>, file: &Arc<F>) {
        let mut state = file.writes().state();
        while state.is_dirty() {
            state = match state.pending.is_some() {
                true => self.send_pending(file, state, Stable::Unstable),
                false => self.drain(file, state),
            };
        }
    }

    /// Waits until all data is on the server's disk.
    ///
    /// # Errors
    /// A write failed.
    pub fn flush<F: Written>(self: &Arc<Self>, file: &Arc<F>) -> Result<(), Errno> {
        let writes = file.writes();
        let _commits = writes.commits.lock().unwrap_or_else(PoisonError::into_inner);
        let state = writes.state();
        let is_alone = state.in_flight.is_empty() && state.again.is_empty() && state.unstable.is_empty();
        // A single WRITE needs no COMMIT behind it.
        let stable = if is_alone { Stable::FileSync } else { Stable::Unstable };
        drop(self.send_pending(file, state, stable));
        loop {
            self.settle(file);
            let (batch, error) = {
                let mut state = writes.state();
                (std::mem::take(&mut state.unstable), state.error.take())
            };
            if let Some(error) = error {
                return Err(error);
            }
            let Some((first, _)) = batch.first() else { return Ok(()) };
            let (verifier, attributes) = self.server.commit(&first.by, file.handle())?;
            file.on_written(attributes.as_ref(), &self.times);
            self.send_lost(file, batch, verifier);
        }
    }

    /// Sends data again that the server lost, in its order, with newer data that may be at the same place.
    fn send_lost<F: Written>(self: &Arc<Self>, file: &Arc<F>, batch: Vec<(Arc<Chunk>, u64)>, verifier: u64) {
        // Data behind the first lost one is sent again, too: it may be at the same place.
        let lost = batch.into_iter().skip_while(|(_, of_run)| *of_run == verifier);
        let lost: Vec<Arc<Chunk>> = lost.map(|(chunk, _)| chunk).collect();
        if lost.is_empty() {
            return;
        }
        let mut state = file.writes().state();
        state.is_repeating = true;
        state = self.drain(file, state);
        let newer = std::mem::take(&mut state.unstable).into_iter().map(|(chunk, _)| chunk);
        for chunk in lost.into_iter().chain(newer) {
            drop(state);
            self.budget.take(chunk.data.len());
            state = file.writes().state();
            state.in_flight.push(chunk.clone());
            drop(state);
            self.transmit(file.clone(), chunk, Stable::Unstable);
            state = self.drain(file, file.writes().state());
        }
        state.is_repeating = false;
        drop(state);
        file.writes().changed.notify_all();
    }

    /// Waits until no data is in flight.
    fn drain<'a, F: Written>(self: &Arc<Self>, file: &'a Arc<F>, mut state: Guard<'a>) -> Guard<'a> {
        while !(state.in_flight.is_empty() && state.again.is_empty()) {
            state = match state.again.is_empty() {
                false => self.send_again(file, state),
                true => file.writes().wait_while(state, |state| !state.in_flight.is_empty() && state.again.is_empty()),
            };
        }
        state
    }
}

impl Chunk {
    /// Returns the data behind the first `count` bytes, if there is some.
    fn rest(&self, count: usize) -> Option<Arc<Chunk>> {
        let data = self.data.get(count..).filter(|data| !data.is_empty())?.to_vec();
        Some(Arc::new(Chunk { offset: self.offset + count as u64, data, by: self.by.clone(), since: self.since }))
    }

    fn first(&self, count: usize) -> Arc<Chunk> {
        let data = self.data.get(..count).unwrap_or(&self.data).to_vec();
        Arc::new(Chunk { offset: self.offset, data, by: self.by.clone(), since: self.since })
    }
}

#[cfg(test)]
mod tests;
