//! What routing engines see of a fabric: switches, the ports that hang on them, the links between. Places in vectors name
//! things, so that tables are vectors too. A graph does not change: a new one is made of every sweep.

/// A fabric as routing engines see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Every switch, in the order of their GUIDs.
    pub switches: Vec<Switch>,
    /// Every port of an adapter or router that has a LID and hangs on a switch, in the order of their GUIDs.
    pub ends: Vec<End>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// NodeGUID.
    pub guid: u64,
    /// NodeDescription, for people.
    pub name: String,
    /// LID of its port 0.
    pub lid: u16,
    /// LMC of its port 0: it has `1 << lmc` LIDs.
    pub lmc: u8,
    /// By port number; entry 0 is port 0, which leads nowhere.
    pub ports: Vec<Port>,
}

/// A port of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// What is at the other end of the cable.
    pub peer: Peer,
    /// Data lanes that both ends of the link can use: 1, 2, 4, 8 or 15.
    pub vls: u8,
    /// How much the link carries, in 0.1 Gb/s.
    pub capacity: u32,
    /// What a hop through this port counts; 1 unless the administrator says otherwise.
    pub weight: u16,
}

/// What is at the other end of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// Nothing that can be used.
    #[default]
    None,
    /// A port of another switch.
    Switch {
        /// Place of the switch in [`Graph::switches`].
        switch: u32,
        /// Its port.
        port: u8,
    },
    /// A port of an adapter or a router, by its place in [`Graph::ends`].
    End(u32),
}

/// A port of an adapter or a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// PortGUID.
    pub guid: u64,
    /// NodeGUID: ports of one adapter have the same.
    pub node_guid: u64,
    /// NodeDescription, for people.
    pub name: String,
    /// Whether it is a router's.
    pub router: bool,
    /// Base LID.
    pub lid: u16,
    /// It has `1 << lmc` LIDs.
    pub lmc: u8,
    /// The switch that it hangs on.
    pub switch: u32,
    /// The switch's port.
    pub port: u8,
}

impl Switch {
    /// The links to other switches: port, place of the other switch, its port.
    pub fn links(&self) -> impl Iterator<Item = (u8, u32, u8)> + '_ {
        (0u8..).zip(&self.ports).filter_map(|(number, port)| match port.peer {
            Peer::Switch { switch, port } => Some((number, switch, port)),
            _ => None,
        })
    }

    /// The adapters' and routers' ports that hang on it: port, place in [`Graph::ends`].
    pub fn hung(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        (0u8..).zip(&self.ports).filter_map(|(number, port)| match port.peer {
            Peer::End(end) => Some((number, end)),
            _ => None,
        })
    }

    /// Its LIDs.
    pub fn lids(&self) -> std::ops::Range<u16> {
        self.lid..self.lid.saturating_add(1 << self.lmc)
    }
}

impl End {
    /// Its LIDs.
    pub fn lids(&self) -> std::ops::Range<u16> {
        self.lid..self.lid.saturating_add(1 << self.lmc)
    }
}

impl Graph {
    /// The highest LID that is given to anybody; 0 if none is.
    pub fn lid_top(&self) -> u16 {
        let switches = self.switches.iter().map(Switch::lids);
        switches.chain(self.ends.iter().map(End::lids)).map(|lids| lids.end.saturating_sub(1)).max().unwrap_or(0)
    }

    /// Switches.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }
}
