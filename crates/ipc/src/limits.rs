//! Limits of the protocol. Each bounds how much the other side can make a process store.

/// Longest message in bytes. Lists longer than this are fetched in pages.
pub const MESSAGE_BYTES_MAX: usize = 32 << 10;

/// Longest first message of a daemon in bytes.
pub const HELLO_REPLY_BYTES_MAX: usize = 2048;

/// Descriptors that come with one message: two sockets and the anchor.
pub const MESSAGE_FDS_MAX: usize = 4;

/// Descriptors that come with an event: the socket of a stream.
pub const EVENT_FDS_MAX: usize = 1;

/// Descriptors that come with a peer: pair, doorbell, bell, process, key directory, arena.
pub const PEER_FDS_MAX: usize = 6;

/// Longest device name, as in the kernel (IB_DEVICE_NAME_MAX less its final zero).
pub const DEVICE_NAME_BYTES_MAX: usize = 63;

/// Longest interface name, as in the kernel (IFNAMSIZ less its final zero).
pub const NETDEV_NAME_BYTES_MAX: usize = 15;

/// The same after bytes that are not UTF-8 were replaced by U+FFFD, which takes three.
pub const NETDEV_NAME_TEXT_BYTES_MAX: usize = 3 * NETDEV_NAME_BYTES_MAX;

/// Longest program name that the daemon keeps for `weft status`.
pub const PROGRAM_NAME_BYTES_MAX: usize = 64;

/// Longest description of a program's faults; a hello has one byte for its length.
pub const FAULT_BYTES_MAX: usize = 250;

/// Faults of running programs ([`crate::FaultEntry`]) in one page of their list.
pub const FAULTS_PER_PAGE_MAX: usize = 64;

/// Faults of running programs that one process has at a time: those of its user, and those of root.
pub const FAULTS_PER_PROCESS_MAX: usize = 32;

/// Longest name of a virtual host.
pub const HOST_NAME_BYTES_MAX: usize = 128;

/// Longest NodeDescription (IBA 14.2.5.2) as text, after invalid bytes were replaced by U+FFFD, which takes three.
pub const NODE_DESCRIPTION_BYTES_MAX: usize = 3 * 64;

/// Ports of one adapter of a virtual host that programs see.
pub const IB_PORTS_MAX: usize = 8;

/// IPoIB interfaces of a virtual host.
pub const IPOIB_INTERFACES_MAX: usize = 64;

/// Neighbours of an IPoIB interface.
pub const IPOIB_NEIGHBOURS_MAX: usize = 1024;

/// Neighbours in one message.
pub const IPOIB_NEIGHBOURS_PER_MESSAGE_MAX: usize = 256;

/// Kernel modules of a host that `modprobe` loaded.
pub const MODULES_MAX: usize = 64;

/// Longest name of a kernel module.
pub const MODULE_NAME_BYTES_MAX: usize = 64;
/// Files that the daemon keeps for a virtual host.
pub const HOST_FILES_MAX: usize = 128;

/// Longest name of such a file in bytes.
pub const HOST_FILE_NAME_BYTES_MAX: usize = 255;

/// Longest such file in bytes; one must fit a message.
pub const HOST_FILE_BYTES_MAX: usize = 16 << 10;

/// Bytes of such files, names included, that all hosts of a fabric have together.
pub const HOST_FILES_BYTES_MAX: usize = 64 << 20;

/// Rows of a port's P_Key table that programs see.
pub const IB_PKEYS_MAX: usize = 1024;

/// Longest management datagram (RMPP), head included.
pub const UMAD_MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Rows of a device's GID table.
pub const GID_TABLE_ROWS_MAX: usize = 256;
/// Rows of the GID table for RoCE v1: low enough for programs that read only 64 rows.
pub const ROCE_V1_ROWS: std::ops::Range<u32> = 32..64;

/// Devices of one daemon.
pub const DEVICES_MAX: usize = 1024;

/// Multicast groups that one process may have joined.
pub const MULTICAST_GROUPS_MAX: usize = 256;

/// Slots of the QP number space: its top ten bits.
pub const SLOTS_MAX: u32 = 1 << (24 - weft_sys::bpf::QPN_INDEX_BITS);

/// Events that a client queues for a program that does not fetch them. Beyond this the client drops the oldest and
/// reports [`crate::Event::Overrun`].
pub const EVENTS_QUEUED_MAX: usize = 1024;

/// Devices in one page of a list: a message must hold them with a full GID table each.
pub const DEVICES_PER_PAGE: usize = 4;

/// Processes in one page of the status.
pub const PROCESSES_PER_PAGE: usize = 64;

/// Longest event of the connection manager in bytes: private data of 255 and all the numbers around it.
pub const CM_EVENT_BYTES_MAX: usize = 1024;

/// Longest path name of a queue pair.
pub const PATH_NAME_BYTES_MAX: usize = 32;

/// Distinct path names.
pub const PATHS_MAX: usize = 8;

/// Devices in a process's ledger.
pub const LEDGER_DEVICES_MAX: usize = 24;

/// Queue pairs that a process lists; beyond this it reports only a count.
pub const LEDGER_QPS_MAX: usize = 256;

/// Devices in one page of the counters.
pub const STAT_DEVICES_PER_PAGE: usize = 24;

/// Queue pairs in one page of their list.
pub const QPS_PER_PAGE: usize = 64;

/// Longest description or snapshot of a fabric in bytes.
pub const FABRIC_BYTES_MAX: usize = 256 << 20;

/// Bytes of either in one message.
pub const FABRIC_PART_BYTES_MAX: usize = 24 << 10;

/// Hosts of a fabric that programs can run as.
pub const FABRIC_HOSTS_MAX: usize = 1 << 17;

/// Hosts with programs in one page of their list.
pub const FABRIC_HOSTS_PER_PAGE: usize = 128;

/// Ports of a fabric in one page of their list.
pub const FABRIC_PORTS_PER_PAGE: usize = 48;

/// Subnet managers in a status.
pub const FABRIC_MANAGERS_MAX: usize = 16;

/// Paths over the fabric in one traffic report.
pub const FABRIC_PATHS_PER_MESSAGE_MAX: usize = 256;

/// Packets with a wrong key in one report.
pub const KEY_VIOLATIONS_PER_MESSAGE_MAX: usize = 64;

/// Fabric multicast groups that one program may listen to, counted once for each of its ports.
pub const FABRIC_GROUPS_MAX: usize = 4096;

/// Paths over the fabric that one program may ask about.
pub const FABRIC_PATHS_MAX: usize = 1 << 16;

/// Hosts of an Ethernet network. Each costs network namespaces and descriptors, and a bridge has 1,023 ports.
pub const ETHERNET_HOSTS_MAX: u32 = 256;

/// Longest delay of an Ethernet network.
pub const ETHERNET_DELAY_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Hosts that one capture may name.
pub const CAPTURE_HOSTS_MAX: usize = 128;

/// Longest message of a capture in bytes: the longest packet on a link, and the numbers around it.
pub const CAPTURED_BYTES_MAX: usize = 8 << 10;
