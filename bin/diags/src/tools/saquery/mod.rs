//! `saquery`: queries subnet administration records and prints them.

mod attribute;
mod nodes;
mod options;
mod printers;
mod query;
mod record;
mod session;

pub use session::report_status;

use std::ffi::OsString;
use std::process::ExitCode;

use super::Tool;
use crate::ib::options::{CommandLine, Spec};
use crate::ib::report::{End, Outcome};
use nodes::Choice;
use options::{Asked, Command};
use printers::Printer;
use query::{Keys, Template};
use record::Bytes;
use session::Session;

/// The tool.
pub const TOOL: Tool = Tool { name: "saquery", about: "query a fabric's subnet administration", run };

/// `EINVAL` as an exit code.
const INVALID: u8 = 22;

/// How to make a record's template from operands.
#[derive(Clone, Copy)]
enum From {
    /// Without selection.
    All,
    /// From options alone.
    Options(fn(&query::Params) -> Template),
    /// `[[lid]/[number]/[number]]`.
    Keys(Keys),
    /// The same for multicast forwarding tables.
    Multicast,
    /// Two ends of a cable.
    Link,
    /// `[subscriber_gid]`.
    Subscriber,
    /// The SA itself.
    ClassPortInfo,
}

/// A record type that the user can query.
struct Query {
    name: &'static str,
    alias: &'static str,
    attribute: u16,
    #[cfg_attr(not(test), allow(dead_code, reason = "a test compares it with the usage's text"))]
    usage: &'static str,
    from: From,
    print: Printer,
}

const fn q(
    (name, alias): (&'static str, &'static str),
    attribute: u16,
    usage: &'static str,
    from: From,
    print: Printer,
) -> Query {
    Query { name, alias, attribute, usage, from, print }
}

const LID: From = From::Keys(Keys::NONE);
const BYTES: From = From::Keys(Keys::BYTES);
const PKEY: From = From::Keys(Keys { first: Some((2, 4, 1)), second: Some((1, 2, 2)) });
const BLOCK16: From = From::Keys(Keys { first: Some((1, 2, 2)), second: None });
const BLOCK8: From = From::Keys(Keys { first: Some((1, 2, 1)), second: None });

/// All record types, in usage order.
const QUERIES: &[Query] = &[
    q(("ClassPortInfo", "CPI"), attribute::CLASS_PORT_INFO, "", From::ClassPortInfo, printers::class_port_info),
    q(("NodeRecord", "NR"), attribute::NODE, "[lid]", LID, printers::node),
    q(("PortInfoRecord", "PIR"), attribute::PORT_INFO, "[[lid]/[port]/[options]]", BYTES, printers::port_info),
    q(("SL2VLTableRecord", "SL2VL"), 0x13, "[[lid]/[in_port]/[out_port]]", BYTES, printers::sl2vl),
    q(("PKeyTableRecord", "PKTR"), 0x33, "[[lid]/[port]/[block]]", PKEY, printers::pkeys),
    q(("VLArbitrationTableRecord", "VLAR"), 0x36, "[[lid]/[port]/[block]]", BYTES, printers::vl_arbitration),
    q(("InformInfoRecord", "IIR"), attribute::INFORM_INFO, "[subscriber_gid]", From::Subscriber, printers::inform_info),
    q(
        ("LinkRecord", "LR"),
        attribute::LINK,
        "[[from_lid]/[from_port]] [[to_lid]/[to_port]]",
        From::Link,
        printers::link,
    ),
    q(("ServiceRecord", "SR"), attribute::SERVICE, "", From::All, printers::service),
    q(("PathRecord", "PR"), attribute::PATH, "", From::Options(query::path), printers::path),
    q(("MCMemberRecord", "MCMR"), attribute::MEMBER, "", From::Options(query::member), printers::member),
    q(("LFTRecord", "LFTR"), 0x15, "[[lid]/[block]]", BLOCK16, printers::linear_forwarding),
    q(("MFTRecord", "MFTR"), 0x17, "[[mlid]/[position]/[block]]", From::Multicast, printers::multicast_forwarding),
    q(("GUIDInfoRecord", "GIR"), 0x30, "[[lid]/[block]]", BLOCK8, printers::guid_info),
    q(("SwitchInfoRecord", "SWIR"), attribute::SWITCH_INFO, "[lid]", LID, printers::switch_info),
    q(("SMInfoRecord", "SMIR"), 0x18, "[lid]", LID, printers::sm_info),
];

/// The usage text for operands: one line per entry of [`QUERIES`].
const USAGE: &str = "[query-name] [<name> | <lid> | <guid>]

Supported query names (and aliases):
  ClassPortInfo (CPI) 
  NodeRecord (NR) [lid]
  PortInfoRecord (PIR) [[lid]/[port]/[options]]
  SL2VLTableRecord (SL2VL) [[lid]/[in_port]/[out_port]]
  PKeyTableRecord (PKTR) [[lid]/[port]/[block]]
  VLArbitrationTableRecord (VLAR) [[lid]/[port]/[block]]
  InformInfoRecord (IIR) [subscriber_gid]
  LinkRecord (LR) [[from_lid]/[from_port]] [[to_lid]/[to_port]]
  ServiceRecord (SR) 
  PathRecord (PR) 
  MCMemberRecord (MCMR) 
  LFTRecord (LFTR) [[lid]/[block]]
  MFTRecord (MFTR) [[mlid]/[position]/[block]]
  GUIDInfoRecord (GIR) [[lid]/[block]]
  SwitchInfoRecord (SWIR) [lid]
  SMInfoRecord (SMIR) [lid]

  Queries node records by default.";

const SPEC: Spec =
    Spec { program: "saquery", options: options::OPTIONS, exclude: "DGLsy", own: "", usage: USAGE, examples: &[] };

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn find(name: &str) -> Option<&'static Query> {
    QUERIES.iter().find(|q| name.eq_ignore_ascii_case(q.name) || name.eq_ignore_ascii_case(q.alias))
}

fn find_attribute(attribute: u16) -> Option<&'static Query> {
    QUERIES.iter().find(|q| q.attribute == attribute)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let mut asked = options::read(line)?;
    let mut operands = &line.operands[..];
    let mut named = None;
    if asked.attribute.is_none() && asked.command == Command::Query {
        named = operands.first().and_then(|name| find(name));
        match named {
            Some(_) => operands = &operands[1..],
            None => asked.attribute = Some(attribute::NODE),
        }
    }
    let choice = Choice::of(&asked, operands)?;
    let mut session = Session::open(&line.common, asked.sm_key, &asked.name_map)?;
    let done = answer(&mut session, &mut asked, named, operands, &choice);
    session.print();
    done
}

fn answer(
    session: &mut Session<'_>,
    asked: &mut Asked,
    named: Option<&Query>,
    operands: &[String],
    choice: &Choice,
) -> Outcome<()> {
    if let Some((from, to)) = asked.lids.take() {
        for (lid, name) in [(&mut asked.params.slid, from), (&mut asked.params.dlid, to)] {
            if !name.is_empty() {
                *lid = session.lid(&name)?;
            }
        }
    }
    let by_attribute = asked.attribute.and_then(find_attribute);
    let query = named.or(by_attribute);
    let wanted = query.map(|q| q.attribute);
    let needs_info = asked.command == Command::ClassPortInfo
        || matches!(wanted, Some(attribute::CLASS_PORT_INFO | attribute::SWITCH_INFO));
    let info = if needs_info { session.class_port_info()? } else { Vec::new() };
    match asked.command {
        Command::Nodes => nodes::nodes(session, choice),
        Command::ClassPortInfo => session.show(printers::class_port_info, Bytes(&info)),
        Command::IsSm => nodes::managers(session),
        Command::Groups => session.query(attribute::MEMBER, 0, &Template::default(), printers::group),
        Command::Members => nodes::members(session, choice),
        Command::Query => match query {
            None => {
                crate::errln!("Unknown query type {}", asked.attribute.unwrap_or(0));
                Err(End::Code(INVALID))
            }
            Some(query) => record(session, query, &asked.params, operands, &info),
        },
    }
}

fn record(
    session: &mut Session<'_>,
    query: &Query,
    params: &query::Params,
    operands: &[String],
    info: &[u8],
) -> Outcome<()> {
    let mut operand = |at: usize| match operands.get(at) {
        Some(text) => session.lid_and_ports(text),
        None => Ok((0, -1, -1)),
    };
    let template = match query.from {
        From::ClassPortInfo => return session.show(query.print, Bytes(info)),
        From::All => Template::default(),
        From::Options(make) => make(params),
        From::Keys(keys) => keys.template(operand(0)?),
        From::Multicast => query::multicast_forwarding(operand(0)?),
        From::Link => query::link(operand(0)?, operand(1)?),
        From::Subscriber => match operands.first() {
            None => Template::default(),
            Some(text) => match query::gid(text) {
                Some(gid) => query::subscriber(gid),
                None => {
                    crate::errln!("Invalid SubscriberGID specified: \"{text}\"");
                    return Err(End::Code(INVALID));
                }
            },
        },
    };
    session.query(query.attribute, 0, &template, query.print)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_names_every_record() {
        for query in QUERIES {
            let line = format!("\n  {} ({}) {}\n", query.name, query.alias, query.usage);
            assert!(USAGE.contains(&line), "{line}");
        }
        assert_eq!(find("pir").unwrap().attribute, attribute::PORT_INFO);
        assert!(find("leaf1").is_none());
    }
}
