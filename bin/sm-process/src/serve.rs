//! The event loop around a manager: datagrams between it and the port, jobs on threads, signals, clients.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weft_sm::manager::{Event, Level, Manager};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::event::EventFd;
use weft_sys::signals::SignalQueue;
use weft_verbs::Instant as ManagerInstant;
use weft_wire::mad::subn::SmState;

use super::control::Control;
use super::files::Files;
use super::log::Log;
use super::port::{Received, SmPort};
use super::run_args::RunArgs;
use super::running_manager::RunningManager;
use super::threads::Jobs;
use super::timeouts::Overdue;
use super::{commands, console, dump, metrics};

const TOKEN_WAKE: u64 = 0;
const TOKEN_SIGNALS: u64 = 1;
const TOKEN_CONTROL: u64 = 1 << 32;

/// Maximum number of datagrams read before other events are handled.
const READS_PER_TURN: usize = 4096;

/// Answers of subnet administration sent before the port is read again. Reading costs less than answering, so a
/// flooding client only loses requests at its own per-LID limit, and does not keep the requests of other clients
/// unread.
const ANSWERS_PER_TURN: usize = 32;

/// A manager with everything that it needs.
pub struct Server {
    sm: RunningManager,
    port: SmPort,
    jobs: Jobs,
    timeouts: Overdue,
    control: Control,
    signals: SignalQueue,
    wake: Arc<EventFd>,
    epoll: Epoll,
    started: Instant,
    /// Clients that wait until the subnet is up.
    waiting: Vec<u64>,
    /// The subnet came up, and the waiting clients do not know yet.
    rose: bool,
    /// The subnet has been up before.
    was_up: bool,
    /// End as soon as the subnet is up.
    once: bool,
    /// When the administrator's records will be stored.
    keep_at: Option<Instant>,
}

/// How long changes of the administrator's records are gathered before they are stored.
const KEEP_AFTER: Duration = Duration::from_secs(1);

impl Server {
    /// Opens the control socket and the event sources.
    ///
    /// # Errors
    /// Another manager runs on the port, or the system lacks resources.
    pub fn new(port: SmPort, files: Files, mut log: Log, signals: SignalQueue, args: &RunArgs) -> Result<Server> {
        let epoll = Epoll::new()?;
        let wake = Arc::new(EventFd::new()?);
        epoll.add(&*wake, TOKEN_WAKE, Interest::READ)?;
        epoll.add(&signals, TOKEN_SIGNALS, Interest::READ)?;
        let guid = port.device().port_guid;
        let control = Control::listen(guid, &epoll, TOKEN_CONTROL)?;
        let (setup, diagnostics) = files.setup(guid, None);
        files.diagnostics().iter().for_each(|diagnostic| log.remember(diagnostic));
        diagnostics.iter().for_each(|diagnostic| log.diagnostic(diagnostic));
        Ok(Server {
            sm: RunningManager { manager: Manager::new(ManagerInstant(0), setup), files, log, guid, ending: None },
            jobs: Jobs::new(Arc::clone(&wake)),
            timeouts: Overdue::default(),
            keep_at: None,
            waiting: Vec::new(),
            rose: false,
            was_up: false,
            port,
            control,
            signals,
            wake,
            epoll,
            started: Instant::now(),
            once: args.once,
        })
    }

    fn time(&self, now: Instant) -> ManagerInstant {
        ManagerInstant(u64::try_from(now.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX))
    }

    /// Serves until the manager ends.
    ///
    /// # Errors
    /// The port is gone.
    pub fn serve(mut self) -> Result<()> {
        let mut ready = Vec::new();
        loop {
            self.perform()?;
            if self.sm.ending.is_some_and(|at| Instant::now() >= at || self.has_handed_over()) {
                self.farewell();
                return Ok(());
            }
            let timeout = self.timeout();
            // Unsolicited datagrams may come at any time, but if only a job is pending, its end most likely comes
            // first.
            let expected = !(self.jobs.are_out() && self.timeouts.is_empty());
            let (datagrams, others) =
                self.port.wait(self.epoll.as_fd(), timeout, expected).context("cannot wait for datagrams")?;
            if others {
                self.epoll.wait(&mut ready, Some(Duration::ZERO))?;
                for event in &ready {
                    self.on_ready(event);
                }
            }
            if datagrams {
                self.read()?;
            }
            self.handle_timeout();
        }
    }

    fn timeout(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let manager = self.sm.manager.poll_timeout().map(|at| self.started + Duration::from_nanos(at.0));
        // Pending requests are answered without a wait, right after the newly received datagrams are read.
        let asked = self.sm.manager.administrator().has_more().then_some(now);
        let next =
            [manager, self.timeouts.poll_timeout(), self.sm.ending, self.keep_at, asked].into_iter().flatten().min();
        next.map(|at| at.saturating_duration_since(now))
    }

    fn handle_timeout(&mut self) {
        let now = Instant::now();
        let time = self.time(now);
        while let Some(mad) = self.timeouts.poll(now) {
            self.sm.manager.handle_smp_timeout(time, &mad);
        }
        if self.sm.manager.poll_timeout().is_some_and(|at| at <= time) {
            self.sm.manager.handle_timeout(time);
        }
        if self.keep_at.is_some_and(|at| at <= now) {
            self.keep_data_base();
        }
    }

    /// Reads received datagrams.
    fn read(&mut self) -> Result<()> {
        for _ in 0..READS_PER_TURN {
            let time = self.time(Instant::now());
            match self.port.recv().context("the port is gone")? {
                None => return Ok(()),
                Some(Received::Smp(from, mad)) => {
                    self.timeouts.ended(&mad);
                    self.sm.manager.handle_smp(time, &from, &mad);
                }
                Some(Received::SmpTimeout(mad)) => {
                    self.timeouts.ended(&mad);
                    self.sm.manager.handle_smp_timeout(time, &mad);
                }
                Some(Received::Gmp(from, bytes)) => self.sm.manager.handle_gmp(time, &from, &bytes),
                Some(Received::GmpTimeout(to, bytes)) => self.sm.manager.handle_gmp_timeout(time, &to, &bytes),
            }
            self.transmit_smps();
        }
        Ok(())
    }

    /// Sends the manager's pending datagrams. One that cannot be sent counts as not answered.
    fn transmit(&mut self) {
        self.transmit_smps();
        let now = Instant::now();
        for _ in 0..ANSWERS_PER_TURN {
            let Some(gmp) = self.sm.manager.poll_gmp() else { return };
            if let Err(error) = self.port.send_gmp(&gmp) {
                self.sm.log.line(Level::Error, &format!("cannot send to LID {}: {error}", gmp.to.lid));
                if !gmp.timeout.is_zero() {
                    self.sm.manager.handle_gmp_timeout(self.time(now), &gmp.to, &gmp.bytes);
                }
            }
        }
    }

    fn transmit_smps(&mut self) {
        let now = Instant::now();
        while let Some(smp) = self.sm.manager.poll_smp() {
            match self.port.send_smp(&smp) {
                Ok(()) => self.timeouts.sent(now, &smp),
                Err(error) => {
                    self.sm.log.line(Level::Error, &format!("cannot send an SMP: {error}"));
                    if !smp.timeout.is_zero() {
                        self.sm.manager.handle_smp_timeout(self.time(now), &smp.mad);
                    }
                }
            }
        }
    }

    /// Carries out the manager's pending work.
    fn perform(&mut self) -> Result<()> {
        while let Some(done) = self.jobs.poll_done() {
            self.sm.manager.handle_job(self.time(Instant::now()), done);
        }
        // Must precede the manager's first query of its own port, whose capabilities include IsSM.
        self.port.set_is_sm(self.sm.manager.is_sm() && self.sm.ending.is_none())?;
        self.transmit();
        while let Some(job) = self.sm.manager.poll_job() {
            self.jobs.start(job);
        }
        while let Some(event) = self.sm.manager.poll_event() {
            self.on_event(&event);
        }
        if self.rose && self.is_up() {
            self.tell_up();
        }
        self.sm.log.flush();
        Ok(())
    }

    fn on_ready(&mut self, event: &Ready) {
        match event.token {
            TOKEN_WAKE => {
                self.wake.take();
            }
            TOKEN_SIGNALS => {
                while let Some(signal) = self.signals.take() {
                    self.on_signal(signal);
                }
            }
            token if self.control.has(token) => {
                for (who, line) in self.control.on_ready(&self.epoll, event) {
                    self.on_line(who, &line);
                }
            }
            _ => {}
        }
    }

    fn on_signal(&mut self, signal: i32) {
        match signal {
            libc::SIGHUP => {
                let text = self.sm.reload();
                self.sm.log.line(Level::System, &text);
            }
            libc::SIGUSR1 => {
                if let Err(error) = self.sm.log.reopen(false) {
                    self.sm.log.line(Level::Error, &format!("cannot open the log again: {error}"));
                }
            }
            _ => self.sm.end(),
        }
    }

    /// GUID of the manager's port.
    pub fn guid(&self) -> u64 {
        self.sm.guid
    }

    /// Whether another manager has the subnet, or none is there to take it.
    fn has_handed_over(&self) -> bool {
        let status = self.sm.manager.status();
        status.state != SmState::MASTER || status.left == 0
    }

    fn farewell(&mut self) {
        self.sm.log.line(Level::System, "Exiting SM");
        self.sm.files.keep_lids(&self.sm.manager, &mut self.sm.log);
        if self.keep_at.is_some() {
            self.keep_data_base();
        }
    }

    fn keep_data_base(&mut self) {
        self.keep_at = None;
        self.sm.files.keep_data_base(&mut self.sm.manager, &mut self.sm.log);
    }

    fn on_line(&mut self, who: u64, line: &str) {
        match line.trim() {
            console::EVENTS => self.control.follow(who),
            console::WAIT if !self.is_up() => self.waiting.push(who),
            line => {
                let answer = commands::answer(&mut self.sm, line);
                self.control.answer(&self.epoll, who, &answer);
            }
        }
    }

    fn on_event(&mut self, event: &Event) {
        self.sm.log.event(event);
        if self.control.has_followers() {
            self.control.tell(&self.epoll, &metrics::event_json(event));
        }
        match event {
            Event::LidsChanged => self.sm.files.keep_lids(&self.sm.manager, &mut self.sm.log),
            Event::KeysChanged => self.sm.files.keep_keys(&self.sm.manager, &mut self.sm.log),
            Event::SweepEnded(_) => self.sm.files.keep_again(&mut self.sm.manager, &mut self.sm.log),
            Event::DataBaseChanged => {
                self.keep_at.get_or_insert_with(|| Instant::now() + KEEP_AFTER);
            }
            Event::SubnetUp => self.rose = true,
            _ => {}
        }
    }

    /// Whether the subnet is up and all node names are known.
    fn is_up(&self) -> bool {
        self.sm.manager.status().is_up && self.sm.manager.has_names()
    }

    /// Tells the waiting clients that the subnet is up; with `once`, also ends.
    fn tell_up(&mut self) {
        self.rose = false;
        if !std::mem::replace(&mut self.was_up, true) {
            // Bringing a subnet up takes code that keeping it up does not need; its pages can go. A failure is
            // harmless.
            let _ = weft_sys::mapping::release_code();
        }
        if self.sm.log.flags() & dump::ROUTING != 0 {
            self.dump();
        }
        for who in std::mem::take(&mut self.waiting) {
            let answer = metrics::text(&self.sm.manager);
            self.control.answer(&self.epoll, who, &answer);
        }
        if self.once {
            self.sm.end();
        }
    }

    /// Writes OpenSM's dump files and logs errors.
    fn dump(&mut self) {
        let told = dump::write(&self.sm.manager, &self.sm.files.dump_dir());
        for why in told.lines().filter(|line| line.starts_with("cannot")) {
            self.sm.log.line(Level::Error, why);
        }
    }
}
