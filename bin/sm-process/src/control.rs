//! The control socket of a manager: a Unix socket named after its port, command lines in, text out. Its abstract name
//! lives and dies with the manager and is visible only in its network namespace. Only the manager's user and root may
//! connect.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use weft_ipc::{Client, ConnectOptions, HOST_VARIABLE, Spawn};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::unix::{self, Wait};

/// Prefix of socket names; the PortGUID follows.
const PREFIX: &str = "weft-sm-";
/// Longest line, and longest piece of an answer.
const PIECE_LEN_MAX: usize = 32 << 10;
/// Maximum number of bytes of answers queued for one client.
const WAITING_LEN_MAX: usize = 256 << 20;
/// Maximum number of clients.
const SPEAKERS_MAX: usize = 32;
/// First byte of a refusal, and of no other message.
const REFUSED: u8 = 1;
/// The piece that ends an answer.
const END: &[u8] = &[0];

/// The manager's side of the control socket.
pub struct Control {
    listener: OwnedFd,
    speakers: BTreeMap<u64, Speaker>,
    /// Epoll token of the listener; clients have the next ones.
    token: u64,
    last: u64,
}

struct Speaker {
    fd: OwnedFd,
    waiting: VecDeque<Vec<u8>>,
    waiting_len: usize,
    /// Whether the client gets every event.
    follows: bool,
}

fn name(guid: u64) -> String {
    format!("{PREFIX}{guid:016x}")
}

impl Control {
    /// Starts to listen.
    ///
    /// # Errors
    /// Another manager runs on this port.
    pub fn listen(guid: u64, epoll: &Epoll, token: u64) -> Result<Control> {
        let listener = match socket().and_then(|socket| unix::listen_with(socket, &name(guid), 8)) {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                bail!(
                    "a subnet manager of weft runs on port 0x{guid:016x} already: `weft sm status` shows it, \
                     `weft sm console shutdown` ends it"
                )
            }
            Err(error) => return Err(error).context("cannot listen for `weft sm console`"),
        };
        epoll.add(&listener, token, Interest::READ)?;
        Ok(Control { listener, speakers: BTreeMap::new(), token, last: token })
    }

    /// Whether this is one of the control socket's tokens.
    pub fn has(&self, token: u64) -> bool {
        token == self.token || self.speakers.contains_key(&token)
    }

    /// Handles a ready descriptor. Returns received lines, each with the client's token.
    pub fn on_ready(&mut self, epoll: &Epoll, ready: &Ready) -> Vec<(u64, String)> {
        if ready.token == self.token {
            self.accept(epoll);
            return Vec::new();
        }
        let mut lines = Vec::new();
        let mut alive = !ready.hung_up || ready.readable;
        if ready.readable {
            let mut buffer = vec![0; PIECE_LEN_MAX];
            alive = match self
                .speakers
                .get(&ready.token)
                .map(|speaker| unix::recv(&speaker.fd, &mut buffer, 0, Wait::No))
            {
                Some(Ok(received)) if received.len > 0 && !received.truncated => {
                    lines.push((ready.token, String::from_utf8_lossy(&buffer[..received.len]).into_owned()));
                    true
                }
                Some(Err(error)) => error.kind() == io::ErrorKind::WouldBlock,
                _ => false,
            };
        }
        if !alive {
            self.drop_speaker(epoll, ready.token);
        } else if ready.writable {
            self.flush(epoll, ready.token);
        }
        lines
    }

    fn accept(&mut self, epoll: &Epoll) {
        while let Ok(fd) = unix::accept(&self.listener) {
            let ours =
                unix::peer_credentials(&fd).is_ok_and(|peer| peer.uid == 0 || peer.uid == weft_sys::process::euid());
            let refused = match (ours, self.speakers.len() < SPEAKERS_MAX) {
                (true, true) => None,
                (true, false) => {
                    Some("this subnet manager already serves as many clients as it can; try again later".to_owned())
                }
                (false, _) => {
                    let own = weft_sys::process::euid();
                    Some(format!("this subnet manager is user {own}'s, and speaks to that user and root alone"))
                }
            };
            if let Some(why) = refused {
                // If the socket closed with unread input, the client would lose the answer.
                let _ = unix::recv(&fd, &mut vec![0; PIECE_LEN_MAX], 0, Wait::No);
                let _ = unix::send(&fd, &[&[REFUSED], why.as_bytes()].concat(), &[], Wait::No);
                continue;
            }
            self.last += 1;
            if epoll.add(&fd, self.last, Interest::READ).is_ok() {
                let speaker = Speaker { fd, waiting: VecDeque::new(), waiting_len: 0, follows: false };
                self.speakers.insert(self.last, speaker);
            }
        }
    }

    /// Sends an answer to a client.
    pub fn answer(&mut self, epoll: &Epoll, to: u64, text: &str) {
        self.push(epoll, to, text.as_bytes());
        self.push_piece(to, END.to_vec());
        self.flush(epoll, to);
    }

    /// Subscribes a client to every event.
    pub fn follow(&mut self, who: u64) {
        if let Some(speaker) = self.speakers.get_mut(&who) {
            speaker.follows = true;
        }
    }

    /// Whether any client is subscribed to events.
    pub fn has_followers(&self) -> bool {
        self.speakers.values().any(|speaker| speaker.follows)
    }

    /// Sends an event line to all subscribed clients.
    pub fn tell(&mut self, epoll: &Epoll, line: &str) {
        let followers: Vec<u64> =
            self.speakers.iter().filter(|(_, speaker)| speaker.follows).map(|(token, _)| *token).collect();
        for to in followers {
            self.push(epoll, to, line.as_bytes());
            self.flush(epoll, to);
        }
    }

    fn push(&mut self, epoll: &Epoll, to: u64, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE_LEN_MAX) {
            if !self.push_piece(to, piece.to_vec()) {
                return self.drop_speaker(epoll, to);
            }
        }
    }

    fn push_piece(&mut self, to: u64, piece: Vec<u8>) -> bool {
        let Some(speaker) = self.speakers.get_mut(&to) else { return true };
        speaker.waiting_len += piece.len();
        speaker.waiting.push_back(piece);
        speaker.waiting_len <= WAITING_LEN_MAX
    }

    fn flush(&mut self, epoll: &Epoll, to: u64) {
        let Some(speaker) = self.speakers.get_mut(&to) else { return };
        while let Some(piece) = speaker.waiting.front() {
            match unix::send(&speaker.fd, piece, &[], Wait::No) {
                Ok(_) => {
                    speaker.waiting_len -= piece.len();
                    speaker.waiting.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.drop_speaker(epoll, to),
            }
        }
        let interest = Interest { readable: true, writable: !speaker.waiting.is_empty() };
        let _ = epoll.modify(&speaker.fd, to, interest);
    }

    fn drop_speaker(&mut self, epoll: &Epoll, token: u64) {
        if let Some(speaker) = self.speakers.remove(&token) {
            let _ = epoll.delete(&speaker.fd);
        }
    }
}

/// Returns a session with the daemon, if this program runs as a virtual host: its network namespace may be the host's,
/// while a subnet manager is found in that of the machine.
fn session() -> Option<Client> {
    std::env::var_os(HOST_VARIABLE)?;
    let options = ConnectOptions { program: "weft sm".to_owned(), spawn: Spawn::Never, ..ConnectOptions::default() };
    Client::connect(&options).ok()
}

/// Returns a new socket of the machine's network namespace.
fn socket() -> io::Result<OwnedFd> {
    match session().and_then(|mut client| client.machine_socket().ok()) {
        Some(socket) => Ok(socket),
        None => unix::socket(),
    }
}

/// PortGUIDs with a Weft subnet manager on this machine, as far as this network namespace belongs to it.
pub fn running() -> Vec<u64> {
    let daemon = session().and_then(|mut client| client.status().ok()).map(|status| status.pid);
    let list = daemon.map_or("/proc/net/unix".to_owned(), |pid| format!("/proc/{pid}/net/unix"));
    let text = std::fs::read_to_string(list).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split_whitespace().last()?.strip_prefix('@')?.strip_prefix(PREFIX));
    let mut guids: Vec<u64> = names.filter_map(|guid| u64::from_str_radix(guid, 16).ok()).collect();
    guids.sort_unstable();
    guids.dedup();
    guids
}

/// The client's side of the control socket.
pub struct Conversation(OwnedFd);

impl Conversation {
    /// Connects to the manager on this port, or on the only port with one.
    ///
    /// # Errors
    /// No manager runs there, or several run.
    pub fn open(guid: Option<u64>) -> Result<Conversation> {
        let guid = match (guid, running().as_slice()) {
            (Some(guid), _) => guid,
            (None, [guid]) => *guid,
            (None, []) => bail!("no subnet manager of weft runs in this network namespace: `weft sm` starts one"),
            (None, several) => {
                let names: Vec<String> = several.iter().map(|guid| format!("0x{guid:016x}")).collect();
                bail!("several subnet managers run here, say which with --guid: {}", names.join(", "))
            }
        };
        let fd = socket()
            .and_then(|socket| unix::connect_with(socket, &name(guid)))
            .with_context(|| format!("no subnet manager of weft answers on port 0x{guid:016x}"))?;
        Ok(Conversation(fd))
    }

    /// Limits the time that the manager has for a piece of an answer.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn set_timeout(&self, timeout: std::time::Duration) -> io::Result<()> {
        unix::set_receive_timeout(&self.0, timeout)
    }

    /// Process ID of the manager, as far as this PID namespace sees it.
    pub fn process(&self) -> Option<u32> {
        unix::peer_credentials(&self.0).ok().map(|manager| manager.pid).filter(|pid| *pid != 0)
    }

    /// Sends a line and passes the answer to `take`, piece by piece.
    ///
    /// # Errors
    /// The manager ended.
    pub fn say(&self, line: &str, mut take: impl FnMut(&[u8])) -> Result<()> {
        // A refused client's send may fail, but the reason waits in its receive queue.
        let sent = unix::send(&self.0, line.as_bytes(), &[], Wait::Block);
        let mut buffer = vec![0; PIECE_LEN_MAX];
        loop {
            let received = unix::recv(&self.0, &mut buffer, 0, Wait::Block)
                .context("the subnet manager ended, or does not speak to this user")?;
            match &buffer[..received.len] {
                [] => bail!("the subnet manager ended"),
                [REFUSED, why @ ..] => bail!("{}", String::from_utf8_lossy(why)),
                _ if sent.is_err() => bail!("the subnet manager ended"),
                END => return Ok(()),
                piece => take(piece),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_comes_whole() {
        let guid = weft_sys::random::u64();
        let epoll = Epoll::new().expect("epoll");
        let mut control = Control::listen(guid, &epoll, 100).expect("a free name");
        assert!(Control::listen(guid, &epoll, 200).is_err() && running().contains(&guid));
        let person = std::thread::spawn(move || {
            let conversation = Conversation::open(Some(guid)).expect("it listens");
            let mut text = Vec::new();
            conversation.say("status", |piece| text.extend_from_slice(piece)).expect("an answer");
            text
        });
        let long = "a line of the answer\n".repeat(100_000);
        let mut ready = Vec::new();
        while !person.is_finished() {
            epoll.wait(&mut ready, Some(std::time::Duration::from_millis(20))).expect("epoll");
            for event in &ready {
                assert!(control.has(event.token));
                for (who, line) in control.on_ready(&epoll, event) {
                    assert_eq!(line, "status");
                    control.answer(&epoll, who, &long);
                }
            }
        }
        assert_eq!(person.join().expect("the person"), long.into_bytes());
    }
}
