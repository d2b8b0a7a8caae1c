//! The processes that use the service, and what each of them and each user holds.

use std::collections::BTreeMap;

use super::client::{ClientId, Credentials};
use super::errno::{ENOENT, ENOMEM, Errno};
use super::limits::{COMM_BYTES_MAX, IDS_PER_CLIENT_MAX, IDS_PER_USER_MAX};

/// Process and its resource counts.
#[derive(Debug)]
pub struct Client {
    credentials: Credentials,
    ids: usize,
    /// Number of its event channels.
    pub channels: usize,
}

/// All processes, and the number of ids of each user.
#[derive(Debug, Default)]
pub struct Clients {
    map: BTreeMap<ClientId, Client>,
    ids_of_user: BTreeMap<u32, usize>,
}

impl Clients {
    /// Adds a process, unless it is there already.
    pub fn add(&mut self, client: ClientId, mut credentials: Credentials) {
        let end = credentials.comm.char_indices().map(|(at, _)| at).find(|at| *at >= COMM_BYTES_MAX);
        credentials.comm.truncate(end.unwrap_or(credentials.comm.len()));
        self.map.entry(client).or_insert(Client { credentials, ids: 0, channels: 0 });
    }

    /// Removes a process.
    pub fn remove(&mut self, client: ClientId) {
        self.map.remove(&client);
    }

    /// Returns a process to change it.
    pub fn change(&mut self, client: ClientId) -> Option<&mut Client> {
        self.map.get_mut(&client)
    }

    /// Returns the identity and privileges of a process.
    pub fn credentials(&self, client: ClientId) -> Option<&Credentials> {
        self.map.get(&client).map(|client| &client.credentials)
    }

    /// Counts one more id of a process, unless it has reached a limit.
    pub fn charge(&mut self, client: ClientId) -> Result<(), Errno> {
        let client = self.map.get_mut(&client).ok_or(ENOENT)?;
        let of_user = self.ids_of_user.entry(client.credentials.uid).or_default();
        let root = client.credentials.uid == 0;
        if client.ids >= IDS_PER_CLIENT_MAX || (*of_user >= IDS_PER_USER_MAX && !root) {
            return Err(ENOMEM);
        }
        client.ids += 1;
        *of_user += 1;
        Ok(())
    }

    /// Counts one id of a process less.
    pub fn release(&mut self, client: ClientId) {
        let Some(client) = self.map.get_mut(&client) else { return };
        client.ids = client.ids.saturating_sub(1);
        if let Some(of_user) = self.ids_of_user.get_mut(&client.credentials.uid) {
            *of_user = of_user.saturating_sub(1);
            if *of_user == 0 {
                self.ids_of_user.remove(&client.credentials.uid);
            }
        }
    }
}
