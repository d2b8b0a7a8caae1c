//! Connections that the program knows of before the engine does. It reads ESTABLISHED from the connection manager's
//! socket, while the queue pair's stream waits in the session's.

use weft_verbs::QpId;

use crate::engine::Engine;

impl Engine {
    /// Handles the daemon's messages that wait, if a queue pair's stream may be among them. Returns `false` if the queue
    /// pair still awaits its stream: then a post that its state refused ([`VerbsError::NOT_IN_RTS`]) fails again.
    ///
    /// [`VerbsError::NOT_IN_RTS`]: weft_verbs::VerbsError::NOT_IN_RTS
    #[cold]
    pub fn find_stream(&self, qp: QpId) -> bool {
        let awaits = || self.query(|hca, _| Ok(hca.awaits_stream(qp))).unwrap_or(false);
        if !awaits() {
            // Another thread may have found it since the post.
            return true;
        }
        let mut session = self.session.lock();
        if awaits() {
            let _ = self.refresh(&mut session);
        }
        !awaits()
    }
}
