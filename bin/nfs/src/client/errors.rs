//! Errors of calls, as programs see them.

use rustix::io::Errno;

use crate::protocol::status::Status;

/// Returns the errno of a failed operation.
pub fn errno_of(status: Status) -> Errno {
    match status.0 {
        // The numbers of Unix that Linux kept.
        1 | 2 | 5 | 6 | 13 | 17..=22 | 27 | 28 | 30 | 31 => Errno::from_raw_os_error(status.0 as i32),
        63 => Errno::NAMETOOLONG,
        66 => Errno::NOTEMPTY,
        69 => Errno::DQUOT,
        70 | 10001 => Errno::STALE,
        71 => Errno::REMOTE,
        10002 => Errno::AGAIN,
        10004 => Errno::OPNOTSUPP,
        10006 => Errno::REMOTEIO,
        10007 => Errno::INVAL,
        _ => Errno::IO,
    }
}

/// The server asks the client to repeat the call later (NFS3ERR_JUKEBOX).
pub const TRY_LATER: Status = Status(10008);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_status_is_the_errno_that_it_had() {
        for errno in [
            Errno::PERM,
            Errno::NOENT,
            Errno::ACCESS,
            Errno::EXIST,
            Errno::NOTDIR,
            Errno::ISDIR,
            Errno::NOSPC,
            Errno::ROFS,
            Errno::NAMETOOLONG,
            Errno::NOTEMPTY,
            Errno::DQUOT,
            Errno::STALE,
            Errno::OPNOTSUPP,
        ] {
            assert_eq!(errno_of(Status::from(errno)), errno);
        }
        assert_eq!((errno_of(Status::BAD_HANDLE), errno_of(Status(99_999))), (Errno::STALE, Errno::IO));
    }
}
