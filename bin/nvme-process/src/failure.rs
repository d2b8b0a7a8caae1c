//! Events of the connection manager that end a host's connection, in words.

use weft_client::rdmacm::Event;
use weft_nvme::wire::RequestError;

/// Returns the reason for which an event ends a host's connection.
pub fn event_failure(event: &Event) -> String {
    let refusal = |private_data: &[u8]| RequestError::parse(private_data).map(|reason| reason.to_string());
    weft_rdma_service::event_failure(event, "an NVMe target", refusal)
}
