# Common code of the small programs: the device by name, queue pairs, and a way to connect two of them.
import os, select, signal, sys, time
import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SGE, SendWR

device, gid_index = sys.argv[1], int(sys.argv[2])
context = Context(name=device)
pd = PD(context)


def rc(cq, sends=1, receives=1):
    """Creates a reliable queue pair in RESET."""
    cap = QPCap(max_send_wr=sends, max_recv_wr=receives, max_send_sge=1, max_recv_sge=1)
    return QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap))


def connect(qp, peer_qpn, peer_gid, timeout=14):
    """Modifies a queue pair to RTS with a peer."""
    access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
    attr = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=1)
    attr.qp_access_flags = access
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num = peer_qpn
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer = 12
    attr.timeout = timeout
    attr.retry_cnt = attr.rnr_retry = 7
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=peer_gid, sgid_index=gid_index))
    qp.to_rts(attr)


def gid():
    """Returns the device's own GID."""
    return context.query_gid(1, gid_index)


def rss_kib():
    """Returns the process's resident memory in KiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
