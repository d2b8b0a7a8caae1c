//! TCP port of MOUNT. It executes MOUNT and nothing else: file handles alone open no file without the connection over RDMA.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::exported::Export;
use crate::limits::{MOUNT_CONNECTIONS_MAX, MOUNT_IDLE, MOUNT_RECORD_MAX};
use crate::tcp::{RecordReader, record_mark};

/// TCP port of MOUNT.
#[derive(Debug)]
pub struct MountPort {
    listener: TcpListener,
}

impl MountPort {
    /// Listens.
    ///
    /// # Errors
    /// The port is in use, or the address is not this machine's.
    pub fn bind(address: SocketAddr) -> std::io::Result<MountPort> {
        Ok(MountPort { listener: TcpListener::bind(address)? })
    }

    /// Serves connections in threads of their own until the process ends.
    pub fn serve(self, export: Arc<Export>) {
        let connections = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for socket in self.listener.incoming().flatten() {
                if connections.fetch_add(1, Ordering::Relaxed) >= MOUNT_CONNECTIONS_MAX {
                    connections.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (export, connections) = (export.clone(), connections.clone());
                std::thread::spawn(move || {
                    // A client that breaks the connection needs no answer.
                    let _ = serve(&export, &socket);
                    connections.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
    }
}

fn serve(export: &Export, mut socket: &TcpStream) -> std::io::Result<()> {
    socket.set_read_timeout(Some(MOUNT_IDLE))?;
    socket.set_write_timeout(Some(MOUNT_IDLE))?;
    let mut reader = RecordReader::new(MOUNT_RECORD_MAX);
    let mut bytes = [0; MOUNT_RECORD_MAX];
    loop {
        let count = socket.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        let mut records = Vec::new();
        let pushed = reader.push(bytes.get(..count).unwrap_or_default(), |record| records.push(record));
        pushed.map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidData))?;
        for record in records {
            let reply = export.execute_mount(&record);
            socket.write_all(&[&record_mark(reply.len())[..], &reply].concat())?;
        }
    }
}
