//! Admin commands of a controller that is ready, but for those that wait or touch other controllers.

use super::config::{LocalAddress, Port, Subsystem, TargetConfig};
use super::controller::{Controller, VERSION};
use crate::Status;
use crate::limits::{NAMESPACE_ID_MAX, TRANSFER_BYTES_MAX};
use crate::page::{self, ControllerPage, Entry, EntryKind};
use crate::wire::{Command, DISCOVERY_NQN};

/// Generation of the discovery log: a configuration does not change.
const GENERATION: u64 = 1;
/// Namespace identifier of all namespaces.
const ALL_NAMESPACES: u32 = 0xffff_ffff;

/// Values of Identify's CNS.
const CNS_NAMESPACE: u32 = 0x00;
const CNS_CONTROLLER: u32 = 0x01;
const CNS_ACTIVE_NAMESPACES: u32 = 0x02;
const CNS_UNIQUE_IDS: u32 = 0x03;
/// Of the NVM command set; hosts ask for it whatever the version is.
const CNS_COMMAND_SET_CONTROLLER: u32 = 0x06;
const CNS_CONTROLLERS_OF_NAMESPACE: u32 = 0x12;
const CNS_CONTROLLERS: u32 = 0x13;

/// Log page identifiers.
const LOG_ERRORS: u32 = 0x01;
const LOG_HEALTH: u32 = 0x02;
const LOG_FIRMWARE: u32 = 0x03;
const LOG_CHANGED_NAMESPACES: u32 = 0x04;
const LOG_EFFECTS: u32 = 0x05;
const LOG_DISCOVERY: u32 = 0x70;

/// Surroundings of an admin command.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// Configuration.
    pub config: &'a TargetConfig,
    /// Controller of the admin queue.
    pub controller: &'a Controller,
    /// Port of the connection.
    pub port: &'a Port,
    /// Address at which the host reached the port.
    pub local: &'a LocalAddress,
    /// Identifiers of the subsystem's controllers, in ascending order.
    pub siblings: Vec<u16>,
}

impl<'a> Context<'a> {
    fn subsystem(&self) -> Option<&'a Subsystem> {
        self.controller.subsystem.and_then(|index| self.config.subsystems.get(index))
    }

    /// Returns the structure for Identify.
    ///
    /// # Errors
    /// The status for the host.
    pub fn identify(&self, command: &Command) -> Result<Vec<u8>, Status> {
        let cns = command.cdw(10) & 0xff;
        let nsid = command.nsid();
        let Some(subsystem) = self.subsystem() else {
            let is_known = cns == CNS_CONTROLLER;
            return if is_known { Ok(self.controller_page(None)) } else { Err(Status::INVALID_FIELD.final_one()) };
        };
        match cns {
            CNS_CONTROLLER => Ok(self.controller_page(Some(subsystem))),
            CNS_NAMESPACE => identify_namespace(subsystem, nsid),
            CNS_ACTIVE_NAMESPACES if nsid >= ALL_NAMESPACES - 1 => Err(Status::INVALID_NAMESPACE.final_one()),
            CNS_ACTIVE_NAMESPACES => {
                let ids = subsystem.namespaces.iter().map(|namespace| namespace.id);
                Ok(page::namespace_ids(ids.filter(|id| *id > nsid)))
            }
            CNS_UNIQUE_IDS => {
                let namespace = subsystem.namespace(nsid).ok_or(Status::INVALID_NAMESPACE.final_one())?;
                Ok(page::unique_ids(&namespace.nguid, &namespace.uuid))
            }
            // No limits but those of a transfer.
            CNS_COMMAND_SET_CONTROLLER if command.cdw(11) >> 24 == 0 => Ok(vec![0; page::IDENTIFY_LEN]),
            CNS_CONTROLLERS_OF_NAMESPACE if subsystem.namespace(nsid).is_none() => {
                Err(Status::INVALID_NAMESPACE.final_one())
            }
            CNS_CONTROLLERS_OF_NAMESPACE | CNS_CONTROLLERS => {
                let first = (command.cdw(10) >> 16) as u16;
                let ids: Vec<u16> = self.siblings.iter().copied().filter(|id| *id >= first).collect();
                Ok(page::number_list(&ids))
            }
            _ => Err(Status::INVALID_FIELD.final_one()),
        }
    }

    fn controller_page(&self, subsystem: Option<&Subsystem>) -> Vec<u8> {
        ControllerPage {
            id: self.controller.id,
            version: VERSION,
            is_discovery: subsystem.is_none(),
            serial: subsystem.map_or("", |subsystem| &subsystem.serial),
            model: subsystem.map_or("Weft", |subsystem| &subsystem.model),
            firmware: &self.config.firmware,
            subsystem: subsystem.map_or(DISCOVERY_NQN, |subsystem| &subsystem.nqn),
            in_capsule_bytes: self.config.in_capsule_bytes,
        }
        .to_bytes()
    }

    /// Returns the part of a log page that the host asks for.
    ///
    /// # Errors
    /// The status for the host.
    pub fn log_page(&self, command: &Command) -> Result<Vec<u8>, Status> {
        let dwords = u64::from(command.cdw(10) >> 16) | u64::from(command.cdw(11) & 0xffff) << 16;
        let length = (dwords + 1) * 4;
        if length > TRANSFER_BYTES_MAX.into() {
            return Err(Status::INVALID_FIELD.final_one());
        }
        let log = match (command.cdw(10) & 0xff, self.subsystem()) {
            (LOG_DISCOVERY, None) => self.discovery(),
            (LOG_ERRORS, Some(_)) => page::errors(),
            (LOG_HEALTH, Some(_)) => page::health(self.controller.reads, self.controller.writes),
            (LOG_FIRMWARE, Some(_)) => page::firmware_slots(&self.config.firmware),
            (LOG_CHANGED_NAMESPACES, Some(_)) => page::changed_namespaces(),
            (LOG_EFFECTS, Some(_)) => page::effects(),
            _ => return Err(Status::INVALID_LOG_PAGE.final_one()),
        };
        let offset = usize::try_from(command.cdw_pair(12)).ok().filter(|offset| offset.is_multiple_of(4));
        let rest = offset.and_then(|offset| log.get(offset..)).ok_or(Status::INVALID_FIELD.final_one())?;
        let mut part: Vec<u8> = rest.iter().copied().take(length as usize).collect();
        part.resize(length as usize, 0);
        Ok(part)
    }

    /// Returns the discovery log: the port's subsystems that the host may use, and referrals.
    fn discovery(&self) -> Vec<u8> {
        let subsystems = self.port.subsystems.iter().filter_map(|index| self.config.subsystems.get(*index));
        let allowed = subsystems.filter(|subsystem| subsystem.allows(&self.controller.host));
        let mut entries: Vec<Entry<'_>> = allowed
            .map(|subsystem| Entry {
                kind: EntryKind::Nvm,
                port_id: self.port.id,
                is_ipv6: self.local.is_ipv6,
                address: &self.local.address,
                service: &self.local.service,
                subsystem: &subsystem.nqn,
            })
            .collect();
        entries.extend(self.port.referrals.iter().map(|referral| Entry {
            kind: EntryKind::Referral,
            port_id: referral.port_id,
            is_ipv6: referral.is_ipv6,
            address: &referral.address,
            service: &referral.service,
            subsystem: DISCOVERY_NQN,
        }));
        page::discovery_log(GENERATION, &entries)
    }
}

/// Returns a namespace's structure; zeros if the identifier is unused.
fn identify_namespace(subsystem: &Subsystem, nsid: u32) -> Result<Vec<u8>, Status> {
    if !(1..=NAMESPACE_ID_MAX).contains(&nsid) {
        return Err(Status::INVALID_NAMESPACE.final_one());
    }
    Ok(subsystem.namespace(nsid).map_or_else(
        || vec![0; page::IDENTIFY_LEN],
        |namespace| {
            page::namespace_page(namespace.blocks, namespace.block_shift, &namespace.nguid, namespace.read_only)
        },
    ))
}
