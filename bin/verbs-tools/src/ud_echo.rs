//! Echoes of datagrams (UD) by LID: a server that sends every datagram back to its sender, and a client that asks many
//! servers at once. `weft up --test pingall` runs both on every host.

mod address;
mod end;
mod message;

use std::io;
use std::time::{Duration, Instant};

use weft_abi_types::IBV_PORT_ACTIVE;
use weft_client::Which;
use weft_client::verbs::{Ah, Context, DeviceList, Library, Path, UdTarget};

pub use address::Address;
use end::{Completion, End, QKEY, SLOTS};
use message::Message;

/// Time that the first attempt waits for answers; each further one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Attempts to reach a server. A datagram may be lost, also on its way back.
const ATTEMPTS: u32 = 4;
/// Servers that are asked at the same time: each path to one is the daemon's work.
const AT_ONCE: usize = 16;
/// Pause of the client between two looks at its completion queue: servers on the same processor get their turn.
const PAUSE: Duration = Duration::from_micros(50);

/// Opens the first device of the host, and finds its first active port.
///
/// # Errors
/// There is none; the text is for the user.
fn open() -> Result<(Context, u8), String> {
    let library = Library::load(Which::Ours).map_err(|e| format!("{e:#}"))?;
    let list = DeviceList::new(library).map_err(|e| format!("no list of devices: {}", text(&e)))?;
    let device = list.find(None).ok_or("no device")?;
    let context = device.open().map_err(|e| format!("{} cannot be opened: {}", device.name(), text(&e)))?;
    let ports = context.query_device().map_err(|e| text(&e))?.orig_attr.phys_port_cnt;
    let is_active = |port: &u8| context.query_port(*port).is_ok_and(|attr| attr.state == IBV_PORT_ACTIVE);
    let port = (1..=ports).find(is_active).ok_or_else(|| format!("{} has no active port", device.name()))?;
    Ok((context, port))
}

fn text(error: &io::Error) -> String {
    crate::errno::text(error)
}

/// A server; the thread that makes it serves.
pub struct Server {
    end: End,
    lid: u16,
}

impl Server {
    /// Makes a server on the host's first active port.
    ///
    /// # Errors
    /// The text is for the user.
    pub fn open() -> Result<Server, String> {
        let (context, port) = open()?;
        let lid = context.query_port(port).map_err(|e| text(&e))?.lid;
        let end = End::new(&context, port, true).map_err(|e| format!("no queue pair: {}", text(&e)))?;
        Ok(Server { end, lid })
    }

    /// Its address.
    pub fn address(&self) -> Address {
        Address { lid: self.lid, qpn: self.end.qpn() }
    }

    /// Answers until the device fails.
    ///
    /// # Errors
    /// How it failed.
    pub fn serve(&self) -> io::Result<()> {
        // The handle of each answer under way, by the slot of its message.
        let mut answers: Vec<Option<Ah>> = vec![None; SLOTS];
        loop {
            let mut arrived = Vec::new();
            self.end.wait(&mut |completion| match completion {
                Completion::Received { slot, wc } => arrived.push((slot, wc)),
                Completion::Sent { slot } => {
                    if let Some(answer) = answers.get_mut(slot) {
                        *answer = None;
                    }
                    let _ = self.end.post_recv(slot);
                }
            })?;
            for (slot, wc) in arrived {
                let question = Message::read(&self.end, slot);
                match self.end.sender(&wc).ok().zip(question) {
                    Some((ah, question)) => {
                        let answer = Message { responder: self.address(), ..question };
                        answer.write(&self.end, slot);
                        let to = UdTarget { ah: ah.clone(), qpn: question.requester_qpn, qkey: QKEY };
                        self.end.send(slot, to)?;
                        if let Some(place) = answers.get_mut(slot) {
                            *place = Some(ah);
                        }
                    }
                    None => self.end.post_recv(slot)?,
                }
            }
        }
    }
}

/// Asks all servers, each until it answers. Returns what happened, in their order: `Ok`, or why not.
///
/// # Errors
/// This host has no port to ask from.
pub fn ask_all(servers: &[Address]) -> Result<Vec<Result<(), String>>, String> {
    let (context, port) = open()?;
    let end = End::new(&context, port, false).map_err(|e| format!("no queue pair: {}", text(&e)))?;
    let mut outcomes = Vec::with_capacity(servers.len());
    for servers in servers.chunks(AT_ONCE) {
        let mut run = Run {
            end: &end,
            port,
            nonce: weft_sys::random::u64(),
            servers,
            outcomes: vec![Err("no answer".to_owned()); servers.len()],
        };
        run.ask().map_err(|e| text(&e))?;
        outcomes.extend(run.outcomes);
    }
    Ok(outcomes)
}

/// Questions to a few servers.
struct Run<'a> {
    end: &'a End,
    port: u8,
    /// Tells the answers to these questions from others.
    nonce: u64,
    servers: &'a [Address],
    outcomes: Vec<Result<(), String>>,
}

impl Run<'_> {
    /// Asks each server until it answers.
    fn ask(&mut self) -> io::Result<()> {
        let mut wait = FIRST_WAIT;
        for _ in 0..ATTEMPTS {
            for (number, server) in (0u32..).zip(self.servers) {
                let Some(outcome) = self.outcomes.get_mut(number as usize).filter(|outcome| outcome.is_err()) else {
                    continue;
                };
                let (nonce, requester_qpn) = (self.nonce, self.end.qpn());
                if let Err(error) =
                    send(self.end, self.port, &Message { nonce, number, requester_qpn, responder: *server })
                {
                    *outcome = Err(format!("cannot send: {}", text(&error)));
                }
            }
            if self.collect(wait)? {
                break;
            }
            wait *= 2;
        }
        Ok(())
    }

    /// Takes answers until all have come or the time is over; returns whether all have.
    fn collect(&mut self, within: Duration) -> io::Result<bool> {
        let until = Instant::now() + within;
        while self.outcomes.iter().any(Result::is_err) {
            if Instant::now() >= until {
                return Ok(false);
            }
            let mut arrived = Vec::new();
            let count = self.end.poll(&mut |completion| {
                if let Completion::Received { slot, .. } = completion {
                    arrived.push(slot);
                }
            })?;
            for slot in arrived {
                let answer = Message::read(self.end, slot);
                self.end.post_recv(slot)?;
                self.on_answer(answer.as_ref());
            }
            if count == 0 {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(true)
    }

    fn on_answer(&mut self, answer: Option<&Message>) {
        let Some(answer) = answer.filter(|answer| answer.nonce == self.nonce) else { return };
        let number = answer.number as usize;
        let Some((outcome, server)) = self.outcomes.get_mut(number).zip(self.servers.get(number)) else { return };
        *outcome = match answer.responder == *server {
            true => Ok(()),
            false => Err(format!("LID {} answered in place of LID {}", answer.responder.lid, server.lid)),
        };
    }
}

/// Sends a question.
fn send(end: &End, port: u8, message: &Message) -> io::Result<()> {
    let path = Path { dlid: message.responder.lid, port_num: port, ..Path::default() };
    let ah = Ah::new(end.pd(), &path)?;
    let slot = end.question_slot(message.number);
    message.write(end, slot);
    end.send(slot, UdTarget { ah, qpn: message.responder.qpn, qkey: QKEY })
}
