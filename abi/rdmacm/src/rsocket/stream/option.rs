//! Options of streams.

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int};
use std::time::Duration;
use weft_abi_types::{
    RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_TOS, ibv_path_data, ibv_path_record,
    ibv_sa_path_rec,
};

use super::{Core, Stream};
use crate::rsocket::options::{RDMA_ROUTE, SOL_RDMA, number};
use crate::rsocket::proto::state::State;

/// Selector "exactly", above the six bits of an MTU, rate or lifetime.
const EXACTLY: u8 = 2 << 6;
/// Payload of a packet if the path is unknown.
const SEGMENT_BYTES_DEFAULT: c_int = 2048;
/// Length of `struct tcp_info`, with the state first and the congestion window at [`TCP_INFO_WINDOW`].
const TCP_INFO_BYTES: usize = 104;
const TCP_INFO_WINDOW: usize = 80;
const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE: u8 = 7;

impl Stream {
    /// `rsetsockopt`.
    pub(crate) fn set_option(&self, level: c_int, name: c_int, value: &[u8]) -> Result<(), c_int> {
        match (level, name) {
            (SOL_SOCKET, libc::SO_KEEPALIVE) => self.set_keep_alive(number(value)? != 0),
            (IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                let seconds = u32::try_from(number(value)?).ok().filter(|s| *s > 0).ok_or(libc::EINVAL)?;
                let mut core = self.lock();
                core.options.keep_alive_s = seconds;
                let on = core.options.keep_alive;
                drop(core);
                if on { self.set_keep_alive(true) } else { Ok(()) }
            }
            _ => self.lock().set_option(level, name, value),
        }
    }

    fn set_keep_alive(&self, on: bool) -> Result<(), c_int> {
        let mut core = self.lock();
        core.options.keep_alive = on;
        let every = Duration::from_secs(core.options.keep_alive_interval_s().into());
        drop(core);
        if on {
            self.service.keep_alive(self.key, self.me.clone(), every);
        } else {
            self.service.let_die(self.key);
        }
        Ok(())
    }

    /// `rgetsockopt`: returns the bytes of a value.
    pub(crate) fn option(&self, level: c_int, name: c_int, room: usize) -> Result<Vec<u8>, c_int> {
        let mut core = self.lock();
        match (level, name) {
            (SOL_SOCKET, libc::SO_ERROR) => Ok(core.take_error().to_ne_bytes().to_vec()),
            (SOL_SOCKET, libc::SO_TYPE) => Ok(libc::SOCK_STREAM.to_ne_bytes().to_vec()),
            (SOL_SOCKET, libc::SO_PROTOCOL) => Ok(IPPROTO_TCP.to_ne_bytes().to_vec()),
            (SOL_SOCKET, libc::SO_DOMAIN) => Ok(core.peer.family().to_ne_bytes().to_vec()),
            (SOL_SOCKET, libc::SO_ACCEPTCONN) => Ok(c_int::from(core.state == State::Listening).to_ne_bytes().to_vec()),
            (SOL_SOCKET, libc::SO_LINGER) => {
                // The time is ignored: closing waits until all data has arrived.
                Ok([c_int::from(core.options.linger), 0].map(c_int::to_ne_bytes).concat())
            }
            (IPPROTO_TCP, libc::TCP_MAXSEG) => Ok(core.segment_bytes().to_ne_bytes().to_vec()),
            (IPPROTO_TCP, libc::TCP_INFO) => Ok(core.tcp_info().to_vec()),
            (SOL_RDMA, RDMA_ROUTE) => core.route(room),
            _ => Ok(core.options.value(level, name).ok_or(libc::ENOTSUP)?.to_ne_bytes().to_vec()),
        }
    }
}

impl Core {
    fn set_option(&mut self, level: c_int, name: c_int, value: &[u8]) -> Result<(), c_int> {
        match (level, name) {
            (SOL_SOCKET, libc::SO_REUSEADDR) => {
                let on = number(value)?;
                // A bound stream has its address already.
                if self.state == State::Init {
                    self.id()?.set_number(RDMA_OPTION_ID_REUSEADDR, on)?;
                }
                self.options.reuse_address = on != 0;
            }
            (SOL_SOCKET, libc::SO_RCVBUF) => {
                if self.endpoint.is_none() {
                    self.options.set_receive_bytes(number(value)?.cast_unsigned());
                }
            }
            (SOL_SOCKET, libc::SO_SNDBUF) => {
                if self.endpoint.is_none() {
                    self.options.set_send_bytes(number(value)?.cast_unsigned());
                }
            }
            (SOL_SOCKET, libc::SO_LINGER) => self.options.linger = number(value)? != 0,
            (SOL_SOCKET, libc::SO_OOBINLINE) => self.options.oob_inline = number(value)? != 0,
            (IPPROTO_IP, libc::IP_TOS) => {
                let tos = number(value)?;
                self.id()?.set_byte(RDMA_OPTION_ID_TOS, tos as u8)?;
                self.options.tos = tos;
            }
            (IPPROTO_TCP, libc::TCP_NODELAY) => self.options.no_delay = number(value)? != 0,
            // A reliable connection has its own mechanism, or needs none.
            (IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL | libc::TCP_MAXSEG | libc::TCP_CONGESTION) => {}
            (IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
                let on = number(value)?;
                self.id()?.set_number(RDMA_OPTION_ID_AFONLY, on)?;
                self.options.v6_only = on != 0;
            }
            (SOL_RDMA, _) => {
                if !matches!(self.state, State::Init | State::Bound | State::Listening) {
                    return Err(libc::EINVAL);
                }
                self.options.set_rdma(name, value)?;
            }
            _ => return Err(libc::ENOTSUP),
        }
        Ok(())
    }

    /// Returns the path MTU, as payload bytes of a packet.
    fn segment_bytes(&self) -> c_int {
        let path = self.id.as_ref().and_then(|id| id.paths().first().copied());
        path.map_or(SEGMENT_BYTES_DEFAULT, |path| 1 << (7 + c_int::from(path.mtu.min(5))))
    }

    fn tcp_info(&self) -> [u8; TCP_INFO_BYTES] {
        let mut info = [0; TCP_INFO_BYTES];
        info[0] = if self.state.connected() { TCP_ESTABLISHED } else { TCP_CLOSE };
        let window = u32::from(self.options.sq_size).to_ne_bytes();
        info[TCP_INFO_WINDOW..TCP_INFO_WINDOW + 4].copy_from_slice(&window);
        info
    }

    /// Returns the path that was set, or the resolved ones, as many as there is room for.
    fn route(&self, room: usize) -> Result<Vec<u8>, c_int> {
        if let Some(set) = &self.options.route {
            return if set.len() > room { Err(libc::EINVAL) } else { Ok(set.clone()) };
        }
        let fits = room / size_of::<ibv_path_data>();
        if fits == 0 {
            return Err(libc::EINVAL);
        }
        let paths = self.id()?.paths();
        Ok(paths.iter().take(fits).flat_map(path_bytes).collect())
    }
}

/// Converts a path to the form that programs pass in and out.
fn path_bytes(path: &ibv_sa_path_rec) -> [u8; size_of::<ibv_path_data>()] {
    let flow_hop = u32::from_be(path.flow_label) << 8 | u32::from(path.hop_limit);
    let data = ibv_path_data {
        flags: path.preference.into(),
        reserved: 0,
        path: ibv_path_record {
            service_id: 0,
            dgid: path.dgid,
            sgid: path.sgid,
            dlid: path.dlid,
            slid: path.slid,
            flowlabel_hoplimit: flow_hop.to_be(),
            tclass: path.traffic_class,
            reversible_numpath: u8::from(path.reversible != 0) << 7 | 1,
            pkey: path.pkey,
            qosclass_sl: u16::from(path.sl).to_be(),
            mtu: path.mtu | EXACTLY,
            rate: path.rate | EXACTLY,
            packetlifetime: path.packet_life_time | EXACTLY,
            preference: 0,
            reserved: [0; 6],
        },
    };
    // SAFETY: a structure of numbers without padding.
    unsafe { std::mem::transmute(data) }
}
