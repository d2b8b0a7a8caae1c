//! The manager's port through libibumad: agents for subnet management and administration, datagrams out and in, and the
//! IsSM capability of the port.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant as StdInstant;

use anyhow::{Context, Result, bail};
use weft_ipc::{ConnectOptions, HOST_VARIABLE, UmadClient};
use weft_shm::{BusyPoll, BusyPollLimits, Next};
use weft_sm::io::{GmpOut, Peer, SmpOut};
use weft_verbs::Duration;
use weft_wire::mad::{Class, GSI_QKEY, MAD_LEN, Mad, MadHeader, Method, SMI_QPN};
use zerocopy::{FromZeros, IntoBytes};

use super::address::{address_of, peer_of};
use weft_client::umad::{CaPort, IssmNode, Library, MethodMask, Packet, Port, Registration};

/// A received datagram or a timeout report.
#[derive(Debug)]
pub enum Received {
    /// An SMP.
    Smp(Peer, Box<Mad>),
    /// An SMP that was not answered; holds its header.
    SmpTimeout(Box<Mad>),
    /// A GMP of subnet administration.
    Gmp(Peer, Vec<u8>),
    /// A GMP that was not answered.
    GmpTimeout(Peer, Vec<u8>),
}

const BUSY_POLL: BusyPollLimits = BusyPollLimits {
    // Longer than the daemon takes for the datagrams that it carries in one turn.
    period: Duration::from_micros(50),
    // A wake-up after a shorter sleep than this is premature: datagrams come fast.
    dense: Duration::from_micros(200),
    // A sweep begins with one answer, and goes on as fast as answers come.
    dense_min: 1,
    // Between the answers of one sweep the manager waits for slow nodes now and then.
    fruitless_max: 8,
    // The daemon, which answers, may need this processor.
    yield_after: Duration::ZERO,
    // The manager's datagrams are the work that other threads wait for, so it does not back off.
    preempted: Duration::MAX,
    backoff: Duration::ZERO,
};

/// While the manager polls, it checks other event sources this often: clients, signals, finished jobs.
const OTHERS_EVERY: Duration = Duration::from_millis(1);

/// An open port with its agents.
pub struct SmPort {
    port: Port,
    /// Agents of subnet management: LID routed, directed route.
    smi: [i32; 2],
    sa: i32,
    /// Buffer for outgoing datagrams of one packet.
    out: Packet,
    /// Buffer for incoming datagrams.
    inward: Packet,
    /// A datagram received during busy polling.
    found: Option<Received>,
    busy_poll: BusyPoll<StdInstant>,
    /// When the other event sources were last checked.
    others_at: StdInstant,
    is_sm: Option<IsSm>,
    device: CaPort,
}

/// The handle that keeps IsSM set on the port.
enum IsSm {
    /// The open device node.
    Node(#[expect(dead_code, reason = "held open, not read")] IssmNode),
    /// The session with the daemon.
    Session(#[expect(dead_code, reason = "held, not used")] UmadClient),
}

impl SmPort {
    /// Opens the port with this GUID, or the first that has a link.
    pub fn open(library: Library, guid: Option<u64>) -> Result<SmPort> {
        let device = choose(library, guid)?;
        let (name, number) = (&device.ca_name, device.number);
        let port = Port::open(library, Some(name), number.into()).with_context(|| {
            format!("cannot open port {number} of {name}: may this user send management datagrams?")
        })?;
        let agent = |class: Class, class_version, rmpp_version, methods: &[Method]| {
            let what = Registration {
                class: class.0,
                class_version,
                rmpp_version,
                oui: None,
                methods: Some(methods.iter().fold(0, |mask: MethodMask, method| mask | 1 << method.0)),
            };
            port.register(&what).with_context(|| {
                format!("cannot register for class 0x{:02x} on {name}: does another subnet manager run there?", class.0)
            })
        };
        let unasked = [Method::GET, Method::SET, Method::TRAP];
        let lid_routed = agent(Class::SUBN_LID_ROUTED, 1, 0, &unasked)?;
        let directed = agent(Class::SUBN_DIRECTED_ROUTE, 1, 0, &unasked)?;
        let asked = [
            Method::GET,
            Method::SET,
            Method::SEND,
            Method::TRAP,
            Method::GET_TABLE,
            Method::GET_TRACE_TABLE,
            Method::GET_MULTI,
            Method::DELETE,
        ];
        let sa = agent(Class::SUBN_ADM, 2, 1, &asked)?;
        let out = Packet::new(library, MAD_LEN);
        let inward = Packet::new(library, MAD_LEN);
        let (busy_poll, others_at) = (BusyPoll::new(&BUSY_POLL), StdInstant::now());
        let smi = [lid_routed, directed];
        Ok(SmPort { port, smi, sa, out, inward, found: None, busy_poll, others_at, is_sm: None, device })
    }

    /// The port's device and attributes.
    pub fn device(&self) -> &CaPort {
        &self.device
    }

    /// Waits for a datagram, for `others` to become readable, or for the timeout; returns which of the two is ready.
    /// While datagrams come fast, it busy-polls for them before it sleeps, and checks the others only now and then.
    /// `expected`: datagrams are more likely than the others.
    pub fn wait(
        &mut self,
        others: BorrowedFd<'_>,
        timeout: Option<Duration>,
        expected: bool,
    ) -> io::Result<(bool, bool)> {
        if self.port.is_simulated() {
            return self.wait_simulated(others, timeout, expected);
        }
        let begin = StdInstant::now();
        let looks = self.busy_poll.is_worthwhile(begin);
        if looks && !self.look(begin, timeout)? && self.found.is_some() {
            return Ok((true, false));
        }
        if self.found.is_some() {
            return Ok((true, self.port.wait(Some(others), Some(Duration::ZERO))?.1));
        }
        let asleep = StdInstant::now();
        let ready = self.port.wait(Some(others), timeout)?;
        self.busy_poll.on_gap(asleep.elapsed());
        Ok(ready)
    }

    /// Waits under ibsim's library, which receives datagrams in a thread, sleeps only on its own descriptor, and
    /// reports without sleeping what the thread has received. Yields to the thread first: a datagram that it then has
    /// costs no wake-up.
    fn wait_simulated(
        &mut self,
        others: BorrowedFd<'_>,
        timeout: Option<Duration>,
        expected: bool,
    ) -> io::Result<(bool, bool)> {
        std::thread::yield_now();
        self.found = self.receive()?;
        if self.found.is_some() {
            return Ok((true, self.others_are_due(StdInstant::now())));
        }
        if !expected {
            let other = self.port.wait_for_others(others, timeout)?;
            self.found = self.receive()?;
            return Ok((self.found.is_some(), other));
        }
        let (datagrams, _) = self.port.wait(None, timeout)?;
        Ok((datagrams, self.port.wait_for_others(others, Some(Duration::ZERO))?))
    }

    /// Busy-polls for a datagram. Returns whether the other event sources are due for a check.
    fn look(&mut self, begin: StdInstant, timeout: Option<Duration>) -> io::Result<bool> {
        loop {
            self.found = self.receive()?;
            let now = StdInstant::now();
            let goes_on = timeout.is_none_or(|timeout| now.duration_since(begin) < timeout);
            if self.found.is_some() || self.busy_poll.on_empty(begin, now) == Next::Sleep || !goes_on {
                return Ok(self.others_are_due(now));
            }
            std::thread::yield_now();
        }
    }

    /// Returns whether the other event sources are due for a check.
    fn others_are_due(&mut self, now: StdInstant) -> bool {
        let due = now.saturating_duration_since(self.others_at) >= OTHERS_EVERY;
        if due {
            self.others_at = now;
        }
        due
    }

    /// Sets or clears IsSM on the port.
    pub fn set_is_sm(&mut self, is_sm: bool) -> Result<()> {
        if is_sm == self.is_sm.is_some() {
            return Ok(());
        }
        self.is_sm = if is_sm { Some(self.hold()?) } else { None };
        Ok(())
    }

    fn hold(&self) -> Result<IsSm> {
        if std::env::var_os(HOST_VARIABLE).is_some() {
            let session = UmadClient::new(ConnectOptions { program: "weft sm".to_owned(), ..Default::default() });
            let devices = session.devices().context("cannot list the adapters of this host")?;
            if let Some(device) = devices.iter().find(|device| device.name == self.device.ca_name) {
                let told = session.set_is_sm(device.index, self.device.number, true);
                told.context("cannot say that a subnet manager runs here")?;
                return Ok(IsSm::Session(session));
            }
        }
        let library = self.port.library();
        let path = library.issm_path(&self.device.ca_name, self.device.number)?;
        let node = library.open_issm(&path).with_context(|| format!("cannot open {}", path.display()))?;
        Ok(IsSm::Node(node))
    }

    /// Sends an SMP.
    pub fn send_smp(&mut self, smp: &SmpOut) -> io::Result<()> {
        let directed = smp.mad.header.class() == Class::SUBN_DIRECTED_ROUTE;
        let to = Peer { lid: smp.dlid, qpn: SMI_QPN, ..Peer::default() };
        self.out.set_address(&address_of(&to));
        self.out.mad_mut().copy_from_slice(smp.mad.as_bytes());
        let timeout = milliseconds(smp.timeout);
        self.port.send(self.smi[usize::from(directed)], &mut self.out, timeout, smp.retries as i32)
    }

    /// Sends a GMP of subnet administration, of one or more packets.
    pub fn send_gmp(&mut self, gmp: &GmpOut) -> io::Result<()> {
        if gmp.bytes.len() == MAD_LEN {
            self.out.set_address(&address_of(&gmp.to));
            self.out.mad_mut().copy_from_slice(&gmp.bytes);
            return self.port.send(self.sa, &mut self.out, milliseconds(gmp.timeout), gmp.retries as i32);
        }
        // The exact length matters: a transfer's length determines the number of records.
        let mut packet = Packet::new(self.port.library(), gmp.bytes.len());
        packet.set_address(&address_of(&gmp.to));
        packet.mad_mut().copy_from_slice(&gmp.bytes);
        self.port.send(self.sa, &mut packet, milliseconds(gmp.timeout), gmp.retries as i32)
    }

    /// Returns a received datagram, if there is one.
    pub fn recv(&mut self) -> io::Result<Option<Received>> {
        match self.found.take() {
            Some(found) => Ok(Some(found)),
            None => self.receive(),
        }
    }

    fn receive(&mut self) -> io::Result<Option<Received>> {
        self.inward.resize(MAD_LEN);
        let Some(agent) = self.port.try_recv(&mut self.inward)? else { return Ok(None) };
        let bytes = self.inward.mad();
        if bytes.len() < MadHeader::LEN {
            return Ok(None);
        }
        let peer = peer_of(&self.inward.address());
        let timed_out = self.inward.status() != 0;
        Ok(Some(match (agent == self.sa, timed_out) {
            // A received datagram does not tell the Q_Key for answers; queue pair 1 has a well-known one.
            (true, false) => Received::Gmp(Peer { qkey: GSI_QKEY, ..peer }, bytes.to_vec()),
            (true, true) => Received::GmpTimeout(peer, bytes.to_vec()),
            (false, false) => Received::Smp(peer, whole(bytes)),
            (false, true) => Received::SmpTimeout(whole(bytes)),
        }))
    }
}

/// A MAD that starts with these bytes and is zero-filled.
fn whole(bytes: &[u8]) -> Box<Mad> {
    let mut mad = Box::new(Mad::new_zeroed());
    let len = bytes.len().min(MAD_LEN);
    mad.as_mut_bytes()[..len].copy_from_slice(&bytes[..len]);
    mad
}

/// Converts a time to libibumad's milliseconds, rounded up.
fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
}

/// PortGUIDs of the machine's InfiniBand ports.
pub fn port_guids(library: Library) -> Result<Vec<u64>> {
    Ok(ports(library)?.iter().map(|port| port.port_guid).collect())
}

/// The machine's InfiniBand ports.
fn ports(library: Library) -> Result<Vec<CaPort>> {
    let mut found: Vec<CaPort> = Vec::new();
    for name in library.ca_names().context("cannot list the adapters")? {
        let Ok(ca) = library.ca(&name) else { continue };
        found.extend(ca.ports.into_iter().filter(|port| port.link_layer != "Ethernet"));
    }
    Ok(found)
}

/// Chooses an InfiniBand port: the one with this GUID, or the first with a link, or the first.
fn choose(library: Library, guid: Option<u64>) -> Result<CaPort> {
    let mut found = ports(library)?;
    let Some(guid) = guid else {
        let linked = found.iter().position(|port| port.phys_state == LINK_UP).unwrap_or(0);
        if found.is_empty() {
            bail!(
                "there is no InfiniBand port here: run as a host of a fabric (weft run --host NODE -- weft sm), or on a \
                 machine with an adapter"
            );
        }
        return Ok(found.swap_remove(linked));
    };
    let known: Vec<String> = found.iter().map(|port| format!("0x{:016x}", port.port_guid)).collect();
    found
        .into_iter()
        .find(|port| port.port_guid == guid)
        .with_context(|| format!("no port has the GUID 0x{guid:016x}; those here have {}", known.join(", ")))
}

/// PortPhysicalState of a port with a link (IBA 14.2.5.6).
const LINK_UP: u32 = 5;
