//! RDMA operations that accompany messages (`struct rds_rdma_args`), and the cookies that name memory
//! (`rds_rdma_cookie_t`).

/// Name of an operation and of its local memory; the owner of the queue pairs chooses it.
pub type OperationId = u64;

/// Name of a peer's memory: the key of a region, and an offset in it. As a number, the key is the lower half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cookie {
    /// R_Key.
    pub key: u32,
    /// Offset in bytes: the region begins at a page, and the memory within it.
    pub offset: u32,
}

impl Cookie {
    /// Reads a cookie; 0 is none.
    pub fn of(number: u64) -> Option<Cookie> {
        (number != 0).then_some(Cookie { key: number as u32, offset: (number >> 32) as u32 })
    }

    /// Returns the number of an optional cookie.
    pub fn number(cookie: Option<Cookie>) -> u64 {
        cookie.map_or(0, |cookie| u64::from(cookie.offset) << 32 | u64::from(cookie.key))
    }
}

/// Direction of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
}

/// Options of an operation (`RDS_RDMA_*`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RdmaOptions {
    /// The message waits until the READ has completed.
    pub is_fenced: bool,
    /// An empty message is not sent: the peer learns nothing of the operation.
    pub is_silent: bool,
    /// The program hears of the result.
    pub notifies: bool,
    /// The program hears of a failure (`RDS_RECVERR`).
    pub reports_errors: bool,
}

/// An operation. The owner of the queue pairs has its local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RdmaOperation {
    /// Name.
    pub id: OperationId,
    /// Direction.
    pub direction: Direction,
    /// Key of the peer's memory.
    pub key: u32,
    /// Address in the peer's region, in bytes from its first page on.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Number that the program gets back with the result.
    pub token: u64,
    /// Options.
    pub options: RdmaOptions,
}

impl RdmaOperation {
    /// Whether the message waits for the operation. The queue pair itself sends a message after the WRITEs before it.
    pub fn holds_message(&self) -> bool {
        self.options.is_fenced && self.direction == Direction::Read
    }
}

/// Result of an operation (`RDS_RDMA_SUCCESS` ...).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaStatus {
    /// It has completed.
    Success = 0,
    /// The peer refused the key or the address.
    RemoteError = 1,
    /// The program has cancelled the message.
    Canceled = 2,
    /// The connection was lost; the operation is not repeated.
    Dropped = 3,
    /// Another failure.
    OtherError = 4,
}

impl RdmaStatus {
    const ALL: [RdmaStatus; 5] = [
        RdmaStatus::Success,
        RdmaStatus::RemoteError,
        RdmaStatus::Canceled,
        RdmaStatus::Dropped,
        RdmaStatus::OtherError,
    ];

    /// Returns the status with a number.
    pub fn of(number: u16) -> Option<RdmaStatus> {
        RdmaStatus::ALL.get(usize::from(number)).copied()
    }
}

/// Result of an operation, for its program (`struct rds_rdma_notify`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notification {
    /// The program's number.
    pub token: u64,
    /// The result.
    pub status: RdmaStatus,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_has_the_key_in_its_lower_half() {
        let cookie = Cookie { key: 0x1234_5678, offset: 0xabc };
        assert_eq!(Cookie::number(Some(cookie)), 0x0000_0abc_1234_5678);
        assert_eq!(Cookie::of(0x0000_0abc_1234_5678), Some(cookie));
        assert_eq!((Cookie::of(0), Cookie::number(None)), (None, 0));
    }

    #[test]
    fn statuses_are_linuxs() {
        for (number, status) in RdmaStatus::ALL.into_iter().enumerate() {
            assert_eq!((status as usize, RdmaStatus::of(number as u16)), (number, Some(status)));
        }
        assert_eq!(RdmaStatus::of(5), None);
    }
}
