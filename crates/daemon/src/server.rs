//! The daemon's loop: one thread, one epoll, asleep while there is no work. It moves bytes between the sockets and the
//! broker, and the broker decides.

mod captures;
mod cm;
mod networks;
mod packet_channels;
mod placement;
mod polled_channels;
mod polled_rings;
mod rings;
mod streams;
mod tokens;
mod umad;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use weft_cm::iw::ConnId;
use weft_ipc::umad::UMAD_PACKET_BYTES_MAX;
use weft_ipc::{ConnectOptions, HelloReply, HelloStatus, MESSAGE_BYTES_MAX, MESSAGE_FDS_MAX};
use weft_link::FaultPlan;
use weft_mad::GmpAddress;
use weft_sys::batch::RecvBatch;
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::unix::{self, Wait};
use weft_wire::mad::Mad;
use weft_wire::pcapng::Direction;

use crate::broker::{Broker, BrokerConfig, Handled, Output};
use crate::connection::Connection;
use crate::gsi_faults::SessionFaults;
use crate::limits::{CONNECTIONS_PER_TURN, MESSAGES_PER_TURN, STAND_BACK};
use crate::log::Log;
use crate::options::Options;
use crate::pool::PoolHost;
use crate::port_holders::{Survivors, survivors};
use crate::routes::{self, Routes};
use crate::slots::ClientId;
use crate::standby::Standby;
use polled_channels::Attended;
use polled_rings::Rings;

const BACKLOG: i32 = 128;

/// Packets of a port for management datagrams that are read together.
const UMAD_PACKETS_PER_READ: usize = 64;

/// Descriptor limit to assume if the real one is unknown.
const DESCRIPTORS_MIN: u64 = 1024;

pub(crate) struct Server {
    epoll: Epoll,
    listener: OwnedFd,
    listening: bool,
    /// Closed when descriptors run out, so that a program can still get a refusal.
    spare: Option<OwnedFd>,
    routes: Routes,
    broker: Broker,
    host: PoolHost,
    connections: BTreeMap<ClientId, Connection>,
    buffer: Vec<u8>,
    log: Log,
    stopping: bool,
    options: Options,
    standby: Option<Standby>,
    /// Whether epoll watches the sockets of queue pair 1.
    gsi_watched: bool,
    /// Datagrams on their way from queue pair 1 to the service; kept to reuse its memory.
    gmps: Vec<(GmpAddress, Mad)>,
    /// Faults of programs on datagrams for them.
    arriving_faults: SessionFaults,
    departing_faults: SessionFaults,
    /// Packets of ports for management datagrams; kept to reuse its memory.
    umad_batch: RecvBatch,
    rings: Rings,
    attended: Attended,
    /// Room for a packet of a virtual host.
    ip_packet: Vec<u8>,
}

/// Returns whether another daemon takes the name soon. If the pool of another user outlived its daemon, this daemon
/// should not be faster: that user's standby or programs can take the pool over, this daemon cannot.
fn successor_appears(socket_name: &str) -> bool {
    const INTERVAL: Duration = Duration::from_millis(5);
    let deadline = Instant::now() + STAND_BACK;
    while Instant::now() < deadline {
        if weft_ipc::is_served(socket_name, STAND_BACK) {
            return true;
        }
        std::thread::sleep(INTERVAL);
    }
    false
}

fn spare_descriptor() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(crate::refusal::EMFILE | crate::refusal::ENFILE))
}

/// Takes the name; returns `None` if another daemon already serves it.
fn listen(socket_name: &str) -> anyhow::Result<Option<OwnedFd>> {
    const INTERVAL: Duration = Duration::from_millis(1);
    let deadline = Instant::now() + STAND_BACK;
    loop {
        match unix::listen_abstract(socket_name, BACKLOG) {
            Ok(listener) => return Ok(Some(listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context("could not listen for programs on the abstract Unix socket"),
        }
        // The holder of the name may be dying: the kernel takes its time to free the name.
        if weft_ipc::is_served(socket_name, STAND_BACK) || Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(INTERVAL);
    }
}

impl Server {
    /// Prepares everything; returns `None` if another daemon has the name already.
    pub(crate) fn new(options: &Options, log: Log) -> anyhow::Result<Option<Server>> {
        let survivors = survivors();
        if survivors == Survivors::Others && successor_appears(&options.socket_name) {
            return Ok(None);
        }
        let Some(listener) = listen(&options.socket_name)? else { return Ok(None) };
        weft_sys::file_size::lift().context("could not set the limit of file sizes")?;
        let descriptors_max = weft_sys::process::raise_descriptor_limit().unwrap_or(DESCRIPTORS_MIN);
        let routes = Routes::open().context("could not follow the network interfaces (rtnetlink)")?;
        let config = BrokerConfig {
            pid: std::process::id(),
            uid: weft_sys::process::euid(),
            uid_is_ours_alone: weft_sys::process::euid_is_ours_alone(),
            namespace: weft_sys::process::network_namespace_identity(),
            slots_per_user_max: options.slots_per_user_max,
            slot_quarantine: options.slot_quarantine,
            connections_per_user_max: options.connections_per_user_max,
            idle_exit: options.idle_exit,
            survivors: survivors != Survivors::None,
            socket_name: options.socket_name.clone(),
        };
        let mut broker = Broker::new(Instant::now(), config);
        broker.devices().netdevs = routes::dump().context("could not list the network interfaces (rtnetlink)")?;
        broker.refresh(Instant::now());
        if let Some((low, high)) = routes::local_ports() {
            broker.cm().set_local_ports(low, high);
        }
        let epoll = Epoll::new().context("could not make an epoll instance")?;
        epoll.add(&listener, tokens::LISTENER, Interest::READ)?;
        epoll.add(&routes, tokens::ROUTES, Interest::READ)?;
        let faults = FaultPlan::parse(&options.fault).context("WEFT_FAULT")?;
        let host = PoolHost::new(faults, options.capture.clone(), descriptors_max)
            .context("could not ask for routes (rtnetlink)")?;
        let (connections, buffer) = (BTreeMap::new(), vec![0; MESSAGE_BYTES_MAX]);
        Ok(Some(Server {
            epoll,
            listener,
            listening: true,
            spare: spare_descriptor(),
            routes,
            broker,
            host,
            connections,
            buffer,
            log,
            stopping: false,
            options: options.clone(),
            standby: None,
            gsi_watched: false,
            gmps: Vec::new(),
            arriving_faults: SessionFaults::new(Direction::Inbound),
            departing_faults: SessionFaults::new(Direction::Outbound),
            umad_batch: RecvBatch::new(UMAD_PACKETS_PER_READ, UMAD_PACKET_BYTES_MAX),
            rings: Rings::new(Instant::now()),
            attended: Attended::new(Instant::now()),
            ip_packet: vec![0; crate::limits::IP_PACKET_BYTES_MAX],
        }))
    }

    /// Becomes the successor of a dead daemon, whose standby this process was and whose anchor it holds.
    fn take_over(options: &Options, anchor: OwnedFd) {
        let mut log = Log::open(&options.log);
        match Server::new(options, Log::open(&options.log)) {
            Ok(Some(mut server)) => {
                log.note(format_args!("stood by and takes over"));
                server.inherit(&anchor);
                drop(anchor);
                if let Err(error) = server.serve() {
                    log.note(format_args!("failed: {error:#}"));
                }
            }
            // A process that outlived the daemon has already started another.
            _ => {
                let connect = ConnectOptions { socket_name: options.socket_name.clone(), ..ConnectOptions::default() };
                if let Err(error) = weft_ipc::offer_anchor(&connect, anchor.as_fd()) {
                    log.note(format_args!("standby could not hand over the sockets: {error}"));
                }
            }
        }
    }

    /// Takes over the pool of a predecessor that this process was the standby of.
    fn inherit(&mut self, anchor: &OwnedFd) {
        if let Err(refusal) = self.broker.inherit(Instant::now(), anchor, &mut self.host) {
            self.log.note(format_args!("cannot inherit: {}", refusal.text));
        }
    }

    /// Serves until the daemon is unused or stopped.
    pub(crate) fn serve(mut self) -> anyhow::Result<()> {
        let mut ready = Vec::new();
        loop {
            let mut attending = self.serve_rings() | self.serve_packet_channels();
            self.perform();
            attending |= self.rings.has_unread() | self.attended.some();
            if self.stopping {
                self.log.note(format_args!("ends"));
                if !self.broker.slots_in_use() {
                    self.standby.take().into_iter().for_each(Standby::dismiss);
                }
                return Ok(());
            }
            let now = Instant::now();
            let wanted = [self.broker.poll_timeout(), self.poll_cm_timeout()].into_iter().flatten().min();
            let timeout =
                if attending { Some(Duration::ZERO) } else { wanted.map(|at| at.saturating_duration_since(now)) };
            self.epoll.wait(&mut ready, timeout).context("could not wait for programs (epoll)")?;
            let now = Instant::now();
            for event in &ready {
                self.dispatch(now, event)?;
            }
            if self.broker.poll_timeout().is_some_and(|at| at <= now) {
                self.broker.handle_timeout(now, &mut self.host);
            }
            self.handle_cm_timeout(now);
            self.resume_deferred(now);
        }
    }

    fn dispatch(&mut self, now: Instant, event: &Ready) -> anyhow::Result<()> {
        match event.token {
            tokens::LISTENER => self.accept(now),
            tokens::ROUTES => {
                let netdevs = &mut self.broker.devices().netdevs;
                self.routes.follow(netdevs).context("could not follow the network interfaces (rtnetlink)")?;
                self.broker.refresh(now);
            }
            tokens::GSI => self.on_gsi(now),
            token if token & tokens::CHANNELS != 0 => self.on_channel((token & !tokens::CHANNELS) as u32),
            token if token & tokens::PACKET_CHANNELS != 0 => {
                self.on_packet_channel(now, token & !tokens::PACKET_CHANNELS)
            }
            token if token & tokens::TUN != 0 => self.on_tun(now, token & !tokens::TUN),
            token if token & tokens::NETWORK_LISTENER != 0 => {
                self.accept_in(now, (token & !tokens::NETWORK_LISTENER) as u32)
            }
            token if token & tokens::NETWORK_ROUTES != 0 => {
                self.on_network_routes(now, (token & !tokens::NETWORK_ROUTES) as u32)
            }
            token if token & tokens::CAPTURES != 0 => self.on_capture(token & !tokens::CAPTURES),
            token if token & tokens::STREAMS != 0 => self.on_stream(now, ConnId(token & !tokens::STREAMS), event),
            token if token & tokens::STREAM_LISTENERS != 0 => {
                self.on_stream_listener(now, (token & !tokens::STREAM_LISTENERS) as u32)
            }
            token if token & tokens::HELPERS != 0 => self.on_helper(token),
            token if token & tokens::UMAD != 0 => self.on_umad(now, (token & !tokens::UMAD) as u32, event),
            token => {
                let client = (token - tokens::CLIENTS) / 2;
                if (token - tokens::CLIENTS) % 2 == 1 {
                    // Its process is dead, even if another process still holds the connection.
                    self.drop_client(now, client);
                } else {
                    self.on_client(now, client, event);
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..CONNECTIONS_PER_TURN {
            match unix::accept(&self.listener) {
                Ok(fd) => {
                    self.admit(now, fd);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) if is_out_of_descriptors(&error) && self.spare.is_some() => match self.refuse_one() {
                    true => continue,
                    false => return,
                },
                Err(error) => {
                    // Out of descriptors or memory: listen again when a client leaves, do not spin until then.
                    self.log.note(format_args!("cannot accept: {error}"));
                    self.listening = self.epoll.modify(&self.listener, tokens::LISTENER, Interest::NONE).is_err();
                    return;
                }
            }
        }
    }

    /// Takes a program's connection.
    fn admit(&mut self, now: Instant, fd: OwnedFd) {
        let Ok(credentials) = unix::peer_credentials(&fd) else { return };
        let Some(client) = self.broker.connect(now, credentials) else { return };
        let connection = Connection::new(fd);
        let token = tokens::CLIENTS + client * 2;
        let added = self.epoll.add(&connection.fd, token, Interest::READ).and_then(|()| {
            connection.process.as_ref().map_or(Ok(()), |fd| self.epoll.add(fd, token + 1, Interest::READ))
        });
        self.host.pairs.enter(client, connection.process.clone());
        self.connections.insert(client, connection);
        if added.is_err() {
            self.drop_client(now, client);
        }
    }

    /// Refuses a program that wants to connect while no descriptor is left, by means of the spare one. Returns false if
    /// no program waits, which the kernel does not reveal to a process without descriptors.
    fn refuse_one(&mut self) -> bool {
        self.spare = None;
        let accepted = unix::accept(&self.listener);
        if let Ok(fd) = &accepted {
            // Closing a socket with unread bytes discards the answer.
            let _ = unix::recv(fd, &mut self.buffer, 0, Wait::No);
            let text = "it has as many descriptors open as it may (ulimit -n): end some of the programs that use RDMA \
                        devices, or end the daemon and start it with a higher limit";
            let _ = unix::send(fd, &HelloReply::new(HelloStatus::Refused, text).encode(), &[], Wait::No);
        }
        let refused = accepted.is_ok();
        drop(accepted);
        self.spare = spare_descriptor();
        refused
    }

    fn on_client(&mut self, now: Instant, client: ClientId, event: &Ready) {
        if event.readable {
            for _ in 0..MESSAGES_PER_TURN {
                let Some(connection) = self.connections.get(&client) else { return };
                if !connection.may_be_read() {
                    break;
                }
                let fds_max = if self.broker.accepts_descriptors(client) { MESSAGE_FDS_MAX } else { 0 };
                match unix::recv(&connection.fd, &mut self.buffer, fds_max, Wait::No) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Ok(received) if received.len > 0 && !received.truncated => {
                        let bytes = self.buffer.get(..received.len).unwrap_or_default().to_vec();
                        self.handle(now, client, bytes, received.fds);
                        self.perform_for_clients();
                    }
                    // The end of the connection, or bytes that no Weft client sends.
                    _ => return self.drop_client(now, client),
                }
            }
        }
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let flushed = if event.writable { connection.flush(&self.host) } else { Ok(()) };
        let done = connection.closing && !connection.wants_to_send();
        // If there is nothing left to read, or nothing that the daemon would read, a hang-up is the end.
        let gone = event.hung_up && (!event.readable || !connection.may_be_read());
        if flushed.is_err() || done || gone {
            return self.drop_client(now, client);
        }
        self.watch(client);
    }

    fn handle(&mut self, now: Instant, client: ClientId, bytes: Vec<u8>, fds: Vec<OwnedFd>) {
        if self.broker.handle_message(now, client, &bytes, &fds, &mut self.host) == Handled::Deferred
            && let Some(connection) = self.connections.get_mut(&client)
        {
            connection.deferred = Some((bytes, fds));
        }
    }

    fn resume_deferred(&mut self, now: Instant) {
        let waiting: Vec<ClientId> =
            self.connections.iter().filter(|(_, c)| c.deferred.is_some()).map(|(&client, _)| client).collect();
        for client in waiting {
            let Some((bytes, fds)) = self.connections.get_mut(&client).and_then(|c| c.deferred.take()) else {
                continue;
            };
            self.handle(now, client, bytes, fds);
            self.watch(client);
        }
    }

    /// Watches a client for the events that the daemon can handle now.
    fn watch(&mut self, client: ClientId) {
        if let Some(connection) = self.connections.get_mut(&client) {
            let interest = Interest { readable: connection.may_be_read(), writable: connection.wants_to_send() };
            if connection.watched != interest
                && self.epoll.modify(&connection.fd, tokens::CLIENTS + client * 2, interest).is_ok()
            {
                connection.watched = interest;
            }
        }
    }

    /// Executes the broker's output, and saves the state for a successor.
    fn perform(&mut self) {
        self.perform_for_clients();
        // Datagrams of a fabric become events of its connection managers and messages for programs: handle them before
        // sleeping.
        self.perform_for_umad(Instant::now());
        self.perform_for_networks(Instant::now());
        self.perform_for_streams(Instant::now());
        self.perform_for_cm(Instant::now());
        self.perform_for_clients();
        self.perform_for_packet_channels(Instant::now());
        self.perform_for_captures(Instant::now());
        if !self.broker.take_changed() {
            return;
        }
        let saved = self.broker.save();
        if let Err(error) = self.host.save(&saved) {
            self.log.note(format_args!("cannot keep the state for a successor: {error}"));
        }
        // The standby inherits the allowed processors: lift the restriction made for a program's sake.
        self.rings.go_anywhere();
        match (self.broker.needs_standby(), self.host.anchor()) {
            (true, Some(anchor)) if self.standby.is_none() => {
                let options = self.options.clone();
                match Standby::start(anchor, move |anchor| Server::take_over(&options, anchor)) {
                    Ok(standby) => self.standby = Some(standby),
                    Err(error) => self.log.note(format_args!("cannot have a standby: {error}")),
                }
            }
            (false, _) => self.standby.take().into_iter().for_each(Standby::dismiss),
            _ => {}
        }
    }

    fn perform_for_clients(&mut self) {
        while let Some(output) = self.broker.poll_output() {
            let client = match output {
                Output::Stop => {
                    self.stopping = true;
                    continue;
                }
                Output::Close { client } => {
                    if let Some(connection) = self.connections.get_mut(&client) {
                        connection.closing = true;
                    }
                    client
                }
                Output::Send { client, bytes, attach, about } => {
                    let Some(connection) = self.connections.get_mut(&client) else { continue };
                    if !connection.push(bytes, attach, about) {
                        self.log.note(format_args!("client {client} does not read; dropped"));
                        self.drop_client(Instant::now(), client);
                        continue;
                    }
                    client
                }
            };
            let Some(connection) = self.connections.get_mut(&client) else { continue };
            let flushed = connection.flush(&self.host);
            if flushed.is_err() || (connection.closing && !connection.wants_to_send()) {
                self.drop_client(Instant::now(), client);
            } else {
                self.watch(client);
            }
        }
    }

    fn drop_client(&mut self, now: Instant, client: ClientId) {
        if let Some(connection) = self.connections.remove(&client) {
            let _ = self.epoll.delete(&connection.fd);
            if let Some(process) = &connection.process {
                let _ = self.epoll.delete(process);
            }
        }
        self.broker.disconnect(now, client, &mut self.host);
        self.host.pairs.leave(client);
        self.arriving_faults.forget(client);
        self.departing_faults.forget(client);
        if !self.listening {
            self.listening = self.epoll.modify(&self.listener, tokens::LISTENER, Interest::READ).is_ok();
        }
    }
}
