//! The device: commands in, steps out. It keeps no command; the owner does, and comes back with data that a step asks for.

use std::collections::BTreeSet;

use super::command::{Command, Row};
use super::{Attentions, Cdb, Identity, LogicalUnit, Lun, Operation, Sense, Step, inquiry, medium, mode, report};

/// NACA in the control byte: auto contingent allegiance, which is not supported.
const NACA: u8 = 0x04;

/// Direct-access device with logical units 0, 1, 2, ...
#[derive(Clone, Debug)]
pub struct Device {
    identity: Identity,
    units: Vec<LogicalUnit>,
    /// Units that START STOP UNIT stopped.
    stopped: BTreeSet<Lun>,
}

impl Device {
    /// Creates a device.
    pub fn new(identity: Identity, units: Vec<LogicalUnit>) -> Device {
        Device { identity, units, stopped: BTreeSet::new() }
    }

    /// Numbers of the logical units.
    pub fn luns(&self) -> impl Iterator<Item = Lun> + use<> {
        0..self.units.len() as Lun
    }

    /// Resets a logical unit. Returns whether there is such a unit.
    pub fn reset(&mut self, lun: Option<Lun>) -> bool {
        if let Some(lun) = lun {
            self.stopped.remove(&lun);
        }
        self.unit(lun).is_some()
    }

    fn unit(&self, lun: Option<Lun>) -> Option<&LogicalUnit> {
        self.units.get(usize::from(lun?))
    }

    /// Begins a command of an initiator whose unit attention conditions are `attentions`.
    ///
    /// # Errors
    /// The sense data of a CHECK CONDITION.
    pub fn begin(&mut self, attentions: &mut Attentions, lun: Option<Lun>, cdb: &Cdb) -> Result<Step, Sense> {
        let row = Row::find(cdb);
        let command = row.map(|row| row.command);
        let lun = lun.filter(|lun| self.unit(Some(*lun)).is_some());
        match (command, lun) {
            (Some(Command::Inquiry | Command::ReportLuns | Command::RequestSense), _) => {}
            (_, None) => return Err(Sense::NO_UNIT),
            (_, Some(lun)) => attentions.take(lun).map_or(Ok(()), Err)?,
        }
        let row = row.ok_or(Sense::INVALID_OPCODE)?;
        if cdb.has(row.len() - 1, NACA) {
            return Err(Sense::INVALID_FIELD);
        }
        if lun.is_some_and(|lun| self.stopped.contains(&lun)) && row.command.needs_medium() {
            return Err(Sense::STOPPED);
        }
        let step = match row.command {
            Command::RequestSense => Step::Data(request_sense(attentions, lun, cdb)?),
            Command::Inquiry => Step::Data(inquiry::inquiry(&self.identity, self.unit(lun), cdb)?),
            Command::ReportLuns => Step::Data(report::luns(self.luns(), cdb)?),
            command => self.on_unit(command, lun.ok_or(Sense::NO_UNIT)?, cdb)?,
        };
        Ok(match (step, allocation(row.command, cdb)) {
            (Step::Data(mut bytes), Some(length)) => {
                bytes.truncate(length);
                Step::Data(bytes)
            }
            (step, _) => step,
        })
    }

    /// Begins a command that needs a logical unit.
    fn on_unit(&mut self, command: Command, lun: Lun, cdb: &Cdb) -> Result<Step, Sense> {
        let unit = self.units.get(usize::from(lun)).ok_or(Sense::NO_UNIT)?;
        if unit.read_only && command.changes() {
            return Err(Sense::WRITE_PROTECTED);
        }
        match command {
            Command::TestUnitReady => Ok(Step::Done),
            Command::ModeSense(is_long) => mode::mode_sense(unit, cdb, is_long).map(Step::Data),
            Command::StartStop => self.start_stop(lun, cdb),
            Command::ReadCapacity10 => Ok(Step::Data(report::capacity10(unit))),
            Command::ReadCapacity16 => Ok(Step::Data(report::capacity16(unit))),
            Command::ReportOpcodes => report::opcodes(cdb).map(Step::Data),
            Command::Read(form) => medium::read(cdb, form, unit),
            Command::Write(form) => medium::write(cdb, form, unit),
            Command::Verify(form) => medium::verify(cdb, form, unit),
            Command::SyncCache(form) => medium::sync_cache(cdb, form, unit),
            Command::WriteSame(form) => medium::write_same(cdb, form, unit),
            Command::Unmap => medium::unmap(cdb),
            Command::RequestSense | Command::Inquiry | Command::ReportLuns => Err(Sense::INVALID_OPCODE),
        }
    }

    /// Goes on with a command whose [`Step::Fetch`] is done.
    ///
    /// # Errors
    /// The sense data of a CHECK CONDITION.
    pub fn with_data(&self, lun: Option<Lun>, cdb: &Cdb, data: &[u8]) -> Result<Step, Sense> {
        let unit = self.unit(lun).ok_or(Sense::NO_UNIT)?;
        match Row::find(cdb).map(|row| row.command) {
            Some(Command::WriteSame(form)) => medium::write_same_of(cdb, form, unit, data),
            Some(Command::Unmap) => medium::unmap_of(unit, data),
            _ => Err(Sense::INVALID_OPCODE),
        }
    }

    /// START STOP UNIT: a stop makes writes durable; power conditions and ejection are not supported.
    fn start_stop(&mut self, lun: Lun, cdb: &Cdb) -> Result<Step, Sense> {
        match cdb.byte(4) {
            0 => {
                self.stopped.insert(lun);
                Ok(Step::Execute(Operation::Flush))
            }
            1 => {
                self.stopped.remove(&lun);
                Ok(Step::Done)
            }
            _ => Err(Sense::INVALID_FIELD),
        }
    }
}

/// Returns sense data: a unit attention condition, which is reported with it.
fn request_sense(attentions: &mut Attentions, lun: Option<Lun>, cdb: &Cdb) -> Result<Vec<u8>, Sense> {
    // Descriptor format is not supported.
    if cdb.has(1, 1) {
        return Err(Sense::INVALID_FIELD);
    }
    let Some(lun) = lun else { return Ok(Sense::NO_UNIT.to_bytes().to_vec()) };
    Ok(attentions.take(lun).unwrap_or(Sense::NONE).to_bytes().to_vec())
}

/// Returns the allocation length of a command that has one.
fn allocation(command: Command, cdb: &Cdb) -> Option<usize> {
    let length = match command {
        Command::RequestSense | Command::ModeSense(false) => cdb.byte(4).into(),
        Command::Inquiry => cdb.be16(3).into(),
        Command::ModeSense(true) => cdb.be16(7).into(),
        Command::ReportLuns | Command::ReportOpcodes => cdb.be32(6),
        Command::ReadCapacity16 => cdb.be32(10),
        _ => return None,
    };
    Some(length as usize)
}
