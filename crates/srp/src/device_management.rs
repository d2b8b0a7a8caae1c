//! Device management agent (IBA 16.3; SRP annex B): tells which target is behind a port, and by which service identifier
//! initiators log in. `ibsrpdm` and `srp_daemon` ask it.

use weft_wire::mad::dev_mgt::{
    CLASS_VERSION, DiagnosticTimeout, ENTRIES, IoControllerProfile, IoUnitInfo, Operations, ServiceEntries,
    ServiceEntry, ServiceRange, Slot,
};
use weft_wire::mad::{AttrId, Class, ClassPortInfo, Mad, Method, ServiceMad, Status};
use zerocopy::FromZeros;

use crate::limits::{INITIATOR_IU_MAX, REQUEST_LIMIT};

/// Beginning of the name of a target's service; the extension of the target's identifier follows.
const SERVICE_NAME: &str = "SRP.T10:";
/// I/O class of SRP revision 16a.
pub const IO_CLASS_16A: u16 = 0x0100;
/// Subclass and protocol of SRP's initiators and targets.
const IO_SUBCLASS: u16 = 0x609e;
const PROTOCOL: u16 = 0x0108;
const PROTOCOL_VERSION: u16 = 1;
/// The unit has one slot, which the target's controller is in.
const SLOT: u16 = 1;
/// A response takes at most 4.096 µs × 2^18, about a second: another program may have the processor.
const RESPONSE_TIME: u8 = 18;

/// Controller of a target, as the agent describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Controller {
    /// GUID of the controller: the second half of the target port's identifier.
    pub ioc_guid: u64,
    /// Extension of the target port's identifier.
    pub id_ext: u64,
    /// Service identifier of logins.
    pub service_id: u64,
    /// Vendor's OUI.
    pub vendor_id: u32,
    /// Name for people.
    pub name: String,
    /// READs at a time on a channel.
    pub rdma_read_depth: u8,
    /// Longest transfer of a command in bytes.
    pub transfer_bytes: u32,
}

/// The agent. It keeps nothing between requests.
#[derive(Clone, Debug)]
pub struct DeviceManager {
    profile: IoControllerProfile,
    service: ServiceEntry,
}

impl DeviceManager {
    /// Methods of the requests that the agent answers.
    pub const METHODS: [Method; 2] = [Method::GET, Method::SET];

    /// Makes the agent of a unit with one controller.
    pub fn new(controller: &Controller) -> DeviceManager {
        let mut profile = IoControllerProfile::new(controller.ioc_guid, controller.vendor_id, &controller.name);
        profile.io_class = IO_CLASS_16A.into();
        profile.io_subclass = IO_SUBCLASS.into();
        profile.protocol = PROTOCOL.into();
        profile.protocol_version = PROTOCOL_VERSION.into();
        profile.send_queue_depth = REQUEST_LIMIT.into();
        profile.rdma_read_depth = controller.rdma_read_depth;
        profile.send_size = INITIATOR_IU_MAX.into();
        profile.rdma_size = controller.transfer_bytes.into();
        profile.operations = Operations::SEND_AND_RDMA_FROM_CONTROLLER.0;
        profile.service_entries = 1;
        let name = format!("{SERVICE_NAME}{:016x}", controller.id_ext);
        DeviceManager { profile, service: ServiceEntry::new(&name, controller.service_id) }
    }

    /// Returns the response to a datagram; `None` if it is no such request of the class.
    pub fn answer(&self, request: &Mad) -> Option<Mad> {
        let header = &request.header;
        if header.class() != Class::DEV_MGT || !DeviceManager::METHODS.contains(&header.method()) {
            return None;
        }
        let mut answer = ServiceMad { reserved: [0; 40], ..ServiceMad::from_mad(*request) };
        // A request's status has no meaning.
        answer.header.set_status(Status::SUCCESS);
        if let Err(status) = self.fill(&mut answer) {
            answer.data = [0; 192];
            answer.header.set_status(status);
        }
        answer.header.set_method(header.method().response());
        Some(answer.to_mad())
    }

    /// Replaces the attribute of a request by that of its response.
    fn fill(&self, mad: &mut ServiceMad) -> Result<(), Status> {
        let header = mad.header;
        if header.base_version() != weft_wire::mad::MadHeader::BASE_VERSION || header.class_version() != CLASS_VERSION {
            return Err(Status::BAD_VERSION);
        }
        if header.method() != Method::GET {
            // No attribute of this unit can be set.
            return Err(Status::BAD_METHOD_ATTRIBUTE);
        }
        match header.attr_id() {
            AttrId::CLASS_PORT_INFO => mad.set_attribute(&ClassPortInfo {
                base_version: header.base_version(),
                class_version: CLASS_VERSION,
                resp_time_value: RESPONSE_TIME,
                ..ClassPortInfo::default()
            }),
            AttrId::IO_UNIT_INFO => mad.set_attribute(&IoUnitInfo::new(1, &[Slot::Present])),
            AttrId::IO_CONTROLLER_PROFILE => {
                must_be_present(header.attr_mod())?;
                mad.set_attribute(&self.profile);
            }
            AttrId::SERVICE_ENTRIES => mad.set_attribute(&self.services(header.attr_mod())?),
            AttrId::DIAGNOSTIC_TIMEOUT => {
                must_be_present(header.attr_mod())?;
                mad.set_attribute(&DiagnosticTimeout { max_ms: 0.into() });
            }
            _ => return Err(Status::BAD_METHOD_ATTRIBUTE),
        }
        Ok(())
    }

    /// Returns the services that a modifier names.
    fn services(&self, modifier: u32) -> Result<ServiceEntries, Status> {
        let ServiceRange { slot, first, last } = ServiceRange::from_modifier(modifier);
        must_be_present(slot.into())?;
        let count = usize::from(last.checked_sub(first).ok_or(Status::INVALID_FIELD)?) + 1;
        if count > ENTRIES || last >= self.profile.service_entries {
            return Err(Status::INVALID_FIELD);
        }
        let mut services = ServiceEntries::new_zeroed();
        // The only service is the first.
        services.entries[0] = self.service;
        Ok(services)
    }
}

/// Checks the number of a slot, from 1.
fn must_be_present(slot: u32) -> Result<(), Status> {
    match slot {
        0 => Err(Status::INVALID_FIELD),
        slot if slot == u32::from(SLOT) => Ok(()),
        _ => Err(Status::DEV_MGT_NO_CONTROLLER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::mad::{Attribute, MadHeader};

    fn agent() -> DeviceManager {
        DeviceManager::new(&Controller {
            ioc_guid: 0xfeed_face_cafe_0001,
            id_ext: 0xfeed_face_cafe_0002,
            service_id: 0x013f_15b3,
            vendor_id: 0x00_0257,
            name: "Weft SRP target".into(),
            rdma_read_depth: 16,
            transfer_bytes: 1 << 20,
        })
    }

    fn ask(method: Method, attr: AttrId, modifier: u32) -> ServiceMad {
        let request = ServiceMad::new(Class::DEV_MGT, method, 7, attr, modifier).to_mad();
        ServiceMad::from_mad(agent().answer(&request).expect("a response"))
    }

    #[test]
    fn a_unit_has_one_controller_with_one_service() {
        let get = |attr, modifier| ask(Method::GET, attr, modifier);
        let unit = get(AttrId::IO_UNIT_INFO, 0);
        assert_eq!(
            (unit.header.method(), unit.header.status(), unit.header.tid()),
            (Method::GET_RESP, Status::SUCCESS, 7)
        );
        let unit: IoUnitInfo = unit.attribute().expect("a unit");
        assert_eq!((unit.max_controllers, unit.slot(1)), (1, Some(Slot::Present)));
        let profile: IoControllerProfile = get(AttrId::IO_CONTROLLER_PROFILE, 1).attribute().expect("a profile");
        assert_eq!(
            (profile.guid.get(), profile.io_class.get(), profile.service_entries),
            (0xfeed_face_cafe_0001, 0x100, 1)
        );
        let services: ServiceEntries = get(AttrId::SERVICE_ENTRIES, 1 << 16).attribute().expect("services");
        assert!(services.entries[0].name.starts_with(b"SRP.T10:feedfacecafe0002\0"));
        assert_eq!((services.entries[0].id.get(), services.entries[1].id.get()), (0x013f_15b3, 0));
        let info: ClassPortInfo = get(AttrId::CLASS_PORT_INFO, 0).attribute().expect("a class");
        assert_eq!((info.class_version, info.capability_mask), (1, 0));
        assert_eq!(get(AttrId::DIAGNOSTIC_TIMEOUT, 1).attribute(), Some(DiagnosticTimeout { max_ms: 0.into() }));
    }

    #[test]
    fn refusals_have_a_status_and_no_data() {
        let services = |slot, first, last| (AttrId::SERVICE_ENTRIES, ServiceRange { slot, first, last }.modifier());
        let status = |method, (attr, modifier)| {
            let answer = ask(method, attr, modifier);
            assert!(answer.header.status() == Status::SUCCESS || answer.data.iter().all(|byte| *byte == 0));
            answer.header.status()
        };
        for (asked, expected) in [
            ((AttrId::IO_CONTROLLER_PROFILE, 0), Status::INVALID_FIELD),
            ((AttrId::IO_CONTROLLER_PROFILE, 2), Status::DEV_MGT_NO_CONTROLLER),
            (services(0, 0, 0), Status::INVALID_FIELD),
            (services(9, 0, 0), Status::DEV_MGT_NO_CONTROLLER),
            (services(1, 0, 1), Status::INVALID_FIELD),
            (services(1, 1, 0), Status::INVALID_FIELD),
            (services(1, 0, 255), Status::INVALID_FIELD),
            ((AttrId(0x24), 1), Status::BAD_METHOD_ATTRIBUTE),
        ] {
            assert_eq!(status(Method::GET, asked), expected, "{asked:?}");
        }
        assert_eq!(status(Method::SET, (AttrId::CLASS_PORT_INFO, 0)), Status::BAD_METHOD_ATTRIBUTE);
    }

    #[test]
    fn other_classes_and_responses_get_no_answer() {
        let mad = |class, version, method| Mad {
            header: MadHeader::new(class, version, method, 1, IoUnitInfo::ID),
            data: [0xff; weft_wire::mad::DATA_LEN],
        };
        assert!(agent().answer(&mad(Class::PERF, 1, Method::GET)).is_none());
        for method in [Method::GET_RESP, Method::TRAP, Method::SEND] {
            assert!(agent().answer(&mad(Class::DEV_MGT, 1, method)).is_none(), "{method:?}");
        }
        let newer = agent().answer(&mad(Class::DEV_MGT, 2, Method::GET)).expect("a refusal");
        assert_eq!(newer.header.status(), Status::BAD_VERSION);
    }
}
