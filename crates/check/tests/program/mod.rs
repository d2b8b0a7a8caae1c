//! A program with one queue pair and regions of 4096 bytes each, as the model sees it.

use std::collections::{BTreeMap, BTreeSet};

use weft_check::model::{
    Channel, Completion, Context, Cq, DeviceLimits, Excess, Finding, Handle, Kind, Memory, Model, Mr, Opcode, Pd,
    PortInfo, Qp, QpAttributes, QpCap, QpKind, QpState, ReceiveRequest, Release, SendFlags, SendRequest, Sge, Site,
};

pub const CONTEXT: Handle = 0x100;
pub const PD: Handle = 0x200;
pub const OTHER_PD: Handle = 0x208;
const PARENT_PD: Handle = 0x210;
pub const CHANNEL: Handle = 0x300;
pub const CQ: Handle = 0x400;
pub const QP: Handle = 0x500;
pub const SRQ: Handle = 0x580;
pub const AH: Handle = 0x600;

pub const LOCAL: u32 = 1;
pub const REMOTE: u32 = 1 | 2;
pub const MW_BIND: u32 = 16;

const REGION_BYTES: u64 = 4096;
const QP_NUMBER: u32 = 0x11;

pub mod flags {
    pub const FENCE: u32 = 1;
    pub const SIGNALED: u32 = 2;
    pub const INLINE: u32 = 8;
}

/// A call; every call has a stack of its own kind.
pub fn site(call: &'static str) -> Site {
    Site { call, stack: 1 }
}

/// The first bytes of a region.
pub fn buffer(region: u32, length: u32) -> Sge {
    Sge { address: 0x10_0000 + u64::from(region) * REGION_BYTES, length, lkey: region + 1 }
}

/// The handle of a region.
pub fn region(region: u32) -> Handle {
    0x1000 + u64::from(region)
}

/// Memory whose contents change only if a test says so.
#[derive(Default)]
pub struct TestMemory {
    changes: BTreeMap<u64, u64>,
}

impl TestMemory {
    pub fn change(&mut self, sge: Sge) {
        *self.changes.entry(sge.address).or_default() += 1;
    }
}

impl Memory for TestMemory {
    fn digest(&mut self, ranges: &[(u64, u64)]) -> Option<u64> {
        let within =
            |(start, length): &(u64, u64)| self.changes.range(*start..start + length).map(|(_, n)| n).sum::<u64>();
        Some(ranges.iter().map(within).sum())
    }
}

pub struct Program {
    pub model: Model,
    pub memory: TestMemory,
    pub is_refused_when_full: bool,
    regions: BTreeSet<u32>,
}

impl Program {
    /// A program with a connected queue pair and the regions 0 to 2.
    pub fn connected(kind: QpKind) -> Program {
        let mut program = Program {
            model: Model::new(1 << 16),
            memory: TestMemory::default(),
            is_refused_when_full: false,
            regions: BTreeSet::new(),
        };
        let ports = BTreeMap::from([(1, PortInfo { mtu_bytes: 1024 })]);
        let limits = DeviceLimits { qp_wr_max: 1024, sge_max: 16 };
        let context = Context { device: "weft0".into(), limits, is_complete: true, is_iwarp: false, ports, created: 0 };
        program.model.add_context(CONTEXT, context, site("ibv_open_device"));
        for (pd, parent) in [(PD, None), (OTHER_PD, None), (PARENT_PD, Some(PD))] {
            program.model.add_pd(pd, Pd { context: CONTEXT, parent, created: 0, serial: 0 }, site("ibv_alloc_pd"));
        }
        let channel = Channel { context: CONTEXT, created: 0, serial: 0 };
        program.model.add_channel(CHANNEL, channel, site("ibv_create_comp_channel"));
        let cq = Cq::new(CONTEXT, Some(CHANNEL), 64);
        program.model.add_cq(CQ, cq, site("ibv_create_cq"));
        program.create_qp(kind);
        (0..3).for_each(|region| program.register(region, LOCAL));
        program
    }

    pub fn create_qp(&mut self, kind: QpKind) {
        let cap = QpCap { send_wr_max: 8, receive_wr_max: 8, send_sge_max: 2, receive_sge_max: 2, inline_max: 64 };
        let mut qp = Qp::new(CONTEXT, PD, QP_NUMBER, kind, cap);
        (qp.send_cq, qp.receive_cq) = (Some(CQ), Some(CQ));
        self.model.add_qp(QP, qp, site("ibv_create_qp"));
        self.modify(QpState::Rtr, QpState::Rts);
    }

    pub fn modify(&mut self, from: QpState, to: QpState) {
        let mut call = attributes(from, to, 1 << 3 | 1 << 5);
        (call.port, call.access) = (Some(1), Some(2));
        self.model.modified(QP, &call);
    }

    fn add_region(&mut self, region: u32, pd: Handle, access: u32, is_cached: bool) {
        let start = buffer(region, 0);
        let (address, lkey) = (Some(start.address), start.lkey);
        let mr = Mr {
            context: CONTEXT,
            pd,
            address,
            iova: start.address,
            length: REGION_BYTES,
            access,
            lkey,
            is_cached,
            created: 0,
        };
        self.model.add_mr(self::region(region), mr, site("ibv_reg_mr"));
        self.regions.insert(region);
    }

    pub fn register(&mut self, region: u32, access: u32) {
        self.add_region(region, PD, access, false);
    }

    /// A region of a library that caches registrations.
    pub fn register_cached(&mut self, region: u32) {
        self.add_region(region, PD, LOCAL, true);
    }

    pub fn register_read_only(&mut self, region: u32) {
        self.add_region(region, PD, 0, false);
    }

    pub fn register_elsewhere(&mut self, region: u32) {
        self.add_region(region, OTHER_PD, LOCAL, false);
    }

    pub fn register_in_parent_domain(&mut self, region: u32) {
        self.add_region(region, PARENT_PD, LOCAL, false);
    }

    pub fn deregister(&mut self, region: u32) {
        self.model.check_region_unused(self::region(region), site("ibv_dereg_mr"));
        self.model.begin_destroy(Kind::Mr, self::region(region), site("ibv_dereg_mr"));
        self.regions.remove(&region);
    }

    pub fn release(&mut self, region: u32, how: Release) {
        self.model.release_memory(buffer(region, 0).address, REGION_BYTES, how, site("munmap"));
    }

    pub fn send(&mut self, wr_id: u64, opcode: Opcode, flags: u32, sge: Sge) {
        self.send_all(wr_id, opcode, flags, &[sge]);
    }

    pub fn send_all(&mut self, wr_id: u64, opcode: Opcode, flags: u32, sges: &[Sge]) {
        self.post(QpState::Rts, request(wr_id, opcode, flags, sges));
    }

    pub fn send_in(&mut self, state: QpState, wr_id: u64, opcode: Opcode, sge: Sge) {
        self.post(state, request(wr_id, opcode, flags::SIGNALED, &[sge]));
    }

    pub fn atomic(&mut self, wr_id: u64, remote_address: u64, sge: Sge) {
        let request = SendRequest { remote_address, ..request(wr_id, Opcode::FETCH_ADD, 0, &[sge]) };
        self.post(QpState::Rts, request);
    }

    fn post(&mut self, state: QpState, request: SendRequest) {
        let excess = self.model.post_send(QP, state, request, &mut self.memory, site("ibv_post_send"));
        self.answer(excess);
    }

    pub fn receive_shared(&mut self, wr_id: u64, sge: Sge) {
        let request = ReceiveRequest { wr_id, sges: vec![sge] };
        let excess = self.model.post_shared_receive(SRQ, request, site("ibv_post_srq_recv"));
        self.answer(excess);
    }

    /// The library accepts or refuses a request beyond the queue's capacity.
    fn answer(&mut self, excess: Option<Excess>) {
        if let Some(excess) = excess {
            self.model.report_excess(excess, !self.is_refused_when_full);
        }
    }

    pub fn unpost_send(&mut self, count: usize) {
        self.model.unpost_send(QP, count);
    }

    pub fn receive(&mut self, wr_id: u64, sge: Sge) {
        let request = ReceiveRequest { wr_id, sges: vec![sge] };
        let excess = self.model.post_receive(QP, QpState::Rts, request, site("ibv_post_recv"));
        self.answer(excess);
    }

    fn complete(&mut self, wr_id: u64, status: u32, opcode: u32) {
        let completion = Completion { wr_id, status, opcode, qp_number: QP_NUMBER };
        self.model.complete(CQ, completion, &mut self.memory, Site::current("ibv_poll_cq"));
    }

    pub fn complete_send(&mut self, wr_id: u64) {
        self.complete(wr_id, 0, 0);
    }

    pub fn complete_receive(&mut self, wr_id: u64) {
        self.complete(wr_id, 0, 128);
    }

    /// A failed completion; its opcode is undefined.
    pub fn fail(&mut self, wr_id: u64, status: u32, opcode: u32) {
        self.complete(wr_id, status, opcode);
    }

    pub fn destroy_all(&mut self) {
        let regions: Vec<_> = self.regions.iter().copied().collect();
        self.model.begin_destroy(Kind::Qp, QP, site("ibv_destroy_qp"));
        regions.into_iter().for_each(|region| self.deregister(region));
        let rest = [
            (Kind::Cq, CQ),
            (Kind::Channel, CHANNEL),
            (Kind::Pd, PARENT_PD),
            (Kind::Pd, OTHER_PD),
            (Kind::Pd, PD),
            (Kind::Context, CONTEXT),
        ];
        for (kind, handle) in rest {
            self.model.begin_destroy(kind, handle, site("destroy"));
        }
    }

    pub fn leaks(&mut self) {
        self.model.check_leaks(site("exit"));
    }

    pub fn findings(&mut self) -> Vec<Finding> {
        self.model.take_findings()
    }

    /// The rules broken since the last time.
    pub fn rules(&mut self) -> Vec<&'static str> {
        self.findings().into_iter().map(|finding| finding.rule.name).collect()
    }
}

fn request(wr_id: u64, opcode: Opcode, flags: u32, sges: &[Sge]) -> SendRequest {
    let (flags, sges) = (SendFlags(flags), sges.to_vec());
    SendRequest { wr_id, opcode, flags, sges, remote_address: 0, ah: AH, binding: None }
}

/// A call of ibv_modify_qp with this mask and no values.
pub fn attributes(from: QpState, to: QpState, mask: u32) -> QpAttributes {
    QpAttributes::change(mask | 1, from, to)
}
