//! The verbs objects that both kinds of connection need.

use weft_abi_types::ibv_qp_type;

use crate::tools::qperf::control::{Result, system};
use crate::tools::qperf::run::Run;
use crate::tools::qperf::wire::Number;
use weft_client::verbs::{Channel, Context, Cq, Pd, QpRequest};

/// The verbs objects that both kinds of connection need.
pub struct Verbs {
    /// Protection domain.
    pub pd: Pd,
    /// The completion channel.
    pub channel: Channel,
    /// The completion queue for all requests.
    pub cq: Cq,
    /// Number of READs and atomics that the device accepts.
    pub rd_atomic: u32,
}

/// Properties of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// `IBV_QPT_...`.
    pub transport: ibv_qp_type,
    /// Send queue depth.
    pub sends: u32,
    /// Receive queue depth.
    pub recvs: u32,
}

impl Wanted {
    /// The queue pair's attributes, with one queue for both kinds of completion.
    pub fn request<'a>(&self, cq: &'a Cq) -> QpRequest<'a> {
        QpRequest {
            qp_type: self.transport,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            max_send_wr: self.sends,
            max_recv_wr: self.recvs,
            max_inline_data: 0,
            extended: false,
        }
    }
}

impl Verbs {
    /// Creates the objects on a device.
    pub fn new(run: &Run, context: &Context, wanted: Wanted) -> Result<Verbs> {
        let attr = context.query_device().map_err(|e| system("query device failed", &e))?;
        let most = u32::try_from(attr.orig_attr.max_qp_rd_atom).unwrap_or(0);
        let rd_atomic = match run.number(Number::RdAtomic) {
            0 => most,
            wanted if wanted <= most => wanted,
            wanted => {
                return Err(format!("device only supports {most} (< {wanted}) RDMA reads or atomics").into());
            }
        };
        let channel = Channel::new(context).map_err(|e| system("failed to create completion channel", &e))?;
        let pd = Pd::new(context).map_err(|e| system("failed to allocate protection domain", &e))?;
        let cq = Cq::new(context, wanted.sends + wanted.recvs, Some(&channel))
            .map_err(|e| system("failed to create completion queue", &e))?;
        Ok(Verbs { pd, channel, cq, rd_atomic })
    }
}
