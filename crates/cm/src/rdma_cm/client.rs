//! Clients: processes and their event channels.

/// Number that the owner of connections gave a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// Number of an event channel, never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelId(pub u32);

/// Identity and privileges of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Its number.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its name.
    pub comm: String,
    /// Whether it may bind ports below 1024 (`CAP_NET_BIND_SERVICE`).
    pub privileged_ports: bool,
    /// Whether it may change the defaults of new ids (`CAP_NET_ADMIN`).
    pub admin: bool,
}
