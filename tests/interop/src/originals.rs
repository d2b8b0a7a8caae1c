//! The installed infiniband-diags and ibsim, whose output the tests compare with that of Weft's diagnostics.
//!
//! Weft's tools print what infiniband-diags 56 prints. Everything that another version prints differently is listed
//! here, with the version that began or ended it: [`Originals::known`] turns Weft's output into that of an older
//! version, and the comparison stays one of bytes.

use crate::ibsim::Said;
use crate::skip;
use anyhow::{Context, Result, ensure};
use std::ops::Range;
use std::process::{Command, Stdio};

/// First version that knows XDR: PortInfo's second set of extended speeds.
const XDR_SINCE: u32 = 50;
/// First version that opens a port for SMPs and one for all other datagrams.
const PORT_PAIRS_SINCE: u32 = 56;
/// First version whose ibstat ends with a warning and exit code 0 if it cannot read an adapter. Weft's fails.
const IBSTAT_WARNS_SINCE: u32 = 54;

/// Command lines that crash in these versions: ibqueryerrors sends an SMP by the port for all other datagrams, and
/// ibtracert finds no multicast route.
const CRASHES: &[(Range<u32>, &str)] = &[
    (56..60, "ibqueryerrors -D 0,1"),
    (49..u32::MAX, "ibtracert -m 0xc000 1 10"),
    (49..u32::MAX, "ibtracert -m 0xc000 6 10"),
    (49..u32::MAX, "ibtracert -v -m 0xc000 1 10"),
    (49..u32::MAX, "ibtracert -v -n -m 0xc000 6 7"),
    (49..u32::MAX, "ibtracert -m 1 1 10"),
];

/// Fields of PortInfo with XDR.
const XDR_FIELDS: &[&str] = &["LinkSpeedExtActive2:", "LinkSpeedExtSupported2:", "LinkSpeedExtEnabled2:"];
/// An XDR link as tools that know XDR name it, and as older ones do: these read that it runs at QDR.
const XDR_NAMES: &[(&str, &str)] = &[("xXDR", "xQDR"), (" XDR", " QDR"), (XDR_LINK, " 10.0 Gbps Active/  LinkUp")];
/// An XDR link that iblinkinfo prints. To older versions it could run at NDR.
const XDR_LINK: &str = "212.5 Gbps Active/  LinkUp";
const COULD_BE: (&str, &str) = ("( )", "( Could be 106.25 Gbps)");
/// Start of ibstat's message about an adapter that it cannot read.
const IBSTAT_PANIC: &str = "ibpanic: [PID] main: stat of IB device ";

/// A version of infiniband-diags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Originals {
    major: u32,
}

impl Originals {
    /// Returns the version with this major number.
    pub fn of(major: u32) -> Originals {
        Originals { major }
    }

    /// Asks the installed smpquery for its version: `smpquery BUILD VERSION: 44.0`.
    pub fn installed() -> Result<Originals> {
        let text = output("smpquery", "-V")?;
        let number = text.split("VERSION: ").nth(1).and_then(|rest| rest.split('.').next());
        let major = number.and_then(|number| number.parse().ok());
        Ok(Originals::of(major.with_context(|| format!("no version in {text:?}"))?))
    }

    /// Turns a text of Weft's tools into that of this version.
    pub fn known(self, ours: &str) -> String {
        let lines = ours.lines().filter_map(|line| self.line(line));
        lines.map(|line| line + "\n").collect()
    }

    /// Turns the result of a tool of Weft into that of this version.
    pub fn known_of(self, ours: &Said) -> Said {
        let warns = self.major >= IBSTAT_WARNS_SINCE && ours.err.contains(IBSTAT_PANIC);
        let code = if warns { Some(0) } else { ours.code };
        Said { out: self.known(&ours.out), err: self.known(&ours.err), code }
    }

    fn line(self, line: &str) -> Option<String> {
        let mut line = line.to_owned();
        if !self.know_xdr() {
            if XDR_FIELDS.iter().any(|field| line.trim_start().starts_with(field)) {
                return None;
            }
            if line.contains(XDR_LINK) {
                line = line.replace(COULD_BE.0, COULD_BE.1);
            }
            for (name, older) in XDR_NAMES {
                line = line.replace(name, older);
            }
        }
        if self.major >= IBSTAT_WARNS_SINCE && line.starts_with(IBSTAT_PANIC) {
            let text = line.split_once("' failed: ").map_or(&*line, |(text, _)| text);
            line = text.replace("ibpanic: ", "ibwarn: ") + "' failed";
        }
        if self.major < PORT_PAIRS_SINCE {
            if line.contains("get_smi_gsi_pair: ") {
                return None;
            }
            line = line.replace("mad_rpc_open_port2: ", "mad_rpc_open_port: ");
        }
        Some(line)
    }

    /// Returns whether this version has names for XDR.
    pub fn know_xdr(self) -> bool {
        self.major >= XDR_SINCE
    }

    /// Returns whether this version crashes at a command line.
    pub fn crash_at(self, line: &str) -> bool {
        CRASHES.iter().any(|(versions, crash)| versions.contains(&self.major) && line == *crash)
    }
}

/// Checks a crash of the originals: once a version does not crash, [`Originals::crash_at`] is wrong.
pub fn crashed(theirs: &Said) -> Result<()> {
    ensure!(theirs.code.is_none(), "no crash: {theirs:?}");
    Ok(())
}

/// Returns the minor version of the installed ibsim, which its usage names: `ibsim 0.12`.
pub fn ibsim_minor() -> Result<u32> {
    let text = output("ibsim", "--help")?;
    let minor = text.rsplit("ibsim 0.").next().and_then(|minor| minor.trim().parse().ok());
    minor.with_context(|| format!("no version in {text:?}"))
}

/// Returns what a tool says with an option.
fn output(tool: &str, option: &str) -> Result<String> {
    let path = skip::on_path(tool).with_context(|| format!("{tool} is not installed"))?;
    let output = Command::new(path).arg(option).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {tool}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(text(&output.stdout) + &text(&output.stderr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_lacks_what_came_later_and_nothing_else() {
        let ours = "LinkSpeedExtEnabled:.............0\nLinkSpeedExtActive2:.............212.5 Gbps\n4xXDR\n\
                    1[  ] ==( 4X         212.5 Gbps Active/  LinkUp)==> 2 ( )\n3 ==( 4X 10.0 Gbps Active/  LinkUp)==> ( )\n\
                    ibwarn: [PID] get_smi_gsi_pair: Can't open\nibwarn: [PID] mad_rpc_open_port2: can't open\n";
        let older = "LinkSpeedExtEnabled:.............0\n4xQDR\n\
                     1[  ] ==( 4X          10.0 Gbps Active/  LinkUp)==> 2 ( Could be 106.25 Gbps)\n\
                     3 ==( 4X 10.0 Gbps Active/  LinkUp)==> ( )\nibwarn: [PID] mad_rpc_open_port: can't open\n";
        assert_eq!(Originals::of(44).known(ours), older);
        assert_eq!(Originals::of(56).known(ours), ours);
    }

    #[test]
    fn a_newer_ibstat_warns_where_ours_fails() {
        let err = "ibpanic: [PID] main: stat of IB device 'a' failed: No such file or directory\n".to_owned();
        let ours = Said { out: String::new(), err, code: Some(255) };
        assert_eq!(Originals::of(44).known_of(&ours), ours);
        let theirs = Originals::of(56).known_of(&ours);
        assert_eq!((&*theirs.err, theirs.code), ("ibwarn: [PID] main: stat of IB device 'a' failed\n", Some(0)));
    }
}
