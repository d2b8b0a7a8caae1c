//! Management agents that answer wrongly, slowly or not at all, and that recover.

use super::*;
use crate::{AgentFault, FaultError};
use weft_wire::mad::perf::PortCounters;
use weft_wire::mad::subn::NodeInfo;

const NODE: u32 = H1;

fn ask(lab: &mut Lab) -> Option<NodeInfo> {
    lab.ask(NODE, Method::GET, AttrId::NODE_INFO, 0, &[0; 64])?.attribute()
}

#[test]
fn an_agent_claims_what_it_was_told_to() {
    let mut lab = Lab::up();
    let honest = ask(&mut lab).expect("an answer");
    let fault = AgentFault { guid: Some(0x1000), ports: Some(9), ..AgentFault::default() };
    lab.fabric.set_agent(NODE, fault).expect("a node");
    let claimed = ask(&mut lab).expect("an answer");
    assert_eq!((claimed.node_guid, claimed.num_ports), (0x1000, 9));
    assert_eq!(claimed.port_guid, honest.port_guid);
    lab.fabric.set_agent(NODE, AgentFault::default()).expect("a node");
    assert_eq!(ask(&mut lab), Some(honest));
    assert_eq!(lab.fabric.set_agent(99, fault), Err(FaultError::NoSuchNode(99)));
}

#[test]
fn a_silent_agent_answers_nothing_and_others_go_on() {
    let mut lab = Lab::up();
    lab.fabric.set_agent(NODE, AgentFault { silent: true, ..AgentFault::default() }).expect("a node");
    assert_eq!(ask(&mut lab), None);
    let counters = |lab: &mut Lab, place: u32| {
        let asked = PortCounters { port_select: 1, ..PortCounters::default() };
        lab.perf(H0, LIDS[place as usize], Method::GET, AttrId::PORT_COUNTERS, &asked)
    };
    assert!(counters(&mut lab, NODE).is_none() && counters(&mut lab, H2).is_some());
    assert!(lab.verdict(H0, NODE).is_ok(), "packets pass");
    lab.fabric.set_agent(NODE, AgentFault::default()).expect("a node");
    assert!(ask(&mut lab).is_some() && counters(&mut lab, NODE).is_some());
}

#[test]
fn a_slow_agent_answers_after_its_time() {
    let mut lab = Lab::up();
    let delay = Duration::from_millis(300);
    lab.fabric.set_agent(NODE, AgentFault { delay, ..AgentFault::default() }).expect("a node");
    assert_eq!(ask(&mut lab), None);
    lab.pass(delay / 2);
    assert!(lab.fabric.poll_delivery().is_none());
    lab.pass(delay / 2);
    let answer = lab.fabric.poll_delivery().expect("an answer");
    assert_eq!((answer.mad.header.tid(), answer.mad.header.method()), (lab.tid, Method::GET_RESP));
}
