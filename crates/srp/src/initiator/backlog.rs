//! Requests in progress, and the pieces of them that wait to be sent.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::action::{DiskCommandData, RequestKey};
use super::address::UnitAddress;
use super::disk::DiskInfo;
use super::failure::{CommandFailure, RequestFailure, Retry};
use super::request::{Piece, Request};
use crate::limits::{BUSY_RETRIES_MAX, RETRIES_MAX, RETRY_DELAY};
use crate::scsi::{Cdb, Lun};

/// End of a request.
pub type Done = (RequestKey, Result<(), RequestFailure>);

/// Command for a piece.
#[derive(Debug)]
pub struct PieceCommand {
    /// The piece.
    pub piece: Piece,
    /// Logical unit.
    pub unit: UnitAddress,
    /// Command descriptor block.
    pub cdb: Cdb,
    /// Data.
    pub data: DiskCommandData,
}

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

    /// Returns the next command to send: one that failed before comes first. `find` returns a disk that can be used.
    pub fn next<'a>(&mut self, now: Duration, find: impl Fn(Lun) -> Option<&'a DiskInfo>) -> Option<PieceCommand> {
        loop {
            let (piece, disk) = self.next_piece(now, &find)?;
            let request = self.requests.get(&piece.request);
            if let (Some(disk), Some(request)) = (disk, request) {
                let (cdb, data) = request.command(&piece, disk);
                return Some(PieceCommand { piece, unit: disk.unit(), cdb, data });
            }
            self.end_piece(piece.request, Some(RequestFailure::NoDisk));
        }
    }

    fn next_piece<'a>(
        &mut self,
        now: Duration,
        find: &impl Fn(Lun) -> Option<&'a DiskInfo>,
    ) -> Option<(Piece, Option<&'a DiskInfo>)> {
        while let Some(index) = self.again.iter().position(|(at, _)| *at <= now) {
            let (_, piece) = self.again.remove(index)?;
            match self.requests.get(&piece.request) {
                Some(request) if request.failure.is_none() => return Some((piece, find(request.lun))),
                _ => self.end_piece(piece.request, None),
            }
        }
        while let Some(key) = self.waiting.front().copied() {
            let Some(request) = self.requests.get_mut(&key) else {
                self.waiting.pop_front();
                continue;
            };
            let disk = find(request.lun);
            let piece = disk.and_then(|disk| request.cut(key, disk));
            if disk.is_none() {
                request.failure = request.failure.or(Some(RequestFailure::NoDisk));
            }
            if request.is_cut_up() {
                self.waiting.pop_front();
            }
            if piece.is_some() {
                return piece.map(|piece| (piece, disk));
            }
            self.finish(key);
        }
        None
    }

    /// Returns the time at which the next piece is sent again.
    pub fn next_retry(&self) -> Option<Duration> {
        self.again.iter().map(|(at, _)| *at).min()
    }

    /// Ends a piece, or keeps it to be sent again. Returns whether it failed for good.
    pub fn end(&mut self, now: Duration, mut piece: Piece, result: Result<(), CommandFailure>) -> bool {
        let Err(failure) = result else {
            self.end_piece(piece.request, None);
            return false;
        };
        match failure.retry() {
            Retry::Soon if piece.attempts < RETRIES_MAX => {
                piece.attempts += 1;
                self.again.push_back((now, piece));
                false
            }
            Retry::Busy if piece.busy < BUSY_RETRIES_MAX => {
                piece.busy += 1;
                self.again.push_back((now + RETRY_DELAY, piece));
                false
            }
            _ => {
                self.end_piece(piece.request, Some(failure.into()));
                true
            }
        }
    }

    /// Keeps a piece whose connection was lost, or whose command was aborted, unless it was sent too often.
    pub fn lost(&mut self, now: Duration, mut piece: Piece) {
        if piece.attempts < RETRIES_MAX {
            piece.attempts += 1;
            self.again.push_back((now, piece));
        } else {
            self.end_piece(piece.request, Some(RequestFailure::Lost));
        }
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
