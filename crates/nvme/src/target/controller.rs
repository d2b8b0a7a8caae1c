//! Controller: the properties, features and queues that one host got by Connect.
//!
//! ```text
//!           CC.EN = 1                 CC.EN = 0
//! disabled ──────────▶ ready ─────────────────────▶ disabled
//!     │  wrong sizes     │  CC.SHN
//!     ▼                  ▼
//!   fatal          shutdown complete
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::{CommandKey, QueueKey};
use crate::Status;
use crate::limits::{DISCOVERY_IDLE, KEEP_ALIVE_GRANULARITY, QUEUE_ENTRIES_MAX};
use crate::wire::{ConnectData, PropertyOffset};

/// Version property: NVM Express 1.4.
pub const VERSION: u32 = 0x0001_0400;

/// CC: enable.
const ENABLE: u32 = 1 << 0;
/// CC: command set, page size and arbitration, which have one value each, and the sizes of queue entries.
const MODES: u32 = 0x3ff0;
const ENTRY_SIZES: u32 = 0x00ff_0000;
/// CC: entries of 64 and 16 bytes.
const SIZES_OF_NVM: u32 = 6 << 16 | 4 << 20;
/// CC: shutdown notification.
const SHUTDOWN: u32 = 3 << 14;

/// CSTS.
const READY: u32 = 1 << 0;
const FATAL: u32 = 1 << 1;
const SHUTDOWN_COMPLETE: u32 = 2 << 2;

/// Controller.
#[derive(Debug)]
pub struct Controller {
    /// Identifier.
    pub id: u16,
    /// Index of the subsystem; `None` for discovery.
    pub subsystem: Option<usize>,
    /// Name of the host.
    pub host: String,
    /// Identifier of the host.
    pub host_id: [u8; 16],
    /// Admin queue.
    pub admin: QueueKey,
    /// I/O queues by their identifiers.
    pub io_queues: BTreeMap<u16, QueueKey>,
    /// Number of I/O queues that the host may connect.
    pub io_queues_granted: u16,
    /// Asynchronous Event Configuration.
    pub async_config: u32,
    /// Asynchronous Event Requests that wait.
    pub async_events: Vec<CommandKey>,
    /// Commands for the SMART log.
    pub reads: u64,
    /// Commands for the SMART log.
    pub writes: u64,
    keep_alive_ms: u32,
    expires: Option<Duration>,
    configuration: u32,
    status: u32,
}

impl Controller {
    /// Creates a disabled controller.
    pub fn new(id: u16, subsystem: Option<usize>, data: &ConnectData, admin: QueueKey, io_queues: u16) -> Controller {
        Controller {
            id,
            subsystem,
            host: data.host.clone(),
            host_id: data.host_id,
            admin,
            io_queues: BTreeMap::new(),
            io_queues_granted: io_queues,
            async_config: 0,
            async_events: Vec::new(),
            reads: 0,
            writes: 0,
            keep_alive_ms: 0,
            expires: None,
            configuration: 0,
            status: 0,
        }
    }

    /// Whether commands other than Fabrics commands are accepted.
    pub fn is_ready(&self) -> bool {
        self.status & (READY | FATAL) == READY
    }

    /// Keep-alive timeout in milliseconds; 0: none.
    pub fn keep_alive_ms(&self) -> u32 {
        self.keep_alive_ms
    }

    /// Sets the keep-alive timeout, and restarts the timer.
    pub fn set_keep_alive(&mut self, now: Duration, milliseconds: u32) {
        self.keep_alive_ms = milliseconds;
        self.on_traffic(now);
    }

    /// Restarts the keep-alive timer.
    pub fn on_traffic(&mut self, now: Duration) {
        self.expires = match self.keep_alive_ms {
            0 if self.subsystem.is_none() => Some(now + DISCOVERY_IDLE),
            0 => None,
            timeout => Some(now + Duration::from_millis(timeout.into()) + KEEP_ALIVE_GRANULARITY),
        };
    }

    /// Returns the time at which the keep-alive timer expires.
    pub fn expires(&self) -> Option<Duration> {
        self.expires
    }

    /// Returns a property. `is_long`: the host asks for 8 bytes.
    ///
    /// # Errors
    /// There is no such property, or it has another size.
    pub fn property(&self, offset: PropertyOffset, is_long: bool) -> Result<u64, Status> {
        match (offset, is_long) {
            (PropertyOffset::CAPABILITIES, true) => Ok(capabilities()),
            (PropertyOffset::VERSION, false) => Ok(VERSION.into()),
            (PropertyOffset::CONFIGURATION, false) => Ok(self.configuration.into()),
            (PropertyOffset::STATUS, false) => Ok(self.status.into()),
            _ => Err(Status::INVALID_FIELD.final_one()),
        }
    }

    /// Sets a property.
    ///
    /// # Errors
    /// There is no such property, or the host cannot set it.
    pub fn set_property(&mut self, offset: PropertyOffset, is_long: bool, value: u64) -> Result<(), Status> {
        if offset != PropertyOffset::CONFIGURATION || is_long {
            return Err(Status::INVALID_FIELD.final_one());
        }
        let (old, new) = (self.configuration, value as u32);
        self.configuration = new;
        match (old & ENABLE != 0, new & ENABLE != 0) {
            (false, true) => {
                let is_valid = new & MODES == 0 && new & ENTRY_SIZES == SIZES_OF_NVM;
                self.status = if is_valid { READY } else { FATAL };
            }
            (true, false) => self.status = 0,
            _ => {}
        }
        if new & SHUTDOWN != 0 {
            self.status |= SHUTDOWN_COMPLETE;
        }
        Ok(())
    }
}

/// Returns CAP: entries of a queue, contiguous queues, a timeout of 7.5 s, the NVM command set, pages of 4 KiB.
fn capabilities() -> u64 {
    u64::from(QUEUE_ENTRIES_MAX - 1) | 1 << 16 | 15 << 24 | 1 << 37
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{DISCOVERY_NQN, DYNAMIC_CONTROLLER};

    /// CC as Linux's host sets it.
    const LINUX: u64 = 0x0046_0001;

    fn controller() -> Controller {
        let data = ConnectData {
            host_id: [0; 16],
            controller: DYNAMIC_CONTROLLER,
            subsystem: DISCOVERY_NQN.into(),
            host: "nqn.2014-08.org.nvmexpress:uuid:1".into(),
        };
        Controller::new(1, Some(0), &data, 0, 4)
    }

    fn status_after(values: &[u64]) -> u64 {
        let mut controller = controller();
        for value in values {
            controller.set_property(PropertyOffset::CONFIGURATION, false, *value).expect("CC");
        }
        controller.property(PropertyOffset::STATUS, false).expect("CSTS")
    }

    #[test]
    fn the_status_follows_the_configuration() {
        assert_eq!(status_after(&[]), 0);
        assert_eq!(status_after(&[LINUX]), 1);
        assert_eq!(status_after(&[LINUX, LINUX & !1]), 0);
        assert_eq!(status_after(&[LINUX, LINUX | 1 << 14]), 0b1001);
        // Wrong sizes of entries, pages of 8 KiB, another command set.
        for wrong in [1, LINUX | 1 << 7, LINUX | 1 << 4] {
            assert_eq!(status_after(&[wrong]), 2, "{wrong:#x}");
        }
    }

    #[test]
    fn properties_have_one_size_each() {
        let mut controller = controller();
        assert_eq!(controller.property(PropertyOffset::CAPABILITIES, true), Ok(0x20_0f01_007f));
        let invalid = Err(Status::INVALID_FIELD.final_one());
        assert_eq!(controller.property(PropertyOffset::CAPABILITIES, false), invalid);
        assert_eq!(controller.property(PropertyOffset(0x20), false), invalid);
        assert_eq!(controller.set_property(PropertyOffset::STATUS, false, 0), Err(Status::INVALID_FIELD.final_one()));
    }

    #[test]
    fn traffic_restarts_the_keep_alive_timer() {
        let mut controller = controller();
        controller.set_keep_alive(Duration::ZERO, 5000);
        assert_eq!(controller.expires(), Some(Duration::from_secs(6)));
        controller.on_traffic(Duration::from_secs(2));
        assert_eq!(controller.expires(), Some(Duration::from_secs(8)));
        controller.set_keep_alive(Duration::ZERO, 0);
        assert_eq!(controller.expires(), None);
        // A discovery controller always ends.
        controller.subsystem = None;
        controller.on_traffic(Duration::ZERO);
        assert_eq!(controller.expires(), Some(DISCOVERY_IDLE));
    }
}
