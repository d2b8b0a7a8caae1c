//! Threads that execute calls.

use std::sync::Arc;

use weft_rdma_service::Workers;

use super::exported::Export;
use super::message::{Done, Job};

/// The threads.
pub type CallWorkers = Workers<Job, Done>;

/// Starts the threads.
///
/// # Errors
/// The system has no more threads.
pub fn start_workers(export: &Arc<Export>) -> std::io::Result<CallWorkers> {
    let export = export.clone();
    Workers::start("nfs", move |job: Job| {
        let Job { session, call, client, message, memory } = job;
        let reply = export.execute(&client, &message, memory.as_ref());
        Done { session, call, reply }
    })
}
