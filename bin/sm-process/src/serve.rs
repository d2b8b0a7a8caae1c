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

use super::args::RunArgs;
use super::control::Control;
use super::files::Files;
use super::log::Log;
use super::port::{Received, SmPort};
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
    pub(super) manager: Manager,
    pub(super) files: Files,
    pub(super) log: Log,
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
    ending: Option<Instant>,
    /// When the administrator's records will be stored.
    keep_at: Option<Instant>,
}

/// How long changes of the administrator's records are gathered before they are stored.
const KEEP_AFTER: Duration = Duration::from_secs(1);

/// How long an ending manager tries to hand its subnet over.
const FAREWELL: Duration = Duration::from_secs(2);

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
        let (started, now) = (Instant::now(), ManagerInstant(0));
        Ok(Server {
            manager: Manager::new(now, setup),
            jobs: Jobs::new(Arc::clone(&wake)),
            timeouts: Overdue::default(),
            ending: None,
            keep_at: None,
            waiting: Vec::new(),
            rose: false,
            was_up: false,
            files,
            log,
            port,
            control,
            signals,
            wake,
            epoll,
            started,
            once: args.once,
        })
    }

    pub(super) fn time(&self, now: Instant) -> ManagerInstant {
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
            if self.ending.is_some_and(|at| Instant::now() >= at || self.has_handed_over()) {
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
        let manager = self.manager.poll_timeout().map(|at| self.started + Duration::from_nanos(at.0));
        // Pending requests are answered without a wait, right after the newly received datagrams are read.
        let asked = self.manager.administrator().has_more().then_some(now);
        let next =
            [manager, self.timeouts.poll_timeout(), self.ending, self.keep_at, asked].into_iter().flatten().min();
        next.map(|at| at.saturating_duration_since(now))
    }

    fn handle_timeout(&mut self) {
        let now = Instant::now();
        let time = self.time(now);
        while let Some(mad) = self.timeouts.poll(now) {
            self.manager.handle_smp_timeout(time, &mad);
        }
        if self.manager.poll_timeout().is_some_and(|at| at <= time) {
            self.manager.handle_timeout(time);
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
                    self.manager.handle_smp(time, &from, &mad);
                }
                Some(Received::SmpTimeout(mad)) => {
                    self.timeouts.ended(&mad);
                    self.manager.handle_smp_timeout(time, &mad);
                }
                Some(Received::Gmp(from, bytes)) => self.manager.handle_gmp(time, &from, &bytes),
                Some(Received::GmpTimeout(to, bytes)) => self.manager.handle_gmp_timeout(time, &to, &bytes),
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
            let Some(gmp) = self.manager.poll_gmp() else { return };
            if let Err(error) = self.port.send_gmp(&gmp) {
                self.log.line(Level::Error, &format!("cannot send to LID {}: {error}", gmp.to.lid));
                if !gmp.timeout.is_zero() {
                    self.manager.handle_gmp_timeout(self.time(now), &gmp.to, &gmp.bytes);
                }
            }
        }
    }

    fn transmit_smps(&mut self) {
        let now = Instant::now();
        while let Some(smp) = self.manager.poll_smp() {
            match self.port.send_smp(&smp) {
                Ok(()) => self.timeouts.sent(now, &smp),
                Err(error) => {
                    self.log.line(Level::Error, &format!("cannot send an SMP: {error}"));
                    if !smp.timeout.is_zero() {
                        self.manager.handle_smp_timeout(self.time(now), &smp.mad);
                    }
                }
            }
        }
    }

    /// Carries out the manager's pending work.
    fn perform(&mut self) -> Result<()> {
        while let Some(done) = self.jobs.poll_done() {
            self.manager.handle_job(self.time(Instant::now()), done);
        }
        // Must precede the manager's first query of its own port, whose capabilities include IsSM.
        self.port.set_is_sm(self.manager.is_sm() && self.ending.is_none())?;
        self.transmit();
        while let Some(job) = self.manager.poll_job() {
            self.jobs.start(job);
        }
        while let Some(event) = self.manager.poll_event() {
            self.on_event(&event);
        }
        if self.rose && self.is_up() {
            self.tell_up();
        }
        self.log.flush();
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
                let text = self.reload();
                self.log.line(Level::System, &text);
            }
            libc::SIGUSR1 => {
                if let Err(error) = self.log.reopen(false) {
                    self.log.line(Level::Error, &format!("cannot open the log again: {error}"));
                }
            }
            _ => self.end(),
        }
    }

    /// Reads the configuration again and returns a message about it.
    pub(super) fn reload(&mut self) -> String {
        let changed = match self.files.read_again() {
            Ok(changed) => changed,
            Err(error) => return format!("configuration left as it was: {error:#}"),
        };
        let (options, diagnostics) = self.files.log();
        let name = options.path.clone().unwrap_or_default();
        if let Err(error) = self.log.change(options) {
            self.log.line(Level::Error, &format!("cannot write the log {}: {error}", name.display()));
        }
        let (setup, said) = self.files.setup(self.port.device().port_guid, Some(self.manager.setup()));
        for diagnostic in self.files.diagnostics().iter().chain(&diagnostics).chain(&said) {
            self.log.diagnostic(diagnostic);
        }
        for line in changed {
            self.log.line(Level::Info, &line);
        }
        self.manager.reload(setup);
        "configuration read anew, heavy sweep".to_owned()
    }

    /// GUID of the manager's port.
    pub fn guid(&self) -> u64 {
        self.port.device().port_guid
    }

    /// Starts to end: the manager hands the subnet over if another takes it.
    pub(super) fn end(&mut self) {
        let now = Instant::now();
        self.ending = Some(now + FAREWELL);
        self.manager.shut_down();
    }

    /// Whether another manager has the subnet, or none is there to take it.
    fn has_handed_over(&self) -> bool {
        let status = self.manager.status();
        status.state != SmState::MASTER || status.left == 0
    }

    fn farewell(&mut self) {
        self.log.line(Level::System, "Exiting SM");
        self.files.keep_lids(&self.manager, &mut self.log);
        if self.keep_at.is_some() {
            self.keep_data_base();
        }
    }

    fn keep_data_base(&mut self) {
        self.keep_at = None;
        self.files.keep_data_base(&mut self.manager, &mut self.log);
    }

    fn on_line(&mut self, who: u64, line: &str) {
        match line.trim() {
            console::EVENTS => self.control.follow(who),
            console::WAIT if !self.is_up() => self.waiting.push(who),
            line => {
                let answer = commands::answer(self, line);
                self.control.answer(&self.epoll, who, &answer);
            }
        }
    }

    fn on_event(&mut self, event: &Event) {
        self.log.event(event);
        if self.control.has_followers() {
            self.control.tell(&self.epoll, &metrics::event_json(event));
        }
        match event {
            Event::LidsChanged => self.files.keep_lids(&self.manager, &mut self.log),
            Event::KeysChanged => self.files.keep_keys(&self.manager, &mut self.log),
            Event::SweepEnded(_) => self.files.keep_again(&mut self.manager, &mut self.log),
            Event::DataBaseChanged => {
                self.keep_at.get_or_insert_with(|| Instant::now() + KEEP_AFTER);
            }
            Event::SubnetUp => self.rose = true,
            _ => {}
        }
    }

    /// Whether the subnet is up and all node names are known.
    fn is_up(&self) -> bool {
        self.manager.status().is_up && self.manager.has_names()
    }

    /// Tells the waiting clients that the subnet is up; with `once`, also ends.
    fn tell_up(&mut self) {
        self.rose = false;
        if !std::mem::replace(&mut self.was_up, true) {
            // Bringing a subnet up takes code that keeping it up does not need; its pages can go. A failure is
            // harmless.
            let _ = weft_sys::mapping::release_code();
        }
        if self.log.flags() & dump::ROUTING != 0 {
            self.dump();
        }
        for who in std::mem::take(&mut self.waiting) {
            let answer = metrics::prometheus(&self.manager);
            self.control.answer(&self.epoll, who, &answer);
        }
        if self.once {
            self.end();
        }
    }

    /// Writes OpenSM's dump files and logs errors.
    fn dump(&mut self) {
        let told = dump::write(&self.manager, &self.files.dump_dir());
        for why in told.lines().filter(|line| line.starts_with("cannot")) {
            self.log.line(Level::Error, why);
        }
    }
}
