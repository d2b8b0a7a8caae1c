//! Connections that the program knows of before the engine does. It reads ESTABLISHED from the connection manager's
//! socket, while the queue pair's stream waits in the session's.

use weft_verbs::QpId;

use crate::engine::Engine;

impl Engine {
    /// Handles the daemon's messages that wait, if an unconnected iWARP queue pair's stream may be among them. Returns
    /// whether the queue pair has a stream now: a post that its state refused may succeed, and it is in RTS.
    #[cold]
    pub fn find_stream(&self, qp: QpId) -> bool {
        let awaits = || self.query(|hca, _| Ok(hca.awaits_stream(qp))).unwrap_or(false);
        if !awaits() {
            return false;
        }
        let mut session = self.session.lock();
        // The background thread may have handled the message while this thread waited for the session.
        let refreshed = !awaits() || self.refresh(&mut session).is_ok();
        refreshed && !awaits()
    }
}
