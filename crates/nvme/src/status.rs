//! Status of a completion: status code, status code type and Do Not Retry (NVM Express 1.4 §4.6.1).

/// Status field of a completion, without the phase tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

/// Do Not Retry: the command fails again if it is repeated.
const DO_NOT_RETRY: u16 = 1 << 14;
/// Status code and its type.
const CODE: u16 = 0x7ff;

macro_rules! statuses {
    ($($(#[$meta:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        impl Status {
            $($(#[$meta])* #[doc = $text] pub const $name: Status = Status($code);)*
        }

        const TEXTS: &[(u16, &str)] = &[$(($code, $text)),*];
    };
}

statuses! {
    SUCCESS = 0x000, "Successful Completion";
    INVALID_OPCODE = 0x001, "Invalid Command Opcode";
    INVALID_FIELD = 0x002, "Invalid Field in Command";
    ID_CONFLICT = 0x003, "Command ID Conflict";
    TRANSFER_ERROR = 0x004, "Data Transfer Error";
    INTERNAL = 0x006, "Internal Error";
    INVALID_NAMESPACE = 0x00b, "Invalid Namespace or Format";
    SEQUENCE_ERROR = 0x00c, "Command Sequence Error";
    DATA_LENGTH_INVALID = 0x00f, "Data SGL Length Invalid";
    SGL_TYPE_INVALID = 0x011, "SGL Descriptor Type Invalid";
    SGL_OFFSET_INVALID = 0x016, "SGL Offset Invalid";
    KEEP_ALIVE_INVALID = 0x019, "Keep Alive Timeout Invalid";
    WRITE_PROTECTED = 0x020, "Namespace is Write Protected";
    LBA_OUT_OF_RANGE = 0x080, "LBA Out of Range";
    CAPACITY_EXCEEDED = 0x081, "Capacity Exceeded";
    NAMESPACE_NOT_READY = 0x082, "Namespace Not Ready";
    RESERVATION_CONFLICT = 0x083, "Reservation Conflict";
    ASYNC_LIMIT = 0x105, "Asynchronous Event Request Limit Exceeded";
    INVALID_LOG_PAGE = 0x109, "Invalid Log Page";
    NOT_SAVEABLE = 0x10d, "Feature Identifier Not Saveable";
    NOT_CHANGEABLE = 0x10e, "Feature Not Changeable";
    CONNECT_FORMAT = 0x180, "Connect Incompatible Format";
    CONNECT_BUSY = 0x181, "Connect Controller Busy";
    CONNECT_INVALID = 0x182, "Connect Invalid Parameters";
    /// Linux's target says so where its file system lacks an operation.
    NOT_SUPPORTED = 0x183, "ONCS Not Supported";
    CONNECT_HOST = 0x184, "Connect Invalid Host";
    WRITE_FAULT = 0x280, "Write Fault";
    READ_ERROR = 0x281, "Unrecovered Read Error";
    COMPARE_FAILURE = 0x285, "Compare Failure";
    ACCESS_DENIED = 0x286, "Access Denied";
}

impl Status {
    /// Adds Do Not Retry.
    #[must_use]
    pub const fn final_one(self) -> Status {
        Status(self.0 | DO_NOT_RETRY)
    }

    /// Returns the status of a completion's last two bytes.
    pub fn from_wire(field: u16) -> Status {
        Status(field >> 1)
    }

    /// Returns a completion's last two bytes.
    pub fn to_wire(self) -> u16 {
        self.0 << 1
    }

    /// Whether the command succeeded.
    pub fn is_success(self) -> bool {
        self.code() == 0
    }

    /// Whether the command may succeed if it is sent again: it failed for a reason of its transport or of the controller, not of
    /// the medium, and the controller does not say otherwise.
    pub fn may_pass(self) -> bool {
        self.0 & DO_NOT_RETRY == 0 && matches!(self.code() >> 8, 0 | 3) && !self.is_success()
    }

    /// Returns status code and type, without Do Not Retry.
    pub fn code(self) -> u16 {
        self.0 & CODE
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match TEXTS.iter().find(|(code, _)| *code == self.code()) {
            Some((code, text)) => write!(f, "{text} ({code:#x})"),
            None => write!(f, "status {:#x}", self.code()),
        }
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_has_the_code_above_the_phase_tag() {
        let status = Status::CONNECT_INVALID.final_one();
        assert_eq!((status.to_wire(), Status::from_wire(status.to_wire())), (0x8304, status));
        assert_eq!(status.to_string(), "Connect Invalid Parameters (0x182)");
        assert!(Status::from_wire(1).is_success() && !status.is_success());
        let may_pass = [Status::SUCCESS, status, Status::INTERNAL, Status::WRITE_FAULT, Status::INTERNAL.final_one()];
        assert_eq!(may_pass.map(Status::may_pass), [false, false, true, false, false]);
    }
}
