//! Setup of a channel: from the login to the list of disks. One command is in progress at a time.
//!
//! ```text
//! login ─▶ REPORT LUNS ─▶ for each logical unit: INQUIRY ─▶ list of pages ─▶ page 83h ─▶ READ CAPACITY (16)
//!                                      ▲                     pages B0h, B2h ◀──────────────────┘
//!                                      └── MODE SENSE (6) ◀──────┘
//! ```

use std::time::Duration;

use super::address::UnitAddress;
use super::disk::{DiskInfo, PAGE_IDENTIFICATION, PAGE_LIMITS, PAGE_LIST, PAGE_PROVISIONING, units};
use super::failure::{CommandFailure, LostReason, Retry};
use crate::limits::{BUSY_RETRIES_MAX, INITIATOR_UNITS_MAX, PAGE_BYTES_MAX, RETRIES_MAX, RETRY_DELAY};
use crate::scsi::{CDB_LEN, Cdb, Lun};

/// Bytes of the standard data of INQUIRY that are read; of READ CAPACITY (16); of MODE SENSE (6).
const INQUIRY_LEN: u32 = 96;
const CAPACITY_LEN: u32 = 32;
const MODE_LEN: u32 = 252;
/// All mode pages.
const ALL_MODE_PAGES: u8 = 0x3f;
/// Logical unit of REPORT LUNS.
const FIRST_UNIT: UnitAddress = UnitAddress { lun: 0, bytes: [0; 8] };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Login,
    Luns,
    Inquiry(usize),
    Page(usize, u8),
    Capacity(usize),
    Mode(usize),
    Done,
}

/// Next step of the setup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupStep {
    /// Connect, and log in.
    Open,
    /// Send a command for a structure of at most so many bytes.
    Command(UnitAddress, Cdb, u32),
    /// The disks are known.
    Done,
}

/// Setup, and what it found.
#[derive(Debug)]
pub struct Setup {
    step: Step,
    units: Vec<UnitAddress>,
    /// Pages of the current logical unit.
    pages: Vec<u8>,
    current: Option<DiskInfo>,
    disks: Vec<DiskInfo>,
    unusable: Vec<(Lun, &'static str)>,
    unknown: usize,
    /// Times that the current step was taken in vain.
    attempts: u32,
}

impl Setup {
    /// Begins with the login.
    pub fn new() -> Setup {
        Setup {
            step: Step::Login,
            units: Vec::new(),
            pages: Vec::new(),
            current: None,
            disks: Vec::new(),
            unusable: Vec::new(),
            unknown: 0,
            attempts: 0,
        }
    }

    /// Takes the disks, and the logical units that are not used with the reasons.
    pub fn take(&mut self) -> (Vec<DiskInfo>, Vec<(Lun, &'static str)>) {
        (std::mem::take(&mut self.disks), std::mem::take(&mut self.unusable))
    }

    /// Number of logical units without a known address.
    pub fn unknown(&self) -> usize {
        self.unknown
    }

    /// Notes that the login succeeded.
    pub fn on_login(&mut self) {
        self.step = Step::Luns;
    }

    /// Returns the step to take now.
    pub fn next(&self) -> SetupStep {
        let unit = |index: usize| self.units.get(index).copied().unwrap_or(FIRST_UNIT);
        match self.step {
            Step::Login => SetupStep::Open,
            Step::Luns => {
                let length = 8 + 8 * INITIATOR_UNITS_MAX;
                SetupStep::Command(FIRST_UNIT, cdb(&[0xa0], &[(6, &length.to_be_bytes())]), length)
            }
            Step::Inquiry(index) => SetupStep::Command(unit(index), inquiry(0, 0, INQUIRY_LEN), INQUIRY_LEN),
            Step::Page(index, page) => {
                SetupStep::Command(unit(index), inquiry(1, page, PAGE_BYTES_MAX), PAGE_BYTES_MAX)
            }
            Step::Capacity(index) => {
                let command = cdb(&[0x9e, 0x10], &[(10, &CAPACITY_LEN.to_be_bytes())]);
                SetupStep::Command(unit(index), command, CAPACITY_LEN)
            }
            Step::Mode(index) => {
                let command = cdb(&[0x1a, 0, ALL_MODE_PAGES, 0, MODE_LEN as u8], &[]);
                SetupStep::Command(unit(index), command, MODE_LEN)
            }
            Step::Done => SetupStep::Done,
        }
    }

    /// Handles the end of the step's command, with the structure that the target wrote. Returns the time to wait before the
    /// next step.
    ///
    /// # Errors
    /// The setup failed.
    pub fn on_end(&mut self, result: Result<(), CommandFailure>, page: &[u8]) -> Result<Duration, LostReason> {
        if let Err(failure) = result {
            match failure.retry() {
                Retry::Soon if self.attempts < RETRIES_MAX => {
                    self.attempts += 1;
                    return Ok(Duration::ZERO);
                }
                Retry::Busy if self.attempts < BUSY_RETRIES_MAX => {
                    self.attempts += 1;
                    return Ok(RETRY_DELAY);
                }
                _ if self.step == Step::Luns => return Err(LostReason::Setup("REPORT LUNS", failure)),
                _ => {}
            }
        }
        self.attempts = 0;
        self.step = self.after(result.is_ok(), page);
        Ok(Duration::ZERO)
    }

    /// Takes a structure, and returns the step that follows. Pages that a logical unit does not have are left out.
    fn after(&mut self, is_good: bool, data: &[u8]) -> Step {
        match (self.step, &mut self.current) {
            (Step::Luns, _) => {
                (self.units, self.unknown) = units(data);
                self.at(0)
            }
            (Step::Inquiry(index), _) => match DiskInfo::new(self.unit(index), data) {
                _ if !is_good => self.reject(index, "its INQUIRY failed"),
                Ok(disk) => {
                    self.pages.clear();
                    self.current = Some(disk);
                    Step::Page(index, PAGE_LIST)
                }
                Err(reason) => self.reject(index, reason),
            },
            (Step::Page(index, page), Some(disk)) => {
                match page {
                    PAGE_LIST if is_good => self.pages = data.get(4..).unwrap_or_default().to_vec(),
                    PAGE_IDENTIFICATION if is_good => disk.set_identification(data),
                    PAGE_LIMITS if is_good => disk.set_limits(data),
                    PAGE_PROVISIONING if is_good => disk.set_provisioning(data),
                    PAGE_PROVISIONING => disk.without_provisioning(),
                    _ => {}
                }
                self.after_page(index, page)
            }
            (Step::Capacity(index), Some(_)) if !is_good => self.reject(index, "its capacity cannot be read"),
            (Step::Capacity(index), Some(disk)) => match disk.set_capacity(data) {
                Ok(()) => self.page_or(index, PAGE_LIMITS),
                Err(reason) => self.reject(index, reason),
            },
            (Step::Mode(index), Some(disk)) => {
                if is_good {
                    disk.set_mode(data);
                }
                self.disks.extend(self.current.take());
                self.at(index + 1)
            }
            (step, _) => step,
        }
    }

    /// Returns the step after a page, or in its place.
    fn after_page(&mut self, index: usize, page: u8) -> Step {
        match page {
            PAGE_LIST => self.page_or(index, PAGE_IDENTIFICATION),
            PAGE_IDENTIFICATION => Step::Capacity(index),
            PAGE_LIMITS => self.page_or(index, PAGE_PROVISIONING),
            _ => Step::Mode(index),
        }
    }

    /// Returns the step for a page, if the logical unit has it.
    fn page_or(&mut self, index: usize, page: u8) -> Step {
        if self.pages.contains(&page) {
            return Step::Page(index, page);
        }
        if page == PAGE_PROVISIONING
            && let Some(disk) = &mut self.current
        {
            disk.without_provisioning();
        }
        self.after_page(index, page)
    }

    fn reject(&mut self, index: usize, reason: &'static str) -> Step {
        self.unusable.push((self.unit(index).lun, reason));
        self.current = None;
        self.at(index + 1)
    }

    fn unit(&self, index: usize) -> UnitAddress {
        self.units.get(index).copied().unwrap_or(FIRST_UNIT)
    }

    fn at(&self, index: usize) -> Step {
        if index < self.units.len() { Step::Inquiry(index) } else { Step::Done }
    }

    /// Name of the step, for messages.
    pub fn name(&self) -> &'static str {
        match self.step {
            Step::Login => "the login",
            Step::Luns => "REPORT LUNS",
            Step::Inquiry(_) | Step::Page(..) => "INQUIRY",
            Step::Capacity(_) => "READ CAPACITY",
            Step::Mode(_) => "MODE SENSE",
            Step::Done => "the setup",
        }
    }
}

fn inquiry(is_page: u8, page: u8, length: u32) -> Cdb {
    cdb(&[0x12, is_page, page], &[(3, &(length as u16).to_be_bytes())])
}

/// Returns a block with these first bytes, and fields at their offsets.
fn cdb(first: &[u8], fields: &[(usize, &[u8])]) -> Cdb {
    let mut bytes = [0; CDB_LEN];
    for (at, field) in std::iter::once(&(0, first)).chain(fields) {
        bytes.iter_mut().skip(*at).zip(*field).for_each(|(to, byte)| *to = *byte);
    }
    Cdb(bytes)
}
