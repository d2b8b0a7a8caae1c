//! Requests in progress, and the pieces of them that wait to be sent.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::action::{CommandData, RequestFailure, RequestKey};
use super::identity::ControllerInfo;
use super::request::{Piece, Request};
use crate::Status;
use crate::limits::{RETRIES_MAX, RETRY_DELAY};
use crate::wire::Command;

/// End of a request.
pub type Done = (RequestKey, Result<(), RequestFailure>);

/// Requests in progress.
#[derive(Debug, Default)]
pub struct Backlog {
    requests: BTreeMap<RequestKey, Request>,
    /// Requests that are not cut up, in their order.
    waiting: VecDeque<RequestKey>,
    /// Pieces to send again, and when.
    again: VecDeque<(Duration, Piece)>,
    done: Vec<Done>,
}

impl Backlog {
    /// Adds a request.
    pub fn submit(&mut self, key: RequestKey, request: Request) {
        self.requests.insert(key, request);
        self.waiting.push_back(key);
    }

    /// Ends a request that never began.
    pub fn refuse(&mut self, key: RequestKey, failure: RequestFailure) {
        self.done.push((key, Err(failure)));
    }

    /// Whether no request is in progress.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the namespace of a piece.
    pub fn namespace(&self, piece: &Piece) -> Option<u32> {
        self.requests.get(&piece.request).map(|request| request.nsid)
    }

    /// Returns the next piece to send: one that failed before comes first.
    pub fn next(&mut self, now: Duration, controller: &ControllerInfo) -> Option<Piece> {
        while let Some(index) = self.again.iter().position(|(at, _)| *at <= now) {
            let (_, piece) = self.again.remove(index)?;
            if self.requests.get(&piece.request).is_some_and(|request| request.failure.is_none()) {
                return Some(piece);
            }
            self.end_piece(piece.request, None);
        }
        while let Some(key) = self.waiting.front().copied() {
            let piece = self.requests.get_mut(&key).and_then(|request| request.cut(key, controller));
            if self.requests.get(&key).is_none_or(Request::is_cut_up) {
                self.waiting.pop_front();
            }
            if piece.is_some() {
                return piece;
            }
            self.finish(key);
        }
        None
    }

    /// Returns the time at which the next piece is sent again.
    pub fn next_retry(&self) -> Option<Duration> {
        self.again.iter().map(|(at, _)| *at).min()
    }

    /// Returns the command of a piece, and its data.
    pub fn command(&self, piece: &Piece, in_capsule: u32) -> Option<(Command, CommandData)> {
        self.requests.get(&piece.request).map(|request| request.command(piece, in_capsule))
    }

    /// Ends a piece with a status, or keeps it to be sent again.
    pub fn end(&mut self, now: Duration, piece: Piece, status: Status) {
        if status.may_pass() && piece.attempts < RETRIES_MAX {
            self.retry(now + RETRY_DELAY, piece);
        } else {
            let failure = (!status.is_success()).then_some(RequestFailure::Status(status));
            self.end_piece(piece.request, failure);
        }
    }

    /// Keeps a piece whose connection was lost, unless it was sent too often.
    pub fn lost(&mut self, now: Duration, piece: Piece) {
        if piece.attempts < RETRIES_MAX {
            self.retry(now, piece);
        } else {
            self.end_piece(piece.request, Some(RequestFailure::Lost));
        }
    }

    fn retry(&mut self, at: Duration, mut piece: Piece) {
        piece.attempts += 1;
        self.again.push_back((at, piece));
    }

    fn end_piece(&mut self, key: RequestKey, failure: Option<RequestFailure>) {
        if let Some(request) = self.requests.get_mut(&key) {
            request.open = request.open.saturating_sub(1);
            request.failure = request.failure.or(failure);
        }
        self.finish(key);
    }

    /// Ends a request without further pieces.
    fn finish(&mut self, key: RequestKey) {
        let is_over = |request: &Request| request.open == 0 && request.is_cut_up();
        if self.requests.get(&key).is_some_and(is_over)
            && let Some(request) = self.requests.remove(&key)
        {
            self.done.push((key, request.failure.map_or(Ok(()), Err)));
        }
    }

    /// Ends all requests.
    pub fn end_all(&mut self, failure: RequestFailure) {
        self.waiting.clear();
        self.again.clear();
        let ended = std::mem::take(&mut self.requests);
        self.done.extend(ended.into_keys().map(|key| (key, Err(failure))));
    }

    /// Takes the requests that have ended.
    pub fn take_done(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.done)
    }
}
