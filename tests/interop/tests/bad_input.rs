//! What is wrong is told, and costs nobody else anything.

use anyhow::{Result, ensure};
use std::time::Duration;
use weft_interop::{Ended, Lab, Pair, Shape, Table, Who, python, skip};

/// A UDP socket on the RoCE port that shares it with nobody, as Linux's rxe has.
const SQUATTER: &str = "import socket, time\n\
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 4791))\n\
    t = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
    t.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1); t.bind(('::', 4791))\n\
    print('squatting', flush=True); time.sleep(60)";

/// A daemon of another version: it takes any hello and answers with a protocol of its own.
const STRANGER: &str = "import socket, struct\n\
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind('\\0weft-daemon-0'); s.listen(8)\n\
    print('listening', flush=True)\n\
    while True:\n\
    \x20   c, _ = s.accept(); c.recv(4096)\n\
    \x20   c.send(b'WEFD' + struct.pack('<IBH', 4242, 1, 0)); c.close()";

/// Arbitrary bytes, and RoCE packets with arbitrary insides, at every queue pair number that comes.
const GARBAGE: &str = "import random, socket, sys, time\n\
    random.seed(1); s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); until = time.time() + 3\n\
    while time.time() < until:\n\
    \x20   body = bytes(random.randrange(256) for _ in range(random.choice([0, 1, 4, 12, 16, 28, 60, 300])))\n\
    \x20   if random.random() < 0.7:\n\
    \x20       body = bytes([random.randrange(256), 64, 255, 255, 0, random.randrange(4), random.randrange(256), \
    random.randrange(256)]) + body\n\
    \x20   try: s.sendto(body, (sys.argv[1], 4791))\n\
    \x20   except OSError: pass\n\
    \x20   time.sleep(0.0003)";

/// What a hostile program says to the daemon.
const HECKLER: &str = "import os, random, socket, struct\n\
    random.seed(2)\n\
    for round in range(300):\n\
    \x20   c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); c.settimeout(0.05); c.connect('\\0weft-daemon-0')\n\
    \x20   try:\n\
    \x20       if round % 3: c.send(b'WEFT' + struct.pack('<IBB', 1, 0, 2) + b'xx'); c.recv(4096)\n\
    \x20       for _ in range(20): c.send(os.urandom(random.choice([1, 3, 9, 100, 5000])))\n\
    \x20   except OSError: pass\n\
    \x20   c.close()\n\
    print('done')";

#[test]
fn wrong_devices_ports_daemons() {
    if !skip::have("wrong_devices_ports_daemons", &["ip", "ibv_rc_pingpong", "ibv_devinfo"]) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("bad input");
    table.case("unknown device, ibv_devinfo", || {
        let ended = lab.run(side, Who::Root, &[], &["ibv_devinfo", "-d", "nosuch"])?;
        fails_with(&ended, &["nosuch"])
    });
    table.case("unknown device, ibv_rc_pingpong", || {
        let ended = lab.run(side, Who::Ordinary, &[], &["ibv_rc_pingpong", "-d", "nosuch"])?;
        fails_with(&ended, &["nosuch", "not found"])
    });
    table.case("unknown program", || {
        let ended = lab.run(side, Who::Ordinary, &[], &["no-such-program"])?;
        fails_with(&ended, &["no-such-program"])
    });
    table.case("exit status of the program", || {
        let ended = lab.run(side, Who::Ordinary, &[], &["sh", "-c", "exit 7"])?;
        ensure!(ended.status.and_then(|s| s.code()) == Some(7), "not 7: {}", ended.report());
        Ok(())
    });
    table.case("a heckler at the daemon's socket", || {
        lab.run(side, Who::Root, &[], &["ibv_devinfo"])?.success()?;
        let daemon = lab.daemon(side);
        ensure!(daemon.is_some(), "no daemon runs");
        lab.start_bare(side, Who::Ordinary, &["/usr/bin/python3", "-c", HECKLER])?
            .wait(Duration::from_secs(60))
            .success()?;
        ensure!(lab.daemon(side) == daemon, "the daemon did not survive");
        lab.run(side, Who::Root, &[], &["ibv_devinfo"])?.success().map(drop)
    });
    table.case("garbage at the RoCE port in the middle of traffic", || {
        let gid = lab.device(side)?.gid_v4.to_string();
        let noise = lab.start_bare(side, Who::Ordinary, &["/usr/bin/python3", "-c", GARBAGE, side.v4])?;
        for _ in 0..5 {
            Pair::new("ibv_rc_pingpong", &format!("-c -n 2000 -g {gid}")).devices(&lab)?.succeed(&lab)?;
        }
        noise.wait(Duration::from_secs(10)).success().map(drop)
    });
    table.case("a capture that cannot be written", || {
        let ended = lab.run(side, Who::Ordinary, &[("WEFT_PCAP", "/nonexistent/x.pcapng")], &["ibv_devinfo"])?;
        ensure!(ended.status.is_some_and(|s| s.code().is_some()), "it crashed: {}", ended.report());
        Ok(())
    });
    table.finish();
}

#[test]
fn port_taken() {
    let lab = Lab::new(Shape::One).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("port 4791 taken");
    table.case("it is said, and passes", || {
        let mut squatter = lab.start_bare(side, Who::Root, &["/usr/bin/python3", "-c", SQUATTER])?;
        ensure!(squatter.wait_until(Duration::from_secs(5), |p| p.text().contains("squatting")), "no squatter");
        let ended = lab.run(side, Who::Root, &[], &["ibv_rc_pingpong", "-g", "0"])?;
        fails_with(&ended, &["4791"])?;
        squatter.kill();
        // Without a restart of anything.
        let until = std::time::Instant::now() + Duration::from_secs(15);
        loop {
            let result = Pair::new("ibv_rc_pingpong", "-c -g 0").succeed(&lab);
            if result.is_ok() || std::time::Instant::now() > until {
                return result.map(drop);
            }
        }
    });
    table.finish();
}

#[test]
fn daemon_of_another_version() {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("another version");
    table.case("both protocols are named", || {
        let mut stranger = lab.start_bare(side, Who::Root, &["/usr/bin/python3", "-c", STRANGER])?;
        ensure!(stranger.wait_until(Duration::from_secs(5), |p| p.text().contains("listening")), "no stranger");
        let ended = lab.run(side, Who::Ordinary, &[], &["ibv_devinfo"])?;
        fails_with(&ended, &["4242"])
    });
    table.finish();
}

#[test]
fn faults_of_the_application() {
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("application faults");
    for (name, who, body) in SCRIPTS {
        table.case(name, || {
            let script = python::start(&lab, lab.client(), *who, "fault", &format!("{FAULTS}{body}"))?;
            let ended = script.wait(Duration::from_secs(20)).success()?;
            ensure!(ended.text.contains("as it must be"), "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}

/// Two connected queue pairs and a region each; `status` posts a request and returns its completion's status.
const FAULTS: &str = r"
from pyverbs.pyverbs_error import PyverbsRDMAError
import errno
cq = CQ(context, 64)
a, b = rc(cq, 4, 4), rc(cq, 4, 4)
connect(a, b.qp_num, gid()); connect(b, a.qp_num, gid())
LOCAL, ALL = e.IBV_ACCESS_LOCAL_WRITE, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
mine, theirs, closed = MR(pd, 4096, LOCAL), MR(pd, 4096, ALL), MR(pd, 4096, LOCAL)

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

const SCRIPTS: &[(&str, Who, &str)] = &[
    (
        "a good WRITE",
        Who::Ordinary,
        "expect(status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), theirs.rkey, theirs.buf), e.IBV_WC_SUCCESS)",
    ),
    (
        "a wrong rkey",
        Who::Ordinary,
        "expect(status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), theirs.rkey ^ 0x5a00, theirs.buf), e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "memory outside a region",
        Who::Root,
        "expect(status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), theirs.rkey, theirs.buf + 4090), e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "memory before a region",
        Who::Root,
        "expect(status(e.IBV_WR_RDMA_READ, SGE(mine.buf, 64, mine.lkey), theirs.rkey, theirs.buf - 8), e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "an address that wraps",
        Who::Root,
        "expect(status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), theirs.rkey, 2**64 - 8), e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "a region without the right",
        Who::Ordinary,
        "expect(status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey), closed.rkey, closed.buf), e.IBV_WC_REM_ACCESS_ERR)",
    ),
    (
        "a wrong lkey",
        Who::Ordinary,
        "expect(status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 64, mine.lkey ^ 0x5a00), theirs.rkey, theirs.buf), e.IBV_WC_LOC_PROT_ERR)",
    ),
    (
        "a local length outside its region",
        Who::Root,
        "expect(status(e.IBV_WR_RDMA_WRITE, SGE(mine.buf, 5000, mine.lkey), theirs.rkey, theirs.buf), e.IBV_WC_LOC_PROT_ERR)",
    ),
    (
        "a receive buffer that is too small",
        Who::Root,
        "b.post_recv(RecvWR(num_sge=1, sg=[SGE(theirs.buf, 8, theirs.lkey)]))\nexpect(status(e.IBV_WR_SEND, SGE(mine.buf, 64, mine.lkey)) in (e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_LOC_LEN_ERR), True)",
    ),
    (
        "too many pieces",
        Who::Root,
        "sges = [SGE(mine.buf, 8, mine.lkey)] * 64\nrefused(lambda: a.post_send(SendWR(1, num_sge=64, sg=sges)), errno.EINVAL)",
    ),
    (
        "a send queue that is full",
        Who::Root,
        "c = rc(cq, 1, 1)\ncap = c.query(e.IBV_QP_CAP)[1].cap.max_send_wr\ndeaf = rc(cq)\nconnect(c, deaf.qp_num, gid(), 20)\ndef fill():\n    for _ in range(cap + 1): c.post_send(SendWR(1, num_sge=1, sg=[SGE(mine.buf, 8, mine.lkey)], send_flags=e.IBV_SEND_SIGNALED))\nrefused(fill, errno.ENOMEM)",
    ),
    (
        "a state that does not follow",
        Who::Ordinary,
        "c = rc(cq)\nrefused(lambda: c.modify(QPAttr(qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE), errno.EINVAL)",
    ),
    (
        "a controlled Q_Key needs privilege",
        Who::Ordinary,
        "cap = QPCap(1, 1, 1, 1)\nud = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=cap))\nattr = QPAttr(qp_state=e.IBV_QPS_INIT)\nattr.qkey = 0x80010001\nrefused(lambda: ud.modify(attr, e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_QKEY), errno.EPERM)",
    ),
    ("a completion queue beyond the limit", Who::Root, "refused(lambda: CQ(context, 1 << 30), errno.EINVAL)"),
];

fn fails_with(ended: &Ended, wanted: &[&str]) -> Result<()> {
    ensure!(ended.status.is_some_and(|s| s.code().is_some_and(|c| c != 0)), "it did not fail: {}", ended.report());
    for word in wanted {
        ensure!(ended.text.contains(word), "nothing says {word:?}: {}", ended.report());
    }
    Ok(())
}
