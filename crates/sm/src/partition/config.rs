//! What a file of partitions says, before anybody asks who is there.

/// What is known of partitions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Config {
    /// There is no file: everybody is a full member of the default partition, which has an IPoIB broadcast group.
    #[default]
    Absent,
    /// There is a file that cannot be used: the same as none.
    Broken,
    /// The rules of the file.
    Rules(Vec<Rule>),
}

/// A rule: a partition and who is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Where it begins.
    pub line: u32,
    /// Its name; may be empty.
    pub name: String,
    /// P_Key without the bit of membership; none if one is to be made up.
    pub key: Option<u16>,
    /// The P_Key goes to index 0 of the tables.
    pub index0: bool,
    /// There is an IPoIB broadcast group.
    pub ipoib: bool,
    /// What groups are like unless they say otherwise.
    pub flags: GroupFlags,
    /// Who is in it, and further groups, in order.
    pub members: Vec<Member>,
    /// Further multicast groups.
    pub groups: Vec<Group>,
}

/// Who is in a partition, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Where it stands.
    pub line: u32,
    /// Who.
    pub who: Who,
    /// How.
    pub membership: Membership,
}

/// Who is in a partition.
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

/// How one is in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Membership {
    /// Speaks with full members only.
    #[default]
    Limited,
    /// Speaks with all.
    Full,
    /// Both keys, where `allow_both_pkeys` is set; else full.
    Both,
}

/// What a multicast group is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupFlags {
    /// MTU, as a code.
    pub mtu: u8,
    /// Rate, as a code.
    pub rate: u8,
    /// Service level.
    pub sl: u8,
    /// Scopes, a bit each; none is link-local.
    pub scopes: u16,
    /// Q_Key; 0 is IPoIB's for IP groups.
    pub qkey: u32,
    /// Traffic class.
    pub tclass: u8,
    /// Flow label.
    pub flow_label: u32,
}

/// MTU of groups unless told otherwise: 2048 bytes.
pub const MTU: u8 = 4;
/// Rate of groups unless told otherwise: 10 Gb/s.
pub const RATE: u8 = 3;
/// Scope of groups unless told otherwise: link-local.
pub const SCOPE: u8 = 2;
/// Q_Key of IPoIB groups unless told otherwise.
pub const IPOIB_QKEY: u32 = 0xb1b;
/// P_Key of the default partition, without the bit of membership.
pub const DEFAULT_KEY: u16 = 0x7fff;

impl Default for GroupFlags {
    fn default() -> GroupFlags {
        GroupFlags { mtu: MTU, rate: RATE, sl: 0, scopes: 0, qkey: 0, tclass: 0, flow_label: 0 }
    }
}

/// A multicast group of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Where it stands.
    pub line: u32,
    /// Its MGID as written.
    pub mgid: [u8; 16],
    /// What it is like.
    pub flags: GroupFlags,
}

impl Group {
    /// Whether it is one of IP, whose P_Key stands in the MGID.
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
    /// Whether it is about the default partition.
    pub fn is_default(&self) -> bool {
        self.key.map_or(self.name == "Default", |key| key == DEFAULT_KEY)
    }
}
