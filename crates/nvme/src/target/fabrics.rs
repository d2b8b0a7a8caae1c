//! Checks of Connect (NVMe-oF 1.1 §3.3).

use super::config::{Port, TargetConfig};
use super::controller::Controller;
use crate::Status;
use crate::limits::QUEUE_ENTRIES_MIN;
use crate::wire::{ConnectData, ConnectFields, ConnectRequest, DYNAMIC_CONTROLLER, nqn_error};

/// Marks an offset of the result as one of the data, not of the command.
const OF_DATA: u64 = 1 << 16;

/// Refusal of Connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Status.
    pub status: Status,
    /// Result: place of the invalid parameter.
    pub result: u64,
    /// Reason, for the log.
    pub reason: &'static str,
}

impl Refusal {
    /// Creates a refusal without a place.
    pub fn new(status: Status, reason: &'static str) -> Refusal {
        Refusal { status: status.final_one(), result: 0, reason }
    }

    fn in_command(offset: u16, reason: &'static str) -> Refusal {
        Refusal { result: offset.into(), ..Refusal::new(Status::CONNECT_INVALID, reason) }
    }

    fn in_data(offset: u16, reason: &'static str) -> Refusal {
        Refusal { result: u64::from(offset) | OF_DATA, ..Refusal::new(Status::CONNECT_INVALID, reason) }
    }

    /// Creates the refusal of data that cannot be read.
    pub fn malformed(offset: u16) -> Refusal {
        Refusal::in_data(offset, "malformed data of Connect")
    }
}

/// Checks the command against the connection.
///
/// # Errors
/// The refusal.
pub fn check_fields(fields: &ConnectFields, announced: &ConnectRequest) -> Result<(), Refusal> {
    if fields.format != 0 {
        let status = Refusal::new(Status::CONNECT_FORMAT, "unknown format of Connect");
        return Err(Refusal { result: ConnectFields::FORMAT_AT.into(), ..status });
    }
    if fields.queue_id != announced.queue_id {
        return Err(Refusal::in_command(ConnectFields::QUEUE_ID_AT, "the connection was made for another queue"));
    }
    let entries = fields.sq_size.checked_add(1);
    if !entries.is_some_and(|entries| (QUEUE_ENTRIES_MIN..=announced.host_sends).contains(&entries)) {
        return Err(Refusal::in_command(ConnectFields::SQ_SIZE_AT, "the queue is larger than its connection"));
    }
    Ok(())
}

/// Checks Connect on an admin queue, and returns the subsystem's index; `None` for discovery.
///
/// # Errors
/// The refusal.
pub fn check_admin(config: &TargetConfig, port: &Port, data: &ConnectData) -> Result<Option<usize>, Refusal> {
    if nqn_error(&data.host).is_some() {
        return Err(Refusal::in_data(ConnectData::HOST_AT, "the host's name is no NQN"));
    }
    if data.controller != DYNAMIC_CONTROLLER {
        return Err(Refusal::in_data(ConnectData::CONTROLLER_AT, "controllers are allocated dynamically"));
    }
    if data.is_discovery() {
        return Ok(None);
    }
    let found = port.subsystems.iter().copied().find_map(|index| {
        config.subsystems.get(index).filter(|subsystem| subsystem.nqn == data.subsystem).map(|found| (index, found))
    });
    match found {
        None => Err(Refusal::in_data(ConnectData::SUBSYSTEM_AT, "this port has no such subsystem")),
        Some((_, subsystem)) if !subsystem.allows(&data.host) => {
            Err(Refusal::new(Status::CONNECT_HOST, "the host is not allowed"))
        }
        Some((index, _)) => Ok(Some(index)),
    }
}

/// Checks Connect on an I/O queue against its controller.
///
/// # Errors
/// The refusal.
pub fn check_io(
    controller: Option<&Controller>,
    subsystem: Option<&str>,
    fields: &ConnectFields,
    data: &ConnectData,
) -> Result<(), Refusal> {
    let Some(controller) = controller else {
        return Err(Refusal::in_data(ConnectData::CONTROLLER_AT, "there is no such controller"));
    };
    if subsystem != Some(&data.subsystem) {
        return Err(Refusal::in_data(ConnectData::SUBSYSTEM_AT, "the controller belongs to another subsystem"));
    }
    if data.host != controller.host || data.host_id != controller.host_id {
        return Err(Refusal::in_data(ConnectData::HOST_AT, "the controller belongs to another host"));
    }
    if !controller.is_ready() {
        return Err(Refusal::new(Status::SEQUENCE_ERROR, "the controller is not enabled"));
    }
    if fields.queue_id > controller.io_queues_granted {
        return Err(Refusal::in_command(ConnectFields::QUEUE_ID_AT, "the controller has not as many queues"));
    }
    if controller.io_queues.contains_key(&fields.queue_id) {
        return Err(Refusal::new(Status::CONNECT_BUSY, "the queue is connected already"));
    }
    Ok(())
}
