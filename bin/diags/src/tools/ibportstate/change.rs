//! Parsing and applying changes to a port.

use super::session::{Asked, Session};
use super::show;
use crate::ib::field::Field;
use crate::ib::fields::subn::{mlnx_ext_port_info as mlnx, port_info as fields};
use crate::ib::number;
use crate::ib::options::m_key;
use crate::ib::report::{End, Outcome, failed};
use crate::ib::smp;

/// Operations without a value; a command line may have at most one of them.
const OPS: &[&str] = &["query", "enable", "reset", "disable", "down", "arm", "active", "on", "off"];

/// A setting with a value.
struct Setting {
    name: &'static str,
    field: Field,
    /// Its name in error messages.
    called: &'static str,
    is_valid: fn(u64) -> bool,
    /// Whether error messages show the value in hexadecimal.
    is_hex: bool,
}

const fn setting(name: &'static str, field: Field, called: &'static str, is_valid: fn(u64) -> bool) -> Setting {
    Setting { name, field, called, is_valid, is_hex: false }
}

const SETTINGS: &[Setting] = &[
    setting("speed", fields::LINK_SPEED_ENABLED, "speed value", |v| v <= 15),
    setting("espeed", fields::LINK_SPEED_EXT_ENABLED, "extended speed value", |v| v <= 31),
    setting(FDR10, mlnx::LINK_SPEED_ENABLED, "fdr10 speed value", |v| v <= 1),
    setting("width", fields::LINK_WIDTH_ENABLED, "width value", |v| v <= 31 || v == 255),
    setting("vls", fields::OPER_VLS, "vls value", |v| (1..=5).contains(&v)),
    setting("mtu", fields::NEIGHBOR_MTU, "mtu value", |v| (1..=5).contains(&v)),
    Setting { is_hex: true, ..setting("lid", fields::LID, "lid value", is_lid) },
    Setting { is_hex: true, ..setting("smlid", fields::SM_LID, "smlid value", is_lid) },
    setting("lmc", fields::LMC, "lmc value", |v| v <= 7),
    setting(M_KEY, fields::MKEY, "", |_| true),
    setting("mkeylease", fields::MKEY_LEASE_PERIOD, "mkey lease time", |v| v <= 0xffff),
    setting("mkeyprot", fields::PROTECT_BITS, "mkey protection bit setting", |v| v <= 3),
];

const FDR10: &str = "fdr10";
const M_KEY: &str = "mkey";
/// A placeholder LID for ports without one, so that another change is not refused for lack of a LID.
const LID_UNLIKELY: u64 = 0x1234;
/// LID values that mean "none".
const LID_NONE: [u64; 2] = [0, 0xffff];

/// PortPhysicalState values: start polling; stay disabled.
const PHYS_POLLING: u64 = 2;
const PHYS_DISABLED: u64 = 3;

fn is_lid(value: u64) -> bool {
    (1..0xc000).contains(&value)
}

/// The changes that a command line asks for.
#[derive(Debug, Default)]
pub struct Changes {
    op: Option<&'static str>,
    /// Values by name.
    values: Vec<(&'static str, u64)>,
}

impl Changes {
    /// Parses the words after the port number.
    ///
    /// # Errors
    /// How the tool ends.
    pub fn parse(words: &[String]) -> Outcome<Changes> {
        let mut changes = Changes::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(op) = OPS.iter().find(|op| *op == word) {
                if changes.op.replace(op).is_some() {
                    let text = "only one of: query, enable, disable, reset, down, arm, active, can be specified";
                    return failed(format!("{op} {text}"));
                }
                continue;
            }
            let Some(setting) = SETTINGS.iter().find(|setting| setting.name == word) else {
                return failed(format!("invalid operation: {word}"));
            };
            let Some(value) = words.next() else {
                return failed(format!("{word} requires an additional parameter"));
            };
            changes.values.push((setting.name, setting.value(value)?));
        }
        Ok(changes)
    }

    /// Whether the command line changes nothing.
    pub fn is_query(&self) -> bool {
        self.values.is_empty() && self.op.is_none_or(|op| op == "query")
    }

    /// Whether the command line changes M_Key, its lease period or its protection bits.
    pub fn sets_m_key(&self) -> bool {
        self.values.iter().any(|(name, _)| name.starts_with(M_KEY))
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.values.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }
}

impl Setting {
    fn value(&self, text: &str) -> Outcome<u64> {
        if self.name == M_KEY {
            return m_key(text, "New M_Key: ").ok_or_else(|| End::failed("Bad new M_Key\n"));
        }
        let value = number::number(text);
        if (self.is_valid)(value) {
            return Ok(value);
        }
        let value = if self.is_hex { format!("0x{value:x}") } else { value.to_string() };
        failed(format!("invalid {} {value}", self.called))
    }
}

/// Changes a port and prints the resulting PortInfo.
pub fn apply(session: &mut Session<'_>, mut asked: Asked, changes: &Changes) -> Outcome<()> {
    let info = &mut asked.info;
    let was_disabled = fields::PHYS_LINK_STATE.value(info) == PHYS_DISABLED;
    for (name, lid) in [("lid", fields::LID), ("smlid", fields::SM_LID)] {
        if changes.value(name).is_none() && LID_NONE.contains(&lid.value(info)) {
            lid.set(info, LID_UNLIKELY);
        }
    }
    // In these fields, 0 means no change.
    let untouched = [fields::LINK_STATE, fields::PHYS_LINK_STATE, fields::LINK_SPEED_ENABLED];
    untouched.iter().for_each(|field| field.set(info, 0));
    fields::LINK_SPEED_EXT_ENABLED.set(info, 0);
    fields::LINK_SPEED_EXT_ENABLED2.set(info, 0);
    fields::LINK_WIDTH_ENABLED.set(info, 0);
    match changes.op {
        Some("on") if !was_disabled => {
            session.print("Port is already in enable state\n");
            return Ok(());
        }
        Some("on" | "enable" | "reset") => fields::PHYS_LINK_STATE.set(info, PHYS_POLLING),
        Some("off" | "disable") => {
            session.print("Disable may be irreversible\n");
            fields::PHYS_LINK_STATE.set(info, PHYS_DISABLED);
        }
        Some("down") => fields::LINK_STATE.set(info, 1),
        Some("arm") => fields::LINK_STATE.set(info, 3),
        Some("active") => fields::LINK_STATE.set(info, 4),
        _ => {}
    }
    for setting in SETTINGS.iter().filter(|setting| setting.name != FDR10) {
        if let Some(value) = changes.value(setting.name) {
            setting.field.set(info, value);
        }
    }
    if let Some(value) = changes.value(FDR10) {
        set_fdr10(session, &mut asked, value)?;
    }
    let speeds = if asked.extended_speeds.first { smp::SUPPORTS_EXTENDED_SPEEDS } else { 0 };
    let answer = session.port.smp_set(&asked.to, smp::PORT_INFO, asked.number | speeds, &asked.info);
    asked.info =
        answer.map_err(|_| End::Failed { function: "set_port_info", text: "smp set portinfo failed".into() })?;
    session.print("\nAfter PortInfo set:\n");
    show::tell(session, &asked, "after");
    Ok(())
}

fn set_fdr10(session: &mut Session<'_>, asked: &mut Asked, value: u64) -> Outcome<()> {
    mlnx::STATE_CHANGE_ENABLE.set(&mut asked.mlnx_ext, 1);
    mlnx::LINK_SPEED_ENABLED.set(&mut asked.mlnx_ext, value);
    let answer = session.port.smp_set(&asked.to, smp::MLNX_EXT_PORT_INFO, asked.number, &asked.mlnx_ext);
    asked.mlnx_ext = answer.map_err(|_| End::Failed {
        function: "set_mlnx_ext_port_info",
        text: "smp set MLNX ext portinfo failed".to_owned(),
    })?;
    session.print("\nAfter MLNXExtendedPortInfo set:\n");
    show::tell_mlnx_ext(session, asked, "port");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Outcome<Changes> {
        Changes::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn mistake(line: &str) -> String {
        match parse(line).unwrap_err() {
            End::Failed { text, .. } => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn changes_are_read() {
        assert!(parse("").unwrap().is_query());
        assert!(parse("query").unwrap().is_query());
        assert!(!parse("query lmc 1").unwrap().is_query());
        let changes = parse("lid 0x10 arm mkeyprot 2").unwrap();
        assert_eq!((changes.op, changes.value("lid"), changes.sets_m_key()), (Some("arm"), Some(16), true));
    }

    #[test]
    fn mistakes_are_told_as_the_original_does() {
        assert_eq!(mistake("speed 16"), "invalid speed value 16");
        assert_eq!(mistake("espeed 32"), "invalid extended speed value 32");
        assert_eq!(mistake("lid 0xc000"), "invalid lid value 0xc000");
        assert_eq!(mistake("width"), "width requires an additional parameter");
        assert_eq!(mistake("bogus"), "invalid operation: bogus");
        assert_eq!(
            mistake("arm down"),
            "down only one of: query, enable, disable, reset, down, arm, active, can be specified"
        );
    }
}
