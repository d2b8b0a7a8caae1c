//! Contents of partitions.conf, before they are applied to a subnet.

/// A partition configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Config {
    /// No file: every port is a full member of the default partition, which has an IPoIB broadcast group.
    #[default]
    Absent,
    /// An unusable file, which counts as none.
    Broken,
    /// The rules of the file.
    Rules(Vec<Rule>),
}

/// A rule: a partition and its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Line where it begins.
    pub line: u32,
    /// Its name; may be empty.
    pub name: String,
    /// P_Key without the membership bit; `None` if the manager has to choose one.
    pub key: Option<u16>,
    /// The P_Key goes to index 0 of the tables.
    pub index0: bool,
    /// The partition has an IPoIB broadcast group.
    pub ipoib: bool,
    /// Defaults for groups.
    pub flags: GroupFlags,
    /// Members, in order.
    pub members: Vec<Member>,
    /// Further multicast groups.
    pub groups: Vec<Group>,
}

/// A member of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Line of the member.
    pub line: u32,
    /// The member ports.
    pub who: Who,
    /// Their membership.
    pub membership: Membership,
}

/// Selector of member ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// Every end port.
    All,
    /// Ports of adapters.
    Cas,
    /// Switches' port 0.
    Switches,
    /// Ports of routers.
    Routers,
    /// The manager's own port.
    Myself,
    /// A port by its GUID.
    Guid(u64),
}

/// Membership of a port in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Membership {
    /// Communicates with full members only.
    #[default]
    Limited,
    /// Communicates with all members.
    Full,
    /// Both P_Keys if `allow_both_pkeys` is set; else full.
    Both,
}

/// Properties of a multicast group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupFlags {
    /// MTU, as a code.
    pub mtu: u8,
    /// Rate, as a code.
    pub rate: u8,
    /// Service level.
    pub sl: u8,
    /// Scopes, a bit each; without any bit, link-local.
    pub scopes: u16,
    /// Q_Key; for IP groups, 0 stands for IPoIB's.
    pub qkey: u32,
    /// Traffic class.
    pub tclass: u8,
    /// Flow label.
    pub flow_label: u32,
}

/// Default MTU of groups: 2048 bytes.
pub const MTU: u8 = 4;
/// Default rate of groups: 10 Gb/s.
pub const RATE: u8 = 3;
/// Default scope of groups: link-local.
pub const SCOPE: u8 = 2;
/// Default Q_Key of IPoIB groups.
pub const IPOIB_QKEY: u32 = 0xb1b;
/// P_Key of the default partition, without the membership bit.
pub const DEFAULT_KEY: u16 = 0x7fff;

impl Default for GroupFlags {
    fn default() -> GroupFlags {
        GroupFlags { mtu: MTU, rate: RATE, sl: 0, scopes: 0, qkey: 0, tclass: 0, flow_label: 0 }
    }
}

/// A multicast group of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Line of the group.
    pub line: u32,
    /// Its MGID as written.
    pub mgid: [u8; 16],
    /// Its properties.
    pub flags: GroupFlags,
}

impl Group {
    /// Whether this is an IP group, whose MGID contains the P_Key.
    pub fn is_ip(&self) -> bool {
        matches!(self.mgid[2..4], [0x40 | 0x60, 0x1b])
    }
}

impl Config {
    /// Whether a rule names the default partition, by key or by name.
    pub fn has_default_rule(&self) -> bool {
        match self {
            Config::Rules(rules) => rules.iter().any(Rule::is_default),
            Config::Absent | Config::Broken => true,
        }
    }
}

impl Rule {
    /// Whether this rule is for the default partition.
    pub fn is_default(&self) -> bool {
        self.key.map_or(self.name == "Default", |key| key == DEFAULT_KEY)
    }
}
