//! Application errors: each call and each completion behaves as the manual pages say.
//!
//! Small programs over pyverbs; each posts a faulty request between two good queue pairs, or requests an impossible
//! resource.

use anyhow::ensure;
use std::time::Duration;
use weft_interop::{Lab, Path, Shape, Table, Who, python, skip};

#[test]
fn faults_of_the_application() {
    if !skip::have("faults_of_the_application", &["ip", python::PYVERBS]) {
        return;
    }
    let mut table = Table::new("application faults");
    for path in Path::ALL {
        let lab = Lab::new(Shape::One).expect("a lab").on(path);
        every_fault(&lab, &mut table);
    }
    table.finish();
}

fn every_fault(lab: &Lab, table: &mut Table) {
    for (name, who, body) in SCRIPTS {
        table.case(&format!("{name}, {}", lab.path.name()), || {
            let script = python::start(lab, lab.client(), *who, "fault", &format!("{FAULTS}{body}"))?;
            let ended = script.wait(Duration::from_secs(20)).success()?;
            ensure!(ended.text.contains("as it must be"), "{}", ended.report());
            Ok(())
        });
    }
}

/// Two connected queue pairs and a region each; `status` posts a request and returns its completion's status.
const FAULTS: &str = r"
from pyverbs.pyverbs_error import PyverbsRDMAError
import errno
cq = CQ(context, 64)
a, b = rc(cq, 4, 4), rc(cq, 4, 4)
connect(a, b.qp_num, gid()); connect(b, a.qp_num, gid())
LOCAL, ALL = e.IBV_ACCESS_LOCAL_WRITE, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
mine, theirs, closed = MR(pd, 4096, LOCAL), MR(pd, 8192, ALL), MR(pd, 4096, LOCAL)

def status(opcode, sge, rkey=0, addr=0):
    wr = SendWR(1, opcode=opcode, num_sge=1, sg=[sge], send_flags=e.IBV_SEND_SIGNALED)
    if rkey or addr:
        wr.set_wr_rdma(rkey, addr)
    a.post_send(wr)
    until = time.time() + 5
    while time.time() < until:
        n, wcs = cq.poll(1)
        if n:
            return wcs[0].status
    raise SystemExit('no completion')

def expect(got, wanted):
    if got != wanted:
        raise SystemExit(f'got {got}, wanted {wanted}')
    print('as it must be')

def refused(call, code):
    try:
        call()
    except PyverbsRDMAError as ex:
        return expect(ex.error_code, code)
    raise SystemExit('it was allowed')
";

/// The fault, the user, and the program that must print "as it must be".
const SCRIPTS: &[(&str, Who, &str)] = &[
    (
        "a good WRITE",
        Who::Ordinary,
        r"expect(
    status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), theirs.rkey, theirs.buf),
    e.IBV_WC_SUCCESS)",
    ),
    (
        "a wrong rkey",
        Who::Ordinary,
        r"expect(
    status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), theirs.rkey ^ 0x5a00, theirs.buf),
    e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "memory outside a region",
        Who::Root,
        r"expect(
    status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), theirs.rkey, theirs.buf + 8186),
    e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "memory before a region",
        Who::Root,
        r"expect(
    status(e.IBV_WR_RDMA_READ, SGE(mine.buf, 64, mine.lkey), theirs.rkey, theirs.buf - 8),
    e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "an address that wraps",
        Who::Root,
        r"expect(
    status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), theirs.rkey, 2**64 - 8),
    e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "a region without the right",
        Who::Ordinary,
        r"expect(
    status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), closed.rkey, closed.buf),
    e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "a wrong lkey",
        Who::Ordinary,
        r"expect(
    status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey ^ 0x5a00), theirs.rkey, theirs.buf),
    e.IBV_WC_LOC_PROT_ERR)",
    ),
    (
        "a local length outside its region",
        Who::Root,
        r"expect(
    status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 5000, mine.lkey), theirs.rkey, theirs.buf),
    e.IBV_WC_LOC_PROT_ERR)",
    ),
    (
        "a receive buffer that is too small",
        Who::Root,
        r"b.post_recv(RecvWR(num_sge=1, sg=[SGE(theirs.buf, 8, theirs.lkey)]))
expect(
    status(e.IBV_WR_SEND, SGE(mine.buf, 64, mine.lkey)) in (e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_LOC_LEN_ERR), True)",
    ),
    (
        "too many pieces",
        Who::Root,
        r"sges = [SGE(mine.buf, 8, mine.lkey)] * 64
refused(lambda: a.post_send(SendWR(1, num_sge=64, sg=sges)), errno.EINVAL)",
    ),
    (
        "a send queue that is full",
        Who::Root,
        r"c = rc(cq, 1, 1)
cap = c.query(e.IBV_QP_CAP)[1].cap.max_send_wr
deaf = rc(cq)
connect(c, deaf.qp_num, gid(), 20)
def fill():
    for _ in range(cap + 1): c.post_send(SendWR(1, num_sge=1, sg=[SGE(mine.buf, 8, mine.lkey)], send_flags=e.IBV_SEND_SIGNALED))
refused(fill, errno.ENOMEM)",
    ),
    (
        "a state that does not follow",
        Who::Ordinary,
        r"c = rc(cq)
refused(lambda: c.modify(QPAttr(qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE), errno.EINVAL)",
    ),
    (
        "a controlled Q_Key needs privilege",
        Who::Ordinary,
        r"cap = QPCap(1, 1, 1, 1)
ud = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=cap))
attr = QPAttr(qp_state=e.IBV_QPS_INIT)
attr.qkey = 0x80010001
refused(lambda: ud.modify(attr, e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_QKEY), errno.EPERM)",
    ),
    ("a completion queue beyond the limit", Who::Root, r"refused(lambda: CQ(context, 1 << 30), errno.EINVAL)"),
];
