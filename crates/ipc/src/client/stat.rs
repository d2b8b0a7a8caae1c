//! Requests about counters and objects of processes.

use std::time::Duration;

use super::Client;
use crate::limits::{DEVICES_MAX, FABRIC_HOSTS_MAX};
use crate::printable::printable;
use crate::stat::{Ledger, QpCursor, QpPage, StatReport};
use crate::{Request, RequestError, Response};

/// How long a process takes to bring its ledger up to date, if it gets any processor time.
const LEDGERS_FRESH_AFTER: Duration = Duration::from_millis(30);

/// Pages in one list of queue pairs: every process of a host, each with as many as it can report.
const QP_PAGES_MAX: usize = 1 << 14;

impl Client {
    /// Opens a ledger for this process's counters. A new daemon gives a new one.
    pub fn open_ledger(&mut self) -> Result<Ledger, RequestError> {
        let (response, mut fds) = self.exchange(Request::OpenLedger, &[], 1)?;
        match (response, fds.pop()) {
            (Response::Ledger, Some(memory)) => Ok(Ledger::new(&memory.into())?),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Asks every process to bring its ledger up to date, and waits for as long as that takes.
    pub fn refresh_ledgers(&mut self) -> Result<(), RequestError> {
        self.done(Request::RefreshLedgers)?;
        std::thread::sleep(LEDGERS_FRESH_AFTER);
        Ok(())
    }

    /// Returns the counters and objects of all processes, all pages in one.
    pub fn stat(&mut self) -> Result<StatReport, RequestError> {
        let mut whole = StatReport::default();
        loop {
            let offset = u32::try_from(whole.devices.len()).unwrap_or(u32::MAX);
            let Response::Stat(page) = self.request(Request::Stat { offset })? else {
                return Err(RequestError::Protocol);
            };
            let last = !page.more || page.devices.is_empty();
            let mut devices = whole.devices;
            devices.extend(page.devices.iter().cloned());
            whole = StatReport { devices, more: false, ..page };
            if last || whole.devices.len() > DEVICES_MAX + FABRIC_HOSTS_MAX {
                return Ok(whole);
            }
        }
    }

    /// Returns the queue pairs of all processes, page by page.
    pub fn list_qps(&mut self) -> Result<Vec<QpPage>, RequestError> {
        let (mut pages, mut cursor) = (Vec::new(), QpCursor::default());
        loop {
            let Response::Qps(mut page) = self.request(Request::ListQps(cursor))? else {
                return Err(RequestError::Protocol);
            };
            page.comm = printable(&page.comm);
            page.host = printable(&page.host);
            // A page whose cursor does not advance would repeat forever.
            let next = page.next.filter(|next| *next > cursor);
            pages.push(*page);
            match next {
                Some(next) if pages.len() < QP_PAGES_MAX => cursor = next,
                _ => return Ok(pages),
            }
        }
    }
}
