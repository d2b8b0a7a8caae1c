//! Discovery log page as a host reads it (NVMe-oF 1.1 §5.3).

use crate::limits::DISCOVERY_RECORDS_MAX;

/// Bytes of the header, and of each record.
pub const RECORD_LEN: usize = 1024;

/// Discovery log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DiscoveryLog {
    /// Generation counter.
    pub generation: u64,
    /// Records.
    pub records: Vec<DiscoveryRecord>,
}

/// Record of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiscoveryRecord {
    /// Transport type: 1 is RDMA.
    pub transport: u8,
    /// Address family: 1 is IPv4, 2 is IPv6.
    pub family: u8,
    /// Subtype: 1 is a referral, 2 an NVM subsystem, 3 this discovery subsystem.
    pub subtype: u8,
    /// Transport requirements.
    pub requirements: u8,
    /// Port of the target.
    pub port_id: u16,
    /// Controller identifier; 0xffff: allocated by Connect.
    pub controller: u16,
    /// Entries of an admin queue.
    pub admin_entries: u16,
    /// Entry flags.
    pub flags: u16,
    /// Transport service identifier: a port.
    pub service: String,
    /// Name of the subsystem.
    pub subsystem: String,
    /// Address.
    pub address: String,
    /// RDMA queue pair type, provider type, connection management service.
    pub rdma: [u8; 3],
    /// Partition key.
    pub pkey: u16,
}

/// Reads generation counter and number of records from a header.
///
/// # Errors
/// The number, if it is above [`DISCOVERY_RECORDS_MAX`].
pub fn header(bytes: &[u8]) -> Result<(u64, usize), u64> {
    let field = |at: usize| {
        let mut number = [0; 8];
        number.iter_mut().zip(bytes.iter().skip(at)).for_each(|(to, byte)| *to = *byte);
        u64::from_le_bytes(number)
    };
    match usize::try_from(field(8)) {
        Ok(count) if count <= DISCOVERY_RECORDS_MAX => Ok((field(0), count)),
        _ => Err(field(8)),
    }
}

impl DiscoveryLog {
    /// Reads a log; records that are not complete are left out.
    pub fn parse(bytes: &[u8]) -> Option<DiscoveryLog> {
        let (generation, count) = header(bytes.get(..RECORD_LEN)?).ok()?;
        let records = bytes.chunks_exact(RECORD_LEN).skip(1).take(count).map(DiscoveryRecord::parse).collect();
        Some(DiscoveryLog { generation, records })
    }
}

impl DiscoveryRecord {
    fn parse(bytes: &[u8]) -> DiscoveryRecord {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let number = |at: usize| u16::from_le_bytes([byte(at), byte(at + 1)]);
        let text = |at: usize, len: usize| {
            let field = bytes.get(at..at + len).unwrap_or_default();
            let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
            let text = String::from_utf8_lossy(text);
            // Terminals must not see what a target may write here.
            text.trim_end().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
        };
        DiscoveryRecord {
            transport: byte(0),
            family: byte(1),
            subtype: byte(2),
            requirements: byte(3),
            port_id: number(4),
            controller: number(6),
            admin_entries: number(8),
            flags: number(10),
            service: text(32, 32),
            subsystem: text(256, 256),
            address: text(512, 256),
            rdma: [byte(768), byte(769), byte(770)],
            pkey: number(776),
        }
    }
}
