//! The storage cases.

use super::super::case::{Case, Rival};
use super::super::room::Place;
use super::local::{LocalDisk, Way};
use super::{Pair, Pattern, Protocol, Storage};

/// Linux's client with our server, beside Linux's own server over RDMA and over TCP, all over a cable.
macro_rules! across {
    ($name:literal, $protocol:ident, $pattern:ident) => {
        Case {
            name: $name,
            place: Place::Storage,
            ours: &Storage { protocol: Protocol::$protocol, pair: Pair::OursAcross, pattern: Pattern::$pattern },
            rivals: &[
                Rival::told(&Storage {
                    protocol: Protocol::$protocol,
                    pair: Pair::LinuxAcross,
                    pattern: Pattern::$pattern,
                }),
                Rival::told(&Storage {
                    protocol: Protocol::$protocol,
                    pair: Pair::TcpAcross,
                    pattern: Pattern::$pattern,
                }),
            ],
            aim: None,
        }
    };
}

/// Both ends ours on one host, beside Linux's over TCP on the loopback; `$rival` says what is wanted.
macro_rules! here {
    ($name:literal, $protocol:ident, $pair:ident, $pattern:ident, $rival:path $(, $bound:literal)?) => {
        Case {
            name: $name,
            place: Place::Storage,
            ours: &Storage { protocol: Protocol::$protocol, pair: Pair::$pair, pattern: Pattern::$pattern },
            rivals: &[$rival(
                $($bound,)?
                &Storage { protocol: Protocol::$protocol, pair: Pair::TcpHere, pattern: Pattern::$pattern },
            )],
            aim: None,
        }
    };
}

/// Our disk on one host, beside NBD alone.
macro_rules! local {
    ($name:literal, $pattern:ident) => {
        Case {
            name: $name,
            place: Place::SameHost,
            ours: &LocalDisk { way: Way::Ours, pattern: Pattern::$pattern },
            rivals: &[
                Rival::told(&LocalDisk { way: Way::Tcp, pattern: Pattern::$pattern }),
                Rival::told(&LocalDisk { way: Way::Unix, pattern: Pattern::$pattern }),
            ],
            aim: None,
        }
    };
}

/// All of them.
pub const ALL: &[Case] = &[
    local!("a disk over NVMe: read 1 MiB", Read),
    local!("a disk over NVMe: write 1 MiB", Write),
    local!("a disk over NVMe: random read 4 KiB", RandomRead),
    local!("a disk over NVMe: random write 4 KiB", RandomWrite),
    across!("NVMe: read 1 MiB", Nvme, Read),
    across!("NVMe: write 1 MiB", Nvme, Write),
    across!("NVMe: random read 4 KiB", Nvme, RandomRead),
    across!("NVMe: random write 4 KiB", Nvme, RandomWrite),
    here!("NVMe on one host: read 1 MiB", Nvme, OursHere, Read, Rival::at_least, 2.0),
    here!("NVMe on one host: write 1 MiB", Nvme, OursHere, Write, Rival::at_least, 2.0),
    here!("NVMe on one host: random read 4 KiB", Nvme, OursHere, RandomRead, Rival::told),
    here!("NVMe on one host: random write 4 KiB", Nvme, OursHere, RandomWrite, Rival::told),
    across!("NFS: read 1 MiB", Nfs, Read),
    across!("NFS: write 1 MiB", Nfs, Write),
    across!("NFS: random read 4 KiB", Nfs, RandomRead),
    across!("NFS: random write 4 KiB", Nfs, RandomWrite),
    here!("NFS by FUSE on one host: read 1 MiB", Nfs, OursHere, Read, Rival::at_least, 2.0),
    here!("NFS by FUSE on one host: write 1 MiB", Nfs, OursHere, Write, Rival::at_least, 2.0),
    here!("NFS by FUSE on one host: random read 4 KiB", Nfs, OursHere, RandomRead, Rival::told),
    here!("NFS by FUSE on one host: random write 4 KiB", Nfs, OursHere, RandomWrite, Rival::told),
    here!("NFS by a relay on one host: read 1 MiB", Nfs, RelayHere, Read, Rival::told),
    here!("NFS by a relay on one host: write 1 MiB", Nfs, RelayHere, Write, Rival::told),
];
