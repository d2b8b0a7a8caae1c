//! Capabilities of ports that follow from their agents. A port's CapabilityMask shows IsDeviceManagementSupported while an
//! agent answers device management: `srp_daemon` asks the subnet administration for such ports. In Linux the agent is in
//! the kernel (`ib_srpt`), which sets the bit; programs have no call for it.

use weft_fabric::Fabric;
use weft_verbs::Instant;
use weft_wire::mad::subn::CapabilityMask;

use super::UmadService;

impl UmadService {
    /// Brings the capabilities of ports up to date with their agents.
    pub fn set_capabilities(&mut self, now: Instant, fabric: &mut Fabric) {
        while let Some((port, held)) = self.poll_device_managed() {
            fabric.set_capabilities(now, port, CapabilityMask::DEVICE_MANAGEMENT, held);
        }
    }
}
