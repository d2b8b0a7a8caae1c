//! Services registered by ports (IBA 15.2.5.14).

use super::component::components;
use crate::layout::{Bytes, array, int, message};
use crate::mad::Block;

message! {
    /// ServiceRecord.
    #[derive(Copy)]
    ServiceRecord[176] {
        /// Service ID.
        service_id: u64 = int(0, 8),
        /// Port that provides the service.
        service_gid: [u8; 16] = Bytes(8),
        /// Partition.
        service_pkey: u16 = int(24, 2),
        /// Lifetime of the record in seconds; 0xffffffff: unlimited.
        service_lease: u32 = int(28, 4),
        /// Key that authorises changes of the record.
        service_key: [u8; 16] = Bytes(32),
        /// Name, UTF-8.
        service_name: Block<64> = Bytes(48),
        /// Service-defined data, as bytes.
        service_data8: [u8; 16] = Bytes(112),
        /// Service-defined data, as 16-bit words.
        service_data16: [u16; 8] = array(128, 16),
        /// Service-defined data, as 32-bit words.
        service_data32: [u32; 4] = array(144, 32),
        /// Service-defined data, as 64-bit words.
        service_data64: [u64; 2] = array(160, 64),
    }
}

components! {
    ServiceRecord {
        SERVICE_ID = 64, SERVICE_GID = 128, SERVICE_PKEY = 16, RESERVED1 = 16, SERVICE_LEASE = 32, SERVICE_KEY = 128,
        SERVICE_NAME = 512, DATA8_0 = 8, DATA8_1 = 8, DATA8_2 = 8, DATA8_3 = 8, DATA8_4 = 8, DATA8_5 = 8, DATA8_6 = 8,
        DATA8_7 = 8, DATA8_8 = 8, DATA8_9 = 8, DATA8_10 = 8, DATA8_11 = 8, DATA8_12 = 8, DATA8_13 = 8, DATA8_14 = 8,
        DATA8_15 = 8, DATA16_0 = 16, DATA16_1 = 16, DATA16_2 = 16, DATA16_3 = 16, DATA16_4 = 16, DATA16_5 = 16,
        DATA16_6 = 16, DATA16_7 = 16, DATA32_0 = 32, DATA32_1 = 32, DATA32_2 = 32, DATA32_3 = 32, DATA64_0 = 64,
        DATA64_1 = 64,
    }
}
