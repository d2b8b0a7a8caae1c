//! Programs' memory: regions that they offer and withdraw, and datagrams with operations.

use std::net::{Ipv4Addr, SocketAddrV4};

use rustix::io::Errno;
use weft_rds::local::Operation;
use weft_rds::{RdmaOperation, RdmaOptions, RdmaStatus, SendExtras, SocketKey};
use weft_tool::errln;

use super::memory::DeviceIndex;
use super::program::{Call, OperationRequest, SendRequest};
use super::server::Server;

const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

impl Server {
    fn device(&self, key: SocketKey) -> Option<DeviceIndex> {
        self.programs.get(&key)?.device
    }

    /// Answers a call about regions.
    pub(super) fn on_memory_call(&mut self, socket: SocketKey, call: &Call) {
        let key = call.value as u32;
        let done = match (call.operation, self.device(socket), &call.region) {
            (_, None, _) => Err(Errno::NOTCONN),
            (Operation::Offer, Some(device), Some((region, pages))) => self.memory.offer(socket, device, region, pages),
            (Operation::Check, Some(device), _) if self.memory.offers(socket, device, key) => Ok(key),
            (Operation::Withdraw, Some(device), _) if self.memory.withdraw(socket, device, key) => Ok(key),
            _ => Err(Errno::INVAL),
        };
        match done {
            Ok(key) => call.answer(0, NOWHERE, key.into(), &[]),
            Err(error) => call.answer(error.raw_os_error() as u16, NOWHERE, 0, &[]),
        }
    }

    /// A peer has used memory of a socket.
    pub(super) fn use_key(&mut self, socket: SocketKey, key: u32) {
        if let Some(device) = self.device(socket) {
            self.memory.used(socket, device, key);
        }
    }

    /// Sends a datagram of a program. The library has checked it; one of another program is lost if it is invalid.
    pub(super) fn send(&mut self, socket: SocketKey, request: SendRequest) {
        let SendRequest { to, destination, operation, payload } = request;
        let Some(wanted) = operation else {
            let _ = self.node.send_with(socket, to, payload, SendExtras { rdma: None, destination });
            return;
        };
        let Some(operation) = self.begin(socket, &wanted) else { return };
        if self.node.is_local(socket, to) {
            let is_done = self.transfer_locally(socket, to, &operation);
            let is_silent = operation.options.is_silent && payload.is_empty() && destination.is_none();
            if is_done && !is_silent {
                let _ = self.node.send_with(socket, to, payload, SendExtras { rdma: None, destination });
            }
            return;
        }
        let extras = SendExtras { rdma: Some(operation), destination };
        if self.node.send_with(socket, to, payload, extras).is_err() {
            self.memory.end(operation.id);
        }
    }

    /// Registers the memory of an operation; the program hears of a failure.
    fn begin(&mut self, socket: SocketKey, request: &OperationRequest) -> Option<RdmaOperation> {
        let OperationRequest { operation: wanted, data, pages } = request;
        let device = self.device(socket)?;
        match self.memory.begin(device, wanted, data, pages.as_ref()) {
            Ok(operation) => Some(operation),
            Err(error) => {
                errln!("weft rds: the memory of an RDMA operation: {}", weft_tool::errno::text(&error));
                let failed = RdmaOperation {
                    id: 0,
                    direction: wanted.direction,
                    key: wanted.key,
                    address: wanted.address,
                    length: wanted.length,
                    token: wanted.token,
                    options: RdmaOptions { reports_errors: true, ..wanted.options },
                };
                self.node.notify(socket, &failed, RdmaStatus::OtherError);
                None
            }
        }
    }

    /// Carries out an operation on memory of a socket of this host. Returns whether it has succeeded: after a failure the
    /// datagram is not sent, as if the connection were lost.
    fn transfer_locally(&mut self, socket: SocketKey, to: SocketAddrV4, operation: &RdmaOperation) -> bool {
        let target = self.node.socket_at(to);
        let device = target.and_then(|target| self.device(target));
        let status = self.memory.copy_locally(operation, device);
        self.node.notify(socket, operation, status);
        let is_done = status == RdmaStatus::Success;
        if let Some(target) = target.filter(|_| is_done && !operation.options.is_silent) {
            self.use_key(target, operation.key);
        }
        is_done
    }
}
