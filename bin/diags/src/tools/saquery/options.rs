//! saquery's options: the record type and its components.

use super::attribute;
use super::query::{Params, gid};
use crate::ib::number::number;
use crate::ib::options::{CommandLine, Opt, m_key, opt, opt_arg};
use crate::ib::report::{End, Outcome};

const SRC_TO_DST: char = '\u{1}';
const SGID_TO_DGID: char = '\u{2}';
const NAME_MAP: char = '\u{3}';
const SMKEY: char = '\u{4}';
const SLID: char = '\u{5}';
const DLID: char = '\u{6}';
const MLID: char = '\u{7}';
const SGID: char = '\u{e}';
const DGID: char = '\u{f}';
const GID: char = '\u{10}';
const MGID: char = '\u{11}';
const PKEY: char = '\u{12}';
const SL: char = '\u{13}';
const PKT_LIFE: char = '\u{14}';
const SCOPE: char = '\u{15}';
const SERVICE_ID: char = '\u{16}';

/// Placeholder of an unnamed argument in the usage.
const VAL: &str = "<val>";

/// The options, in usage order.
pub const OPTIONS: &[Opt] = &[
    opt("p", 'p', "get PathRecord info"),
    opt("N", 'N', "get NodeRecord info"),
    opt("L", 'L', "return the Lids of the name specified"),
    opt("l", 'l', "return the unique Lid of the name specified"),
    opt("G", 'G', "return the Guids of the name specified"),
    opt("O", 'O', "return name for the Lid specified"),
    opt("U", 'U', "return name for the Guid specified"),
    opt("s", 's', "return the PortInfoRecords with isSM or isSMdisabled capability mask bit on"),
    opt("g", 'g', "get multicast group info"),
    opt(
        "m",
        'm',
        "get multicast member info (if multicast group specified, list member GIDs only for group specified, for \
         example 'saquery -m 0xC000')",
    ),
    opt("x", 'x', "get LinkRecord info"),
    opt("c", 'c', "get the SA's class port info"),
    opt("S", 'S', "get ServiceRecord info"),
    opt("I", 'I', "get InformInfoRecord (subscription) info"),
    opt("list", 'D', "the node desc of the CA's"),
    opt_arg(
        "src-to-dst",
        SRC_TO_DST,
        "<src:dst>",
        "get a PathRecord for <src:dst> where src and dst are either node names or LIDs",
    ),
    opt_arg(
        "sgid-to-dgid",
        SGID_TO_DGID,
        "<sgid-dgid>",
        "get a PathRecord for <sgid-dgid> where sgid and dgid are addresses in IPv6 format",
    ),
    opt_arg("node-name-map", NAME_MAP, "<file>", "specify a node name map file"),
    opt_arg(
        "smkey",
        SMKEY,
        VAL,
        "SA SM_Key value for the query. If non-numeric value (like 'x') is specified then saquery will prompt for a \
         value.  Default (when not specified here or in ibdiag.conf) is to  use SM_Key == 0 (or \"untrusted\")",
    ),
    opt_arg("slid", SLID, "<lid>", "Source LID (PathRecord)"),
    opt_arg("dlid", DLID, "<lid>", "Destination LID (PathRecord)"),
    opt_arg("mlid", MLID, "<lid>", "Multicast LID (MCMemberRecord)"),
    opt_arg("sgid", SGID, "<gid>", "Source GID (IPv6 format) (PathRecord)"),
    opt_arg("dgid", DGID, "<gid>", "Destination GID (IPv6 format) (PathRecord)"),
    opt_arg("gid", GID, "<gid>", "Port GID (MCMemberRecord)"),
    opt_arg("mgid", MGID, "<gid>", "Multicast GID (MCMemberRecord)"),
    opt_arg("reversible", 'r', VAL, "Reversible path (PathRecord)"),
    opt_arg("numb_path", 'n', VAL, "Number of paths (PathRecord)"),
    opt_arg(
        "pkey",
        PKEY,
        VAL,
        "P_Key (PathRecord, MCMemberRecord). If non-numeric value (like 'x') is specified then saquery will prompt \
         for a value",
    ),
    opt_arg("qos_class", 'Q', VAL, "QoS Class (PathRecord)"),
    opt_arg("sl", SL, VAL, "Service level (PathRecord, MCMemberRecord)"),
    opt_arg("mtu", 'M', VAL, "MTU and selector (PathRecord, MCMemberRecord)"),
    opt_arg("rate", 'R', VAL, "Rate and selector (PathRecord, MCMemberRecord)"),
    opt_arg("pkt_lifetime", PKT_LIFE, VAL, "Packet lifetime and selector (PathRecord, MCMemberRecord)"),
    opt_arg(
        "qkey",
        'q',
        VAL,
        "Q_Key (MCMemberRecord). If non-numeric value (like 'x') is specified then saquery will prompt for a value",
    ),
    opt_arg("tclass", 'T', VAL, "Traffic Class (PathRecord, MCMemberRecord)"),
    opt_arg("flow_label", 'F', VAL, "Flow Label (PathRecord, MCMemberRecord)"),
    opt_arg("hop_limit", 'H', VAL, "Hop limit (PathRecord, MCMemberRecord)"),
    opt_arg("scope", SCOPE, VAL, "Scope (MCMemberRecord)"),
    opt_arg("join_state", 'J', VAL, "Join state (MCMemberRecord)"),
    opt_arg("proxy_join", 'X', VAL, "Proxy join (MCMemberRecord)"),
    opt_arg("service_id", SERVICE_ID, VAL, "ServiceID (PathRecord)"),
];

/// The command to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// Query records of one type.
    #[default]
    Query,
    /// Show nodes.
    Nodes,
    /// Show the SA's ClassPortInfo.
    ClassPortInfo,
    /// Show ports with an SM.
    IsSm,
    /// Show multicast groups.
    Groups,
    /// Show the members of multicast groups.
    Members,
}

/// Node attributes to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// The whole record.
    #[default]
    All,
    /// All LIDs.
    Lids,
    /// The first LID.
    Lid,
    /// Port GUIDs.
    Guids,
    /// LIDs and names of channel adapters.
    Names,
    /// The name for a LID.
    NameOfLid,
    /// The name for a GUID.
    NameOfGuid,
}

/// A parsed command line.
#[derive(Debug, Default)]
pub struct Asked {
    /// The command to run.
    pub command: Command,
    /// Node attributes to show.
    pub show: Show,
    /// The record type that the options select.
    pub attribute: Option<u16>,
    /// Components.
    pub params: Params,
    /// Source and destination of `--src-to-dst`.
    pub lids: Option<(String, String)>,
    /// Path of the node name map.
    pub name_map: Option<String>,
    /// SM_Key.
    pub sm_key: u64,
}

/// Parses the options in order; later ones take precedence.
///
/// # Errors
/// An option's value is invalid.
pub fn read(line: &CommandLine) -> Outcome<Asked> {
    let mut asked = Asked { sm_key: line.common.sa_key, ..Asked::default() };
    for (letter, value) in &line.own {
        if !asked.take_command(*letter) && !asked.take_address(*letter, value)? {
            asked.take_number(*letter, value)?;
        }
    }
    Ok(asked)
}

impl Asked {
    fn take_command(&mut self, letter: char) -> bool {
        let show = match letter {
            'D' => Some(Show::Names),
            'L' => Some(Show::Lids),
            'l' => Some(Show::Lid),
            'G' => Some(Show::Guids),
            'O' => Some(Show::NameOfLid),
            'U' => Some(Show::NameOfGuid),
            _ => None,
        };
        self.show = show.unwrap_or(self.show);
        let command = match letter {
            'N' => Some(Command::Nodes),
            'c' => Some(Command::ClassPortInfo),
            's' => Some(Command::IsSm),
            'g' => Some(Command::Groups),
            'm' => Some(Command::Members),
            _ => show.map(|_| Command::Nodes),
        };
        self.command = command.unwrap_or(self.command);
        let chosen = match letter {
            'p' => Some(attribute::PATH),
            'S' => Some(attribute::SERVICE),
            'I' => Some(attribute::INFORM_INFO),
            'x' => Some(attribute::LINK),
            _ => None,
        };
        self.attribute = chosen.or(self.attribute);
        command.is_some() || chosen.is_some()
    }

    fn take_address(&mut self, letter: char, value: &str) -> Outcome<bool> {
        let gid = |text: &str| gid(text).ok_or(End::Usage);
        match letter {
            SRC_TO_DST => {
                let (from, to) = value.split_once(':').ok_or(End::Usage)?;
                self.lids = Some((from.to_owned(), to.to_owned()));
                self.wants_paths();
            }
            SGID_TO_DGID => {
                let (from, to) = value.split_once('-').ok_or(End::Usage)?;
                (self.params.sgid, self.params.dgid) = (gid(from)?, gid(to)?);
                self.wants_paths();
            }
            SGID => self.params.sgid = gid(value)?,
            DGID => self.params.dgid = gid(value)?,
            GID => self.params.gid = gid(value)?,
            MGID => self.params.mgid = gid(value)?,
            NAME_MAP => self.name_map = Some(value.to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Selects all paths: the user has named both ends.
    fn wants_paths(&mut self) {
        self.params.numb_path = 0x7f;
        self.attribute = Some(attribute::PATH);
    }

    fn take_number(&mut self, letter: char, value: &str) -> Outcome<()> {
        let p = &mut self.params;
        let n = number(value);
        let key = |question: &str| match value.starts_with(|c: char| c.is_ascii_hexdigit()) {
            true => Ok(n),
            false => m_key(value, question).ok_or(End::Usage),
        };
        match letter {
            SMKEY => self.sm_key = key("SM_Key: ")?,
            SLID => p.slid = n as u16,
            DLID => p.dlid = n as u16,
            MLID => p.mlid = n as u16,
            'r' => p.reversible = n as i32,
            'n' => p.numb_path = n as i32,
            PKEY => p.pkey = key("P_Key: ")? as u16,
            'Q' => p.qos_class = n as i32,
            SL => p.sl = n as i32,
            'M' => p.mtu = n as u8,
            'R' => p.rate = n as u8,
            PKT_LIFE => p.pkt_life = n as u8,
            'q' => p.qkey = key("Q_Key: ")? as u32,
            'T' => p.tclass = n as u8,
            'F' => p.flow_label = n as u32,
            'H' => p.hop_limit = n as i32,
            SCOPE => p.scope = n as u8,
            'J' => p.join_state = n as u8,
            'X' => p.proxy_join = n as i32,
            SERVICE_ID => p.service_id = n,
            _ => return Err(End::Usage),
        }
        Ok(())
    }
}
