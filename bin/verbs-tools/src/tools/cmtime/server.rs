//! The server: accepts every connection, and drops it when the peer disconnects. It runs until it is killed.

use std::collections::BTreeMap;
use std::io;

use weft_abi_types::{IBV_QPT_RC, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DISCONNECTED, RDMA_PS_TCP};

use super::options::{DEPTH, Options};
use crate::cm_tools::perror;
use crate::outln;
use weft_client::rdmacm::{BareQp, CmId, Event, EventChannel, IdKey};

/// The server.
pub struct Server<'a> {
    options: &'a Options,
    connections: BTreeMap<IdKey, (BareQp, CmId)>,
    channel: EventChannel,
}

impl<'a> Server<'a> {
    /// Creates a server.
    pub fn new(options: &'a Options, channel: EventChannel) -> Server<'a> {
        Server { options, connections: BTreeMap::new(), channel }
    }

    /// Serves connections.
    ///
    /// # Errors
    /// The exit status.
    pub fn run(mut self) -> Result<(), i32> {
        let listener = CmId::new(&self.channel, RDMA_PS_TCP).map_err(|e| failure("listen request failed", &e))?;
        let src = self.options.resolve(self.channel.library())?.src.ok_or(-1)?;
        listener.bind(&src).map_err(|e| failure("bind address failed", &e))?;
        listener.listen(0).map_err(|e| failure("failure trying to listen", &e))?;
        loop {
            match self.channel.next() {
                Ok(event) => self.on_event(event),
                Err(e) => {
                    perror("failure in rdma_get_cm_event in process_server_events", &e);
                    return Ok(());
                }
            }
        }
    }

    fn on_event(&mut self, mut event: Event) {
        match event.kind {
            RDMA_CM_EVENT_CONNECT_REQUEST => {
                if let Some(id) = event.incoming.take() {
                    self.accept(id);
                }
            }
            RDMA_CM_EVENT_DISCONNECTED => {
                if let Some((qp, id)) = self.connections.remove(&event.id) {
                    // Completes the peer's disconnect.
                    let _ = id.disconnect();
                    drop(qp);
                }
            }
            _ => {}
        }
    }

    fn accept(&mut self, id: CmId) {
        let accepted = id.create_bare_qp(IBV_QPT_RC, DEPTH).map_err(|e| failure("failure creating qp", &e));
        let accepted =
            accepted.and_then(|qp| id.accept(None).map(|()| qp).map_err(|e| failure("failure accepting", &e)));
        match accepted {
            Ok(qp) => drop(self.connections.insert(id.key(), (qp, id))),
            Err(_) => {
                outln!("failing connection request");
                let _ = id.reject();
            }
        }
    }
}

/// Prints the error and returns -1, as librdmacm's calls do.
fn failure(what: &str, error: &io::Error) -> i32 {
    perror(what, error);
    -1
}
