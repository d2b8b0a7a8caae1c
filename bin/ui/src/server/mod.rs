//! The HTTP server: a bounded number of connections on one thread, each served by hyper.

pub mod access;
pub mod action;
mod headers;
mod routes;
mod stream;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::limits::{CONNECTIONS_MAX, HEAD_TIMEOUT, READ_AHEAD_BYTES_MAX};

pub use routes::{App, router};

/// Pause after the system refused a connection, for lack of descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves without end.
///
/// # Errors
/// The socket cannot be used.
pub async fn serve(listener: std::net::TcpListener, router: Router) -> io::Result<Infallible> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(READ_AHEAD_BYTES_MAX);
            // A client that goes away costs only its own answer.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests;
