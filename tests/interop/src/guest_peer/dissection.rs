//! tshark's reading of iWARP connections in a capture.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Findings of tshark, from Weft's and from the kernel's side where there are two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dissection {
    /// MPA requests and replies: their revisions, and whether they ask for CRCs.
    pub requests: Vec<Negotiated>,
    /// The replies.
    pub replies: Vec<Negotiated>,
    /// FPDUs.
    pub fpdus: [usize; 2],
    /// CRCs that tshark recomputed and found right.
    pub good_crcs: [usize; 2],
    /// TERMINATEs, each with its codes as tshark prints them.
    pub terminates: [Vec<String>; 2],
    /// The first complaints about anything, with the numbers of their frames.
    pub complaints: Vec<String>,
}

/// An MPA request or reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Its revision.
    pub revision: u8,
    /// The CRC flag.
    pub crc: bool,
    /// The reject flag.
    pub rejected: bool,
}

const COMPLAINTS: [&str; 4] = ["Bad CRC32", "Malformed", "does not contain the expected length", "Reject bit"];
const COMPLAINTS_MAX: usize = 8;

/// Reads a capture; `ours` are Weft's addresses.
pub(super) fn dissect(file: &Path, ours: &[&str]) -> Result<Dissection> {
    let mut tshark = Command::new("tshark")
        .args(["-V", "-2", "--disable-protocol", "rpcordma", "-Y", "iwarp_mpa || _ws.malformed", "-r"])
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run tshark")?;
    let mut reader = Reader::default();
    for line in BufReader::new(tshark.stdout.take().context("no pipe")?).lines() {
        reader.read(line?.trim(), ours);
    }
    ensure!(tshark.wait()?.success(), "tshark cannot read {}", file.display());
    Ok(reader.found)
}

#[derive(Default)]
struct Reader {
    found: Dissection,
    frame: String,
    side: usize,
    is_request: bool,
}

impl Reader {
    fn read(&mut self, line: &str, ours: &[&str]) {
        let found = &mut self.found;
        let value = |name: &str| line.strip_prefix(name).map(str::trim);
        if line.starts_with("Frame ") && line.contains("bytes on wire") {
            self.frame = line.split(':').next().unwrap_or_default().to_owned();
        } else if let Some((_, source)) = line.split_once(", Src: ") {
            let source = source.split(',').next().unwrap_or_default();
            if line.starts_with("Internet Protocol") {
                self.side = usize::from(!ours.contains(&source));
            }
        } else if line.starts_with("Request frame header") {
            self.is_request = true;
            found.requests.push(Negotiated::default());
        } else if line.starts_with("Reply frame header") {
            self.is_request = false;
            found.replies.push(Negotiated::default());
        } else if line.starts_with("ULPDU length:") {
            found.fpdus[self.side] += 1;
        } else if line.contains("Good CRC32") {
            found.good_crcs[self.side] += 1;
        } else if line.contains("OpCode: Terminate") {
            found.terminates[self.side].push(String::new());
        } else if let Some(text) = found.terminates[self.side].last_mut()
            && ["Layer:", "Error Types", "Error Code"].iter().any(|name| line.contains(name))
        {
            let text_of = line.rsplit_once(": ").map_or(line, |(_, text)| text);
            *text += if text.is_empty() { "" } else { ", " };
            *text += text_of;
        }
        let frames = if self.is_request { &mut found.requests } else { &mut found.replies };
        if let Some(frame) = frames.last_mut() {
            if let Some(revision) = value("Revision:") {
                frame.revision = revision.parse().unwrap_or_default();
            } else if line.contains("CRC flag") {
                frame.crc = line.ends_with("True");
            } else if line.contains("Connection rejected flag") {
                frame.rejected = line.ends_with("True");
            }
        }
        if found.complaints.len() < COMPLAINTS_MAX && COMPLAINTS.iter().any(|bad| line.contains(bad)) {
            found.complaints.push(format!("{}: {line}", self.frame));
        }
    }
}
