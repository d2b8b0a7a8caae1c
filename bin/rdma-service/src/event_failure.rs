//! Events of the connection manager that end a connection, in words.

use weft_abi_types::{RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE};
use weft_client::rdmacm::Event;
use weft_tool::errno;

/// Returns the reason for which an event ends a connection to a target. `target` is the kind of target that was expected;
/// `refusal` reads the private data of a refusal.
pub fn event_failure(event: &Event, target: &str, refusal: impl Fn(&[u8]) -> Option<String>) -> String {
    let private_data = event.peer.as_ref().map(|peer| &peer.private_data[..]).unwrap_or_default();
    match event.kind {
        RDMA_CM_EVENT_REJECTED => match refusal(private_data) {
            Some(reason) => format!("the target refused the connection: {reason}"),
            None => format!("the connection was refused; does {target} listen there?"),
        },
        RDMA_CM_EVENT_DISCONNECTED => "the target disconnected".to_owned(),
        RDMA_CM_EVENT_UNREACHABLE => "the target does not answer".to_owned(),
        _ if event.status < 0 => {
            let error = std::io::Error::from_raw_os_error(-event.status);
            format!("the connection failed: {}", errno::text(&error))
        }
        kind => format!("the connection failed: event {kind}, status {}", event.status),
    }
}
