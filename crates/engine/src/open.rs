//! Opening of devices. The first open gets the process its slot, its sockets and its background thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_link::StackConfig;
use weft_verbs::DeviceId;
use weft_verbs::injection::Call;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::{ContextId, EventSink};
use crate::pump::{Pump, PumpConfig};
use crate::session::Session;
use crate::sources::Sources;
use crate::{background, clock, config, record, singleton, strict, trace};

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
            return Err(gone());
        }
        if self.pump.lock().is_none() {
            let mut pump = self.make_pump(&mut session)?;
            let sources = Sources::new(&mut pump)?;
            self.sources.get_or_init(|| sources);
            *self.pump.lock() = Some(pump);
            singleton::flush_at_exit();
        }
        drop(session);
        // The daemon has the device, but an injected event may have taken it out of service.
        if self.query(|hca, _| Ok(hca.device(device).is_none())) == Ok(true) {
            return Err(gone());
        }
        self.query(|hca, _| hca.may_call(device, Call::OpenDevice))
            .map_err(|error| EngineError::new(error.errno(), error.to_string()))?;
        // Before the thread, which may raise injected events in its first turn.
        let context = self.sinks.lock().add(device, sink);
        if !self.background.swap(true, Ordering::Relaxed)
            && let Err(error) = background::start(self)
        {
            self.background.store(false, Ordering::Relaxed);
            self.sinks.lock().remove(context);
            return Err(error.into());
        }
        Ok(context)
    }

    fn make_pump(&self, session: &mut Session) -> Result<Pump, EngineError> {
        let plan = config::faults()?;
        let mut faults = plan.packets;
        let strict = config::strict()?;
        if let Some(seed) = strict {
            faults.iter_mut().for_each(|(_, fault)| fault.seed ^= seed);
            faults.push((0, strict::late_datagrams(seed)));
            strict::start(seed);
        }
        trace::start(&config::trace()?)?;
        // A fabric without packets has no wire: there, a process that cannot be met is unreachable.
        let on_fabric = session.devices().iter().any(|device| device.attr.fabric().is_some());
        let by_wire = config::loops_by_wire()? && !on_fabric;
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
                faults,
                capture,
                hops,
            },
        });
        pump.record = record::start();
        if pump.record.is_some() {
            pump.hca.keep_posted();
        }
        if by_hops {
            pump.hca.send_fabric_packets();
        }
        let now = clock::now();
        plan.injections.into_iter().for_each(|(number, injection)| pump.hca.inject(now, number, injection));
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

fn gone() -> EngineError {
    EngineError::new(EngineError::ENODEV, "the device is gone; list the devices again")
}

/// Whether this process may use what the kernel reserves for CAP_NET_RAW.
fn is_privileged() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::NET_RAW))
}
