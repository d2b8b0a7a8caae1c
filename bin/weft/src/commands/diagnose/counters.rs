//! Error counters of all ports, read twice. A switch that can sum its ports' counters is queried for the sum, and port
//! by port only if the sum is not 0.

use std::collections::{BTreeSet, VecDeque};
use std::io;

use weft_diags::ib::batch::{Asker, Question};
use weft_diags::ib::fields::perf::class_port_info;
use weft_diags::ib::mad::ATTR_CLASS_PORT_INFO;
use weft_diags::ib::pma;
use weft_diags::ib::port::{MadError, Port};
use weft_diags::ibnet::port::{PHYS_LINK_UP, STATE_ACTIVE};
use weft_diags::ibnet::{Fabric, PortRef};

use super::survey::{CABLE_ERRORS, Survey};

#[derive(Clone, Copy, Debug)]
enum About {
    /// Whether a switch can sum its ports' counters.
    Class(usize),
    /// The sum over a switch's ports.
    Sum(usize),
    /// One port.
    Port(PortRef),
}

struct Counters<'a> {
    survey: &'a mut Survey,
    queue: VecDeque<(Question, About)>,
    /// Nodes that have not answered and are already recorded.
    silent: BTreeSet<usize>,
    is_second: bool,
}

impl Survey {
    /// Queries the error counters of all active ports.
    ///
    /// # Errors
    /// The port can no longer receive.
    pub fn ask_errors(&mut self, port: &mut Port, is_second: bool) -> io::Result<()> {
        let (mut queue, mut single) = (VecDeque::new(), VecDeque::new());
        for (index, node) in self.fabric.nodes() {
            let ports: Vec<PortRef> = self.counted(index);
            match ports[..] {
                [] => {}
                [first, ..] if node.is_switch() => {
                    let about = if is_second { self.sum_or_class(index) } else { About::Class(index) };
                    queue.extend(self.question(about, first).map(|question| (question, about)));
                }
                _ => single.extend(ports.iter().filter_map(|at| {
                    let about = About::Port(*at);
                    Some((self.question(about, *at)?, about))
                })),
            }
        }
        queue.extend(single);
        let mut counters = Counters { survey: self, queue, silent: BTreeSet::new(), is_second };
        port.ask_all(&mut counters, super::IN_FLIGHT as usize)
    }

    /// Ports of a node whose counters indicate the state of a cable: those with a trained, active link.
    fn counted(&self, index: usize) -> Vec<PortRef> {
        let node = self.fabric.node(index);
        let ports = node.external_ports().filter(|p| {
            let is_up = p.phys_state() == PHYS_LINK_UP && p.state() == STATE_ACTIVE;
            p.remote.is_some() && is_up && Fabric::lid_of(node, p) != 0
        });
        ports.map(|p| PortRef { node: index, port: p.num }).collect()
    }

    fn sum_or_class(&self, switch: usize) -> About {
        if self.sums.contains(&switch) { About::Sum(switch) } else { About::Class(switch) }
    }

    fn question(&self, about: About, at: PortRef) -> Option<Question> {
        let lid = Fabric::lid_of(self.fabric.node(at.node), self.fabric.port(at)?);
        Some(match about {
            About::Class(_) => Question::pma(lid, ATTR_CLASS_PORT_INFO, 0),
            About::Sum(_) => Question::pma(lid, pma::COUNTERS, pma::ALL_PORTS),
            About::Port(at) => Question::pma(lid, pma::COUNTERS, at.port),
        })
    }
}

impl Asker for Counters<'_> {
    type About = About;

    fn next(&mut self) -> Option<(Question, About)> {
        loop {
            let (question, about) = self.queue.pop_front()?;
            let silent = matches!(about, About::Port(at) if self.silent.contains(&at.node));
            if !silent {
                return Some((question, about));
            }
        }
    }

    fn on_answer(&mut self, about: About, answer: Result<&[u8], MadError>) {
        match (about, answer) {
            (About::Class(switch), Ok(data)) => {
                let adds_up = class_port_info::CAPABILITY_MASK.value(data) as u16 & pma::CAP_ALL_PORT_SELECT != 0;
                if adds_up {
                    self.survey.sums.insert(switch);
                    self.ask(About::Sum(switch), switch);
                } else {
                    self.ask_each(switch);
                }
            }
            (About::Sum(switch), Ok(data)) if CABLE_ERRORS.iter().all(|field| field.value(data) == 0) => {
                self.survey.counted(switch).into_iter().for_each(|at| self.note(at, |_| 0));
            }
            (About::Sum(switch) | About::Class(switch), _) => self.ask_each(switch),
            (About::Port(at), Ok(data)) => self.note(at, |place| CABLE_ERRORS[place].value(data)),
            (About::Port(at), Err(error)) => {
                if error.status != 0 || self.silent.insert(at.node) {
                    let label = self.survey.label(at);
                    self.survey.silent.push(format!("{label}: counters"));
                }
            }
        }
    }
}

impl Counters<'_> {
    fn ask(&mut self, about: About, switch: usize) {
        let first = self.survey.counted(switch).first().copied();
        let question = first.and_then(|at| self.survey.question(about, at));
        self.queue.extend(question.map(|question| (question, about)));
    }

    fn ask_each(&mut self, switch: usize) {
        for at in self.survey.counted(switch) {
            let question = self.survey.question(About::Port(at), at);
            self.queue.extend(question.map(|question| (question, About::Port(at))));
        }
    }

    fn note(&mut self, at: PortRef, value: impl Fn(usize) -> u64) {
        let values = (0..CABLE_ERRORS.len()).map(value);
        if !self.is_second {
            self.survey.errors.insert(at, values.map(|value| (value, value)).collect());
        } else if let Some(kept) = self.survey.errors.get_mut(&at) {
            kept.iter_mut().zip(values).for_each(|(pair, value)| pair.1 = value);
        }
    }
}
