//! Records for tests.

use weft_explain::Recording;
use weft_record::{Attributes, Capacity, CompletionInfo, Event, Operation, PacketInfo, PathKind, Record, RequestInfo};
use weft_verbs::Gid;

/// The recorded queue pair.
pub const QPN: u32 = 0x11;

/// A request of this length, signaled.
pub fn request(operation: Operation, length: u32) -> RequestInfo {
    RequestInfo { wr_id: 0, operation, flags: 2, sges: 1, length, imm: 0, remote_addr: 0, rkey: 0 }
}

/// A received packet with this opcode.
pub fn packet(opcode: u8) -> PacketInfo {
    let peer = Gid([2; 16]);
    PacketInfo { peer, dest_qpn: QPN, psn: 1, opcode, syndrome: None, ack_req: false, pkey: 0xffff, bytes: 0 }
}

/// A change of state.
pub fn state(from: u8, to: u8) -> Event {
    Event::State { from, to, path: PathKind::Wire }
}

/// An event of the queue pair's connection.
pub fn connection_event(event: u8) -> Event {
    Event::Connection { event, status: 0 }
}

/// An event of a connection that has no queue pair yet.
pub fn process_event(event: u8) -> Event {
    connection_event(event)
}

/// The records of a process.
#[derive(Clone)]
pub struct Script {
    /// By time, in the order of [`Script::recording`].
    pub records: Vec<Record>,
}

impl Script {
    /// A queue pair that reaches RTS at 100.
    pub fn connected() -> Script {
        let attributes = Attributes { mtu: 1024, timeout: 14, ..Attributes::default() };
        let capacity = Capacity { max_send_wr: 16, max_recv_wr: 16, ..Capacity::default() };
        Script { records: Vec::new() }
            .with(1, Event::Created { qp_type: 2, device: 0 })
            .with(1, Event::Capacity(capacity))
            .with(2, state(0, 1))
            .with(99, state(1, 2))
            .with(100, state(2, 3))
            .with(100, Event::Attributes(attributes))
    }

    /// Adds an event. Those of a connection that has no queue pair yet are the process's.
    pub fn with(mut self, at: u64, event: Event) -> Script {
        let is_own = !matches!(event, Event::Connection { event: 2 | 4, .. });
        self.records.push(Record { at, qpn: if is_own { QPN } else { 0 }, event });
        self
    }

    /// Adds a request.
    pub fn posted(self, at: u64, request: RequestInfo) -> Script {
        self.with(at, Event::Request(request))
    }

    /// Adds a polled completion.
    pub fn completed(self, at: u64, opcode: u8, status: u8, bytes: u32) -> Script {
        let wc = CompletionInfo { wr_id: 0, status, opcode, bytes, vendor_err: 0, made_at: at, imm: 0, flags: 0 };
        self.with(at, Event::Completed(wc))
    }

    /// Gives the queue pair another type.
    pub fn of_type(mut self, kind: u8) -> Script {
        for record in &mut self.records {
            if let Event::Created { qp_type, .. } = &mut record.event {
                *qp_type = kind;
            }
        }
        self
    }

    /// Gives the queue pair a shared receive queue.
    pub fn with_srq(mut self) -> Script {
        for record in &mut self.records {
            if let Event::Capacity(capacity) = &mut record.event {
                capacity.has_srq = true;
            }
        }
        self
    }

    /// Returns the record of the process.
    pub fn recording(&self) -> Recording {
        let mut records = self.records.clone();
        records.sort_by_key(|record| record.at);
        Recording { pid: 7, host: "host".to_owned(), records, ..Recording::default() }
    }
}
