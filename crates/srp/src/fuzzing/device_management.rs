//! Datagrams for the device management agent.

use weft_wire::mad::{Class, MAD_LEN, Mad, Status};

use crate::device_management::{Controller, DeviceManager};

/// Feeds datagrams, each of 256 bytes, to an agent: a response repeats transaction and attribute, and an error has no data.
/// Returns the number of responses.
pub fn device_management(bytes: &[u8]) -> usize {
    let agent = DeviceManager::new(&Controller {
        ioc_guid: 1,
        id_ext: 2,
        service_id: 3,
        vendor_id: 4,
        name: "fuzz".into(),
        rdma_read_depth: 5,
        transfer_bytes: 6,
    });
    let mut answered = 0;
    for piece in bytes.chunks(MAD_LEN) {
        let mut whole = [0; MAD_LEN];
        whole[..piece.len()].copy_from_slice(piece);
        let Some(request) = Mad::parse(&whole) else { continue };
        let Some(answer) = agent.answer(&request) else { continue };
        answered += 1;
        let (asked, header) = (&request.header, &answer.header);
        assert!(header.class() == Class::DEV_MGT && agent.answer(&answer).is_none());
        assert_eq!(
            (header.tid(), header.attr_id(), header.attr_mod()),
            (asked.tid(), asked.attr_id(), asked.attr_mod())
        );
        assert!(header.status() == Status::SUCCESS || answer.data.iter().all(|byte| *byte == 0));
    }
    answered
}
