//! Numbers of commands and properties. An unknown value survives: each type is a number with names.

/// Opcode of all Fabrics commands.
pub const OPCODE_FABRICS: u8 = 0x7f;

macro_rules! numbers {
    ($(#[$meta:meta])* $type:ident($raw:ty) { $($name:ident = $value:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $type(pub $raw);

        impl $type {
            $(#[doc = $text] pub const $name: $type = $type($value);)*
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $($type::$name => f.write_str($text),)*
                    $type(other) => write!(f, "{other:#x}"),
                }
            }
        }
    };
}

numbers! {
    /// Opcode of an admin command.
    AdminOpcode(u8) {
        GET_LOG_PAGE = 0x02, "Get Log Page";
        IDENTIFY = 0x06, "Identify";
        ABORT = 0x08, "Abort";
        SET_FEATURES = 0x09, "Set Features";
        GET_FEATURES = 0x0a, "Get Features";
        ASYNC_EVENT = 0x0c, "Asynchronous Event Request";
        KEEP_ALIVE = 0x18, "Keep Alive";
    }
}

numbers! {
    /// Opcode of a command of the NVM command set.
    IoOpcode(u8) {
        FLUSH = 0x00, "Flush";
        WRITE = 0x01, "Write";
        READ = 0x02, "Read";
        COMPARE = 0x05, "Compare";
        WRITE_ZEROES = 0x08, "Write Zeroes";
        DATASET_MANAGEMENT = 0x09, "Dataset Management";
    }
}

numbers! {
    /// Type of a Fabrics command.
    FabricsType(u8) {
        PROPERTY_SET = 0x00, "Property Set";
        CONNECT = 0x01, "Connect";
        PROPERTY_GET = 0x04, "Property Get";
        DISCONNECT = 0x08, "Disconnect";
    }
}

numbers! {
    /// Offset of a controller property.
    PropertyOffset(u32) {
        CAPABILITIES = 0x00, "CAP";
        VERSION = 0x08, "VS";
        CONFIGURATION = 0x14, "CC";
        STATUS = 0x1c, "CSTS";
    }
}
