//! Values of a command line: the options common to all diagnostic tools, and the tool's own.

use std::cell::OnceCell;

use super::address::PortId;
use super::number;
use super::report::{End, Outcome};
use weft_client::Which;
use weft_client::umad::Library;

/// Form of a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dest {
    /// By LID.
    #[default]
    Lid,
    /// By directed route.
    Path,
    /// By port GUID.
    Guid,
    /// By LID and a directed route from there.
    LidPath,
}

/// Values of the common options.
#[derive(Clone, Debug)]
pub struct Common {
    /// `-C`: adapter.
    pub ca: Option<String>,
    /// `-P`: port of the adapter; 0 means the first active port.
    pub port: i32,
    /// `-D`, `-L`, `-G`: form of destinations.
    pub dest: Dest,
    /// `-t`: how long to wait for an answer, if given.
    pub timeout_ms: Option<u32>,
    /// `-s`: the subnet manager's address, if given.
    pub sm_id: Option<PortId>,
    /// `-K`: show keys.
    pub show_keys: bool,
    /// `-y`: M_Key of requests.
    pub m_key: u64,
    /// SM_Key of requests to subnet administration, from the configuration.
    pub sa_key: u64,
    /// `-e`: report timeouts and bad answers.
    pub errors: bool,
    /// `-v`: number of times given.
    pub verbose: u32,
    /// `-d`: number of times given.
    pub debug: u32,
    /// Whether to query the vendor's ExtendedPortInfo.
    pub mlx_epi: bool,
    /// Format of NodeDescriptions to set, from the configuration.
    pub nd_format: Option<String>,
    /// `--json`.
    pub json: bool,
    /// `--system`: use the system's libibumad.
    pub which: Which,
    library: OnceCell<Library>,
}

/// A parsed command line.
#[derive(Debug)]
pub struct CommandLine {
    /// Values of the common options.
    pub common: Common,
    /// The tool's own options in order: letter and argument.
    pub own: Vec<(char, String)>,
    /// Arguments that are not options.
    pub operands: Vec<String>,
}

impl CommandLine {
    /// How often one of the tool's own options was given.
    pub fn count(&self, letter: char) -> usize {
        self.own.iter().filter(|(l, _)| *l == letter).count()
    }

    /// Whether one of the tool's own options was given.
    pub fn has(&self, letter: char) -> bool {
        self.count(letter) > 0
    }

    /// The argument of one of the tool's own options; the last one counts.
    pub fn arg(&self, letter: char) -> Option<&str> {
        self.own.iter().rev().find(|(l, _)| *l == letter).map(|(_, value)| value.as_str())
    }

    /// The operand at `index` as a number, or 0.
    pub fn number(&self, index: usize) -> u64 {
        self.operands.get(index).map_or(0, |text| number::number(text))
    }
}

impl Default for Common {
    fn default() -> Common {
        Common {
            ca: None,
            port: 0,
            dest: Dest::Lid,
            timeout_ms: None,
            sm_id: None,
            show_keys: false,
            m_key: 0,
            sa_key: 0,
            errors: false,
            verbose: 0,
            debug: 0,
            mlx_epi: true,
            nd_format: None,
            json: false,
            which: Which::Ours,
            library: OnceCell::new(),
        }
    }
}

impl Common {
    /// The selected library, loaded once.
    ///
    /// # Errors
    /// The library is missing.
    pub fn library(&self) -> Outcome<Library> {
        if let Some(library) = self.library.get() {
            return Ok(*library);
        }
        let library = Library::load(self.which).map_err(|e| End::failed(format!("{e:#}")))?;
        if self.debug > 1 {
            library.set_debug(i32::try_from(self.debug - 1).unwrap_or(i32::MAX));
        }
        Ok(*self.library.get_or_init(|| library))
    }
}
