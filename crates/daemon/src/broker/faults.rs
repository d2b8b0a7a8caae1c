//! Faults that users add to running programs. A fault goes to the processes with an open device that its target names, and to
//! those that open one later. An ordinary user reaches only processes of his own, and sees only faults of his own.

use std::collections::{BTreeMap, BTreeSet};

use weft_ipc::{
    Event, FAULT_BYTES_MAX, FAULTS_PER_PAGE_MAX, FAULTS_PER_PROCESS_MAX, FaultEntry, FaultLifetime, FaultReply,
    FaultRequest, FaultTarget, PROGRAM_NAME_BYTES_MAX, Refusal, Request, Response,
};
use weft_link::{FaultPlan, FaultSpec};

use super::call::Outcome;
use super::route::{Routed, Rules};
use super::sessions::Client;
use super::{Broker, Shared};
use crate::host::Host;
use crate::refusal::{EINVAL, ENOENT, ENOSPC, EPERM, ESRCH, refuse};
use crate::slots::ClientId;

/// Faults of one user at a time: as many as one process takes.
const FAULTS_PER_USER_MAX: usize = 16;
/// Numbers of these faults begin here: smaller ones belong to the faults of `WEFT_FAULT`.
const FIRST_NUMBER: u32 = 101;

/// A fault.
#[derive(Debug)]
struct Fault {
    spec: String,
    packets: Option<FaultSpec>,
    target: FaultTarget,
    uid: u32,
    /// The client with whose connection it ends.
    keeper: Option<ClientId>,
    /// Processes that have it, and how often it struck each.
    members: BTreeMap<ClientId, u64>,
    /// How often it struck processes that are gone.
    struck_before: u64,
}

impl Fault {
    /// Whether a process suffers from it.
    fn concerns(&self, client: &Client) -> bool {
        let may = self.uid == 0 || self.uid == client.credentials.uid;
        let is_meant = match &self.target {
            FaultTarget::All => true,
            FaultTarget::Pid(pid) => client.credentials.pid == *pid,
            FaultTarget::Command(name) => client.program == *name,
        };
        may && is_meant && client.in_session() && client.slot.is_some()
    }
}

/// All faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    list: BTreeMap<u32, Fault>,
    last: u32,
}

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    let Request::Fault(request) = request else { return Routed::Elsewhere(request) };
    Routed::Here(match request {
        FaultRequest::Struck(struck) => Rules::PLAIN.during_recovery().to(move |broker, call| {
            broker.faults.note_strikes(call.id, &struck);
            Ok(Outcome::NoReply)
        }),
        FaultRequest::Add { spec, target, lifetime } => Rules::PLAIN.to(move |broker, call| {
            let keeper = (lifetime == FaultLifetime::Connection).then_some(call.id);
            broker.add_fault(call.id, spec, target, keeper).map(reply)
        }),
        FaultRequest::List { after } => Rules::PLAIN.to(move |broker, call| {
            let uid = broker.shared.sessions.uid(call.id);
            Ok(reply(broker.list_faults(uid, after)))
        }),
        FaultRequest::Remove { number } => {
            Rules::PLAIN.to(move |broker, call| broker.remove_fault(call.id, number).map(reply))
        }
        FaultRequest::RemoveAll => Rules::PLAIN.to(move |broker, call| {
            let uid = broker.shared.sessions.uid(call.id);
            let all: Vec<u32> = broker.faults.of_user(uid).map(|(number, _)| number).collect();
            all.iter().for_each(|number| broker.end_fault(*number));
            Ok(reply(FaultReply::Removed(all.len() as u32)))
        }),
    })
}

fn reply(reply: FaultReply) -> Outcome {
    Response::Fault(reply).into()
}

impl Faults {
    /// Returns the faults that a user may see and remove: his own, and root all.
    fn of_user(&self, uid: u32) -> impl Iterator<Item = (u32, &Fault)> {
        let faults = self.list.iter().map(|(number, fault)| (*number, fault));
        faults.filter(move |(_, fault)| uid == 0 || fault.uid == uid)
    }

    fn note_strikes(&mut self, client: ClientId, struck: &[(u32, u64)]) {
        for (number, count) in struck.iter().take(FAULTS_PER_PROCESS_MAX) {
            if let Some(known) = self.list.get_mut(number).and_then(|fault| fault.members.get_mut(&client)) {
                *known = (*known).max(*count);
            }
        }
    }

    /// Gives a process that opened a device the faults that concern it.
    pub fn on_slot(&mut self, shared: &mut Shared, id: ClientId) {
        for (number, fault) in &mut self.list {
            give(shared, *number, fault, id);
        }
    }
}

/// Gives a fault to a process, if it concerns it.
fn give(shared: &mut Shared, number: u32, fault: &mut Fault, id: ClientId) {
    let Some(client) = shared.sessions.get_mut(id) else { return };
    if !fault.concerns(client) || fault.members.contains_key(&id) {
        return;
    }
    fault.members.insert(id, 0);
    client.faults.extend(fault.packets.map(|spec| (number, spec)));
    shared.sessions.tell(id, &Event::FaultAdded { number, spec: fault.spec.clone() }, None);
}

/// Parses one specification; returns its faults in packets.
fn parse(spec: &str) -> Result<Option<FaultSpec>, Refusal> {
    if spec.len() > FAULT_BYTES_MAX {
        return Err(refuse(EINVAL, format!("the fault has {} bytes; at most {FAULT_BYTES_MAX} are kept", spec.len())));
    }
    if spec.contains(';') {
        return Err(refuse(EINVAL, "two faults; add them one after another"));
    }
    let mut plan = FaultPlan::default();
    plan.add(0, spec).map_err(|error| refuse(EINVAL, error.to_string()))?;
    if plan.packets.is_empty() && plan.injections.is_empty() {
        return Err(refuse(EINVAL, "the specification has no fault: write loss=1% or status=RETRY_EXC_ERR"));
    }
    Ok(plan.packets.first().map(|(_, spec)| *spec))
}

impl Broker {
    fn add_fault(
        &mut self,
        id: ClientId,
        spec: String,
        target: FaultTarget,
        keeper: Option<ClientId>,
    ) -> Result<FaultReply, Refusal> {
        let packets = parse(&spec)?;
        let uid = self.shared.sessions.uid(id);
        if self.faults.list.values().filter(|fault| fault.uid == uid).count() >= FAULTS_PER_USER_MAX {
            let text = format!("user {uid} has {FAULTS_PER_USER_MAX} faults, the most: remove some, `weft fault list`");
            return Err(refuse(ENOSPC, text));
        }
        if let FaultTarget::Command(name) = &target
            && !(1..=PROGRAM_NAME_BYTES_MAX).contains(&name.len())
        {
            return Err(refuse(EINVAL, format!("a program's name has 1 to {PROGRAM_NAME_BYTES_MAX} bytes")));
        }
        let mut fault = Fault { spec, packets, target, uid, keeper, members: BTreeMap::new(), struck_before: 0 };
        let number = self.faults.last.max(FIRST_NUMBER - 1) + 1;
        let programs: Vec<ClientId> = self.shared.sessions.iter().map(|(id, _)| id).collect();
        programs.into_iter().for_each(|id| give(&mut self.shared, number, &mut fault, id));
        if let (FaultTarget::Pid(pid), true) = (&fault.target, fault.members.is_empty()) {
            return Err(self.no_process(uid, *pid));
        }
        self.faults.last = number;
        let entry = self.entry(number, &fault);
        self.faults.list.insert(number, fault);
        Ok(FaultReply::Added(entry))
    }

    /// Returns the reason why a process cannot get a fault.
    fn no_process(&self, uid: u32, pid: u32) -> Refusal {
        let clients = self.shared.sessions.values().filter(|client| client.in_session());
        let found: Vec<&Client> = clients.filter(|client| client.credentials.pid == pid).collect();
        if uid != 0 && found.iter().any(|client| client.credentials.uid != uid) {
            return refuse(EPERM, format!("process {pid} is another user's: root alone may add faults to it"));
        }
        let text = if found.is_empty() { "does not use Weft" } else { "has not opened a device" };
        refuse(ESRCH, format!("process {pid} {text}; `weft status` lists the processes"))
    }

    fn entry(&self, number: u32, fault: &Fault) -> FaultEntry {
        let has_no_packets = |id: &ClientId| {
            let sessions = &self.shared.sessions;
            let in_memory = sessions.slot(*id).is_some_and(|slot| self.peers.is_published(slot, *id));
            fault.packets.is_some() && (in_memory || sessions.get(*id).is_some_and(Client::is_on_host))
        };
        FaultEntry {
            number,
            spec: fault.spec.clone(),
            target: fault.target.clone(),
            uid: fault.uid,
            processes: fault.members.len() as u32,
            without_packets: fault.members.keys().filter(|id| has_no_packets(id)).count() as u32,
            struck: fault.struck_before + fault.members.values().sum::<u64>(),
        }
    }

    fn list_faults(&self, uid: u32, after: u32) -> FaultReply {
        let mut later = self.faults.of_user(uid).filter(|(number, _)| *number > after).peekable();
        let faults =
            later.by_ref().take(FAULTS_PER_PAGE_MAX).map(|(number, fault)| self.entry(number, fault)).collect();
        FaultReply::List { faults, more: later.peek().is_some() }
    }

    fn remove_fault(&mut self, id: ClientId, number: u32) -> Result<FaultReply, Refusal> {
        let uid = self.shared.sessions.uid(id);
        match self.faults.list.get(&number) {
            None => Err(refuse(ENOENT, format!("there is no fault {number}; `weft fault list` shows those there are"))),
            Some(fault) if uid != 0 && fault.uid != uid => {
                Err(refuse(EPERM, format!("fault {number} is another user's: he or root may remove it")))
            }
            Some(_) => {
                self.end_fault(number);
                Ok(FaultReply::Removed(1))
            }
        }
    }

    /// Removes a client that is gone, and the faults that end with it.
    pub(super) fn forget_faults_of(&mut self, client: ClientId) {
        for fault in self.faults.list.values_mut() {
            fault.struck_before += fault.members.remove(&client).unwrap_or(0);
        }
        let kept = self.faults.list.iter().filter(|(_, fault)| fault.keeper == Some(client));
        let kept: Vec<u32> = kept.map(|(number, _)| *number).collect();
        kept.into_iter().for_each(|number| self.end_fault(number));
    }

    fn end_fault(&mut self, number: u32) {
        let Some(fault) = self.faults.list.remove(&number) else { return };
        let members: BTreeSet<ClientId> = fault.members.into_keys().collect();
        for id in members {
            if let Some(client) = self.shared.sessions.get_mut(id) {
                client.faults.retain(|(known, _)| *known != number);
            }
            self.shared.sessions.tell(id, &Event::FaultRemoved { number }, None);
        }
    }
}
