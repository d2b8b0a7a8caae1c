//! Subnet administration queries and the output of their answers.

use std::io;

use serde_json::Value;
use weft_wire::mad::ClassPortInfo;
use weft_wire::mad::sa::NodeRecord;
use weft_wire::span;

use super::printers::{Context, Printer};
use super::query::{LidAndPorts, Template, ports};
use super::record::Bytes;
use crate::errno;
use crate::ib::address::PortId;
use crate::ib::mad::{ATTR_CLASS_PORT_INFO, CLASS_SUBN_ADM, GET, GET_TABLE};
use crate::ib::names::NodeNames;
use crate::ib::number;
use crate::ib::options::Common;
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome, warn};
use crate::ib::sa::{Answer, NODE_RECORD, Query, SaError};
use crate::output;

/// Default timeout for an answer, in milliseconds.
const TIMEOUT_MS: u32 = 1000;
/// Exit codes, which are errnos.
const EIO: u8 = libc::EIO as u8;
const EINVAL: u8 = libc::EINVAL as u8;
const ENONET: u8 = libc::ENONET as u8;

/// An open connection to subnet administration.
pub struct Session<'a> {
    common: &'a Common,
    port: Port,
    sm: PortId,
    sm_key: u64,
    /// Settings of the printers.
    pub context: Context,
    text: String,
    values: Vec<Value>,
    /// Whether the JSON list has begun.
    listed: bool,
}

/// Limits of the pending output, bytes of text and JSON values: an answer may hold millions of records.
const TEXT_MAX: usize = 64 << 10;
const VALUES_MAX: usize = 256;

impl<'a> Session<'a> {
    /// Opens a session.
    ///
    /// # Errors
    /// There is no port, or no subnet manager.
    pub fn open(common: &'a Common, sm_key: u64, name_map: &Option<String>) -> Outcome<Session<'a>> {
        let unbound = || End::panic("Failed to bind to the SA", io::Error::from_raw_os_error(libc::ENOENT));
        let sm = common.own_sm()?.unwrap_or_default();
        if sm.lid == 0 {
            let name = if common.ca.is_some() { "" } else { "(null)" };
            warn("sa_get_handle", &format!("No SM/SA found on port {name}:{}", common.port));
            return Err(unbound());
        }
        let port = Port::open(common, &[CLASS_SUBN_ADM]).map_err(|_| unbound())?;
        let context =
            Context { names: NodeNames::open(name_map.as_deref()), show_keys: common.show_keys, sa_cap_mask2: 0 };
        Ok(Session { common, port, sm, sm_key, context, text: String::new(), values: Vec::new(), listed: false })
    }

    fn ask(&mut self, query: &Query<'_>) -> Outcome<Answer> {
        let timeout_ms = self.common.timeout_ms.unwrap_or(TIMEOUT_MS);
        let answer = self.port.sa_query(&self.sm, query, timeout_ms).map_err(|error| {
            let code = match error {
                SaError::Send(e) | SaError::Recv(e) => e.raw_os_error().unwrap_or(libc::EIO),
                SaError::Status(status) => status,
            };
            crate::errln!("Query SA failed: {}", errno::text(&io::Error::from_raw_os_error(code)));
            End::Code(code as u8)
        })?;
        if answer.status != 0 {
            report_status(answer.status);
            return Err(End::Code(EIO));
        }
        Ok(answer)
    }

    /// Queries the records of one type.
    ///
    /// # Errors
    /// The query failed; the error is already printed.
    pub fn table(&mut self, attribute: u16, modifier: u32, template: &Template) -> Outcome<Answer> {
        self.ask(&Query {
            method: GET_TABLE,
            attribute,
            modifier,
            component_mask: template.mask,
            sm_key: self.sm_key,
            data: &template.bytes,
        })
    }

    /// Gets the SA's ClassPortInfo; remembers the capabilities that the printers need.
    ///
    /// # Errors
    /// The query failed; the error is already printed.
    pub fn class_port_info(&mut self) -> Outcome<Vec<u8>> {
        let query = Query { method: GET, attribute: ATTR_CLASS_PORT_INFO, sm_key: self.sm_key, ..Query::default() };
        let answer = self.ask(&query).inspect_err(|_| crate::errln!("Failed to query SA:ClassPortInfo"))?;
        let info = answer.records().next().unwrap_or_default().to_vec();
        self.context.sa_cap_mask2 = Bytes(&info).get(span!(ClassPortInfo.capability_mask2)) as u32;
        Ok(info)
    }

    /// Queries records and shows them.
    ///
    /// # Errors
    /// The query failed; the error is already printed.
    pub fn query(&mut self, attribute: u16, modifier: u32, template: &Template, print: Printer) -> Outcome<()> {
        let answer = self.table(attribute, modifier, template)?;
        answer.records().try_for_each(|record| self.show(print, Bytes(record)))
    }

    /// Shows a record.
    ///
    /// # Errors
    /// None.
    pub fn show(&mut self, print: Printer, record: Bytes<'_>) -> Outcome<()> {
        let record = print(record, &self.context);
        self.say(&record.text(), record.json());
        Ok(())
    }

    /// Shows something other than a record: text, or a JSON value.
    pub fn say(&mut self, text: &str, value: Value) {
        if self.common.json {
            if !value.is_null() {
                self.values.push(value);
            }
        } else {
            self.text += text;
        }
        if self.values.len() >= VALUES_MAX || self.text.len() >= TEXT_MAX {
            self.write();
        }
    }

    /// Writes the pending output.
    pub fn print(&mut self) {
        self.write();
        match self.listed {
            _ if !self.common.json => {}
            true => output::print("\n]\n"),
            false => output::print("[]\n"),
        }
    }

    fn write(&mut self) {
        for value in std::mem::take(&mut self.values) {
            let before = if std::mem::replace(&mut self.listed, true) { ",\n  " } else { "[\n  " };
            self.text += before;
            self.text += &format!("{value:#}").replace('\n', "\n  ");
        }
        output::print(&std::mem::take(&mut self.text));
    }

    /// The LID for a node's name or a number.
    ///
    /// # Errors
    /// There is no such LID; the error is already printed.
    pub fn lid(&mut self, name: &str) -> Outcome<u16> {
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let lid = u16::try_from(number::number(name)).ok().filter(|&lid| lid != 0);
            return lid.ok_or_else(|| {
                crate::errln!("Invalid lid specified: \"{name}\"");
                End::Code(EINVAL)
            });
        }
        let answer = self.table(NODE_RECORD, 0, &Template::default()).map_err(|end| {
            let code = if let End::Code(code) = end { code } else { EIO };
            lid_not_found(name, code)
        })?;
        let called = |record: &&[u8]| {
            let description = Bytes(record).part(span!(NodeRecord.node_description)).0;
            let len = description.iter().position(|&b| b == 0).unwrap_or(description.len());
            description[..len] == *name.as_bytes()
        };
        answer
            .records()
            .find(called)
            .map(|r| Bytes(r).get(span!(NodeRecord.lid)) as u16)
            .ok_or_else(|| lid_not_found(name, ENONET))
    }

    /// Parses `LID/number/number`.
    ///
    /// # Errors
    /// The LID is invalid; the error is already printed.
    pub fn lid_and_ports(&mut self, text: &str) -> Outcome<LidAndPorts> {
        let lid = self.lid(text.split('/').next().unwrap_or_default())?;
        let (first, second) = ports(text);
        Ok((lid, first, second))
    }
}

fn lid_not_found(name: &str, code: u8) -> End {
    let why = errno::text(&io::Error::from_raw_os_error(code.into()));
    crate::errln!("Failed to find lid for \"{name}\": {why}");
    End::Code(code)
}

/// Prints the meaning of an error status on standard error.
pub fn report_status(status: u16) {
    crate::errln!("{}", status_text(status));
}

fn status_text(status: u16) -> String {
    const FIELDS: [&str; 9] = [
        "MAD No invalid fields",
        "MAD Bad version",
        "MAD Method specified is not supported",
        "MAD Method/Attribute combination is not supported",
        "MAD Reserved",
        "MAD Reserved",
        "MAD Reserved",
        "MAD Invalid value in Attribute field(s) or Attribute Modifier",
        "MAD UNKNOWN ERROR",
    ];
    const SA: [&str; 10] = [
        "SA_NO_ERROR",
        "SA_ERR_NO_RESOURCES",
        "SA_ERR_REQ_INVALID",
        "SA_ERR_NO_RECORDS",
        "SA_ERR_TOO_MANY_RECORDS",
        "SA_ERR_REQ_INVALID_GID",
        "SA_ERR_REQ_INSUFFICIENT_COMPONENTS",
        "SA_ERR_REQ_DENIED",
        "SA_ERR_STATUS_PRIO_SUGGESTED",
        "SA_ERR_UNKNOWN",
    ];
    let [class, common] = status.to_be_bytes();
    let word = |words: &[&'static str], at: u8| words[usize::from(at).min(words.len() - 1)];
    let mad = match common {
        0 => String::new(),
        _ => {
            let busy = if common & 1 != 0 { "BUSY" } else { "" };
            let redirect = if common & 2 != 0 { "Redirection Required" } else { "" };
            format!(" ({busy}; {redirect}; {})", word(&FIELDS, common >> 2))
        }
    };
    let sa = if class == 0 { String::new() } else { format!(" SA({})", word(&SA, class)) };
    format!("ERROR: Query result returned 0x{status:04x}, {mad}{sa}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_explained() {
        assert_eq!(status_text(0x0300), "ERROR: Query result returned 0x0300,  SA(SA_ERR_NO_RECORDS)");
        assert_eq!(
            status_text(0x000d),
            "ERROR: Query result returned 0x000d,  (BUSY; ; MAD Method/Attribute combination is not supported)"
        );
        assert!(status_text(0xff00).ends_with("SA(SA_ERR_UNKNOWN)"));
        assert!(status_text(0x00fc).contains("MAD UNKNOWN ERROR"));
    }
}
