//! Requests about faults of running programs.

use weft_sys::unix::{self, Wait};

use super::Client;
use crate::codec::encode;
use crate::faults::{FaultEntry, FaultLifetime, FaultReply, FaultRequest, FaultTarget};
use crate::limits::FAULTS_PER_PROCESS_MAX;
use crate::printable::printable;
use crate::{ClientFrame, Request, RequestError, Response};

impl Client {
    fn fault(&mut self, request: FaultRequest) -> Result<FaultReply, RequestError> {
        match self.request(Request::Fault(request))? {
            Response::Fault(reply) => Ok(reply),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Adds a fault to running programs.
    pub fn add_fault(
        &mut self,
        spec: &str,
        target: FaultTarget,
        lifetime: FaultLifetime,
    ) -> Result<FaultEntry, RequestError> {
        match self.fault(FaultRequest::Add { spec: spec.to_owned(), target, lifetime })? {
            FaultReply::Added(entry) => Ok(shown(entry)),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Lists the faults that the user may see.
    pub fn list_faults(&mut self) -> Result<Vec<FaultEntry>, RequestError> {
        let mut all: Vec<FaultEntry> = Vec::new();
        loop {
            let after = all.last().map_or(0, |last| last.number);
            let FaultReply::List { faults, more } = self.fault(FaultRequest::List { after })? else {
                return Err(RequestError::Protocol);
            };
            let advances = faults.first().is_some_and(|first| first.number > after);
            all.extend(faults.into_iter().map(shown));
            if !more || !advances {
                return Ok(all);
            }
        }
    }

    /// Removes a fault, or all that the user may remove; returns their number.
    pub fn remove_faults(&mut self, number: Option<u32>) -> Result<u32, RequestError> {
        let request = number.map_or(FaultRequest::RemoveAll, |number| FaultRequest::Remove { number });
        match self.fault(request)? {
            FaultReply::Removed(count) => Ok(count),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Reports how often faults have struck in this process. Waits for no answer.
    pub fn report_strikes(&mut self, mut struck: Vec<(u32, u64)>) {
        struck.truncate(FAULTS_PER_PROCESS_MAX);
        let frame = ClientFrame { id: 0, request: Request::Fault(FaultRequest::Struck(struck)) };
        if let Ok(bytes) = encode(&frame) {
            let _ = unix::send(&self.fd, &bytes, &[], Wait::Block);
        }
    }
}

/// Makes the texts of an entry fit for a terminal.
fn shown(entry: FaultEntry) -> FaultEntry {
    let target = match entry.target {
        FaultTarget::Command(name) => FaultTarget::Command(printable(&name)),
        other => other,
    };
    FaultEntry { spec: printable(&entry.spec), target, ..entry }
}
