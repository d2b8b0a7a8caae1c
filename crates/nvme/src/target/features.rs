//! Set Features and Get Features (NVM Express 1.4 §5.9 and §5.21).

use std::time::Duration;

use super::controller::Controller;
use crate::Status;
use crate::wire::Command;

/// Feature identifiers.
const ARBITRATION: u32 = 0x01;
const POWER: u32 = 0x02;
const ERROR_RECOVERY: u32 = 0x05;
const WRITE_CACHE: u32 = 0x06;
const QUEUES: u32 = 0x07;
const WRITE_ATOMICITY: u32 = 0x0a;
const ASYNC_EVENTS: u32 = 0x0b;
const KEEP_ALIVE: u32 = 0x0f;
const HOST_ID: u32 = 0x81;

/// CDW10 of Set Features: save.
const SAVE: u32 = 1 << 31;
/// CDW10 of Get Features: select. Values other than the current one are not supported.
const SELECT: u32 = 7 << 8;

/// Value of a feature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Feature {
    /// A result.
    Value(u32),
    /// Data.
    Data(Vec<u8>),
}

/// Sets a feature, and returns the result.
///
/// # Errors
/// The status for the host.
pub fn set(controller: &mut Controller, now: Duration, command: &Command, queues_max: u16) -> Result<u32, Status> {
    if command.cdw(10) & SAVE != 0 {
        return Err(Status::NOT_SAVEABLE.final_one());
    }
    let value = command.cdw(11);
    match (command.cdw(10) & 0xff, controller.subsystem) {
        (QUEUES, Some(_)) => set_queues(controller, value, queues_max),
        (KEEP_ALIVE, _) => {
            controller.set_keep_alive(now, value);
            Ok(0)
        }
        (ASYNC_EVENTS, _) => {
            controller.async_config = value;
            Ok(0)
        }
        // The cache is the operating system's: it cannot be turned off.
        (WRITE_CACHE, Some(_)) if value & 1 == 1 => Ok(0),
        (ARBITRATION | POWER | ERROR_RECOVERY | WRITE_CACHE | WRITE_ATOMICITY, Some(_)) => {
            Err(Status::NOT_CHANGEABLE.final_one())
        }
        // Connect set it (NVMe-oF 1.1 §3.3).
        (HOST_ID, _) => Err(Status::SEQUENCE_ERROR.final_one()),
        _ => Err(Status::INVALID_FIELD.final_one()),
    }
}

/// Grants I/O queues: as many submission queues as completion queues, because a connection is both.
fn set_queues(controller: &mut Controller, value: u32, queues_max: u16) -> Result<u32, Status> {
    let (submission, completion) = (value & 0xffff, value >> 16);
    if submission == 0xffff || completion == 0xffff {
        return Err(Status::INVALID_FIELD.final_one());
    }
    if !controller.io_queues.is_empty() {
        return Err(Status::SEQUENCE_ERROR.final_one());
    }
    let granted = (submission.max(completion) + 1).min(queues_max.into());
    controller.io_queues_granted = granted as u16;
    Ok(queues_result(controller))
}

fn queues_result(controller: &Controller) -> u32 {
    let last = u32::from(controller.io_queues_granted.saturating_sub(1));
    last | last << 16
}

/// Returns a feature.
///
/// # Errors
/// The status for the host.
pub fn get(controller: &Controller, command: &Command) -> Result<Feature, Status> {
    if command.cdw(10) & SELECT != 0 {
        return Err(Status::INVALID_FIELD.final_one());
    }
    match (command.cdw(10) & 0xff, controller.subsystem) {
        (QUEUES, Some(_)) => Ok(Feature::Value(queues_result(controller))),
        (KEEP_ALIVE, _) => Ok(Feature::Value(controller.keep_alive_ms())),
        (ASYNC_EVENTS, _) => Ok(Feature::Value(controller.async_config)),
        (WRITE_CACHE, Some(_)) => Ok(Feature::Value(1)),
        (ARBITRATION | POWER | ERROR_RECOVERY | WRITE_ATOMICITY, Some(_)) => Ok(Feature::Value(0)),
        // Fabrics have the long form alone.
        (HOST_ID, Some(_)) if command.cdw(11) & 1 == 1 => Ok(Feature::Data(controller.host_id.to_vec())),
        _ => Err(Status::INVALID_FIELD.final_one()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{AdminOpcode, ConnectData, DYNAMIC_CONTROLLER};

    fn controller(subsystem: Option<usize>) -> Controller {
        let data = ConnectData {
            host_id: [5; 16],
            controller: DYNAMIC_CONTROLLER,
            subsystem: "nqn.2026-01.io.weft:disk".into(),
            host: "nqn.2014-08.org.nvmexpress:uuid:1".into(),
        };
        Controller::new(1, subsystem, &data, 0, 4)
    }

    fn command(feature: u32, value: u32) -> Command {
        Command::new(AdminOpcode::SET_FEATURES.0, 1, 0).with_cdw(10, feature).with_cdw(11, value)
    }

    fn setting(controller: &mut Controller, feature: u32, value: u32) -> Result<u32, u16> {
        set(controller, Duration::ZERO, &command(feature, value), 4).map_err(Status::code)
    }

    #[test]
    fn queues_are_granted_up_to_the_limit_before_the_first_connects() {
        let mut controller = controller(Some(0));
        assert_eq!(setting(&mut controller, QUEUES, 1 | 1 << 16), Ok(1 | 1 << 16));
        assert_eq!(setting(&mut controller, QUEUES, 63 | 63 << 16), Ok(3 | 3 << 16));
        assert_eq!(setting(&mut controller, QUEUES, 0xffff), Err(Status::INVALID_FIELD.code()));
        controller.io_queues.insert(1, 9);
        assert_eq!(setting(&mut controller, QUEUES, 0), Err(Status::SEQUENCE_ERROR.code()));
        assert_eq!(get(&controller, &command(QUEUES, 0)), Ok(Feature::Value(3 | 3 << 16)));
    }

    #[test]
    fn features_are_refused_with_a_reason() {
        let mut disk = controller(Some(0));
        assert_eq!(setting(&mut disk, WRITE_CACHE, 1), Ok(0));
        assert_eq!(setting(&mut disk, WRITE_CACHE, 0), Err(Status::NOT_CHANGEABLE.code()));
        assert_eq!(setting(&mut disk, KEEP_ALIVE | SAVE, 5), Err(Status::NOT_SAVEABLE.code()));
        assert_eq!(setting(&mut disk, HOST_ID, 0), Err(Status::SEQUENCE_ERROR.code()));
        assert_eq!(setting(&mut disk, 0x7e, 0), Err(Status::INVALID_FIELD.code()));
        assert_eq!(get(&disk, &command(HOST_ID, 1)), Ok(Feature::Data(vec![5; 16])));
        assert_eq!(get(&disk, &command(HOST_ID, 0)), Err(Status::INVALID_FIELD.final_one()));
        let mut discovery = controller(None);
        assert_eq!(setting(&mut discovery, QUEUES, 1), Err(Status::INVALID_FIELD.code()));
        assert_eq!(setting(&mut discovery, KEEP_ALIVE, 30_000), Ok(0));
        assert_eq!(get(&discovery, &command(KEEP_ALIVE, 0)), Ok(Feature::Value(30_000)));
    }
}
