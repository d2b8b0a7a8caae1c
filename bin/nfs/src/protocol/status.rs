//! `nfsstat3` (RFC 1813 §2.6).

use rustix::io::Errno;

/// Status of a failed operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub u32);

impl Status {
    /// The handle names no file any more.
    pub const STALE: Status = Status(70);
    /// The handle is not one of this server's.
    pub const BAD_HANDLE: Status = Status(10001);
    /// The attributes changed since the client looked (SETATTR's guard).
    pub const NOT_SYNC: Status = Status(10002);
    /// The operation is not supported.
    pub const NOT_SUPPORTED: Status = Status(10004);
    /// The reply has less room than one entry.
    pub const TOO_SMALL: Status = Status(10005);
    /// No file of this type can be created.
    pub const BAD_TYPE: Status = Status(10007);
    /// The export is read-only.
    pub const READ_ONLY: Status = Status(30);
    /// No permission.
    pub const ACCESS: Status = Status(13);
    /// The argument makes no sense for the file.
    pub const INVALID: Status = Status(22);
    /// The file exists.
    pub const EXISTS: Status = Status(17);
    /// The name is too long.
    pub const NAME_TOO_LONG: Status = Status(63);
    /// The file is a directory.
    pub const IS_DIRECTORY: Status = Status(21);
    /// The file is no directory.
    pub const NOT_DIRECTORY: Status = Status(20);
    /// The server failed.
    pub const SERVER_FAULT: Status = Status(10006);
}

impl From<Errno> for Status {
    fn from(errno: Errno) -> Status {
        let status = match errno {
            Errno::PERM => 1,
            Errno::NOENT => 2,
            Errno::NXIO => 6,
            Errno::ACCESS => 13,
            Errno::EXIST => 17,
            Errno::XDEV => 18,
            Errno::NODEV => 19,
            Errno::NOTDIR => 20,
            Errno::ISDIR => 21,
            Errno::INVAL => 22,
            Errno::FBIG => 27,
            Errno::NOSPC => 28,
            Errno::ROFS => 30,
            Errno::MLINK => 31,
            Errno::NAMETOOLONG => 63,
            Errno::NOTEMPTY => 66,
            Errno::DQUOT => 69,
            Errno::STALE => 70,
            Errno::OPNOTSUPP => 10004,
            // Everything else is NFS3ERR_IO.
            _ => 5,
        };
        Status(status)
    }
}

impl From<std::io::Error> for Status {
    fn from(error: std::io::Error) -> Status {
        Errno::from_io_error(&error).map_or(Status::SERVER_FAULT, Status::from)
    }
}
