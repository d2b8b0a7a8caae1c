//! The server: it listens, and serves all clients.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weft_nbd::{Command, ErrorCode, Export, Reply, Request, RequestId};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_tool::errln;

use super::client::Client;
use crate::limits::{COPIED_REPLY_MAX, NBD_CLIENTS_MAX, ORPHAN_BYTES_MAX, ORPHAN_BYTES_MIN};
use crate::read_data::ReadData;

const LISTENER: u64 = 0;
const FIRST_CLIENT: u64 = 1;

/// Name of a request: the client, and the request's number on its connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestName {
    client: u64,
    id: RequestId,
}

/// Request of a client.
#[derive(Debug)]
pub struct NbdRequest {
    /// Its name, for [`NbdServer::reply`].
    pub name: RequestName,
    /// Name of the export.
    pub export: String,
    /// The command.
    pub command: Command,
}

/// Server on a Unix socket.
#[derive(Debug)]
pub struct NbdServer {
    listener: UnixListener,
    epoll: Epoll,
    exports: Arc<[Export]>,
    clients: BTreeMap<u64, Client>,
    next: u64,
    scratch: Vec<u8>,
    /// Requests in progress of clients that have gone, with the bytes of their data.
    orphans: BTreeMap<RequestName, usize>,
    orphan_bytes: usize,
    /// Clients are accepted; not while there are too many, or too much is in progress for those that have gone.
    is_listening: bool,
}

impl NbdServer {
    /// Listens on a socket, which must not exist.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn bind(path: &Path, exports: Vec<Export>) -> io::Result<NbdServer> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new()?;
        epoll.add(&listener, LISTENER, Interest::READ)?;
        Ok(NbdServer {
            listener,
            epoll,
            exports: exports.into(),
            clients: BTreeMap::new(),
            next: FIRST_CLIENT,
            scratch: Vec::new(),
            orphans: BTreeMap::new(),
            orphan_bytes: 0,
            is_listening: true,
        })
    }

    /// Changes the exports for clients that come later.
    pub fn set_exports(&mut self, exports: Vec<Export>) {
        self.exports = exports.into();
    }

    /// Handles what made the descriptor readable, and appends the requests.
    ///
    /// # Errors
    /// The system has no more descriptors for epoll.
    pub fn on_ready(&mut self, requests: &mut Vec<NbdRequest>) -> io::Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        self.epoll.wait(&mut ready, Some(Duration::ZERO))?;
        for event in ready {
            match event.token {
                LISTENER => self.accept()?,
                client => {
                    self.serve(client, requests)?;
                    if event.hung_up {
                        self.end(client)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        while self.clients.len() < NBD_CLIENTS_MAX && self.orphan_bytes <= ORPHAN_BYTES_MAX {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // No descriptors, for example: the end of another client may free one.
                Err(_) => return self.listen(self.clients.is_empty()),
            };
            let (key, client) = (self.next, Client::new(socket, self.exports.clone())?);
            self.next += 1;
            self.epoll.add(&client, key, client.interest)?;
            self.clients.insert(key, client);
            self.update(key)?;
        }
        if self.orphan_bytes > ORPHAN_BYTES_MAX && self.is_listening {
            errln!(
                "NBD: no client is accepted until requests of clients that have gone have ended: they have too much data"
            );
        }
        self.listen(false)
    }

    fn listen(&mut self, is_listening: bool) -> io::Result<()> {
        if self.is_listening != is_listening {
            self.is_listening = is_listening;
            let interest = if is_listening { Interest::READ } else { Interest::NONE };
            self.epoll.modify(&self.listener, LISTENER, interest)?;
        }
        Ok(())
    }

    /// Receives and sends.
    fn serve(&mut self, key: u64, requests: &mut Vec<NbdRequest>) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&key) else { return Ok(()) };
        let mut received = Vec::new();
        let done = client.receive(&mut self.scratch, &mut received).and_then(|()| client.exchange(&mut received));
        self.after(key, received, requests, done)
    }

    /// Appends a client's requests, and watches its socket, or ends it.
    fn after(
        &mut self,
        key: u64,
        received: Vec<Request>,
        requests: &mut Vec<NbdRequest>,
        done: io::Result<()>,
    ) -> io::Result<()> {
        let chosen = self.clients.get(&key).map_or(0, |client| client.connection.export());
        let export = self.exports.get(chosen).map(|export| export.name.clone()).unwrap_or_default();
        requests.extend(received.into_iter().map(|request| NbdRequest {
            name: RequestName { client: key, id: request.id },
            export: export.clone(),
            command: request.command,
        }));
        if done.is_err() { self.end(key) } else { self.update(key) }
    }

    /// Watches a client's socket for what it needs now.
    fn update(&mut self, key: u64) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&key) else { return Ok(()) };
        let wanted = client.wanted();
        if wanted != client.interest {
            client.interest = wanted;
            self.epoll.modify(&*client, key, wanted)?;
        }
        Ok(())
    }

    /// Forgets a client. Its requests in progress go on; nothing waits for their results.
    fn end(&mut self, key: u64) -> io::Result<()> {
        if let Some(client) = self.clients.remove(&key) {
            self.epoll.delete(&client)?;
            for (id, bytes) in client.connection.executing() {
                let bytes = bytes.max(ORPHAN_BYTES_MIN);
                self.orphan_bytes += bytes;
                self.orphans.insert(RequestName { client: key, id }, bytes);
            }
        }
        self.listen(true)
    }

    /// Replies to a request, and appends requests that waited for it.
    ///
    /// # Errors
    /// As for [`NbdServer::on_ready`].
    pub fn reply(
        &mut self,
        name: RequestName,
        result: Result<ReadData, ErrorCode>,
        requests: &mut Vec<NbdRequest>,
    ) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&name.client) else { return self.orphan_ended(name) };
        let reply = |data: ReadData| {
            let is_short = data.len() <= COPIED_REPLY_MAX;
            if is_short { Reply::Bytes(data.to_bytes()) } else { Reply::Data(data.in_few_pieces()) }
        };
        client.connection.reply(name.id, result.map(reply));
        let mut received = Vec::new();
        client.take_events(&mut received);
        let done = client.exchange(&mut received);
        self.after(name.client, received, requests, done)
    }

    fn orphan_ended(&mut self, name: RequestName) -> io::Result<()> {
        self.orphan_bytes -= self.orphans.remove(&name).unwrap_or(0);
        // Otherwise each of them would accept in vain, and log it, while a client waits.
        if self.orphan_bytes <= ORPHAN_BYTES_MAX { self.listen(true) } else { Ok(()) }
    }
}

impl AsFd for NbdServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
