"""A datagram (UD) from one queue pair to another of the same process, with pyverbs.

    weft run -- python3 examples/datagram.py
"""

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.enums import (IBV_ACCESS_LOCAL_WRITE, IBV_QPT_UD, IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WR_SEND)
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT, GID_INDEX, QKEY = 1, 0, 0x11111111
GRH_BYTES = 40  # every UD receive begins with room for the global route header
MESSAGE = b"a datagram by pyverbs"


def poll_one(cq):
    while True:
        count, completions = cq.poll()
        if count:
            assert completions[0].status == IBV_WC_SUCCESS, completions[0]
            return completions[0]


devices = get_device_list()
if not devices:
    raise SystemExit("no RDMA device; is this under weft run?")
context = Context(name=devices[0].name.decode())
pd = PD(context)
mr = MR(pd, 4096, IBV_ACCESS_LOCAL_WRITE)
mr.write(MESSAGE, len(MESSAGE))
receive_at = 2048

queues, queue_pairs = [], []
for _ in range(2):
    cq = CQ(context, 4)
    init = QPInitAttr(qp_type=IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_recv_wr=1, max_send_wr=1))
    attr = QPAttr(port_num=PORT)
    attr.qkey = QKEY
    queues.append(cq)
    queue_pairs.append(QP(pd, init, attr))  # pyverbs takes it to Ready To Send
sender, receiver = queue_pairs

receiver.post_recv(RecvWR(sg=[SGE(mr.buf + receive_at, GRH_BYTES + len(MESSAGE), mr.lkey)], num_sge=1))
route = GlobalRoute(dgid=context.query_gid(PORT, GID_INDEX), sgid_index=GID_INDEX)
send = SendWR(sg=[SGE(mr.buf, len(MESSAGE), mr.lkey)], num_sge=1, opcode=IBV_WR_SEND, send_flags=IBV_SEND_SIGNALED)
send.set_wr_ud(AH(pd, attr=AHAttr(gr=route, is_global=1, port_num=PORT)), receiver.qp_num, QKEY)
sender.post_send(send)

poll_one(queues[0])
arrived = poll_one(queues[1])
data = mr.read(len(MESSAGE), receive_at + GRH_BYTES)
print(f"{devices[0].name.decode()}: {data!r} from queue pair {arrived.src_qp:#x}, {arrived.byte_len} bytes with the route header")
assert data == MESSAGE
