//! An open port with its agents: requests and answers, with the original's timeouts, retries and error messages.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use libc::ETIMEDOUT;

use super::address::{HOPS_MAX, LID_PERMISSIVE, PortId};
use super::fields::perf::class_port_info as cpi;
use super::mad::{self, MAD_LEN, Request};
use super::options::Common;
use super::report::{End, Outcome, warn};
use crate::errno;
use crate::output;
use weft_client::umad::{Address, Grh, Library, MethodMask, Packet, Registration};

/// Number of times that a request is sent.
const TRIES: u32 = 3;
/// Default timeout for an answer, in milliseconds.
pub const TIMEOUT_MS: u32 = 1000;
/// Maximum number of redirections per request.
pub(super) const REDIRECTS_MAX: u32 = 8;

/// The original's function that opens a port, as warnings name it.
const OPEN: &str = "mad_rpc_open_port2";

/// Why a request has no answer.
#[derive(Debug)]
pub struct MadError {
    /// The status of the answer, or 0 if none came.
    pub status: u16,
    /// The error as an errno.
    pub errno: i32,
}

impl MadError {
    pub(super) fn of(error: &io::Error) -> MadError {
        MadError { status: 0, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// An open port.
#[derive(Debug)]
pub struct Port {
    umad: weft_client::umad::Port,
    agents: Vec<Option<i32>>,
    timeout_ms: u32,
    /// M_Key of SMPs.
    pub m_key: u64,
    /// Whether to report timeouts and bad answers.
    pub show_errors: bool,
    /// Debug level.
    pub debug: u32,
    last_tid: u32,
}

impl Port {
    /// Opens the port that the options name, with agents for `classes`.
    ///
    /// # Errors
    /// How the tool ends.
    pub fn open(common: &Common, classes: &[u8]) -> Outcome<Port> {
        let failed = || {
            let name = common.ca.as_deref().unwrap_or("(null)");
            End::failed(format!("Failed to open '{name}' port '{}'", common.port))
        };
        let mut port = Port::bare(common)?.map_err(|error| {
            warn("get_smi_gsi_pair", &format!("Can't open UMAD port ({}) {}", reason(error), place(common)));
            warn(OPEN, &cannot_open(common));
            failed()
        })?;
        for &class in classes {
            port.register_client(class, u8::from(class == mad::CLASS_SUBN_ADM)).map_err(|_| {
                warn(OPEN, &format!("client_register for mgmt {class} failed"));
                failed()
            })?;
        }
        Ok(port)
    }

    /// Opens the port with one agent, for tools whose failure to open it is a panic ([`End::Panic`]).
    ///
    /// # Errors
    /// How the tool ends.
    pub fn open_or_panic(common: &Common, class: u8) -> Outcome<Port> {
        let mut port = Port::bare(common)?.map_err(|e| End::panic(cannot_open(common), e))?;
        port.register_client(class, 0).map_err(|e| End::panic("Couldn't register agent for SMPs", e))?;
        Ok(port)
    }

    fn bare(common: &Common) -> Outcome<io::Result<Port>> {
        let umad = weft_client::umad::Port::open(common.library()?, common.ca.as_deref(), common.port);
        Ok(umad.map(|umad| Port {
            umad,
            agents: vec![None; 256],
            timeout_ms: common.timeout_ms.unwrap_or(TIMEOUT_MS),
            m_key: common.m_key,
            show_errors: common.errors || common.debug > 0,
            debug: common.debug,
            last_tid: first_tid(),
        }))
    }

    /// Registers an agent that sends requests of a class.
    ///
    /// # Errors
    /// Another agent has the class, or the class is unknown.
    pub fn register_client(&mut self, class: u8, rmpp_version: u8) -> io::Result<()> {
        let class_version = mad::class_version(class);
        let what = Registration { class, class_version, rmpp_version, ..Registration::default() };
        self.agents[usize::from(class)] = Some(self.umad.register(&what)?);
        Ok(())
    }

    /// Registers an agent that answers all methods of a vendor class.
    ///
    /// # Errors
    /// Another agent has the class, or the class is unknown.
    pub fn register_server(&mut self, class: u8, rmpp_version: u8, oui: u32) -> io::Result<()> {
        let what = Registration {
            class,
            class_version: mad::class_version(class),
            rmpp_version,
            oui: mad::has_oui(class).then_some(oui),
            methods: Some(MethodMask::MAX),
        };
        self.agents[usize::from(class)] = Some(self.umad.register(&what)?);
        Ok(())
    }

    /// The library of this port.
    pub fn library(&self) -> Library {
        self.umad.library()
    }

    /// The timeout for an answer, in milliseconds.
    pub(super) fn timeout_ms(&self) -> u32 {
        self.timeout_ms
    }

    /// A new transaction ID.
    pub fn next_tid(&mut self) -> u32 {
        self.last_tid = self.last_tid.wrapping_add(1).max(1);
        self.last_tid
    }

    /// Sends a request and waits for the answer; retries on timeout and follows redirections. The answer is a MAD with
    /// status 0.
    ///
    /// # Errors
    /// No answer, or an answer with another status.
    pub fn rpc(&mut self, request: &Request<'_>, to: &PortId) -> Result<[u8; MAD_LEN], MadError> {
        let mut to = *to;
        for _ in 0..REDIRECTS_MAX {
            let answer = self.rpc_once(request, &to, "mad_rpc")?;
            let mad = first_256(answer.mad());
            let status = mad::status(&mad, request.class);
            if status == mad::STATUS_REDIRECT && redirect(&mut to, &mad, self.debug > 0) {
                continue;
            }
            if status != 0 {
                return Err(self.bad_status(status, &to));
            }
            return Ok(mad);
        }
        Err(MadError { status: mad::STATUS_REDIRECT, errno: libc::ELOOP })
    }

    /// The same for classes whose answers may be long; a redirection counts as an error status.
    ///
    /// # Errors
    /// No answer, or an answer with another status than 0.
    pub fn rpc_rmpp(&mut self, request: &Request<'_>, to: &PortId) -> Result<Vec<u8>, MadError> {
        let answer = self.rpc_once(request, to, "mad_rpc_rmpp")?;
        match mad::status(&first_256(answer.mad()), request.class) {
            0 => Ok(answer.mad().to_vec()),
            status => Err(self.bad_status(status, to)),
        }
    }

    fn bad_status(&self, status: u16, to: &PortId) -> MadError {
        self.complain("mad_rpc", &format!("MAD completed with error status 0x{status:x}; dport ({to})"));
        MadError { status, errno: libc::EIO }
    }

    fn rpc_once(&mut self, request: &Request<'_>, to: &PortId, function: &str) -> Result<Packet, MadError> {
        let mut packet = self.packet(request, to)?;
        let timeout_ms = if request.timeout_ms != 0 { request.timeout_ms } else { self.timeout_ms };
        self.exchange(request.class, &mut packet, timeout_ms, TRIES).inspect_err(|_| {
            warn(function, &format!("_do_madrpc failed; dport ({to})"));
        })
    }

    /// Builds the packet of a request, with a new transaction ID.
    ///
    /// # Errors
    /// The directed route is too long.
    pub fn packet(&mut self, request: &Request<'_>, to: &PortId) -> Result<Packet, MadError> {
        if request.class == mad::CLASS_SUBN_DIRECTED && to.dr_path.count > HOPS_MAX {
            warn("mad_encode", &format!("dr path with hop count {}", to.dr_path.count));
            return Err(MadError { status: 0, errno: libc::EINVAL });
        }
        let tid = self.next_tid();
        let mut packet = Packet::new(self.library(), MAD_LEN);
        packet.set_address(&address(request.class, to));
        request.write(packet.mad_mut(), tid, &to.dr_path);
        Ok(packet)
    }

    /// Sends a packet and waits for the answer with its transaction id, up to `tries` times.
    ///
    /// # Errors
    /// The packet cannot be sent, or no answer came.
    pub fn exchange(
        &mut self,
        class: u8,
        packet: &mut Packet,
        timeout_ms: u32,
        tries: u32,
    ) -> Result<Packet, MadError> {
        let mut errno = ETIMEDOUT;
        let wait = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
        self.show("_do_madrpc", ">>> sending:", packet);
        for attempt in 0..tries {
            if attempt > 0 {
                self.complain("_do_madrpc", &format!("retry {attempt} (timeout {timeout_ms} ms)"));
            }
            if let Err(error) = self.send(class, packet, wait) {
                warn("_do_madrpc", &format!("send failed; {}", errno::text(&error)));
                return Err(MadError::of(&error));
            }
            let answer = self.answer_to(packet, wait).map_err(|error| {
                warn("_do_madrpc", &format!("recv failed: {}", errno::text(&error)));
                MadError::of(&error)
            })?;
            match answer.status() {
                0 | libc::ENOMEM => return Ok(answer),
                status => errno = status,
            }
        }
        let waited = u64::from(timeout_ms) * u64::from(tries);
        self.complain("_do_madrpc", &format!("timeout after {tries} retries, {waited} ms"));
        Err(MadError { status: 0, errno })
    }

    fn answer_to(&self, request: &Packet, wait: i32) -> io::Result<Packet> {
        loop {
            let mut answer = Packet::new(self.library(), MAD_LEN);
            self.umad.recv(&mut answer, wait)?;
            self.show("_do_madrpc", "rcv buf:", &answer);
            if mad::tid(answer.mad()) == mad::tid(request.mad()) {
                return Ok(answer);
            }
        }
    }

    /// Sends a packet through the agent of its class.
    ///
    /// # Errors
    /// The class has no agent, or the packet cannot be sent.
    pub fn send(&self, class: u8, packet: &mut Packet, timeout_ms: i32) -> io::Result<()> {
        self.send_with_retries(class, packet, timeout_ms, 0)
    }

    /// The same; the kernel, or the library in its place, retries when no answer comes.
    ///
    /// # Errors
    /// The class has no agent, or the packet cannot be sent.
    pub fn send_with_retries(&self, class: u8, packet: &mut Packet, timeout_ms: i32, retries: i32) -> io::Result<()> {
        // libibmad passes -1 for a class without an agent.
        let agent = self.agents[usize::from(class)].unwrap_or(-1);
        self.umad.send(agent, packet, timeout_ms, retries)
    }

    /// Waits for any packet; a negative timeout waits forever.
    ///
    /// # Errors
    /// No packet came, or it could not be read.
    pub fn recv(&self, timeout_ms: i32) -> io::Result<Packet> {
        let mut packet = Packet::new(self.library(), MAD_LEN);
        self.umad.recv(&mut packet, timeout_ms)?;
        Ok(packet)
    }

    /// Answers a request: `question`'s MAD with the response bit set, and `data` as the class's data. An answer that
    /// does not fit into one MAD is segmented.
    ///
    /// # Errors
    /// The answer cannot be sent.
    pub fn respond(&self, question: &Packet, data: &[u8]) -> io::Result<()> {
        let mut header = [0; MAD_LEN];
        let len = question.mad().len().min(mad::VENDOR2_DATA_AT);
        header[..len].copy_from_slice(&question.mad()[..len]);
        let class = mad::class(&header);
        let at = mad::data_at(class);
        let mut packet = Packet::new(self.library(), MAD_LEN.max(at + data.len()));
        let from = question.address();
        let qkey = if from.qkey == 0 && from.qpn == 1 { mad::QKEY_GSI } else { from.qkey };
        packet.set_address(&Address { qpn: from.qpn.max(1), qkey, ..from });
        let answer = packet.mad_mut();
        answer[..len].copy_from_slice(&header[..len]);
        mad::make_response(answer, at + data.len() > MAD_LEN);
        answer[at..at + data.len()].copy_from_slice(data);
        self.send(class, &mut packet, 0)
    }

    fn complain(&self, function: &str, text: &str) {
        if self.show_errors {
            warn(function, text);
        }
    }

    fn show(&self, function: &str, title: &str, packet: &Packet) {
        if self.debug > 1 {
            warn(function, &format!("{title} len {}", packet.mad().len()));
            output::complain_text(&mad::hex_dump(packet.whole()));
        }
    }
}

fn cannot_open(common: &Common) -> String {
    format!("can't open UMAD port {}", place(common))
}

/// The reason why a port cannot be opened. libibumad may leave the errno of a file that it looked for.
fn reason(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => errno::text(&io::Error::from_raw_os_error(libc::ENODEV)),
        _ => errno::text(&error),
    }
}

/// The adapter and the port that the options name.
fn place(common: &Common) -> String {
    format!("({}:{})", common.ca.as_deref().unwrap_or("(null)"), common.port)
}

/// The address vector of a request.
fn address(class: u8, to: &PortId) -> Address {
    match class {
        mad::CLASS_SUBN_LID => Address { lid: to.lid, ..Address::default() },
        mad::CLASS_SUBN_DIRECTED => {
            let to_lid = to.dr_path.dr_slid != LID_PERMISSIVE && to.lid != 0;
            Address { lid: if to_lid { to.lid } else { LID_PERMISSIVE }, ..Address::default() }
        }
        _ => Address {
            lid: to.lid,
            qpn: if to.qp != 0 { to.qp } else { 1 },
            qkey: if to.qkey != 0 { to.qkey } else { mad::QKEY_GSI },
            sl: to.sl,
            pkey_index: to.pkey_index,
            grh: to.gid.map(|gid| Grh { gid, hop_limit: 0xff, ..Grh::default() }),
            ..Address::default()
        },
    }
}

/// Redirects `to` as the answer says; returns `false` if the redirection is by GID, which is not supported.
pub(super) fn redirect(to: &mut PortId, mad: &[u8; MAD_LEN], debug: bool) -> bool {
    let info = &mad[64..];
    let lid = cpi::REDIRECT_LID.value(info) as u16;
    if lid == 0 {
        warn("redirect_port", "GID-based redirection is not supported");
        return false;
    }
    to.lid = lid;
    to.qp = cpi::REDIRECT_QP.value(info) as u32;
    to.qkey = cpi::REDIRECT_Q_KEY.value(info) as u32;
    to.sl = cpi::REDIRECT_SL.value(info) as u8;
    if debug {
        let PortId { qp, qkey, sl, .. } = to;
        warn("redirect_port", &format!("redirected to lid {lid}, qp 0x{qp:x}, qkey 0x{qkey:x}, sl 0x{sl:x}"));
    }
    true
}

/// An answer's first segment, padded with zeroes.
pub(super) fn first_256(mad: &[u8]) -> [u8; MAD_LEN] {
    let mut whole = [0; MAD_LEN];
    let len = mad.len().min(MAD_LEN);
    whole[..len].copy_from_slice(&mad[..len]);
    whole
}

/// A random first transaction ID, because two programs' agents should not use the same ones.
fn first_tid() -> u32 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u32);
    time.wrapping_mul(std::process::id() | 1) & 0x7fff_ffff
}
