//! Opening of devices. The first open gets the process its slot, its sockets and its background thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_link::StackConfig;
use weft_verbs::DeviceId;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::{ContextId, EventSink};
use crate::pump::{Pump, PumpConfig};
use crate::session::Session;
use crate::sources::Sources;
use crate::{background, config, singleton, strict, trace};

impl Engine {
    /// Opens a device; `sink` receives events until [`Engine::close`]. The first open gets the process its slot, its
    /// sockets and its background thread.
    ///
    /// # Errors
    /// There is no such device; the daemon refused a slot (UDP port 4791 is taken, a quota is exhausted); `WEFT_FAULT`,
    /// `WEFT_PCAP` or `WEFT_STRICT` request something impossible.
    pub fn open(&'static self, device: DeviceId, sink: Arc<dyn EventSink>) -> Result<ContextId, EngineError> {
        self.live()?;
        let mut session = self.session.lock();
        self.refresh(&mut session)?;
        if session.device(device).is_none() {
            return Err(EngineError::new(EngineError::ENODEV, "the device is gone; list the devices again"));
        }
        if self.pump.lock().is_none() {
            let mut pump = self.make_pump(&mut session)?;
            let sources = Sources::new(&mut pump)?;
            self.sources.get_or_init(|| sources);
            *self.pump.lock() = Some(pump);
            singleton::flush_at_exit();
        }
        drop(session);
        if !self.background.swap(true, Ordering::Relaxed)
            && let Err(error) = background::start(self)
        {
            self.background.store(false, Ordering::Relaxed);
            return Err(error.into());
        }
        Ok(self.sinks.lock().add(device, sink))
    }

    fn make_pump(&self, session: &mut Session) -> Result<Pump, EngineError> {
        let mut fault = config::faults()?;
        let strict = config::strict()?;
        if let Some(seed) = strict {
            fault.late_datagrams_ppm = strict::DATAGRAMS_LATE_PPM;
            fault.seed ^= seed;
            strict::start(seed);
        }
        trace::start(&config::trace()?)?;
        let by_wire = config::loops_by_wire()?;
        self.sharing.set_policy(config::sharing()?);
        let slot = session.allocate_slot()?;
        let hops = session.open_packet_channel()?;
        let by_hops = hops.is_some();
        let capture = config::capture(by_hops)?;
        let mut pump = Pump::new(PumpConfig {
            slot: slot.number,
            seed: std::array::from_fn(|_| weft_sys::random::u64()),
            privileged: is_privileged(),
            strict,
            stack: StackConfig {
                v4: Some(slot.v4),
                v6: slot.v6,
                slot: slot.number,
                ether: weft_sys::packet::are_allowed(),
                entropy: weft_sys::random::u64(),
                fault,
                capture,
                hops,
            },
        });
        if by_hops {
            pump.hca.send_fabric_packets();
        }
        for device in session.devices() {
            pump.hca.set_device(device.id, device.attr.clone());
        }
        // Ethernet ports beside a fabric whose packets go hop by hop have the same-host path alone.
        if !by_wire
            && (!by_hops || session.devices().iter().any(|device| device.has_ethernet_port()))
            && let Err(error) = self.publish(session, &mut pump, slot.number)
        {
            crate::log::note(&format!("processes of this host are reached by packets: {error}"));
            session.unpublish();
        }
        Ok(pump)
    }
}

/// Whether this process may use what the kernel reserves for CAP_NET_RAW.
fn is_privileged() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::NET_RAW))
}
