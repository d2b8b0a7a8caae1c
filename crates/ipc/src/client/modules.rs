//! Requests about kernel modules.

use super::Client;
use crate::limits::{MODULE_NAME_BYTES_MAX, MODULES_MAX};
use crate::{Request, RequestError, Response};

/// Returns whether a name has the form of a kernel module's.
pub fn valid_module_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MODULE_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_word)
}

impl Client {
    /// Returns the names of the modules that `modprobe` loaded in the client's host, or on the machine.
    pub fn modules(&mut self) -> Result<Vec<String>, RequestError> {
        match self.request(Request::Modules)? {
            Response::Modules(all) if all.len() <= MODULES_MAX && all.iter().all(|name| valid_module_name(name)) => {
                Ok(all)
            }
            _ => Err(RequestError::Protocol),
        }
    }

    /// Loads or removes a module there.
    pub fn set_module(&mut self, name: &str, loaded: bool) -> Result<(), RequestError> {
        self.done(Request::SetModule { name: name.to_owned(), loaded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules_lead_nowhere_else() {
        assert!(valid_module_name("ib_ipoib") && valid_module_name("8021q"));
        for bad in ["", "../x", "a b", "a\nb", &"x".repeat(65)] {
            assert!(!valid_module_name(bad), "{bad:?}");
        }
    }
}
