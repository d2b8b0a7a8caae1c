//! An initiator and this crate's target with a disk in memory, joined by two queues of information units.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::scsi::{Identity, LogicalUnit, Operation};
use crate::wire::{LoginCarrier, Piece, PortId};
use crate::{
    Action, CommandKey, CommandTag, DataMove, DiskCommandData, DiskContent, DiskOperation, DiskOutcome, Initiator,
    InitiatorAction, InitiatorConfig, InitiatorEvent, LossTimes, LostReason, RequestFailure, RequestKey, ResponseData,
    Target, TargetConfig, login_refusal,
};

pub const DISK_BYTES: usize = 4 << 20;
const PORT: PortId = PortId([9; 16]);

pub fn config() -> InitiatorConfig {
    InitiatorConfig {
        initiator: PortId([1; 16]),
        target: PORT,
        queue_size: 8,
        loss: LossTimes {
            reconnect_delay: Some(Duration::from_secs(1)),
            fast_io_fail: Some(Duration::from_secs(15)),
            dev_loss: Some(Duration::from_secs(60)),
        },
        command_timeout: Duration::from_secs(30),
    }
}

pub fn target(identifier: u64) -> Target {
    Target::new(TargetConfig {
        port: PORT,
        allowed: None,
        identity: Identity { vendor: "Weft".into(), product: "Disk".into(), revision: "1".into() },
        units: vec![LogicalUnit {
            blocks: (DISK_BYTES >> 9) as u64,
            block_shift: 9,
            identifier,
            serial: "1".into(),
            read_only: false,
        }],
    })
}

pub struct World {
    pub initiator: Initiator,
    pub target: Target,
    pub now: Duration,
    pub disk: Vec<u8>,
    pub done: BTreeMap<RequestKey, Result<Vec<u8>, RequestFailure>>,
    pub events: Vec<InitiatorEvent>,
    pub ended: Option<LostReason>,
    /// The target cannot be reached.
    pub is_away: bool,
    /// The target does not start operations.
    pub is_stuck: bool,
    /// Information units of the initiator are dropped.
    pub is_deaf: bool,
    /// Memory that is lent, by keys, and the keys of commands.
    pub memory: BTreeMap<u32, Vec<u8>>,
    pub lent: BTreeMap<CommandTag, u32>,
    /// Information units that the initiator sent.
    pub sent: Vec<Vec<u8>>,
    channel: u64,
    is_connected: bool,
    data: BTreeMap<RequestKey, Vec<u8>>,
    reads: BTreeMap<CommandKey, (Vec<u8>, Vec<Piece>)>,
    stuck: Vec<(CommandKey, Operation, DataMove)>,
    to_target: VecDeque<Vec<u8>>,
    to_initiator: VecDeque<Vec<u8>>,
    next_key: u32,
}

impl World {
    pub fn new(config: InitiatorConfig) -> World {
        World {
            initiator: Initiator::new(Duration::ZERO, config),
            target: target(1),
            now: Duration::ZERO,
            disk: vec![0; DISK_BYTES],
            done: BTreeMap::new(),
            events: Vec::new(),
            ended: None,
            is_away: false,
            is_stuck: false,
            is_deaf: false,
            memory: BTreeMap::new(),
            lent: BTreeMap::new(),
            sent: Vec::new(),
            channel: 0,
            is_connected: false,
            data: BTreeMap::new(),
            reads: BTreeMap::new(),
            stuck: Vec::new(),
            to_target: VecDeque::new(),
            to_initiator: VecDeque::new(),
            next_key: 1,
        }
    }

    pub fn ready() -> World {
        let mut world = World::new(config());
        world.run();
        assert!(world.initiator.is_ready(), "{:?}", world.ended);
        world
    }

    pub fn submit(&mut self, key: RequestKey, operation: DiskOperation, data: Vec<u8>) {
        self.data.insert(key, data);
        self.initiator.submit(self.now, key, 0, operation);
    }

    /// Executes one request.
    pub fn request(&mut self, operation: DiskOperation, data: Vec<u8>) -> Result<Vec<u8>, RequestFailure> {
        self.submit(1000, operation, data);
        self.run();
        self.done.remove(&1000).expect("an end")
    }

    /// Moves information units until nothing moves.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Moves one of them. Returns whether there was one.
    pub fn step(&mut self) -> bool {
        self.act();
        if let Some(unit) = self.to_target.pop_front() {
            self.sent.push(unit.clone());
            if !self.is_deaf {
                self.target.handle_iu(self.channel, &unit);
                self.serve();
            }
        } else if let Some(unit) = self.to_initiator.pop_front() {
            self.initiator.handle_iu(self.now, &unit, None);
        } else {
            return false;
        }
        self.act();
        true
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        while let Some(at) = self.initiator.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.initiator.handle_timeout(self.now);
            self.run();
        }
        self.now = until;
    }

    /// Breaks the connection.
    pub fn cut(&mut self) {
        if self.is_connected {
            self.target.channel_closed(self.channel);
            self.serve();
            self.initiator.connection_lost(self.now, "broken".into());
            self.act();
        }
    }

    /// Hands the initiator a unit that the target did not send.
    pub fn forge(&mut self, unit: &[u8]) {
        self.initiator.handle_iu(self.now, unit, None);
        self.run();
    }

    /// Executes operations that the target held back.
    pub fn unstick(&mut self) {
        self.is_stuck = false;
        for (command, operation, data) in std::mem::take(&mut self.stuck) {
            self.execute(command, operation, data);
        }
        self.serve();
    }

    fn act(&mut self) {
        while let Some(action) = self.initiator.poll() {
            match action {
                InitiatorAction::Open(login) => self.open(&login.to_bytes()),
                InitiatorAction::Send(outgoing) => {
                    let piece = self.lend(outgoing.tag, &outgoing.data);
                    self.initiator.sent(self.now, outgoing.tag, piece.map(|piece| piece.key));
                    self.to_target.push_back(outgoing.to_iu(piece));
                }
                InitiatorAction::SendUnit(unit) => self.to_target.push_back(unit),
                InitiatorAction::Release { tag, outcome, .. } => self.release(tag, outcome),
                InitiatorAction::Done(key, result) => {
                    let data = self.data.remove(&key).expect("data");
                    self.done.insert(key, result.map(|()| data));
                }
                InitiatorAction::Close => {
                    self.is_connected = false;
                    self.to_target.clear();
                    self.to_initiator.clear();
                    self.memory.clear();
                    self.lent.clear();
                }
                InitiatorAction::Log(event) => self.events.push(event),
                InitiatorAction::Ended(reason) => self.ended = Some(reason),
            }
        }
    }

    fn open(&mut self, login: &[u8]) {
        if self.is_away {
            return self.initiator.connection_lost(self.now, "unreachable".into());
        }
        self.channel += 1;
        match self.target.login(self.channel, LoginCarrier::RdmaCm, login) {
            Ok(answer) => {
                self.is_connected = true;
                self.initiator.logged_in(self.now, &answer.accept.to_bytes());
            }
            Err(error) => {
                let code = crate::wire::LoginReject::code(&error.to_bytes()).expect("a refusal");
                self.initiator.connection_lost(self.now, login_refusal(code));
            }
        }
    }

    fn lend(&mut self, tag: CommandTag, data: &DiskCommandData) -> Option<Piece> {
        let (content, is_lent) = match data {
            DiskCommandData::None => return None,
            DiskCommandData::Lent(content) => (content, true),
            DiskCommandData::Awaited(content) => (content, false),
        };
        let bytes = match content {
            DiskContent::Bytes(bytes) => bytes.clone(),
            DiskContent::Request { request, offset, length } if is_lent => {
                self.data[request][*offset..][..*length as usize].to_vec()
            }
            _ => vec![0; content.len() as usize],
        };
        let piece = Piece { address: 0, key: self.next_key, length: bytes.len() as u32 };
        self.next_key += 1;
        self.memory.insert(piece.key, bytes);
        assert_eq!(self.lent.insert(tag, piece.key), None);
        Some(piece)
    }

    fn release(&mut self, tag: CommandTag, outcome: DiskOutcome) {
        let memory = self.lent.remove(&tag).and_then(|key| self.memory.remove(&key)).expect("lent memory");
        match outcome {
            DiskOutcome::Take(DiskContent::Request { request, offset, length }) => {
                let data = self.data.get_mut(&request).expect("a request");
                data[offset..][..length as usize].copy_from_slice(&memory);
            }
            DiskOutcome::Take(DiskContent::Page(length)) => {
                self.initiator.handle_page(self.now, &memory[..length as usize]);
            }
            DiskOutcome::Take(DiskContent::Bytes(_)) | DiskOutcome::Discard => {}
        }
    }

    fn read(&self, pieces: &[Piece]) -> Vec<u8> {
        let piece =
            |piece: &Piece| self.memory.get(&piece.key).expect("valid memory")[..piece.length as usize].to_vec();
        pieces.iter().flat_map(piece).collect()
    }

    fn write(&mut self, pieces: &[Piece], bytes: &[u8]) {
        let mut rest = bytes;
        for piece in pieces {
            let (some, after) = rest.split_at(piece.length as usize);
            self.memory.get_mut(&piece.key).expect("valid memory")[..some.len()].copy_from_slice(some);
            rest = after;
        }
    }

    fn serve(&mut self) {
        while let Some(action) = self.target.poll() {
            match action {
                Action::Fetch { command, pieces, .. } => {
                    let bytes = self.read(&pieces);
                    self.target.handle_data(command, &bytes);
                }
                Action::Execute { command, operation, data, .. } if self.is_stuck => {
                    self.stuck.push((command, operation, data));
                }
                Action::Execute { command, operation, data, .. } => self.execute(command, operation, data),
                Action::Respond(response) => {
                    match response.data {
                        ResponseData::None => {}
                        ResponseData::Bytes(bytes, pieces) => self.write(&pieces, &bytes),
                        ResponseData::Executed => {
                            let (bytes, pieces) = self.reads.remove(&response.command).expect("data");
                            self.write(&pieces, &bytes);
                        }
                    }
                    self.to_initiator.push_back(response.iu);
                }
                // Units that the target sends on an earlier channel do not arrive.
                Action::Send(channel, unit) if channel == self.channel => self.to_initiator.push_back(unit),
                Action::Close(channel, _) => self.target.channel_closed(channel),
                Action::Send(..) | Action::Forget(_) | Action::Log(..) => {}
            }
        }
    }

    fn execute(&mut self, command: CommandKey, operation: Operation, data: DataMove) {
        if !self.target.start(command) {
            return;
        }
        match operation {
            Operation::Read { offset, length, .. } => {
                let bytes = self.disk[offset as usize..][..length as usize].to_vec();
                let DataMove::Scatter(pieces) = data else { panic!("{data:?}") };
                self.reads.insert(command, (bytes, pieces));
            }
            Operation::Write { offset, length, .. } => {
                let DataMove::Gather(pieces) = data else { panic!("{data:?}") };
                let bytes = self.read(&pieces);
                self.disk[offset as usize..][..length as usize].copy_from_slice(&bytes);
            }
            Operation::WriteZeroes { offset, length, .. } => self.disk[offset as usize..][..length as usize].fill(0),
            Operation::Deallocate(ranges) => {
                ranges.iter().for_each(|(offset, length)| self.disk[*offset as usize..][..*length as usize].fill(0));
            }
            Operation::Flush => {}
            other => panic!("{other:?}"),
        }
        self.target.handle_executed(command, Ok(()));
    }
}
