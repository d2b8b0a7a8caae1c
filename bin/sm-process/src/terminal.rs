//! OpenSM's interactive console: on the manager's own terminal, or over TCP (`console`, `console_port`). Each console
//! is a thread that talks to the manager as `weft sm console` does.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use weft_sm::options::Console;

use super::control::Conversation;

/// The prompt.
const PROMPT: &str = "OpenSM $ ";
/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 8;
/// Longest accepted line.
const LINE_LEN_MAX: u64 = 4096;
/// How long a connection may be idle.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// Opens the configured console for the manager on a port.
///
/// # Errors
/// The TCP port is taken.
pub fn open(guid: u64, console: Console, port: u16) -> Result<()> {
    match console {
        Console::Off => {}
        Console::Local => drop(thread::spawn(move || {
            let _ = talk(guid, &mut std::io::stdin().lock(), &mut std::io::stdout());
        })),
        Console::Loopback | Console::Socket => {
            let listener = listen(console, port).with_context(|| {
                format!("cannot listen on port {port} for the console: set console_port to one that is free")
            })?;
            thread::spawn(move || serve(guid, &listener));
        }
    }
    Ok(())
}

fn listen(console: Console, port: u16) -> std::io::Result<TcpListener> {
    if console == Console::Loopback {
        return TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    }
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

fn serve(guid: u64, listener: &TcpListener) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            let _ = (&stream).write_all(b"too many consoles are open\n");
            continue;
        }
        let open = Arc::clone(&open);
        thread::spawn(move || {
            let _ = connected(guid, &stream);
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn connected(guid: u64, stream: &TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(IDLE_MAX))?;
    talk(guid, &mut BufReader::new(stream), &mut &*stream)
}

/// Reads lines and writes answers, until the user leaves.
fn talk(guid: u64, lines: &mut impl BufRead, out: &mut impl Write) -> Result<()> {
    let conversation = Conversation::open(Some(guid))?;
    loop {
        out.write_all(PROMPT.as_bytes())?;
        out.flush()?;
        let mut line = Vec::new();
        let len = std::io::Read::take(&mut *lines, LINE_LEN_MAX).read_until(b'\n', &mut line)?;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if len == 0 || matches!(text, "quit" | "exit" | "q") {
            return Ok(());
        }
        let mut told = Ok(());
        if !text.is_empty() {
            conversation.say(text, |piece| told = out.write_all(piece))?;
        }
        told?;
    }
}
